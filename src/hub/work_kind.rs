//! The kinds of objects that the hub keeps for a source.

use gitwork_core::model::name::WorkKey;
use gitwork_core::plan::observed::{ObservedWork, UnreadableWork};
use serde_json::Value;

/// A kind of objects that the hub keeps for a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkKind {
    ManifestWork,
    ReplicaSet,
}

impl WorkKind {
    /// The kind of the object with this key.
    pub fn of(key: &WorkKey) -> Self {
        if key.is_replica_set() { Self::ReplicaSet } else { Self::ManifestWork }
    }

    /// The plural, as in paths and in RBAC rules.
    pub fn resource(self) -> &'static str {
        match self {
            Self::ManifestWork => "manifestworks",
            Self::ReplicaSet => "manifestworkreplicasets",
        }
    }

    /// `apiVersion` and `kind`.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::ManifestWork => ("work.open-cluster-management.io/v1", "ManifestWork"),
            Self::ReplicaSet => {
                ("work.open-cluster-management.io/v1alpha1", "ManifestWorkReplicaSet")
            }
        }
    }

    /// Reads an object.
    pub fn read(self, object: Value) -> Result<ObservedWork, UnreadableWork> {
        match self {
            Self::ManifestWork => ObservedWork::from_manifest_work(object),
            Self::ReplicaSet => ObservedWork::from_replica_set(object),
        }
    }
}
