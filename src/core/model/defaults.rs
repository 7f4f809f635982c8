//! Defaults of the CRDs of ManifestWork and ManifestWorkReplicaSet.

use std::sync::LazyLock;

use gitwork_api::replicaset::replica_set_spec_schema;
use gitwork_api::work::manifest_work_spec_schema;
use serde_json::Value;

/// The field that has the spec of the ManifestWorks, in the spec of a ManifestWorkReplicaSet.
pub const TEMPLATE: &str = "manifestWorkTemplate";

static SPEC: LazyLock<Value> = LazyLock::new(manifest_work_spec_schema);
static REPLICA_SET_SPEC: LazyLock<Value> = LazyLock::new(replica_set_spec_schema);

/// The spec of a ManifestWork or a ManifestWorkReplicaSet without the fields that have the CRD's
/// default. Digests are computed from this form: the API server adds the defaults of its CRD
/// version when it stores an object, so only this form is equal in Git and on the hub.
pub fn without_defaults(mut spec: Value) -> Value {
    drop_defaults(&mut spec);
    spec
}

/// As [`without_defaults`]. Gives whether a field had its default.
pub fn drop_defaults(spec: &mut Value) -> bool {
    let is_replica_set = spec.get(TEMPLATE).is_some();
    strip_defaults(spec, if is_replica_set { &REPLICA_SET_SPEC } else { &SPEC })
}

/// Removes every field whose value is its schema's default. Gives whether there was one.
fn strip_defaults(value: &mut Value, schema: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let mut is_changed = false;
            for (name, property) in properties.into_iter().flatten() {
                let Some(field) = fields.get_mut(name) else { continue };
                is_changed |= strip_defaults(field, property);
                if property.get("default").is_some_and(|default| default == field) {
                    fields.remove(name);
                    is_changed = true;
                }
            }
            is_changed
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return false };
            items.iter_mut().fold(false, |changed, item| strip_defaults(item, schema) | changed)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spec_of_a_replica_set_is_equal_before_and_after_the_api_server_adds_defaults() {
        let of = |template: Value, strategy: Value, others: Value| {
            let reference = json!({"name": "p", "rolloutStrategy": strategy});
            let mut spec = json!({TEMPLATE: template, "placementRefs": [reference]});
            spec.as_object_mut().unwrap().extend(others.as_object().unwrap().clone());
            without_defaults(spec)
        };
        let written = of(json!({"deleteOption": {}}), json!({"type": "All", "all": {}}), json!({}));
        let stored = of(
            json!({"deleteOption": {"propagationPolicy": "Foreground"}}),
            json!({"type": "All", "all": {
                "minSuccessTime": "0", "progressDeadline": "None", "maxFailures": 0,
            }}),
            json!({"cascadeDeletionPolicy": "Background"}),
        );
        assert_eq!(written, stored);
    }

    #[test]
    fn a_spec_is_equal_before_and_after_the_api_server_adds_defaults() {
        let written = json!({
            "deleteOption": {},
            "manifestConfigs": [{
                "resourceIdentifier": {"resource": "pods", "name": "a"},
                "updateStrategy": {
                    "type": "ServerSideApply",
                    "serverSideApply": {"ignoreFields": [{}]},
                },
            }, {
                "updateStrategy": {"type": "Update"},
            }],
        });
        let stored = json!({
            "deleteOption": {"propagationPolicy": "Foreground"},
            "manifestConfigs": [{
                "resourceIdentifier": {"resource": "pods", "name": "a"},
                "feedbackScrapeType": "Poll",
                "updateStrategy": {
                    "type": "ServerSideApply",
                    "serverSideApply": {
                        "fieldManager": "work-agent",
                        "ignoreFields": [{"condition": "OnSpokePresent"}],
                    },
                },
            }, {
                "feedbackScrapeType": "Poll",
                "updateStrategy": {"type": "Update"},
            }],
        });
        assert_eq!(without_defaults(written), without_defaults(stored));
        let changed = json!({"deleteOption": {"propagationPolicy": "Orphan"}});
        assert_eq!(without_defaults(changed.clone()), changed, "other values stay");
    }
}
