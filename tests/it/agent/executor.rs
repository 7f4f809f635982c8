//! Works that are done in the name of a ServiceAccount.

use kube::api::{Api, DynamicObject, PostParams};
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
async fn gotcha_13_executor_needs_every_verb_and_new_roles_apply_at_once() {
    a_refusal_ends_with_a_role(false).await;
}

#[tokio::test]
async fn cached_access_reviews_follow_role_changes() {
    a_refusal_ends_with_a_role(true).await;
}

#[tokio::test]
async fn gotcha_13_an_executor_cannot_grant_what_it_does_not_have() {
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
