//! The writes of a replica set, and what is sent for them.

use gitwork_api::escape::pointer_token;
use std::collections::BTreeMap;

use gitwork_core::model::name::ClusterName;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::names::{
    ANNOTATION_COPIED_LABELS, ANNOTATION_OWNER, ANNOTATION_WRITTEN, FINALIZER, LABEL_OWNER,
    LABEL_WORK_PLACEMENT, label_value,
};
use crate::replica_set::ReplicaSet;
use crate::set_work::SetWork;

/// One write. Each has a precondition, so that a write that was decided on older objects fails.
#[derive(Debug, Clone, PartialEq)]
pub enum SetWrite {
    /// Adds the finalizer to the replica set.
    AddFinalizer,
    /// Removes it: nothing is left to do.
    RemoveFinalizer,
    /// Creates a work.
    Create {
        /// The cluster.
        cluster: ClusterName,
        /// Name of the work.
        name: String,
        /// The Placement that selects the cluster.
        placement: String,
    },
    /// Replaces the content of a work, and sets its labels and annotations.
    Update {
        /// The work as it was read.
        work: Box<SetWork>,
        /// The Placement that selects the cluster.
        placement: String,
    },
    /// Sets labels and annotations of a work only.
    UpdateMetadata {
        /// The work as it was read.
        work: Box<SetWork>,
        /// The Placement that selects the cluster.
        placement: String,
    },
    /// Deletes a work.
    Delete {
        /// The cluster.
        cluster: ClusterName,
        /// Name of the work.
        name: String,
        /// `metadata.uid`.
        uid: String,
        /// Why.
        reason: WorkDeletion,
    },
}

/// A write of a cluster's work that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteFailure {
    /// What failed, and why.
    pub message: String,
    /// Whether a person must act first. Until then, other clusters go on.
    pub needs_action: bool,
}

/// Why a work is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkDeletion {
    /// The replica set is being deleted.
    SetDeleted,
    /// No Placement selects the cluster any more.
    ClusterLeft,
    /// Another work of the set on the same cluster has been applied.
    Duplicate,
}

impl WorkDeletion {
    /// The reason, for a log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SetDeleted => "the replica set is being deleted",
            Self::ClusterLeft => "no Placement selects the cluster",
            Self::Duplicate => "another work of the replica set is applied there",
        }
    }
}

impl SetWrite {
    /// The cluster whose work is written; `None` for the replica set itself.
    pub fn cluster(&self) -> Option<&ClusterName> {
        match self {
            Self::AddFinalizer | Self::RemoveFinalizer => None,
            Self::Create { cluster, .. } | Self::Delete { cluster, .. } => Some(cluster),
            Self::Update { work, .. } | Self::UpdateMetadata { work, .. } => Some(&work.cluster),
        }
    }
}

/// The object that creates a work.
pub fn new_work(
    set: &ReplicaSet,
    cluster: &ClusterName,
    name: &str,
    placement: &str,
    now: Timestamp,
) -> Value {
    let annotations: BTreeMap<&str, String> =
        annotations(set).chain([(ANNOTATION_WRITTEN, seconds(now))]).collect();
    json!({
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": {
            "namespace": cluster.as_str(),
            "name": name,
            "labels": labels(set, placement),
            "annotations": annotations,
        },
        "spec": set.template,
    })
}

/// The JSON patch that updates a work: its content only with `writes_content`. Labels and
/// annotations of others stay.
pub fn work_patch(
    set: &ReplicaSet,
    work: &SetWork,
    placement: &str,
    writes_content: Option<Timestamp>,
) -> Value {
    let version = &work.resource_version;
    let mut operations =
        vec![json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version})];
    let add = |path: String, value: Value| json!({"op": "add", "path": path, "value": value});
    if !work.has_annotations {
        operations.push(add("/metadata/annotations".into(), json!({})));
    }
    let label_path = |key: &str| pointer("labels", key);
    let wanted = labels(set, placement);
    for (key, value) in &wanted {
        operations.push(add(label_path(key), json!(value)));
    }
    let dropped = work.copied_labels.iter().filter(|key| !wanted.contains_key(*key));
    for key in dropped.filter(|key| work.labels.contains_key(*key)) {
        operations.push(json!({"op": "remove", "path": label_path(key)}));
    }
    for (key, value) in annotations(set) {
        operations.push(add(pointer("annotations", key), json!(value)));
    }
    if let Some(now) = writes_content {
        operations.push(add(pointer("annotations", ANNOTATION_WRITTEN), json!(seconds(now))));
        operations.push(add("/spec".into(), json!(set.template)));
    }
    Value::Array(operations)
}

/// The merge patch that sets the finalizers of a replica set.
pub fn finalizer_patch(set: &ReplicaSet, is_added: bool) -> Value {
    let mut finalizers = set.finalizers.clone();
    finalizers.retain(|one| one != FINALIZER);
    finalizers.extend(is_added.then(|| FINALIZER.to_owned()));
    json!({"metadata": {
        "uid": set.uid, "resourceVersion": set.resource_version, "finalizers": finalizers,
    }})
}

/// Whether labels or annotations of a work are not those that the set wants.
pub(crate) fn needs_metadata(set: &ReplicaSet, work: &SetWork, placement: &str) -> bool {
    let wanted = labels(set, placement);
    let has_all = wanted.iter().all(|(key, value)| work.labels.get(key) == Some(value));
    let keeps_old = work
        .copied_labels
        .iter()
        .any(|key| !wanted.contains_key(key) && work.labels.contains_key(key));
    !has_all
        || keeps_old
        || work.owner_in_full.as_deref() != Some(&set.key.to_string())
        || !set.labels.keys().eq(&work.copied_labels)
}

/// The labels that the set gives to a work.
fn labels(set: &ReplicaSet, placement: &str) -> BTreeMap<String, String> {
    let mut labels = set.labels.clone();
    labels.insert(LABEL_OWNER.into(), set.key.owner_label());
    labels.insert(LABEL_WORK_PLACEMENT.into(), label_value(placement));
    labels
}

fn annotations(set: &ReplicaSet) -> impl Iterator<Item = (&'static str, String)> {
    let copied: Vec<&str> = set.labels.keys().map(String::as_str).collect();
    [(ANNOTATION_OWNER, set.key.to_string()), (ANNOTATION_COPIED_LABELS, copied.join(","))]
        .into_iter()
}

fn pointer(map: &str, key: &str) -> String {
    format!("/metadata/{map}/{}", pointer_token(key))
}

/// A time in whole seconds, as the times of conditions are.
fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::semantics::RolloutSemantics;

    fn set(labels: &Value) -> ReplicaSet {
        let object = json!({
            "metadata": {"namespace": "fleet", "name": "web", "uid": "u", "resourceVersion": "9",
                "labels": labels, "finalizers": ["other.io/x"]},
            "spec": {"manifestWorkTemplate": {"workload": {"manifests": [{"kind": "A"}]}}},
        });
        ReplicaSet::read(&object, RolloutSemantics::Gitwork).unwrap()
    }

    fn now() -> Timestamp {
        "2026-11-20T10:00:00.7Z".parse().unwrap()
    }

    fn created(set: &ReplicaSet) -> SetWork {
        let cluster = ClusterName::parse("c1").unwrap();
        let mut object = new_work(set, &cluster, "web-1", "all", now());
        object["metadata"]["resourceVersion"] = json!("7");
        object["metadata"]["labels"]["foreign"] = json!("stays");
        SetWork::read(&object).unwrap()
    }

    #[test]
    fn work_that_was_created_needs_no_write() {
        let set = set(&json!({"team": "shop", "tier": "1"}));
        let work = created(&set);
        assert!(!needs_metadata(&set, &work, "all") && work.has_content(set.digest));
        assert_eq!(work.written, Some("2026-11-20T10:00:00Z".parse().unwrap()));
        assert!(needs_metadata(&set, &work, "other"));
    }

    /// Upstream's patch removes every label and annotation that it does not set.
    #[test]
    fn labels_of_others_stay_and_those_that_the_set_dropped_go() {
        let work = created(&set(&json!({"team": "shop", "tier": "1"})));
        let changed = set(&json!({"tier": "2"}));
        assert!(needs_metadata(&changed, &work, "all"));
        let patch = work_patch(&changed, &work, "all", None).to_string();
        assert!(patch.contains(r#"{"op":"remove","path":"/metadata/labels/team"}"#), "{patch}");
        assert!(patch.contains(r#""path":"/metadata/labels/tier","value":"2""#), "{patch}");
        assert!(!patch.contains("foreign") && !patch.contains("/spec"), "{patch}");
        assert!(patch.contains(r#""path":"/metadata/resourceVersion","value":"7""#), "{patch}");
        let whole = work_patch(&changed, &work, "all", Some(now())).to_string();
        assert!(whole.contains(r#""path":"/spec""#), "{whole}");
    }

    #[test]
    fn finalizers_of_others_stay() {
        let set = set(&json!({}));
        let added = finalizer_patch(&set, true);
        assert_eq!(added["metadata"]["finalizers"], json!(["other.io/x", FINALIZER]));
        let removed = finalizer_patch(&set, false);
        assert_eq!(removed["metadata"]["finalizers"], json!(["other.io/x"]));
        assert_eq!((&removed["metadata"]["resourceVersion"]), &json!("9"));
    }
}
