//! The result of a comparison of two desired states, and its JSON.

use schemars::JsonSchema;
use serde::Serialize;

use super::guards::{Signatures, WouldHold};
use super::moves::{MoveForecast, MovedFrom};
use super::object_name::ObjectName;
use gitwork_core::limits;
use gitwork_core::model::diagnostic::Diagnostic;
use gitwork_core::model::name::{ClusterName, CommitId, RepoPath, WorkKey, WorkName};
use gitwork_core::model::work::DeletionPolicy;
use gitwork_core::plan::MemberChange;
use gitwork_core::plan::cascading_deletion::CascadingDeletion;
use gitwork_core::plan::immutable::ImmutableChange;
use gitwork_core::text::diagnostics;
use gitwork_core::text::diff::FieldDiff;
use gitwork_core::text::escape::json_text;

/// The whole comparison. Its JSON has these fields in camel case; enums are objects whose `change`
/// or `fate` names the variant.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// `None` for a local directory with uncommitted changes.
    pub base: Option<CommitId>,
    /// As `base`, for the new state.
    pub head: Option<CommitId>,
    /// How much changes.
    pub counts: ReviewCounts,
    /// The head cannot be read at all: every work stays unchanged.
    pub source_frozen: bool,
    /// This version cannot read a part of the head: no work is deleted.
    pub deletes_frozen: bool,
    /// The clusters with works that are not unchanged.
    pub clusters: Vec<ClusterReview>,
    /// Namespaces and CustomResourceDefinitions that are deleted, and with which clusters delete
    /// objects that are to stay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cascading_deletions: Vec<CascadingDeletion>,
    /// The clusters that join or leave groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub member_changes: Vec<MemberChange>,
    /// Counts of the head's diagnostics.
    pub diagnostics: diagnostics::DiagnosticSummary,
    /// Diagnostics of the head that the base does not have. A different line does not make one new.
    #[serde(serialize_with = "diagnostics::entries")]
    #[schemars(schema_with = "diagnostics::entries_schema")]
    pub new_diagnostics: Vec<Diagnostic>,
    /// The result of the signature check, if the source requires signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signatures: Option<Signatures>,
    /// Changes that the daemon's guards would hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<WouldHold>,
}

/// Counts. Each work counts once; objects count over all works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewCounts {
    /// Works that only the head has, or that the base has in an unreadable part.
    pub works_added: usize,
    /// Works with changed objects, rules, labels or annotations, and works that are only suspended
    /// or resumed.
    pub works_changed: usize,
    /// Works of `works_changed` with changed labels or annotations only: the clusters do not
    /// change.
    pub works_metadata_only: usize,
    /// Works that only the base has, except moved and released ones.
    pub works_deleted: usize,
    /// Works that only the base has, and whose objects all move to other works of the cluster.
    pub works_moved: usize,
    /// Works removed from Git with `prune: false`.
    pub works_released: usize,
    /// Works that the head has in an unreadable part.
    pub works_frozen: usize,
    /// Added and changed works that are not written while they are suspended.
    pub works_suspended: usize,
    /// Works with the same content on both sides.
    pub works_unchanged: usize,
    /// Objects of added works, and added objects of changed works, except moved ones.
    pub objects_added: usize,
    /// Objects with different content in changed works.
    pub objects_changed: usize,
    /// Objects of deleted works, and removed objects of changed works, except moved ones.
    pub objects_removed: usize,
    /// Objects that move from one work of a cluster to another.
    pub objects_moved: usize,
    /// Clusters with an added, changed, deleted, moved or released work.
    pub clusters_changed: usize,
    /// Clusters with a work on either side.
    pub clusters: usize,
}

/// The changed works of one cluster.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ClusterReview {
    /// The managed cluster.
    pub cluster: ClusterName,
    /// Its works that are not unchanged, by name.
    pub works: Vec<WorkReview>,
}

/// The change of one work.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorkReview {
    /// The work, as the fields `cluster` and `work`.
    #[serde(flatten)]
    pub key: WorkKey,
    /// The work folder: the head's, or the base's if the head has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<RepoPath>,
    /// Whether the work is suspended, so nothing is written.
    pub suspended: bool,
    /// The size after the change; absent if the head has no readable work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// What happens to it.
    #[serde(flatten)]
    pub change: WorkChange,
}

/// The size of a work's manifests in bytes, as the hub's webhook counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    /// The size in the base; absent if the base has no readable work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_before: Option<usize>,
    /// The size in the head.
    pub bytes: usize,
    /// Percent of `limits::WORK_BYTES_MAX`, rounded up.
    pub percent: usize,
}

/// The kind of change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(tag = "change", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum WorkChange {
    /// Only the head has it: it is created on the hub.
    Added {
        /// Its objects, sorted by name.
        objects: Vec<AddedObject>,
        /// The base has the work too, but cannot be read there.
        base_unreadable: bool,
    },
    /// Both sides have it, with different content.
    Changed(Box<WorkDiff>),
    /// Only the base has it: it is deleted from the hub.
    Deleted {
        /// The final deletion policy in Git.
        delete_option: DeletionPolicy,
        /// Its objects, each with the outcome on the cluster.
        objects: Vec<RemovedObject>,
        /// The new work that gets all of its objects, or that its folder now makes.
        #[serde(skip_serializing_if = "Option::is_none")]
        renamed_to: Option<WorkName>,
        /// Other clusters on which a new work of the same name has all deleted objects; at most
        /// [`RECREATED_ON_MAX`].
        #[serde(skip_serializing_if = "Vec::is_empty")]
        recreated_on: Vec<ClusterName>,
    },
    /// Removed from Git with `prune: false`: stays on the hub and the cluster, unmanaged.
    Released {
        /// The objects that move to other works first.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        objects: Vec<RemovedObject>,
    },
    /// Unreadable in the head: stays unchanged on the hub.
    Frozen,
}

/// The differences of a work that both sides have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkDiff {
    /// Objects that are added, removed or changed.
    pub objects: Vec<ObjectChange>,
    /// The same objects in another order.
    pub reordered: bool,
    /// The spec without its manifests.
    pub spec: FieldDiff,
    /// Labels and annotations of the ManifestWork.
    pub metadata: FieldDiff,
    /// `true` if this change suspends the work, `false` if it resumes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// The works that it depends on, if these change: names of works of its cluster, or
    /// `<cluster>/<work>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<Vec<String>>,
}

impl WorkDiff {
    /// Whether only metadata of the ManifestWork changes.
    pub(crate) fn is_metadata_only(&self) -> bool {
        self.objects.is_empty()
            && !self.reordered
            && self.spec.is_empty()
            && self.suspend.is_none()
            && self.depends_on.is_none()
            && !self.metadata.is_empty()
    }
}

/// Clusters listed in `recreatedOn` of one work.
pub(super) const RECREATED_ON_MAX: usize = 10;

/// An object of an added work.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddedObject {
    /// The object, as the fields `group`, `kind`, `namespace` and `name`.
    #[serde(flatten)]
    pub object: ObjectName,
    /// The work of the cluster that had it in the base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<MovedFrom>,
}

/// A changed object of a work that both sides have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct ObjectChange {
    /// The object, as the fields `group`, `kind`, `namespace` and `name`.
    #[serde(flatten)]
    pub object: ObjectName,
    /// What happens to it.
    #[serde(flatten)]
    pub change: ObjectDiff,
}

/// The kind of an object's change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(tag = "change", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ObjectDiff {
    /// Only the head has it.
    Added {
        /// The work of the cluster that had it in the base.
        #[serde(skip_serializing_if = "Option::is_none")]
        moved_from: Option<Box<MovedFrom>>,
    },
    /// Only the base has it. Holds the outcome on the cluster.
    Removed(RemovalOutcome),
    /// Both sides have it, with different content.
    Changed {
        /// The fields that differ; values of Secrets are hidden.
        fields: FieldDiff,
        /// One of them that Kubernetes never lets change.
        #[serde(skip_serializing_if = "Option::is_none")]
        immutable: Option<ImmutableChange>,
    },
}

/// An object that its work no longer has.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct RemovedObject {
    /// The object, as the fields `group`, `kind`, `namespace` and `name`.
    #[serde(flatten)]
    pub object: ObjectName,
    /// What becomes of it on the cluster.
    #[serde(flatten)]
    pub outcome: RemovalOutcome,
}

/// The outcome for an object on the cluster after its work drops it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum RemovalOutcome {
    /// The agent deletes it.
    Deleted,
    /// Orphaned, or never owned by the work (`updateStrategy` ReadOnly).
    Stays,
    /// Another work of the cluster has it now.
    MovedTo {
        /// The work that has it now.
        work: WorkName,
        /// How it gets there.
        #[serde(flatten)]
        forecast: MoveForecast,
    },
    /// Its work keeps it, until a work that cannot be read in the head shows whether it has it.
    MayHaveMoved {
        /// The work that may have it.
        work: WorkName,
    },
}

impl Review {
    /// The works that are not unchanged.
    pub fn works(&self) -> impl Iterator<Item = &WorkReview> {
        self.clusters.iter().flat_map(|cluster| &cluster.works)
    }

    /// Whether nothing would be written to the hub.
    pub fn is_empty(&self) -> bool {
        self.works().all(|work| work.change == WorkChange::Frozen)
    }

    /// Whether some change would wait for an approval, a signature, a window or another commit.
    pub fn is_held(&self) -> bool {
        !self.holds.is_empty()
            || matches!(self.signatures, Some(Signatures::Refused { .. }))
            || self.works().flat_map(|work| work.change.removals()).any(|outcome| {
                let RemovalOutcome::MovedTo { forecast, .. } = outcome else { return false };
                matches!(forecast, MoveForecast::ImmutableField { .. })
            })
    }

    /// The review as one JSON object, with the fields of `Review`.
    pub fn json(&self) -> String {
        json_text(self)
    }
}

impl WorkChange {
    /// What becomes of the objects that the work no longer has.
    pub(super) fn removals(&self) -> Vec<&RemovalOutcome> {
        match self {
            Self::Changed(diff) => {
                let changes = diff.objects.iter().map(|one| &one.change);
                let removed = changes.filter_map(|change| match change {
                    ObjectDiff::Removed(outcome) => Some(outcome),
                    _ => None,
                });
                removed.collect()
            }
            Self::Deleted { objects, .. } | Self::Released { objects } => {
                objects.iter().map(|one| &one.outcome).collect()
            }
            Self::Added { .. } | Self::Frozen => Vec::new(),
        }
    }

    /// The changed objects with a field that cannot change.
    pub(super) fn immutable_changes(
        &self,
    ) -> impl Iterator<Item = (&ObjectName, &ImmutableChange)> {
        let objects = match self {
            Self::Changed(diff) => &diff.objects[..],
            _ => &[],
        };
        objects.iter().filter_map(|one| match &one.change {
            ObjectDiff::Changed { immutable, .. } => Some((&one.object, immutable.as_ref()?)),
            ObjectDiff::Added { .. } | ObjectDiff::Removed(_) => None,
        })
    }

    /// Whether the work is deleted, and every object of it moves to another work.
    pub(super) fn is_moved_away(&self) -> bool {
        let Self::Deleted { objects, .. } = self else { return false };
        let is_moved = |one: &RemovedObject| matches!(one.outcome, RemovalOutcome::MovedTo { .. });
        !objects.is_empty() && objects.iter().all(is_moved)
    }
}

impl ReviewCounts {
    /// Counts the change of one work.
    pub(super) fn add(&mut self, work: &WorkReview) {
        let writes = matches!(work.change, WorkChange::Added { .. } | WorkChange::Changed(_));
        self.works_suspended += usize::from(writes && work.suspended);
        for outcome in work.change.removals() {
            match outcome {
                RemovalOutcome::Deleted | RemovalOutcome::Stays => self.objects_removed += 1,
                RemovalOutcome::MovedTo { .. } => self.objects_moved += 1,
                RemovalOutcome::MayHaveMoved { .. } => {}
            }
        }
        match &work.change {
            WorkChange::Added { objects, .. } => {
                self.works_added += 1;
                self.objects_added += objects.iter().filter(|one| one.moved_from.is_none()).count();
            }
            WorkChange::Changed(diff) => {
                self.works_changed += 1;
                self.works_metadata_only += usize::from(diff.is_metadata_only());
                for object in &diff.objects {
                    match object.change {
                        ObjectDiff::Added { moved_from: None } => self.objects_added += 1,
                        ObjectDiff::Changed { .. } => self.objects_changed += 1,
                        ObjectDiff::Added { .. } | ObjectDiff::Removed(_) => {}
                    }
                }
            }
            WorkChange::Deleted { .. } if work.change.is_moved_away() => self.works_moved += 1,
            WorkChange::Deleted { .. } => self.works_deleted += 1,
            WorkChange::Released { .. } => self.works_released += 1,
            WorkChange::Frozen => self.works_frozen += 1,
        }
    }
}

impl Size {
    pub(super) fn new(bytes_before: Option<usize>, bytes: usize) -> Self {
        let percent = bytes.saturating_mul(100).div_ceil(limits::WORK_BYTES_MAX);
        Self { bytes_before, bytes, percent }
    }
}
