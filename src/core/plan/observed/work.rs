//! One ManifestWork as the hub has it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gitwork_api::names::NameError;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::limits;
use crate::model::defaults::TEMPLATE;
use crate::model::digest::Digest;
use crate::model::name::{ClusterName, CommitId, SourceId, WorkKey, WorkName};
use crate::model::object_digest::ObjectDigest;
use crate::model::operation_error::{ErrorClass, OperationError};
use crate::model::status_view::StatusView;
use crate::model::value_path::value_at;
use crate::model::work::{
    ANNOTATION_ADOPT, ANNOTATION_COMMIT, ANNOTATION_CREATED_DURING_HOLD, ANNOTATION_GROUP_CONTENT,
    ANNOTATION_HASH, ANNOTATION_MANAGED_KEYS, ANNOTATION_PATH, ANNOTATION_PRUNE, DeletionPolicy,
    LABEL_SOURCE, MANAGER, OWN_ANNOTATIONS, OWN_LABELS, OWN_SET_ANNOTATIONS,
};
use crate::model::work_digest;
use crate::plan::conflicting_manager::ConflictingManager;
use crate::plan::observed::agent::AgentView;
use crate::plan::observed::object;
use crate::plan::observed::object::ListedObject;
use crate::plan::observed::set_status::{self, SetCounts};

/// The label of ManifestWorks that a ManifestWorkReplicaSet owns: `NAMESPACE.NAME` of it.
pub const LABEL_REPLICA_SET: &str = "work.open-cluster-management.io/manifestworkreplicaset";

/// One ManifestWork on the hub, or one ManifestWorkReplicaSet.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedWork {
    /// Its namespace and name.
    pub key: WorkKey,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`: opaque; the precondition of a write.
    pub resource_version: Box<str>,
    /// `metadata.generation`.
    pub generation: i64,
    /// The value of `gitwork.dev/source`; `None` for a work that no gitwork owns.
    pub source: Option<Arc<str>>,
    /// The source that an operator allows to adopt this work (`gitwork.dev/adopt`).
    pub adopt: Option<Box<str>>,
    /// The digest of what the hub has now, over the same parts as `WorkBody::digest`: the spec, and
    /// the labels and annotations that gitwork set. It equals the desired digest exactly if there
    /// is nothing to write.
    pub digest: Digest,
    /// `gitwork.dev/content-hash`: the digest of gitwork's last write. It differs from `digest`
    /// after an edit by another writer.
    pub written: Option<Digest>,
    /// When gitwork wrote it last, by the clock of the hub.
    pub written_at: Option<Timestamp>,
    /// `gitwork.dev/commit`; `None` for what is no commit.
    pub commit: Option<CommitId>,
    /// `gitwork.dev/path`.
    pub path: Option<Box<str>>,
    /// `spec.deleteOption` on the hub.
    pub delete_option: DeletionPolicy,
    /// From `gitwork.dev/prune`.
    pub prune: bool,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Created while deletions of its source were held (`gitwork.dev/created-during-hold`).
    pub created_during_hold: bool,
    /// `gitwork.dev/group-content`: the content of its group that it is of.
    pub group_content: Option<Box<Digest>>,
    /// From `gitwork.dev/managed-keys`; `None` if it has none, as most. See [`Self::owned`].
    pub owned: Option<Box<ManagedKeys>>,
    /// It seems to have no owner: no label of a source or of another tool, none of OCM's
    /// controllers, no owner references, and no annotation of gitwork's.
    pub unowned: bool,
    /// It is a ManifestWork of a ManifestWorkReplicaSet.
    pub of_replica_set: bool,
    /// The writer that edited it, if the hub does not have what gitwork wrote last.
    pub edited_by: Option<Arc<ConflictingManager>>,
    /// It has no `metadata.labels`: a JSON Patch has to create that first.
    pub labels_absent: bool,
    /// As `labels_absent`, for `metadata.annotations`.
    pub annotations_absent: bool,
    /// How far the agent has come.
    pub agent: AgentView,
    /// The status that the agent reports.
    pub status: Arc<StatusView>,
    /// The ManifestWorks that it is: one, or those of a ManifestWorkReplicaSet by its status.
    pub works: usize,
    /// The objects that it lists, sorted by digest. None of a ManifestWorkReplicaSet: its
    /// ManifestWorks list them.
    pub objects: Box<[ListedObject]>,
    /// Objects that the work no longer lists, and that its agent reports from before; sorted.
    pub left: Box<[ObjectDigest]>,
}

/// The labels and annotations that a user set through Git. Gitwork removes those that Git drops,
/// and no others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ManagedKeys {
    /// Keys of `metadata.labels`.
    pub labels: BTreeSet<String>,
    /// Keys of `metadata.annotations`.
    pub annotations: BTreeSet<String>,
}

/// Why an object is not a ManifestWork that gitwork can name. Gitwork creates none of these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableWork {
    /// A required field of the metadata is absent or not text.
    #[error("a ManifestWork on the hub has no {field}")]
    Missing {
        /// As in `metadata.uid`.
        field: &'static str,
    },
    /// Its name or namespace is not valid.
    #[error("a ManifestWork on the hub has the {field} {name:?}, which {why}")]
    BadName {
        /// `metadata.namespace` or `metadata.name`.
        field: &'static str,
        /// The value, shortened.
        name: String,
        /// What is wrong with it.
        why: NameError,
    },
}

impl OperationError for UnreadableWork {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "InvalidManifestWork"
    }
}

impl ObservedWork {
    /// Reads a ManifestWork from the API server. Users and other programs may write anything into
    /// it: a field that cannot be read counts as not set.
    pub fn from_manifest_work(object: Value) -> Result<Self, UnreadableWork> {
        Self::read(object, ObservedKind::ManifestWork)
    }

    /// Reads a ManifestWorkReplicaSet from the API server. Its source is in an annotation: its
    /// labels are those of its ManifestWorks, which are not gitwork's.
    pub fn from_replica_set(mut object: Value) -> Result<Self, UnreadableWork> {
        let generation = generation_of(&object);
        let status = object.get_mut("status").map(Value::take).unwrap_or_default();
        let counts = SetCounts::of(&status);
        let of_work = set_status::work_status(&status, generation);
        if let Value::Object(fields) = &mut object {
            fields.insert("status".into(), of_work);
        }
        let is_seen = object.get("metadata").is_some_and(set_status::is_seen);
        let mut read = Self::read(object, ObservedKind::ReplicaSet)?;
        read.agent.seen = is_seen;
        read.works = usize::try_from(counts.total).unwrap_or(usize::MAX).max(1);
        let view = Arc::make_mut(&mut read.status);
        (view.manifests, view.manifests_applied) = (counts.total, counts.applied);
        Ok(read)
    }

    /// The labels and annotations that a user set through Git.
    pub fn owned(&self) -> &ManagedKeys {
        static NONE: ManagedKeys =
            ManagedKeys { labels: BTreeSet::new(), annotations: BTreeSet::new() };
        self.owned.as_deref().unwrap_or(&NONE)
    }

    fn read(mut object: Value, kind: ObservedKind) -> Result<Self, UnreadableWork> {
        let spec = object.get_mut("spec").map(Value::take).unwrap_or_default();
        let facts = SpecFacts::of(&spec, &object, kind);
        let metadata = MetadataFacts::of(&object, kind)?;
        Ok(Self::with_spec(metadata, &object, kind, facts, |labels, annotations, users| {
            let labels = set_by_gitwork(labels, kind.own_labels(), &users.labels);
            let own_annotations = kind.own_annotations();
            let annotations = set_by_gitwork(annotations, own_annotations, &users.annotations);
            work_digest::digest(spec, &labels, &annotations)
        }))
    }

    /// `object`: without its spec; of one without status, owners and finalizers, it may be null.
    /// `digest`: of the spec with these labels and annotations, of which users set some.
    pub(super) fn with_spec(
        read: MetadataFacts<'_>,
        object: &Value,
        kind: ObservedKind,
        spec: SpecFacts,
        digest: impl FnOnce(&Texts<'_>, &Texts<'_>, &ManagedKeys) -> Digest,
    ) -> Self {
        let (labels, annotations) = (&read.labels, &read.annotations);
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let status = object.get("status").unwrap_or(&Value::Null);
        let (generation, manifests) = (read.generation, spec.manifests);
        let owned = managed_keys(annotations);
        let (source, adopt) = kind.owners(labels, annotations);
        let left = object::left(&spec.objects, status);
        let digest = digest(labels, annotations, &owned);
        let digest_of = |key| annotations.get(key).and_then(|text| Digest::parse(text));
        let written = digest_of(ANNOTATION_HASH);
        let is_edited = source.is_some() && written != Some(digest);
        let editor = || ConflictingManager::of(metadata, &owned.labels, &owned.annotations);
        let edited_by = is_edited.then(|| Arc::new(editor()));
        let annotation = |key: &str, bytes_max: usize| {
            Some(Box::from(*annotations.get(key).filter(|text| text.len() <= bytes_max)?))
        };
        Self {
            key: read.key,
            uid: read.uid.into(),
            resource_version: read.resource_version.into(),
            generation,
            source: source.map(Arc::from),
            adopt: annotation(ANNOTATION_ADOPT, 63).filter(|_| adopt),
            digest,
            written,
            written_at: read.written_at,
            commit: annotations.get(ANNOTATION_COMMIT).and_then(|text| CommitId::parse(text)),
            path: annotation(ANNOTATION_PATH, limits::PATH_BYTES_MAX),
            delete_option: spec.delete_option,
            prune: annotations.get(ANNOTATION_PRUNE) != Some(&"false"),
            created_during_hold: annotations.contains_key(ANNOTATION_CREATED_DURING_HOLD),
            group_content: digest_of(ANNOTATION_GROUP_CONTENT).map(Box::new),
            deleting: metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null()),
            unowned: kind == ObservedKind::ManifestWork
                && is_unowned(metadata, labels, annotations),
            of_replica_set: kind.is_of_replica_set(labels),
            owned: (owned != ManagedKeys::default()).then(|| Box::new(owned)),
            edited_by,
            labels_absent: read.labels_absent,
            annotations_absent: read.annotations_absent,
            agent: AgentView::of(metadata, status, generation, manifests == 0),
            status: Arc::new(StatusView::of(status, generation, manifests)),
            works: 1,
            objects: spec.objects,
            left,
        }
    }

    /// The object with this identity, if the work lists it.
    pub fn object(&self, digest: ObjectDigest) -> Option<&ListedObject> {
        let at = self.objects.binary_search_by_key(&digest, |object| object.digest).ok()?;
        self.objects.get(at)
    }

    /// Whether the work belongs to this source.
    pub fn is_ours(&self, source: &SourceId) -> bool {
        self.source.as_deref() == Some(source.as_str())
    }

    /// Takes the names of its cluster and its source from those of another work if they are the
    /// same: many works hold them once then.
    pub(super) fn share_names(&mut self, cluster: &ClusterName, source: Option<&Arc<str>>) {
        if self.key.cluster == *cluster {
            self.key.cluster.clone_from(cluster);
        }
        if self.source.as_ref() == source {
            self.source = source.cloned();
        }
    }

    /// Whether this is a later state of the same object. Kubernetes' resourceVersions are growing
    /// numbers; if they are not numbers, the order is unknown.
    pub(super) fn is_newer_than(&self, other: &Self) -> bool {
        let number = |work: &Self| work.resource_version.parse::<u64>().ok();
        match (number(self), number(other)) {
            (Some(a), Some(b)) => self.uid == other.uid && a > b,
            _ => false,
        }
    }
}

/// Labels or annotations.
pub(super) type Texts<'a> = BTreeMap<&'a str, &'a str>;

/// What is read of every object's metadata.
pub(super) struct MetadataFacts<'a> {
    pub key: WorkKey,
    pub uid: &'a str,
    pub resource_version: &'a str,
    pub generation: i64,
    pub labels: Texts<'a>,
    /// The object has no such field.
    pub labels_absent: bool,
    pub annotations: Texts<'a>,
    pub annotations_absent: bool,
    pub written_at: Option<Timestamp>,
}

impl<'a> MetadataFacts<'a> {
    fn of(object: &'a Value, kind: ObservedKind) -> Result<Self, UnreadableWork> {
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let is_absent = |field| !metadata.get(field).is_some_and(Value::is_object);
        let resource_version = required(metadata, "resourceVersion", "metadata.resourceVersion");
        Ok(Self {
            key: kind.key(metadata)?,
            uid: required(metadata, "uid", "metadata.uid")?,
            resource_version: resource_version?,
            generation: generation_of(object),
            labels: texts(metadata, "labels"),
            labels_absent: is_absent("labels"),
            annotations: texts(metadata, "annotations"),
            annotations_absent: is_absent("annotations"),
            written_at: written_at(metadata),
        })
    }
}

/// What is read of a spec, besides its digest.
pub(super) struct SpecFacts {
    pub manifests: usize,
    pub delete_option: DeletionPolicy,
    pub objects: Box<[ListedObject]>,
}

impl SpecFacts {
    /// `object`: that with this spec.
    fn of(spec: &Value, object: &Value, kind: ObservedKind) -> Self {
        let of_works = kind.spec_of_works(spec);
        let manifests = value_at(of_works, "/workload/manifests").and_then(Value::as_array);
        let option = of_works.get("deleteOption").unwrap_or(&Value::Null);
        let delete_option = DeletionPolicy::from_value(option);
        let status = object.get("status").unwrap_or(&Value::Null);
        let objects = object::objects(spec, status, generation_of(object), &delete_option);
        Self { manifests: manifests.map_or(0, Vec::len), delete_option, objects }
    }
}

fn generation_of(object: &Value) -> i64 {
    value_at(object, "/metadata/generation").and_then(Value::as_i64).unwrap_or_default()
}

/// When gitwork wrote the work last, as the API server keeps it for each manager of fields.
fn written_at(metadata: &Value) -> Option<Timestamp> {
    let entries = metadata.get("managedFields").and_then(Value::as_array)?.iter();
    last_write(entries.map(|entry| {
        let text = |field| entry.get(field).and_then(Value::as_str);
        (text("manager"), text("subresource").is_none(), text("time"))
    }))
}

/// The last time that gitwork wrote an object itself. `entries`: the manager of each entry, whether
/// it is of the object itself and not of a subresource, and its time.
pub(super) fn last_write<'a>(
    entries: impl Iterator<Item = (Option<&'a str>, bool, Option<&'a str>)>,
) -> Option<Timestamp> {
    let ours =
        entries.filter(|(manager, is_of_object, _)| *manager == Some(MANAGER) && *is_of_object);
    ours.filter_map(|(.., time)| time?.parse().ok()).max()
}

/// The entries of a map that gitwork set: its own, and those that users set through Git.
pub(super) fn set_by_gitwork(
    all: &BTreeMap<&str, &str>,
    own: &[&str],
    users: &BTreeSet<String>,
) -> BTreeMap<String, String> {
    let keys = own.iter().copied().chain(users.iter().map(String::as_str));
    keys.filter_map(|key| Some((key.to_owned(), (*all.get(key)?).to_owned()))).collect()
}

fn required<'a>(
    metadata: &'a Value,
    name: &str,
    field: &'static str,
) -> Result<&'a str, UnreadableWork> {
    metadata.get(name).and_then(Value::as_str).ok_or(UnreadableWork::Missing { field })
}

/// The kind of an object that is read as a work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObservedKind {
    ManifestWork,
    ReplicaSet,
}

impl ObservedKind {
    fn key(self, metadata: &Value) -> Result<WorkKey, UnreadableWork> {
        match self {
            Self::ManifestWork => key(metadata, ClusterName::parse),
            Self::ReplicaSet => key(metadata, ClusterName::of_replica_sets),
        }
    }

    /// The spec of the ManifestWorks that it is.
    fn spec_of_works(self, spec: &Value) -> &Value {
        match self {
            Self::ManifestWork => spec,
            Self::ReplicaSet => spec.get(TEMPLATE).unwrap_or(&Value::Null),
        }
    }

    /// The source, and whether another one may adopt the object. Any value counts as a source: a
    /// work with a label that gitwork would not write is another's. The works of a replica set
    /// belong to that set, whatever labels it has.
    fn owners<'a>(
        self,
        labels: &BTreeMap<&str, &'a str>,
        annotations: &BTreeMap<&str, &'a str>,
    ) -> (Option<&'a str>, bool) {
        match self {
            _ if self.is_of_replica_set(labels) => (None, false),
            Self::ManifestWork => (labels.get(LABEL_SOURCE).copied(), true),
            Self::ReplicaSet => (annotations.get(LABEL_SOURCE).copied(), false),
        }
    }

    fn is_of_replica_set(self, labels: &BTreeMap<&str, &str>) -> bool {
        self == Self::ManifestWork && labels.contains_key(LABEL_REPLICA_SET)
    }

    fn own_labels(self) -> &'static [&'static str] {
        match self {
            Self::ManifestWork => &OWN_LABELS,
            Self::ReplicaSet => &[],
        }
    }

    fn own_annotations(self) -> &'static [&'static str] {
        match self {
            Self::ManifestWork => &OWN_ANNOTATIONS,
            Self::ReplicaSet => &OWN_SET_ANNOTATIONS,
        }
    }
}

fn key(
    metadata: &Value,
    place: impl Fn(&str) -> Result<ClusterName, NameError>,
) -> Result<WorkKey, UnreadableWork> {
    let cluster = required(metadata, "namespace", "metadata.namespace")?;
    let name = required(metadata, "name", "metadata.name")?;
    let bad = |field, name: &str| {
        let name = name.chars().take(limits::WORK_NAME_CHARS_MAX).collect();
        move |why| UnreadableWork::BadName { field, name, why }
    };
    Ok(WorkKey {
        cluster: place(cluster).map_err(bad("metadata.namespace", cluster))?,
        work: WorkName::parse(name).map_err(bad("metadata.name", name))?,
    })
}

/// A map of texts; entries of any other type are left out.
pub(super) fn texts<'a>(metadata: &'a Value, field: &str) -> BTreeMap<&'a str, &'a str> {
    let all = metadata.get(field).and_then(Value::as_object).into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

/// OCM labels the works of its add-ons and of ManifestWorkReplicaSets in this domain.
const OCM_DOMAIN: &str = "open-cluster-management.io/";

fn is_unowned(
    metadata: &Value,
    labels: &BTreeMap<&str, &str>,
    annotations: &BTreeMap<&str, &str>,
) -> bool {
    let owners = metadata.get("ownerReferences").and_then(Value::as_array);
    let is_owners = |key: &&str| OWN_LABELS.contains(key) || key.contains(OCM_DOMAIN);
    owners.is_none_or(Vec::is_empty)
        && !labels.keys().any(is_owners)
        && !annotations.keys().any(|key| OWN_ANNOTATIONS.contains(key))
}

/// An annotation that gitwork did not write counts as empty. The digest differs then, so gitwork
/// puts it back.
pub(super) fn managed_keys(annotations: &BTreeMap<&str, &str>) -> ManagedKeys {
    annotations
        .get(ANNOTATION_MANAGED_KEYS)
        .filter(|text| text.len() <= limits::ANNOTATION_BYTES_MAX)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}
