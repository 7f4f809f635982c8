//! `Update`, kind by kind.

use super::*;
use crate::object::tests::object;
use crate::owner::Owner;

fn owner() -> Value {
    Owner { name: "hash-web".into(), uid: "u1".into() }.reference(true)
}

/// A live object: the given one, already owned, with a version.
fn live(mut value: Value) -> Object {
    let metadata =
        json!({"name": "a", "uid": "9", "resourceVersion": "5", "ownerReferences": [owner()]});
    let mut merged = metadata.as_object().cloned().unwrap();
    if let Some(Value::Object(own)) = value.get("metadata") {
        merged.extend(own.clone());
    }
    value["metadata"] = Value::Object(merged);
    object(value)
}

fn typed(api_version: &str, kind: &str, rest: Value) -> Value {
    let mut value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
    value.as_object_mut().unwrap().extend(object(rest));
    value
}

/// What `Update` makes of a manifest with `wanted` where the cluster has `found`.
fn check(api_version: &str, kind: &str, wanted: Value, found: Value) -> Update {
    update(
        &object(typed(api_version, kind, wanted)),
        &live(typed(api_version, kind, found)),
        &owner(),
        false,
    )
}

fn replaced(update: Update) -> Value {
    match update {
        Update::Replace(object) => Value::Object(object),
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_metadata_of_namespaces_pods_and_service_accounts_is_updated() {
    for kind in ["Namespace", "Pod", "ServiceAccount"] {
        assert_eq!(
            check("v1", kind, json!({"spec": {"a": 1}}), json!({"spec": {}})),
            Update::Nothing
        );
        let wanted = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"a": 1}});
        let new = replaced(check("v1", kind, wanted, json!({"spec": {"b": 1}})));
        assert_eq!(new["spec"], json!({"b": 1}));
        assert_eq!(new["metadata"]["labels"], json!({"x": "1"}));
        assert_eq!(new["metadata"]["resourceVersion"], "5");
    }
}

#[test]
fn config_map_data_is_replaced_unless_immutable_or_injected() {
    let data = |value: Value| json!({"data": value});
    assert_eq!(
        check("v1", "ConfigMap", data(json!({"a": "1"})), data(json!({"a": "1"}))),
        Update::Nothing
    );
    assert_eq!(check("v1", "ConfigMap", json!({}), data(json!({}))), Update::Nothing);
    let frozen = json!({"data": {"a": "1"}, "immutable": true});
    assert_eq!(check("v1", "ConfigMap", frozen, data(json!({"a": "1"}))), Update::Nothing);
    let new = replaced(check(
        "v1",
        "ConfigMap",
        data(json!({"a": "1"})),
        data(json!({"a": "2", "b": "1"})),
    ));
    assert_eq!(new["data"], json!({"a": "1"}), "keys that the manifest drops go");
    let labels = json!({"config.openshift.io/inject-trusted-cabundle": "true"});
    let injected = json!({"metadata": {"labels": labels},
        "data": {"ca-bundle.crt": "pem"}});
    assert_eq!(check("v1", "ConfigMap", json!({}), injected), Update::Nothing);
}

#[test]
fn secret_data_is_replaced_and_a_new_type_recreates_the_secret() {
    let string = json!({"stringData": {"a": "x"}});
    assert_eq!(
        check("v1", "Secret", string.clone(), json!({"data": {"a": "eA=="}, "type": "Opaque"})),
        Update::Nothing
    );
    let new =
        replaced(check("v1", "Secret", string, json!({"data": {"b": "eA=="}, "type": "Opaque"})));
    assert_eq!(new["data"], json!({"a": "eA=="}));
    let conflict = json!({"stringData": {"a": "x"}, "data": {"a": "eQ=="}});
    assert!(matches!(
        check("v1", "Secret", conflict, json!({})),
        Update::Unsupported(why) if !why.to_string().contains('x')
    ));
    assert_eq!(
        check("v1", "Secret", json!({"type": "a/b"}), json!({"type": "Opaque"})),
        Update::Recreate
    );
    let token = "kubernetes.io/service-account-token";
    let new = replaced(check(
        "v1",
        "Secret",
        json!({"type": token, "data": {"a": "eA=="}}),
        json!({"type": token, "data": {"token": "eA=="}}),
    ));
    assert_eq!(new["data"], json!({"a": "eA==", "token": "eA=="}));
}

#[test]
fn services_store_the_hash_of_their_spec() {
    let spec = json!({"spec": {"selector": {"a": "1"}, "ports": [{"port": 80}]}});
    let found =
        json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "selector": {"a": "1"}}});
    let new = replaced(check("v1", "Service", spec.clone(), found));
    let hash = new["metadata"]["annotations"][APPLIED_SPEC_HASH].as_str().unwrap();
    assert_eq!(hash.len(), 64);
    assert_eq!(new["spec"], spec["spec"], "the server keeps the addresses that it gave");
    let mut after = new.clone();
    after["spec"]["type"] = "ClusterIP".into();
    assert_eq!(check("v1", "Service", spec.clone(), after.clone()), Update::Nothing);
    after["spec"]["selector"]["a"] = "2".into();
    assert!(matches!(check("v1", "Service", spec, after), Update::Replace(_)));
}

#[test]
fn rbac_objects_are_compared_without_what_the_server_sets() {
    let rbac = "rbac.authorization.k8s.io/v1";
    let rules = |verb: &str| {
        let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
        json!({"rules": [rule]})
    };
    assert_eq!(check(rbac, "Role", rules("get"), rules("get")), Update::Nothing);
    assert!(matches!(check(rbac, "Role", rules("get"), rules("list")), Update::Replace(_)));
    let aggregated = json!({"aggregationRule": {"clusterRoleSelectors": []}});
    let mut found = rules("get");
    found["aggregationRule"] = aggregated["aggregationRule"].clone();
    assert_eq!(check(rbac, "ClusterRole", aggregated, found), Update::Nothing);
    let wanted = json!({"roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}]});
    let found = json!({
        "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}]});
    assert_eq!(check(rbac, "RoleBinding", wanted, found), Update::Nothing);
}

#[test]
fn crds_storage_classes_and_webhooks_are_compared_without_what_the_server_sets() {
    let wanted = json!({"spec": {"group": "x.io", "names": {"kind": "Mouse", "plural": "mice"}}});
    let found = json!({"spec": {"group": "x.io", "conversion": {"strategy": "None"}, "names":
        {"kind": "Mouse", "plural": "mice", "singular": "mouse", "listKind": "MouseList"}}});
    assert_eq!(
        check("apiextensions.k8s.io/v1", "CustomResourceDefinition", wanted, found),
        Update::Nothing
    );

    let class = |provisioner: &str| json!({"provisioner": provisioner});
    let found =
        json!({"provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"});
    assert_eq!(
        check("storage.k8s.io/v1", "StorageClass", class("p"), found.clone()),
        Update::Nothing
    );
    assert_eq!(check("storage.k8s.io/v1", "StorageClass", class("q"), found), Update::Recreate);

    let hook = |bundle: Option<&str>| {
        let config = bundle.map_or(json!({}), |bundle| json!({"caBundle": bundle}));
        json!({"webhooks": [{"name": "h", "clientConfig": config}]})
    };
    let group = "admissionregistration.k8s.io/v1";
    assert_eq!(
        check(group, "MutatingWebhookConfiguration", hook(None), hook(Some("x"))),
        Update::Nothing
    );
    assert!(matches!(
        check(group, "MutatingWebhookConfiguration", hook(Some("y")), hook(Some("x"))),
        Update::Replace(_)
    ));
    let migration =
        check("migration.k8s.io/v1alpha1", "StorageVersionMigration", json!({}), json!({}));
    assert_eq!(migration, Update::Unsupported(UpdateError::StorageVersionMigration));
}

#[test]
fn other_kinds_are_replaced_whole_except_finalizers_and_status() {
    let wanted = json!({"spec": {"replicas": 1}});
    assert_eq!(check("apps/v1", "Deployment", wanted.clone(), wanted.clone()), Update::Nothing);
    let found = json!({"metadata": {"finalizers": ["f"], "labels": {"theirs": "1"}},
        "spec": {"replicas": 1, "revisionHistoryLimit": 10}, "status": {"x": 1}});
    let new = replaced(check("apps/v1", "Deployment", wanted.clone(), found.clone()));
    assert_eq!(new["spec"], wanted["spec"]);
    assert_eq!(new["metadata"]["finalizers"], json!(["f"]));
    assert_eq!(new["metadata"]["labels"], json!({"theirs": "1"}));
    assert_eq!(new["metadata"]["resourceVersion"], "5");
    let known = update(
        &object(typed("apps/v1", "Deployment", wanted)),
        &live(typed("apps/v1", "Deployment", found)),
        &owner(),
        true,
    );
    assert_eq!(known, Update::Nothing, "defaults alone are no drift");
}

#[test]
fn generated_selector_of_a_job_is_sent_back() {
    let wanted = json!({"spec": {"template": {"metadata": {"labels": {"app": "a"}}}}});
    let generated = json!({"batch.kubernetes.io/controller-uid": "1"});
    let found = json!({"spec": {"completions": 1, "selector": {"matchLabels": generated},
        "template": {"metadata": {"labels":
            {"app": "old", "batch.kubernetes.io/controller-uid": "1"}}}}});
    let new = replaced(check("batch/v1", "Job", wanted.clone(), found.clone()));
    assert_eq!(new["spec"]["selector"], found["spec"]["selector"]);
    let labels = json!({"app": "a", "batch.kubernetes.io/controller-uid": "1"});
    assert_eq!(new["spec"]["template"]["metadata"]["labels"], labels);
    let new = replaced(check("apps/v1", "Deployment", wanted, found));
    assert_eq!(new["spec"].get("selector"), None);
}
