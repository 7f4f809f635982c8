//! Works that are done in the name of a ServiceAccount.

use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use serde_json::{Value, json};

use super::fixture::{Fixture, kind};

pub fn executor(fixture: &Fixture<'_>) -> Value {
    json!({"executor": {"subject": {"type": "ServiceAccount",
        "serviceAccount": {"namespace": fixture.namespace, "name": "deployer"}}}})
}

async fn make(fixture: &Fixture<'_>, kind_name: &str, name: &str, data: Value) {
    let resource = kind("rbac.authorization.k8s.io/v1", kind_name);
    let api: Api<DynamicObject> =
        Api::namespaced_with(fixture.cluster.clone(), &fixture.namespace, &resource);
    let mut object = DynamicObject::new(name, &resource);
    object.data = data;
    api.create(&PostParams::default(), &object).await.unwrap();
}

pub async fn grant(fixture: &Fixture<'_>, name: &str, rules: Value) {
    make(fixture, "Role", name, json!({"rules": rules})).await;
    make(
        fixture,
        "RoleBinding",
        name,
        json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "deployer",
                "namespace": fixture.namespace}],
        }),
    )
    .await;
}

async fn a_refusal_ends_with_a_role(caches: bool) {
    let fixture = Fixture::start_with(|settings| settings.caches_executors = caches).await;
    fixture.create("web", vec![fixture.config_map("a", "1")], executor(&fixture)).await;
    let condition = fixture.manifest_condition("web", 0, "Applied", "False").await;
    let message = condition["message"].as_str().unwrap();
    let literal = format!(
        "Failed to apply manifest: not allowed to apply the resource  configmaps, {} a, will try \
            again in 1m0s",
        fixture.namespace
    );
    assert!(message.starts_with(&literal), "{message}");
    assert!(message.contains("verbs: [\"create\"]"), "{message}");
    assert!(fixture.config_maps().get_opt("a").await.unwrap().is_none());
    let verbs = ["create", "update", "patch", "get", "delete"];
    grant(
        &fixture,
        "maps",
        json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]),
    )
    .await;
    fixture.condition("web", "Applied", "True").await;
    fixture.value("a", "1").await;
}

#[tokio::test]
async fn executor_needs_every_verb_and_new_roles_apply_at_once() {
    a_refusal_ends_with_a_role(false).await;
}

#[tokio::test]
async fn cached_access_reviews_follow_role_changes() {
    a_refusal_ends_with_a_role(true).await;
}

#[tokio::test]
async fn an_executor_cannot_grant_what_it_does_not_have() {
    let fixture = Fixture::start().await;
    let verbs = ["create", "update", "patch", "get", "delete"];
    grant(
        &fixture,
        "roles",
        json!([{"apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles"], "verbs": verbs}]),
    )
    .await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "more", "namespace": fixture.namespace},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
    fixture.create("web", vec![role], executor(&fixture)).await;
    let condition = fixture.manifest_condition("web", 0, "Applied", "False").await;
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains(" more, error: permission escalation, will try again in 1m0s"),
        "{message}"
    );
    grant(
        &fixture,
        "secrets",
        json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]),
    )
    .await;
    fixture.condition("web", "Applied", "True").await;
}

/// A work of an executor that only looks at a Secret and a ConfigMap, which others made.
async fn create_reader(fixture: &Fixture<'_>) {
    for (kind_name, data) in [
        ("Secret", json!({"stringData": {"key": "c4n4ry"}})),
        ("ConfigMap", json!({"data": {"key": "plain"}})),
    ] {
        let mut object = DynamicObject::new("db", &kind("v1", kind_name));
        object.data = data;
        let api = fixture.objects("v1", kind_name);
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    let manifest = |kind_name: &str| {
        json!({"apiVersion": "v1", "kind": kind_name,
            "metadata": {"name": "db", "namespace": fixture.namespace}})
    };
    let options = |resource: &str| {
        json!({
            "resourceIdentifier": {"group": "", "resource": resource, "name": "db",
                "namespace": fixture.namespace},
            "updateStrategy": {"type": "ReadOnly"},
            "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [
                {"name": "name", "path": ".metadata.name"}, {"name": "key", "path": ".data.key"}]}],
            "conditionRules": [{"type": "CEL", "condition": "Seen",
                "celExpressions": ["object.data.key != ''"],
                "messageExpression": "'it is ' + object.data.key"}],
        })
    };
    let mut rest = executor(fixture);
    rest["manifestConfigs"] = json!([options("secrets"), options("configmaps")]);
    fixture.create("reader", vec![manifest("Secret"), manifest("ConfigMap")], rest).await;
}

/// Waits until both objects are reported as available, and gives the work.
async fn until_seen(fixture: &Fixture<'_>) -> Value {
    fixture.manifest_condition("reader", 0, "Seen", "True").await;
    fixture.manifest_condition("reader", 1, "Seen", "True").await;
    fixture.condition("reader", "Available", "True").await
}

/// "c4n4ry" as it is, and in base64.
fn has_secret(work: &Value) -> bool {
    let status = work["status"].to_string();
    status.contains("c4n4ry") || status.contains("YzRuNHJ5")
}

#[tokio::test]
async fn status_has_nothing_of_objects_that_the_executor_may_not_get() {
    let fixture = Fixture::start().await;
    create_reader(&fixture).await;
    for ordinal in [0, 1] {
        let condition = fixture.manifest_condition("reader", ordinal, "Available", "Unknown").await;
        assert_eq!(condition["reason"], "FetchingResourceFailed");
        let message = condition["message"].as_str().unwrap();
        let expected = "Failed to fetch resource: not allowed to get the resource  ";
        assert!(message.starts_with(expected), "{message}");
        assert!(message.contains("verbs: [\"get\"]"), "{message}");
    }
    let work = fixture.condition("reader", "Available", "Unknown").await;
    let status = work["status"].to_string();
    assert!(!has_secret(&work) && !status.contains("plain"), "{status}");
    assert!(!status.contains("Seen") && !status.contains("fieldValue"), "{status}");

    // With the right to get them, the status reports them, except for the values of the Secret.
    let rules = json!([{"apiGroups": [""], "resources": ["secrets", "configmaps"],
        "verbs": ["get"]}]);
    grant(&fixture, "read", rules).await;
    let work = until_seen(&fixture).await;
    let manifests = &work["status"]["resourceStatus"]["manifests"];
    let values = |ordinal: usize| manifests[ordinal]["statusFeedback"]["values"].to_string();
    assert!(!has_secret(&work), "{}", work["status"]);
    assert!(values(0).contains("\"db\"") && !values(0).contains("key"), "{}", values(0));
    assert!(values(1).contains("plain"), "{}", values(1));
    let synced = fixture.manifest_condition("reader", 0, "StatusFeedbackSynced", "False").await;
    assert!(synced["message"].as_str().unwrap().contains("--report-secret-values"), "{synced}");
    assert!(work["status"].to_string().contains("it is plain"), "{}", work["status"]);
}

#[tokio::test]
async fn operator_can_choose_to_report_as_ocms_agent_does() {
    let fixture = Fixture::start_with(|settings| {
        settings.reports_without_executor = true;
        settings.report.secret_values = true;
    })
    .await;
    create_reader(&fixture).await;
    let work = until_seen(&fixture).await;
    let status = work["status"].to_string();
    assert!(has_secret(&work) && status.contains("it is plain"), "{status}");
}

#[tokio::test]
async fn object_that_the_executor_may_not_get_any_more_stays_recorded() {
    let fixture = Fixture::start().await;
    let verbs = ["create", "update", "patch", "get", "delete"];
    let maps = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
    grant(&fixture, "maps", maps).await;
    fixture.create("web", vec![fixture.config_map("a", "1")], executor(&fixture)).await;
    fixture.condition("web", "Available", "True").await;
    let bindings = fixture.objects("rbac.authorization.k8s.io/v1", "RoleBinding");
    bindings.delete("maps", &DeleteParams::default()).await.unwrap();
    fixture.condition("web", "Applied", "False").await;
    fixture.condition("web", "Available", "Unknown").await;
    fixture.value("a", "1").await;
    assert_eq!(fixture.recorded("web").await, ["configmaps/a"]);
    fixture.delete("web").await;
    fixture.is_gone(&fixture.works(), "web").await;
    assert!(fixture.config_maps().get_opt("a").await.unwrap().is_none());
}
