//! Objects as a cluster has them, without what the cluster adds.

use serde_json::{Map, Value};

use super::foreign_work::{LAST_APPLIED, owner_name};

/// Fields of `metadata` that the API server sets.
const SET_BY_SERVER: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Objects that Kubernetes makes in each cluster or namespace: kind, namespace and name. An empty
/// text stands for any.
const MADE_BY_KUBERNETES: [(&str, &str, &str); 7] = [
    ("ConfigMap", "", "kube-root-ca.crt"),
    ("ServiceAccount", "", "default"),
    ("Service", "default", "kubernetes"),
    ("Endpoints", "", ""),
    ("EndpointSlice", "", ""),
    ("Event", "", ""),
    ("Lease", "", ""),
];

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The object for messages, as in `ConfigMap shop/web`.
pub(super) fn object_name(object: &Value) -> String {
    let [kind, namespace, name] =
        ["/kind", "/metadata/namespace", "/metadata/name"].map(|pointer| text(object, pointer));
    match namespace {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// Why an object is no part of a work: its owner makes it again on each cluster.
pub(super) fn made_by(object: &Value) -> Option<String> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    if let Some(owner) = owners.and_then(|owners| owners.first()) {
        return Some(format!("{} owns it", owner_name(owner)));
    }
    let is_it = |(kind, namespace, name): &(&str, &str, &str)| {
        text(object, "/kind") == *kind
            && (namespace.is_empty() || text(object, "/metadata/namespace") == *namespace)
            && (name.is_empty() || text(object, "/metadata/name") == *name)
    };
    let is_token = text(object, "/kind") == "Secret"
        && text(object, "/type") == "kubernetes.io/service-account-token";
    let is_made = is_token || MADE_BY_KUBERNETES.iter().any(is_it);
    is_made.then(|| "Kubernetes makes it".to_owned())
}

/// Removes the status, and what API server and kubectl add to the metadata.
pub(super) fn cleaned(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.remove("status");
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            metadata.retain(|field, _| !SET_BY_SERVER.contains(&field.as_str()));
            if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
                annotations.remove(LAST_APPLIED);
            }
            let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
            metadata.retain(|_, value| !value.is_null() && !is_empty(value));
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_the_cluster_adds_is_removed() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
            "metadata": {
                "name": "web", "namespace": "shop", "labels": {"app": "web"},
                "annotations": {LAST_APPLIED: "{}"}, "managedFields": [], "uid": "1",
                "resourceVersion": "2", "creationTimestamp": "2026-01-01T00:00:00Z",
                "generation": 3, "selfLink": "/api",
            },
            "status": {"ready": true},
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
            "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        });
        assert_eq!(cleaned(object), expected);
    }

    #[test]
    fn objects_of_controllers_and_of_kubernetes_are_named() {
        let owned = json!({"kind": "Pod", "metadata": {"name": "web-1",
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": true}]}});
        assert_eq!(made_by(&owned).as_deref(), Some("ReplicaSet web owns it"));
        let object = |kind: &str, namespace: &str, name: &str| {
            let metadata = json!({"namespace": namespace, "name": name});
            json!({"kind": kind, "metadata": metadata})
        };
        for (object, is_made) in [
            (object("ConfigMap", "shop", "kube-root-ca.crt"), true),
            (object("Service", "default", "kubernetes"), true),
            (object("Service", "shop", "kubernetes"), false),
            (object("ServiceAccount", "shop", "default"), true),
            (object("ServiceAccount", "shop", "deployer"), false),
            (json!({"kind": "Secret", "type": "kubernetes.io/service-account-token"}), true),
            (json!({"kind": "Secret", "type": "Opaque"}), false),
        ] {
            assert_eq!(made_by(&object).is_some(), is_made, "{object}");
        }
        assert_eq!(object_name(&object("ConfigMap", "shop", "web")), "ConfigMap shop/web");
    }
}
