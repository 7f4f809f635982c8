//! What is kept of objects that come from lists and watches: no managed fields, and of most objects
//! no content.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::watch::{Versioned, revision};
use gitwork_agent_core::identity::{APPLIED_FINALIZER, WORK_FINALIZER};
use gitwork_agent_core::object::Object;
use gitwork_agent_core::owner::sole_owner;
use gitwork_api::compressed_json::CompressedJson;
use gitwork_api::work::{AppliedManifestWorkSpec, AppliedManifestWorkStatus};

/// The metadata of an object (`ObjectMeta` of the Kubernetes API), as far as the agent needs it.
/// Missing fields are empty.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// The name.
    pub name: String,
    /// The namespace; empty if the kind is cluster-scoped.
    pub namespace: String,
    /// Differs for each object that ever had the name.
    pub uid: String,
    /// See [`revision`].
    pub resource_version: String,
    /// Counts changes of the content; 0 for kinds that do not count them.
    pub generation: i64,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
    /// The object stays while it has one, though it is being deleted.
    pub finalizers: Vec<String>,
    /// The owners, for garbage collection.
    pub owner_references: Vec<Value>,
    /// Is set if the object is being deleted (RFC 3339).
    pub deletion_timestamp: Option<String>,
}

/// Any object, of which only metadata is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct MetadataItem {
    /// Its metadata.
    pub metadata: Metadata,
}

impl Versioned for MetadataItem {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }
}

/// What is remembered of an object on the cluster to tell whether it has changed in a way that
/// counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectVersion {
    /// The resourceVersion as a number; see [`revision`].
    pub revision: u64,
    /// 0 for kinds that have none: their content can change unseen.
    pub generation: i64,
    /// Of uid, labels, annotations, owners and deletion.
    pub fingerprint: u64,
    /// Digest of its uid and that of the only AppliedManifestWork that owns it; 0 if none does, if
    /// several do, or if the object is being deleted.
    sole_owner: u64,
}

impl ObjectVersion {
    /// The version that an event or a list reports.
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
            sole_owner: match sole_owner(&metadata.owner_references) {
                Some(owner) if metadata.deletion_timestamp.is_none() => {
                    digest_of_uids(owner, &metadata.uid)
                }
                _ => 0,
            },
        }
    }

    /// The version of an object that was read or written.
    pub fn of_object(object: &Object) -> Self {
        let metadata = object.get("metadata").map(Metadata::deserialize);
        metadata.and_then(Result::ok).map_or_else(Self::default, |read| Self::of(&read))
    }

    /// Whether this is a version of the object with the uid `object`, this AppliedManifestWork, and
    /// no other, owned it, and it was not being deleted. Both are uids.
    pub fn is_only_owned_by(&self, owner: &str, object: &str) -> bool {
        self.sole_owner != 0 && self.sole_owner == digest_of_uids(owner, object)
    }

    /// Whether nothing but status (and the like) can differ.
    pub fn differs_only_in_status(&self, other: &Self) -> bool {
        self.generation > 0
            && self.generation == other.generation
            && self.fingerprint == other.fingerprint
    }
}

/// Never 0.
fn digest_of_uids(owner: &str, object: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (owner, object).hash(&mut hasher);
    hasher.finish().max(1)
}

/// A ManifestWork as it comes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct WorkItem {
    /// Its metadata.
    pub metadata: Metadata,
    /// Its spec; null if it is missing.
    pub spec: Value,
    /// Its status; null if it is missing.
    pub status: Value,
}

impl Versioned for WorkItem {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }
}

/// A ManifestWork as it is kept, with few bytes for its spec and status.
#[derive(Debug)]
pub struct HubWork {
    /// The name, in the cluster's namespace.
    pub name: String,
    /// See [`Metadata::uid`].
    pub uid: String,
    /// See [`revision`].
    pub resource_version: String,
    /// Counts changes of the spec.
    pub generation: i64,
    /// The labels, which the AppliedManifestWork gets too.
    pub labels: BTreeMap<String, String>,
    /// The finalizers of all clients.
    pub finalizers: Vec<String>,
    /// It is being deleted.
    pub deleting: bool,
    /// The `ManifestWorkSpec`.
    pub spec: CompressedJson,
    /// The `ManifestWorkStatus`.
    pub status: CompressedJson,
}

/// A field of a work; an empty map for null, which stands for a missing field.
fn kept(field: &Value) -> CompressedJson {
    let empty = Value::Object(Map::new());
    CompressedJson::new(if field.is_null() { &empty } else { field })
}

impl From<WorkItem> for HubWork {
    fn from(item: WorkItem) -> Self {
        let WorkItem { metadata, spec, status } = item;
        Self {
            spec: kept(&spec),
            status: kept(&status),
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
    /// Whether it has this agent's finalizer.
    pub fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|one| one == WORK_FINALIZER)
    }
    /// The resourceVersion as a number.
    pub fn revision(&self) -> u64 {
        revision(&self.resource_version)
    }
    /// Whether there is something to apply or to clean up that `old`, the version before, did not
    /// have. An added finalizer does not count: it is the agent's own write, whose event can come
    /// before its response.
    pub fn needs_pass_after(&self, old: &Self) -> bool {
        self.uid != old.uid
            || self.deleting != old.deleting
            || (old.has_finalizer() && !self.has_finalizer())
            || self.labels != old.labels
            || self.generation != old.generation
            || self.spec != old.spec
    }
}

/// An AppliedManifestWork.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct AppliedItem {
    /// Its metadata.
    pub metadata: Metadata,
    /// The hub, agent and work that it belongs to.
    pub spec: AppliedManifestWorkSpec,
    /// The objects that are applied.
    pub status: AppliedManifestWorkStatus,
}

impl Versioned for AppliedItem {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }
}

impl AppliedItem {
    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
    /// Whether it has this agent's finalizer.
    pub fn has_finalizer(&self) -> bool {
        self.metadata.finalizers.iter().any(|one| one == APPLIED_FINALIZER)
    }
    /// The resourceVersion as a number.
    pub fn revision(&self) -> u64 {
        revision(&self.metadata.resource_version)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recreated_object_is_not_the_one_that_its_owner_owned() {
        let version = |uid: &str| {
            let owner = json!({"apiVersion": "work.open-cluster-management.io/v1",
                "kind": "AppliedManifestWork", "name": "web", "uid": "owner"});
            let object = json!({"metadata": {"uid": uid, "resourceVersion": "7",
                "ownerReferences": [owner]}});
            ObjectVersion::of_object(object.as_object().unwrap())
        };
        assert!(version("first").is_only_owned_by("owner", "first"));
        assert!(!version("first").is_only_owned_by("other", "first"));
        assert!(!version("second").is_only_owned_by("owner", "first"));
    }
}
