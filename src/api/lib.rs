//! The kinds of Open Cluster Management that gitwork reads and writes, and the CRDs generated from
//! them.
//!
//! The types are wire-compatible with OCM's: `tests/wire` has every field of OCM's CRDs, and a test
//! compares. They read what a newer OCM wrote: a field that is not known here is kept in
//! `unknown_fields` and written back, a value of an enumeration that is not known here is its
//! `Other`, and a missing `spec` is an empty one. So one odd object never makes a whole list
//! unreadable, and no write drops what somebody else set. Only the types of Kubernetes' own
//! (conditions, label selectors) have no room for unknown fields.
//!
//! ```
//! use gitwork_api::work::ManifestWorkSpec;
//! use serde_json::json;
//!
//! let text = json!({ "deleteOption": { "propagationPolicy": "Archive" }, "archive": 3 });
//! let spec: ManifestWorkSpec = serde_json::from_value(text.clone()).unwrap();
//! // Neither the field nor the value is known here, and both are written back.
//! assert_eq!(serde_json::to_value(&spec).unwrap(), text);
//! ```
#![allow(
    clippy::duplicated_attributes,
    reason = "two printer columns of one kind may have the same type"
)]

mod applied;
pub mod cluster;
mod cluster_set;
pub mod compressed_json;
pub mod count;
#[cfg(feature = "kube")]
pub mod crds;
pub mod escape;
#[cfg(feature = "kube")]
mod kind_schema;
mod manifest_config;
pub mod names;
pub mod placement;
mod placement_decision;
mod prioritizer;
pub mod replicaset;
mod schema;
pub mod secret;
pub mod truncate;
pub mod work;
mod work_status;

use std::collections::BTreeMap;

/// The fields of an object that a newer OCM has and this version does not know, by name.
pub type UnknownFields = BTreeMap<String, serde_json::Value>;

#[cfg(test)]
#[cfg(feature = "kube")]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::cluster::{
        ClusterClaim, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding,
    };
    use super::placement::{Placement, PlacementDecision};
    use super::replicaset::ManifestWorkReplicaSet;
    use super::work::{AppliedManifestWork, ManifestWork, PropagationPolicy};

    const NEW_FIELD: &str = "fromNewerOcm";

    /// What has a type of Kubernetes' own.
    const CLOSED: &[&str] = &["conditions", "labelSelector", "matchExpressions"];

    /// A value with every field of the schema, and one more in every object that may have it.
    fn sample(schema: &Value, name: &str, enumeration: Option<&str>, closed: bool) -> Value {
        let closed = closed || CLOSED.contains(&name);
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return enumeration.map_or_else(|| values.last().unwrap().clone(), |text| json!(text));
        }
        if schema.get("x-kubernetes-embedded-resource").is_some() {
            return json!({"apiVersion": "v1", "kind": "Any", "metadata": {}, "x": [1, 2.5, null]});
        }
        if schema.get("x-kubernetes-int-or-string").is_some() {
            return json!("50%");
        }
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        match (text("type"), text("format")) {
            ("object", _) if schema.get("additionalProperties").is_some() => {
                json!({"key": sample(&schema["additionalProperties"], "", None, closed)})
            }
            ("object", _) => {
                let properties = schema["properties"].as_object().unwrap();
                let mut fields: serde_json::Map<String, Value> = properties
                    .iter()
                    .map(|(name, part)| (name.clone(), sample(part, name, enumeration, closed)))
                    .collect();
                if !closed {
                    fields.insert(NEW_FIELD.into(), json!({"a": [1]}));
                }
                Value::Object(fields)
            }
            ("array", _) => json!([sample(&schema["items"], "", enumeration, closed)]),
            ("string", "date-time") => json!("2026-01-02T03:04:05Z"),
            ("string", "byte") => json!("Z2l0d29yaw=="),
            ("string", _) => json!(format!("some {name}")),
            ("integer", _) => json!(7),
            ("boolean", _) => json!(true),
            other => panic!("{name}: no sample of {other:?}"),
        }
    }

    fn check<K>()
    where
        K: kube::CustomResourceExt + DeserializeOwned + Serialize + PartialEq + std::fmt::Debug,
    {
        let crd: apiextensions::CustomResourceDefinition = K::crd();
        let head = json!({
            "apiVersion": format!("{}/{}", crd.spec.group, crd.spec.versions[0].name),
            "kind": crd.spec.names.kind,
            "metadata": {"name": "a", "labels": {"b": "c"}, "finalizers": ["d.io/e"]},
        });
        for enumeration in [None, Some("FromNewerOcm")] {
            let mut object = head.clone();
            for part in ["spec", "status"] {
                if let Some(schema) = super::crds::property(&crd, part) {
                    object[part] = sample(&schema, part, enumeration, false);
                }
            }
            let read: K = serde_json::from_value(object.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), object);
            let text = serde_json::to_string(&object).unwrap();
            assert_eq!(serde_json::from_str::<K>(&text).unwrap(), read, "from text as from a tree");
        }
        let bare: K = serde_json::from_value(head.clone()).unwrap();
        let mut written = serde_json::to_value(&bare).unwrap();
        if let Some(spec) = written.as_object_mut().unwrap().remove("spec") {
            assert!(spec.is_object(), "{spec}");
        }
        assert_eq!(written, head, "an object may have no spec");
    }

    #[test]
    fn every_field_and_unknown_ones_survive_reading_and_writing() {
        check::<ManifestWork>();
        check::<AppliedManifestWork>();
        check::<ManifestWorkReplicaSet>();
        check::<ManagedCluster>();
        check::<ManagedClusterSet>();
        check::<ManagedClusterSetBinding>();
        check::<ClusterClaim>();
        check::<Placement>();
        check::<PlacementDecision>();
    }

    #[test]
    fn enumerations_stay_open() {
        let policy = PropagationPolicy::from("Orphan".to_owned());
        assert_eq!(policy, PropagationPolicy::Orphan);
        let newer = PropagationPolicy::from("Archive".to_owned());
        assert_eq!(newer, PropagationPolicy::Other("Archive".into()));
        assert_eq!(newer.as_str(), "Archive");
        assert_eq!(PropagationPolicy::default().as_str(), "Foreground");
    }

    #[test]
    fn a_taint_without_a_time_reads_as_ocm_writes_it() {
        let taint: super::cluster::Taint =
            serde_json::from_value(json!({"key": "a", "effect": "NoSelect", "timeAdded": null}))
                .unwrap();
        assert_eq!(taint.time_added, None);
    }
}
