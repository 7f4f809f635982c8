//! The kinds that clusters start with.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

/// What a hub serves.
pub fn hub() -> Vec<CustomResourceDefinition> {
    vec![definition("work.open-cluster-management.io", "ManifestWork", "Namespaced")]
}

/// What a managed cluster serves.
pub fn managed() -> Vec<CustomResourceDefinition> {
    vec![definition("work.open-cluster-management.io", "AppliedManifestWork", "Cluster")]
}

/// A kind of any content with a status subresource.
pub fn definition(group: &str, kind: &str, scope: &str) -> CustomResourceDefinition {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": any, "status": any}});
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    }))
    .unwrap()
}
