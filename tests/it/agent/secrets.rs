//! Values of Secrets are in no output of the agent: no log, status, event or metric.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};

use super::fixture::{Fixture, kind};
use super::process::{only_agent, start_as};
use crate::harness::ControlPlane;

/// No other text of a run holds these letters.
const CANARY: &str = "c4n4ry-bird";

/// What the content looks like, in all forms.
fn forms() -> Vec<String> {
    vec![CANARY.to_owned(), STANDARD.encode(CANARY), STANDARD.encode(STANDARD.encode(CANARY))]
}

fn secret(fixture: &Fixture<'_>, name: &str, rest: &Value) -> Value {
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": fixture.namespace}});
    secret.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap());
    secret
}

/// Secrets that are fine, and Secrets that API servers refuse while they quote them.
fn secrets(fixture: &Fixture<'_>) -> Vec<Value> {
    let encoded = STANDARD.encode(CANARY);
    vec![
        secret(fixture, "fine", &json!({"stringData": {"password": CANARY}})),
        secret(fixture, "frozen", &json!({"stringData": {"password": CANARY}, "immutable": true})),
        secret(fixture, "list", &json!({"stringData": {"password": [CANARY]}})),
        secret(fixture, "map", &json!({"data": {"password": {"deep": CANARY}}})),
        secret(fixture, "bare", &json!({"data": {"password": CANARY}})),
        secret(
            fixture,
            "both",
            &json!({"data": {"password": encoded}, "stringData": {"password": CANARY}}),
        ),
        secret(
            fixture,
            "docker",
            &json!({"type": "kubernetes.io/dockerconfigjson",
                "stringData": {".dockerconfigjson": CANARY}}),
        ),
        secret(
            fixture,
            "tls",
            &json!({"type": "kubernetes.io/tls", "stringData": {"password": CANARY}}),
        ),
    ]
}

/// One work with all Secrets for each update strategy. Its rules look into the content, and fail
/// over it.
async fn create_works(fixture: &Fixture<'_>) {
    let rules = json!({
        "conditionRules": [{"type": "CEL", "condition": "Fine", "celExpressions":
            ["object.data.password + 1 == 'a'"]},
            {"type": "CEL", "condition": "Short", "celExpressions":
            ["object.data.password.matches('(' + object.data.password)"]},
            {"type": "CEL", "condition": "Number",
                "celExpressions": ["int(object.data.password) > 1"],
            "messageExpression": "quantity(object.data.password)"}],
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "long",
            "path": ".data.password.deeper"}]}],
    });
    for strategy in ["Update", "CreateOnly", "ServerSideApply"] {
        let mut options = json!({"resourceIdentifier":
            {"group": "", "resource": "secrets", "namespace": fixture.namespace, "name": "*"},
            "updateStrategy": {"type": strategy}});
        options.as_object_mut().unwrap().extend(rules.as_object().cloned().unwrap());
        let rest = json!({"manifestConfigs": [options]});
        fixture.create(&strategy.to_lowercase(), secrets(fixture), rest).await;
    }
}

/// The status of each work, once all Secrets are applied or refused.
async fn until_reported(fixture: &Fixture<'_>) -> String {
    let mut reported = String::new();
    for strategy in ["update", "createonly", "serversideapply"] {
        let work = fixture
            .work(strategy, "all Secrets to be applied or refused", |work| {
                let manifests = work["status"]["resourceStatus"]["manifests"].as_array()?;
                let conditions = work["status"]["conditions"].as_array()?;
                let is_reported = |kind| conditions.iter().any(|one| one["type"] == kind);
                (manifests.len() == 8
                    && is_reported("Applied")
                    && is_reported("Available")
                    && is_reported("Fine"))
                .then(|| work.clone())
            })
            .await;
        assert!(work["status"].to_string().contains("Failed to apply manifest"), "{work}");
        reported.push_str(&work["status"].to_string());
    }
    reported
}

/// An immutable Secret rejects other content, and that content is not printed either.
async fn change_immutable_secret(fixture: &Fixture<'_>) {
    let changed = secret(
        fixture,
        "frozen",
        &json!({"stringData": {"password": format!("{CANARY} again")}, "immutable": true}),
    );
    fixture
        .patch_spec(
            "createonly",
            json!({"workload": {"manifests": [changed]},
        "manifestConfigs": [{"resourceIdentifier": {"group": "", "resource": "secrets",
            "name": "frozen",
        "namespace": fixture.namespace}, "updateStrategy": {"type": "ServerSideApply",
            "serverSideApply": {"force": true}}}]}),
        )
        .await;
    fixture.condition("createonly", "Applied", "False").await;
}

/// The Events and the AppliedManifestWorks that the agent has written.
async fn objects_of_agent(fixture: &Fixture<'_>, agent_namespace: &str) -> String {
    let mut reported = String::new();
    for (client, namespace) in [
        (&fixture.hub, fixture.cluster_name.as_str()),
        (&fixture.cluster, fixture.namespace.as_str()),
        (&fixture.cluster, agent_namespace),
    ] {
        let events: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), namespace, &kind("v1", "Event"));
        let all = events.list(&ListParams::default()).await.unwrap().items;
        reported.push_str(&serde_json::to_string(&all).unwrap());
    }
    let applied = fixture.applied().list(&ListParams::default()).await.unwrap().items;
    reported.push_str(&serde_json::to_string(&applied).unwrap());
    reported
}

/// No form of the content is in the text.
fn assert_no_form(text: &str) {
    for form in forms() {
        let around = text.find(&form).map(|at| {
            let before = text[..at].chars().count().saturating_sub(300);
            text.chars().skip(before).take(600).collect::<String>()
        });
        assert_eq!(around, None, "the content is in the output");
    }
}

#[tokio::test]
async fn secret_values_appear_in_no_agent_output() {
    let _alone = only_agent().await;
    let mut fixture = Fixture::start().await;
    fixture.kill().await;
    let mut theirs = DynamicObject::new("fine", &kind("v1", "Secret"));
    theirs.data = json!({"stringData": {"password": "theirs"}});
    let by_other = PostParams { field_manager: Some("other".into()), ..PostParams::default() };
    fixture.objects("v1", "Secret").create(&by_other, &theirs).await.unwrap();

    let hub = ControlPlane::shared().await.hub().await;
    let kubeconfigs = (hub.kubeconfig(), fixture.managed.kubeconfig());
    let arguments =
        ["--disable-leader-election", "-v=9", "--feature-gates=RawFeedbackJsonString=true"];
    let namespace = fixture.managed.namespace("agent").await;
    let program = start_as(kubeconfigs, &fixture.cluster_name, &namespace, &arguments).await;
    create_works(&fixture).await;
    let mut reported = until_reported(&fixture).await;
    change_immutable_secret(&fixture).await;
    reported.push_str(&fixture.works().get("createonly").await.unwrap().data["status"].to_string());
    reported.push_str(&program.get("/metrics").await.unwrap());
    reported.push_str(&objects_of_agent(&fixture, &namespace).await);
    let log = program.log();
    assert!(
        log.contains("DEBUG") && log.contains("not applied"),
        "the log tells all it can: {log}"
    );
    assert_eq!(program.terminate().await, Some(0));
    assert_no_form(&reported);
    assert_no_form(&log);
}
