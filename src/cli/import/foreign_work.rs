//! A ManifestWork to import, and the works that are not to be imported.

use std::collections::BTreeMap;

use gitwork_api::names::NameError;
use serde_json::{Value, json};

use super::plurals::Plurals;
use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use gitwork_core::model::work::{LABEL_MANAGED_BY, LABEL_SOURCE, MANAGER, PREFIX};

/// What kubectl leaves on each object that it applies.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// OCM labels the works of its add-ons and of ManifestWorkReplicaSets in this domain.
const OCM_DOMAIN: &str = "open-cluster-management.io/";

/// A ManifestWork to import, or objects for a new one.
#[derive(Debug)]
pub(crate) struct ForeignWork {
    pub key: WorkKey,
    /// Without those that gitwork sets itself.
    pub labels: BTreeMap<String, String>,
    /// Without those of gitwork and kubectl.
    pub annotations: BTreeMap<String, String>,
    pub spec: Value,
    pub(super) plurals: Plurals,
    /// Labels that a work of gitwork cannot have.
    pub dropped: Vec<String>,
}

/// Why a ManifestWork is not imported.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotImported {
    /// A source has it already.
    #[error("the source {0} owns it")]
    Source(String),
    /// It is gitwork's, of no known source.
    #[error("gitwork owns it")]
    Gitwork,
    /// Another object owns it.
    #[error("{0} owns it")]
    Owner(String),
    /// It is about to go.
    #[error("it is being deleted")]
    Deleting,
    /// It does not name its cluster or itself.
    #[error("metadata.{0} is missing; set it to the {1}")]
    NoName(&'static str, &'static str),
    /// No folder can have its name.
    #[error("metadata.{0} {1}")]
    BadName(&'static str, NameError),
    /// It has no spec.
    #[error("it has no spec.workload.manifests")]
    NoManifests,
}

impl NotImported {
    /// Whether the work is invalid. Otherwise it is left to its owner.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::NoName(..) | Self::BadName(..) | Self::NoManifests)
    }
}

impl ForeignWork {
    /// Objects for a new work.
    pub fn of_objects(key: WorkKey, objects: Vec<Value>) -> Self {
        let mut spec = json!({ "workload": {} });
        // Moved: `json!` would copy them.
        spec["workload"]["manifests"] = objects.into();
        let plurals = Plurals::of(&spec, &Value::Null);
        let (labels, annotations) = Default::default();
        Self { key, labels, annotations, spec, plurals, dropped: Vec::new() }
    }

    /// Reads a ManifestWork, as the hub or a file has it.
    pub(super) fn of_manifest_work(mut object: Value) -> Result<Self, NotImported> {
        let spec = object.get_mut("spec").map(Value::take).unwrap_or_default();
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        check_owner(metadata)?;
        let key = key_of(metadata)?;
        let manifests = spec.pointer("/workload/manifests").and_then(Value::as_array);
        if manifests.is_none_or(Vec::is_empty) {
            return Err(NotImported::NoManifests);
        }
        let plurals = Plurals::of(&spec, object.get("status").unwrap_or(&Value::Null));
        let mut labels = texts(metadata, "labels");
        let manager = labels.remove(LABEL_MANAGED_BY);
        let dropped = manager.map(|value| format!("the label {LABEL_MANAGED_BY}: {value}"));
        let mut annotations = texts(metadata, "annotations");
        annotations.retain(|key, _| !key.starts_with(PREFIX) && key != LAST_APPLIED);
        let dropped = dropped.into_iter().collect();
        Ok(Self { key, labels, annotations, spec, plurals, dropped })
    }

    /// Its manifests.
    pub fn manifests(&self) -> &[Value] {
        let manifests = self.spec.pointer("/workload/manifests").and_then(Value::as_array);
        manifests.map_or(&[], Vec::as_slice)
    }
}

/// Checks that no source, controller or deletion has the work.
fn check_owner(metadata: &Value) -> Result<(), NotImported> {
    let labels = texts(metadata, "labels");
    if let Some(source) = labels.get(LABEL_SOURCE) {
        return Err(NotImported::Source(source.clone()));
    }
    if labels.get(LABEL_MANAGED_BY).is_some_and(|manager| manager == MANAGER) {
        return Err(NotImported::Gitwork);
    }
    let owners = metadata.get("ownerReferences").and_then(Value::as_array);
    if let Some(owner) = owners.and_then(|owners| owners.first()) {
        return Err(NotImported::Owner(owner_name(owner)));
    }
    if let Some((key, value)) = labels.iter().find(|(key, _)| key.contains(OCM_DOMAIN)) {
        let kind = match key.contains("manifestworkreplicaset") {
            true => "ManifestWorkReplicaSet",
            false => "OCM's controller",
        };
        return Err(NotImported::Owner(format!("{kind} {value} ({key})")));
    }
    let deletion = metadata.get("deletionTimestamp");
    if deletion.is_some_and(|time| !time.is_null()) {
        return Err(NotImported::Deleting);
    }
    Ok(())
}

/// An owner for messages, as in `ReplicaSet web-5d4f`.
pub(super) fn owner_name(owner: &Value) -> String {
    let text = |field| owner.get(field).and_then(Value::as_str).unwrap_or("?");
    format!("{} {}", text("kind"), text("name"))
}

fn key_of(metadata: &Value) -> Result<WorkKey, NotImported> {
    let text = |field, what| {
        let value = metadata.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
        value.ok_or(NotImported::NoName(field, what))
    };
    let cluster = ClusterName::parse(text("namespace", "name of the cluster")?)
        .map_err(|why| NotImported::BadName("namespace", why))?;
    let work = WorkName::parse(text("name", "name of the work")?)
        .map_err(|why| NotImported::BadName("name", why))?;
    Ok(WorkKey { cluster, work })
}

fn texts(metadata: &Value, field: &str) -> BTreeMap<String, String> {
    let all = metadata.get(field).and_then(Value::as_object).into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(metadata: &Value) -> Result<ForeignWork, NotImported> {
        let mut all = json!({ "namespace": "edge-1", "name": "web" });
        all.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        let spec = json!({ "workload": { "manifests": [{ "kind": "ConfigMap" }] } });
        ForeignWork::of_manifest_work(json!({ "metadata": all, "spec": spec }))
    }

    #[test]
    fn works_of_sources_and_controllers_are_left_to_them() {
        let replica_set = "work.open-cluster-management.io/manifestworkreplicaset";
        for (metadata, expected) in [
            (json!({"labels": {"gitwork.dev/source": "fleet"}}), "the source fleet owns it"),
            (json!({"labels": {"app.kubernetes.io/managed-by": "gitwork"}}), "gitwork owns it"),
            (
                json!({"labels": {replica_set: "ns.all"}}),
                "ManifestWorkReplicaSet ns.all (work.open-cluster-management.io/\
                 manifestworkreplicaset) owns it",
            ),
            (
                json!({"ownerReferences": [{"kind": "ManagedClusterAddOn", "name": "proxy"}]}),
                "ManagedClusterAddOn proxy owns it",
            ),
            (json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), "it is being deleted"),
        ] {
            let error = work(&metadata).unwrap_err();
            assert_eq!((error.to_string(), error.is_error()), (expected.to_owned(), false));
        }
    }

    #[test]
    fn work_without_cluster_or_manifests_is_invalid() {
        for (metadata, expected) in [
            (json!({"namespace": null}), "metadata.namespace is missing"),
            (json!({"name": ""}), "metadata.name is missing"),
            (json!({"namespace": "Edge"}), "metadata.namespace must"),
        ] {
            let error = work(&metadata).unwrap_err();
            assert!(error.is_error(), "{error}");
            let start = expected.split(' ').next().unwrap();
            assert!(error.to_string().starts_with(start), "{error}");
        }
        let empty = json!({"metadata": {"namespace": "a", "name": "b"}, "spec": {}});
        assert_eq!(ForeignWork::of_manifest_work(empty).unwrap_err(), NotImported::NoManifests);
    }

    #[test]
    fn labels_and_annotations_of_tools_are_dropped() {
        let found = work(&json!({
            "labels": {"app": "web", "app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"a": "b", LAST_APPLIED: "{}", "gitwork.dev/adopt": "fleet"},
        }))
        .unwrap();
        assert_eq!(found.labels, BTreeMap::from([("app".into(), "web".into())]));
        assert_eq!(found.annotations, BTreeMap::from([("a".into(), "b".into())]));
        assert_eq!(found.dropped, ["the label app.kubernetes.io/managed-by: Helm"]);
    }
}
