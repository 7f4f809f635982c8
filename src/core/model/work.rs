//! What gitwork writes to the hub: labels, annotations and the body of one ManifestWork.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::defaults::TEMPLATE;
use super::digest::Digest;
use super::manifest::Identity;
use super::name::{CommitId, RepoPath, SourceId, WorkKey};
use super::object_digest::ObjectDigest;
use super::spec_text::SpecText;
use super::work_digest::{digest, digest_with_text};
use gitwork_api::compressed_json::CompressedJson;

/// The common label that says which tool manages an object (Kubernetes: recommended labels).
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Its value on our works, and the field manager of our writes.
pub const MANAGER: &str = "gitwork";
/// The source that a work belongs to. Without it, with our value, a work is never touched.
pub const LABEL_SOURCE: &str = "gitwork.dev/source";
/// Path of the work folder in the repository.
pub const ANNOTATION_PATH: &str = "gitwork.dev/path";
/// The commit that last changed the work.
pub const ANNOTATION_COMMIT: &str = "gitwork.dev/commit";
/// SHA-256 of what gitwork wrote: `WorkBody::digest`.
pub const ANNOTATION_HASH: &str = "gitwork.dev/content-hash";
/// `false` where the work is to stay on the hub once Git drops it.
pub const ANNOTATION_PRUNE: &str = "gitwork.dev/prune";
/// Which labels and annotations the user set through Git, as JSON:
/// `{"annotations":["a"],"labels":["b"]}`. Their names have no prefix of ours, and what Git drops
/// is to disappear on the hub, and nothing else is.
pub const ANNOTATION_MANAGED_KEYS: &str = "gitwork.dev/managed-keys";
/// On a work that was created while deletions of its source were held: it does not count as one
/// that was kept. Removed once no deletion is held.
pub const ANNOTATION_CREATED_DURING_HOLD: &str = "gitwork.dev/created-during-hold";
/// On a work of a group with `rollout`: identifies the content of the group that it is of. It is no
/// content itself.
pub const ANNOTATION_GROUP_CONTENT: &str = "gitwork.dev/group-content";
/// Set by an operator on a foreign ManifestWork: the id of the source that may adopt it.
pub const ANNOTATION_ADOPT: &str = "gitwork.dev/adopt";
/// Every label and annotation of ours starts with this.
pub const PREFIX: &str = "gitwork.dev/";
/// The labels that gitwork itself sets.
pub const OWN_LABELS: [&str; 2] = [LABEL_MANAGED_BY, LABEL_SOURCE];
/// The annotations of a `WorkBody` that gitwork itself sets: what its digest covers.
pub const OWN_ANNOTATIONS: [&str; 3] = [ANNOTATION_MANAGED_KEYS, ANNOTATION_PATH, ANNOTATION_PRUNE];

/// As [`OWN_ANNOTATIONS`], of a ManifestWorkReplicaSet. Its labels are those of its ManifestWorks,
/// which are not gitwork's, so an annotation has the source.
pub const OWN_SET_ANNOTATIONS: [&str; 4] =
    [ANNOTATION_MANAGED_KEYS, ANNOTATION_PATH, ANNOTATION_PRUNE, LABEL_SOURCE];

/// What becomes of the objects on the cluster when their ManifestWork is deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub enum DeletionPolicy {
    /// All are deleted first.
    #[default]
    Foreground,
    /// All stay.
    Orphan,
    /// These stay, the others are deleted.
    SelectivelyOrphan(BTreeSet<Identity>),
}

impl DeletionPolicy {
    /// Reads a `spec.deleteOption`. What is missing has the CRD's defaults.
    pub fn from_value(value: &Value) -> Self {
        match value.get("propagationPolicy").and_then(Value::as_str) {
            Some("Orphan") => Self::Orphan,
            Some("SelectivelyOrphan") => {
                let rules =
                    value.pointer("/selectivelyOrphans/orphaningRules").and_then(Value::as_array);
                let rules = rules.into_iter().flatten();
                Self::SelectivelyOrphan(rules.map(|one| Identity::of_value(Some(one))).collect())
            }
            _ => Self::Foreground,
        }
    }

    /// As a `spec.deleteOption`. Other fields of `original` (`ttlSecondsAfterFinished`) are kept.
    pub fn to_value(&self, original: Option<&Value>) -> Value {
        let mut fields = original.and_then(Value::as_object).cloned().unwrap_or_default();
        fields.remove("selectivelyOrphans");
        if let Self::SelectivelyOrphan(rules) = self {
            let rules: Vec<Value> = rules.iter().map(Identity::to_value).collect();
            let rules = serde_json::json!({ "orphaningRules": rules });
            fields.insert("selectivelyOrphans".into(), rules);
        }
        fields.insert("propagationPolicy".into(), self.policy().into());
        Value::Object(fields)
    }

    /// Whether the object stays when the work is deleted.
    pub fn orphans(&self, object: &Identity) -> bool {
        match self {
            Self::Foreground => false,
            Self::Orphan => true,
            Self::SelectivelyOrphan(rules) => rules.contains(object),
        }
    }

    /// Whether it orphans an object that the other one does not.
    pub fn orphans_more_than(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Foreground, _) | (_, Self::Orphan) => false,
            (Self::Orphan, _) => true,
            (Self::SelectivelyOrphan(rules), other) => rules.iter().any(|one| !other.orphans(one)),
        }
    }

    /// With rules that orphan these objects, too.
    pub fn orphaning(&self, objects: Vec<Identity>) -> Self {
        let mut rules: BTreeSet<Identity> = match self {
            Self::Foreground => BTreeSet::new(),
            Self::Orphan => return Self::Orphan,
            Self::SelectivelyOrphan(rules) => rules.clone(),
        };
        rules.extend(objects);
        if rules.is_empty() && *self == Self::Foreground {
            return Self::Foreground;
        }
        Self::SelectivelyOrphan(rules)
    }

    /// Without orphaning these objects. `all`: the objects of the work.
    pub fn not_orphaning(
        &self,
        objects: &BTreeSet<Identity>,
        all: impl IntoIterator<Item = Identity>,
    ) -> Self {
        let mut rules: BTreeSet<Identity> = match self {
            Self::Foreground => return Self::Foreground,
            Self::Orphan => all.into_iter().collect(),
            Self::SelectivelyOrphan(rules) => rules.clone(),
        };
        rules.retain(|rule| !objects.contains(rule));
        match rules.is_empty() {
            true => Self::Foreground,
            false => Self::SelectivelyOrphan(rules),
        }
    }

    /// OCM's name of the policy.
    pub fn policy(&self) -> &'static str {
        match self {
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
            Self::SelectivelyOrphan(_) => "SelectivelyOrphan",
        }
    }
}

/// The content of one ManifestWork, as desired.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkBody {
    /// `ManifestWork.spec`, as it is sent.
    pub spec: SpecText,
    /// A [`WorkMetadata`]: a daemon has some ten thousand of these.
    metadata: CompressedJson,
    /// It is to carry `ANNOTATION_CREATED_DURING_HOLD`, which is no content.
    pub created_during_hold: bool,
    /// It is to carry `ANNOTATION_GROUP_CONTENT` with this value, which is no content.
    pub group_content: Option<Box<Digest>>,
    /// Equal to that of what the hub has exactly where there is nothing to write.
    pub digest: Digest,
}

/// The labels and annotations that gitwork sets on a ManifestWork.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkMetadata {
    /// Of the user, and gitwork's own two.
    pub labels: BTreeMap<String, String>,
    /// Of the user, and gitwork's own but for `ANNOTATION_COMMIT` and `ANNOTATION_HASH`.
    pub annotations: BTreeMap<String, String>,
}

impl WorkBody {
    /// Adds gitwork's own labels and annotations to those of the user. `spec`: of a ManifestWork
    /// or a ManifestWorkReplicaSet.
    pub fn new(
        source: &SourceId,
        path: &RepoPath,
        spec: Value,
        mut labels: BTreeMap<String, String>,
        mut annotations: BTreeMap<String, String>,
        prune: bool,
    ) -> Self {
        if !labels.is_empty() || !annotations.is_empty() {
            let keys = serde_json::json!({
                "annotations": annotations.keys().collect::<Vec<_>>(),
                "labels": labels.keys().collect::<Vec<_>>(),
            });
            annotations.insert(ANNOTATION_MANAGED_KEYS.into(), keys.to_string());
        }
        if spec.get(TEMPLATE).is_some() {
            annotations.insert(LABEL_SOURCE.into(), source.to_string());
        } else {
            labels.insert(LABEL_MANAGED_BY.into(), MANAGER.into());
            labels.insert(LABEL_SOURCE.into(), source.to_string());
        }
        annotations.insert(ANNOTATION_PATH.into(), path.to_string());
        if !prune {
            annotations.insert(ANNOTATION_PRUNE.into(), "false".into());
        }
        Self::from_parts(spec, &WorkMetadata { labels, annotations })
    }

    /// A body with exactly these labels and annotations, gitwork's own included.
    pub fn from_parts(spec: Value, metadata: &WorkMetadata) -> Self {
        let text = SpecText::new(&spec);
        let digest = digest_with_text(spec, &text, &metadata.labels, &metadata.annotations);
        let metadata = CompressedJson::plain(&serde_json::to_string(metadata).unwrap_or_default());
        Self { spec: text, metadata, created_during_hold: false, group_content: None, digest }
    }

    /// The body of a work with the same content from another folder.
    pub fn in_folder(&self, path: &RepoPath) -> Self {
        let mut metadata = self.metadata();
        metadata.annotations.insert(ANNOTATION_PATH.into(), path.to_string());
        let digest = digest(self.spec.value(), &metadata.labels, &metadata.annotations);
        let metadata = CompressedJson::new(&metadata);
        let (spec, group_content) = (self.spec.clone(), self.group_content.clone());
        Self { spec, metadata, group_content, digest, ..*self }
    }

    /// The labels and annotations to set.
    pub fn metadata(&self) -> WorkMetadata {
        // It was serialized from this type.
        let mut metadata: WorkMetadata = self.metadata.read().unwrap_or_default();
        if self.created_during_hold {
            metadata.annotations.insert(ANNOTATION_CREATED_DURING_HOLD.into(), "true".into());
        }
        if let Some(content) = &self.group_content {
            metadata.annotations.insert(ANNOTATION_GROUP_CONTENT.into(), content.to_string());
        }
        metadata
    }

    /// Bytes of the labels and annotations.
    pub fn metadata_bytes(&self) -> usize {
        self.metadata.text_bytes()
    }

    /// The same body, compressed: for what is kept.
    pub fn compressed(self) -> Self {
        let (spec, metadata) = (self.spec.compressed(), self.metadata.compressed());
        Self { spec, metadata, ..self }
    }

    /// The digest of a work that has this spec, and no label or annotation of gitwork's.
    pub fn spec_digest(&self) -> Digest {
        digest(self.spec.value(), &BTreeMap::new(), &BTreeMap::new())
    }

    /// The whole ManifestWork or ManifestWorkReplicaSet, as it is created.
    pub fn to_manifest_work(&self, key: &WorkKey, commit: Option<CommitId>) -> Value {
        let mut work = serde_json::to_value(self.without_spec(key, commit)).unwrap_or_default();
        work["spec"] = self.spec.value();
        work
    }

    /// As [`Self::to_manifest_work`], without `spec`.
    pub(crate) fn without_spec<'a>(
        &self,
        key: &'a WorkKey,
        commit: Option<CommitId>,
    ) -> WorkWithoutSpec<'a> {
        let WorkMetadata { labels, mut annotations } = self.metadata();
        annotations.insert(ANNOTATION_HASH.into(), self.digest.to_string());
        if let Some(commit) = commit {
            annotations.insert(ANNOTATION_COMMIT.into(), commit.to_string());
        }
        let (api_version, kind) = match key.is_replica_set() {
            true => ("work.open-cluster-management.io/v1alpha1", "ManifestWorkReplicaSet"),
            false => ("work.open-cluster-management.io/v1", "ManifestWork"),
        };
        let (name, namespace) = (key.work.as_str(), key.cluster.namespace());
        let metadata = ObjectMeta { annotations, labels, name, namespace };
        WorkWithoutSpec { api_version, kind, metadata }
    }
}

/// A ManifestWork or ManifestWorkReplicaSet as it is created, without its spec. The fields are
/// sorted by name, as in canonical JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkWithoutSpec<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: ObjectMeta<'a>,
}

#[derive(Serialize)]
struct ObjectMeta<'a> {
    annotations: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    name: &'a str,
    namespace: &'a str,
}

/// One work as Git wants it.
#[derive(Debug, Clone)]
pub struct DesiredWork {
    /// The cluster, and the name on the hub.
    pub key: WorkKey,
    /// The work folder.
    pub path: RepoPath,
    /// What is written: spec, labels and annotations.
    pub body: Arc<WorkBody>,
    /// What happens to the objects on the cluster once the work is deleted.
    pub delete_option: DeletionPolicy,
    /// `false`: once Git drops the work it is released, not deleted.
    pub prune: bool,
    /// `true`: nothing is written for this work while it is set.
    pub suspend: bool,
    /// The objects of the work, sorted by digest.
    pub objects: Arc<[NamedObject]>,
    /// The works that it depends on.
    pub depends_on: Arc<[WorkKey]>,
    /// The content of its group, if its group has `rollout`.
    pub group_content: Option<Box<Digest>>,
    /// This content is not that of the commit: the cluster keeps or gets it until its wave begins.
    pub is_earlier: bool,
}

/// One object of a work in Git, as far as it takes to find it in other works.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedObject {
    /// What identifies the object.
    pub digest: ObjectDigest,
    /// The plural of its kind, as in `deployments`.
    pub resource: Arc<str>,
}

impl DesiredWork {
    /// The object with this identity, if the work has it.
    pub fn object(&self, digest: ObjectDigest) -> Option<&NamedObject> {
        let at = self.objects.binary_search_by_key(&digest, |object| object.digest).ok()?;
        self.objects.get(at)
    }
}

impl NamedObject {
    /// The objects of manifests, each with the plural of its kind; sorted by digest.
    pub fn all<'a>(manifests: impl Iterator<Item = (&'a Value, &'a str)>) -> Arc<[Self]> {
        let read = |(manifest, resource): (&Value, &str)| {
            let digest = ObjectDigest::of_manifest(manifest)?;
            Some(Self { digest, resource: resource.into() })
        };
        let mut all: Vec<Self> = manifests.filter_map(read).collect();
        all.sort();
        all.into()
    }
}
