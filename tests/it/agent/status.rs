//! Feedback, condition rules, and how conditions move.

use http::Method;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::fixture::{Fixture, condition_of, stable};
use crate::harness::faults::Fault;

fn config(fixture: &Fixture, group: &str, resource: &str, rest: &Value) -> Value {
    let mut config = json!({"resourceIdentifier": {"group": group, "resource": resource,
        "namespace": fixture.namespace, "name": "*"}});
    config.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap());
    json!({"manifestConfigs": [config]})
}

#[tokio::test]
async fn feedback_follows_a_rollout() {
    let fixture = Fixture::start().await;
    let deployment = |replicas: i32| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": fixture.namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]}}}})
    };
    let rules = json!({"feedbackRules": [{"type": "WellKnownStatus"},
        {"type": "JSONPaths", "jsonPaths": [{"name": "name", "path": ".metadata.name"}]}]});
    fixture
        .create("web", vec![deployment(1)], config(&fixture, "apps", "deployments", &rules))
        .await;
    let ready = |work: &Value, replicas: i64| {
        let values = work["status"]["resourceStatus"]["manifests"][0]["statusFeedback"]["values"]
            .as_array()?
            .clone();
        let found = values.iter().find(|value| value["name"] == "ReadyReplicas")?;
        (found["fieldValue"]["integer"] == replicas
            && work["status"]["conditions"].as_array()?.len() == 2)
            .then(|| work.clone())
    };
    let work = fixture.work("web", "one replica", |work| ready(work, 1)).await;
    let manifest = &work["status"]["resourceStatus"]["manifests"][0];
    let names: Vec<&str> = manifest["statusFeedback"]["values"]
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["ReadyReplicas", "Replicas", "AvailableReplicas", "name"]);
    fixture.patch_spec("web", json!({"workload": {"manifests": [deployment(2)]}})).await;
    fixture.work("web", "two replicas", |work| ready(work, 2)).await;
}

#[tokio::test]
async fn complete_work_is_not_reconciled() {
    let fixture = Fixture::start().await;
    let rules = json!({"conditionRules": [{"type": "CEL", "condition": "Complete",
        "celExpressions": ["object.data.key == 'done'"],
            "messageExpression": "'key is ' + object.data.key"}]});
    fixture
        .create(
            "web",
            vec![fixture.config_map("a", "todo")],
            config(&fixture, "", "configmaps", &rules),
        )
        .await;
    let work = fixture.condition("web", "Complete", "False").await;
    insta::assert_snapshot!("a_condition_rule", stable(&work, &fixture));
    fixture
        .patch_spec("web", json!({"workload": {"manifests": [fixture.config_map("a", "done")]}}))
        .await;
    fixture.condition("web", "Complete", "True").await;
    fixture.create("other", vec![fixture.config_map("b", "1")], json!({})).await;
    fixture.condition("other", "Applied", "True").await;
    fixture.edit("a", json!({"data": {"more": "theirs"}})).await;
    // The agent sees the edits in their order. It has acted on the first one when it has reverted
    // the second one, twice because passes of two works may overlap.
    for _ in 0..2 {
        fixture.edit("b", json!({"data": {"key": "theirs"}})).await;
        fixture.value("b", "1").await;
    }
    let map = fixture.config_maps().get("a").await.unwrap();
    assert_eq!(map.data["data"]["more"], "theirs", "a complete work is not put back");
    fixture.edit("a", json!({"data": {"key": "undone"}})).await;
    fixture.value("a", "done").await;
}

/// The value that the status has of the first manifest's only feedback rule.
fn feedback(work: &Value, value: &str) -> Option<()> {
    let all = &work["status"]["resourceStatus"]["manifests"][0]["statusFeedback"]["values"];
    (all.as_array()?.last()?["fieldValue"]["string"] == value).then_some(())
}

const FAILS: Fault = Fault::Answer { code: 500, retry_after_seconds: None };

#[tokio::test]
async fn status_that_could_not_be_written_after_an_event_is_written_later() {
    let fixture = Fixture::start().await;
    let path = json!({"name": "key", "path": ".data.key"});
    let rules = json!({"updateStrategy": {"type": "ReadOnly"},
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [path]}]});
    let map = fixture.config_map("a", "1");
    let created = serde_json::from_value(map.clone()).unwrap();
    fixture.config_maps().create(&PostParams::default(), &created).await.unwrap();
    fixture.create("web", vec![map], config(&fixture, "", "configmaps", &rules)).await;
    fixture.work("web", "the first value", |work| feedback(work, "1")).await;
    fixture.faults.next(1, FAILS, |seen| seen.path.ends_with("/manifestworks/web/status"));
    fixture.edit("a", json!({"data": {"key": "2"}})).await;
    fixture.work("web", "the second value", |work| feedback(work, "2")).await;
    assert_eq!(fixture.faults.count(|seen| seen.fault.is_some()), 1);
}

#[tokio::test]
async fn object_of_a_complete_work_that_could_not_be_read_is_read_again() {
    let fixture = Fixture::start().await;
    let path = json!({"name": "more", "path": ".data.more"});
    let rules = json!({"conditionRules": [{"type": "CEL", "condition": "Complete",
            "celExpressions": ["object.data.key == 'done'"]}],
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [path]}]});
    let options = config(&fixture, "", "configmaps", &rules);
    fixture.create("web", vec![fixture.config_map("a", "done")], options).await;
    fixture.condition("web", "Complete", "True").await;
    fixture.faults.next(1, FAILS, |seen| {
        seen.method == Method::GET && seen.query.is_empty() && seen.path.ends_with("/configmaps/a")
    });
    fixture.edit("a", json!({"data": {"more": "theirs"}})).await;
    fixture.work("web", "the value", |work| feedback(work, "theirs")).await;
    assert_eq!(fixture.faults.count(|seen| seen.fault.is_some()), 1);
    fixture.condition("web", "Available", "True").await;
}

#[tokio::test]
async fn new_generation_moves_the_applied_condition_to_the_end() {
    let fixture = Fixture::start().await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.condition("web", "Available", "True").await;
    fixture
        .patch_spec(
            "web",
            json!({"workload": {"manifests": [fixture.config_map("new", "1"),
        fixture.config_map("a", "1")]}}),
        )
        .await;
    let work = fixture.condition("web", "Applied", "True").await;
    let kinds: Vec<&str> = work["status"]["resourceStatus"]["manifests"][1]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| condition["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["Available", "StatusFeedbackSynced", "Applied"]);
}

#[tokio::test]
async fn empty_work_has_no_available_resources() {
    let fixture = Fixture::start().await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.wait_recorded("web", &["configmaps/a"]).await;
    fixture.patch_spec("web", json!({"workload": {"manifests": []}})).await;
    let work = fixture.condition("web", "Available", "Unknown").await;
    let available = condition_of(&work["status"]["conditions"], "Available").unwrap();
    assert_eq!(available["message"], "cannot get any available resource ");
    fixture.is_gone(&fixture.config_maps(), "a").await;
    fixture.wait_recorded("web", &[]).await;
}

#[tokio::test]
async fn secret_values_never_enter_a_status() {
    let fixture = Fixture::start().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a",
        "namespace": fixture.namespace},
        "stringData": {"password": "c4n4ry"}, "data": {"password": "b3RoZXI="}});
    let odd = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b",
        "namespace": fixture.namespace},
        "stringData": {"password": "c4n4ry"}});
    let rules = json!({"conditionRules": [{"type": "CEL", "condition": "Fine",
        "celExpressions": ["object.data + 1 == 2"]}],
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "data",
            "path": ".data"}]}]});
    fixture.create("web", vec![secret, odd], config(&fixture, "", "secrets", &rules)).await;
    fixture.manifest_condition("web", 1, "Fine", "False").await;
    let work = fixture.condition("web", "Fine", "False").await;
    for text in ["c4n4ry", "YzRuNHJ5", "b3RoZXI"] {
        assert!(!work["status"].to_string().contains(text), "{}", work["status"]);
    }
}
