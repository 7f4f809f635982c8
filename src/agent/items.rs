//! What is kept of objects that come from lists and watches: no managed fields, and of most objects
//! no content.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::Value;

use super::watch::{Versioned, revision};
use gitwork_agent_core::identity::{APPLIED_FINALIZER, WORK_FINALIZER};
use gitwork_agent_core::object::Object;
use gitwork_api::work::{AppliedManifestWorkSpec, AppliedManifestWorkStatus};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: i64,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub finalizers: Vec<String>,
    pub owner_references: Vec<Value>,
    pub deletion_timestamp: Option<String>,
}

/// Any object, of which only metadata is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct MetadataItem {
    pub metadata: Metadata,
}

impl Versioned for MetadataItem {
    fn version(&self) -> String {
        self.metadata.resource_version.clone()
    }
}

/// What is remembered of an object on the cluster to tell whether it has changed in a way that
/// counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectVersion {
    pub revision: u64,
    /// 0 for kinds that have none: their content can change unseen.
    pub generation: i64,
    /// Of uid, labels, annotations, owners and deletion.
    pub fingerprint: u64,
}

impl ObjectVersion {
    pub fn of(metadata: &Metadata) -> Self {
        let mut hasher = DefaultHasher::new();
        metadata.uid.hash(&mut hasher);
        metadata.labels.hash(&mut hasher);
        metadata.annotations.hash(&mut hasher);
        metadata.deletion_timestamp.is_some().hash(&mut hasher);
        for owner in &metadata.owner_references {
            owner.to_string().hash(&mut hasher);
        }
        Self {
            revision: revision(&metadata.resource_version),
            generation: metadata.generation,
            fingerprint: hasher.finish(),
        }
    }

    pub fn of_object(object: &Object) -> Self {
        let metadata = object.get("metadata").cloned().unwrap_or_default();
        serde_json::from_value(metadata).map_or_else(|_| Self::default(), |read| Self::of(&read))
    }

    /// Whether nothing but status (and the like) can differ.
    pub fn differs_only_in_status(&self, other: &Self) -> bool {
        self.generation > 0
            && self.generation == other.generation
            && self.fingerprint == other.fingerprint
    }
}

/// A ManifestWork as it comes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct WorkItem {
    pub metadata: Metadata,
    pub spec: Value,
    pub status: Value,
}

impl Versioned for WorkItem {
    fn version(&self) -> String {
        self.metadata.resource_version.clone()
    }
}

/// A ManifestWork as it is kept: spec and status as text, which takes a tenth of the memory of
/// parsed trees.
#[derive(Debug)]
pub struct HubWork {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: i64,
    pub labels: BTreeMap<String, String>,
    pub finalizers: Vec<String>,
    pub deleting: bool,
    pub spec: Box<str>,
    pub status: Box<str>,
}

impl From<WorkItem> for HubWork {
    fn from(item: WorkItem) -> Self {
        let WorkItem { metadata, spec, status } = item;
        let text = |value: &Value| match value {
            Value::Null => "{}".into(),
            other => other.to_string().into_boxed_str(),
        };
        Self {
            spec: text(&spec),
            status: text(&status),
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            generation: metadata.generation,
            labels: metadata.labels,
            finalizers: metadata.finalizers,
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}

impl HubWork {
    pub fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|one| one == WORK_FINALIZER)
    }
    pub fn revision(&self) -> u64 {
        revision(&self.resource_version)
    }
    /// Whether there is something new to apply or to clean up.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.deleting == other.deleting
            // That ours was added is our own write, whose event can come before its answer.
            && (other.has_finalizer() || !self.has_finalizer())
            && self.labels == other.labels
            && self.generation == other.generation
            && self.spec == other.spec
    }
}

/// An AppliedManifestWork.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct AppliedItem {
    pub metadata: Metadata,
    pub spec: AppliedManifestWorkSpec,
    pub status: AppliedManifestWorkStatus,
}

impl Versioned for AppliedItem {
    fn version(&self) -> String {
        self.metadata.resource_version.clone()
    }
}

impl AppliedItem {
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
    pub fn has_finalizer(&self) -> bool {
        self.metadata.finalizers.iter().any(|one| one == APPLIED_FINALIZER)
    }
    pub fn revision(&self) -> u64 {
        revision(&self.metadata.resource_version)
    }
}
