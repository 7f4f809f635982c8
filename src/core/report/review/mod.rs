//! Compares two desired states. Needs neither a hub nor credentials.
//!
//! Works with equal digests are skipped, so the cost grows with the size of the change only.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::config::ocm_rules;
use crate::limits;
use crate::model::diagnostic::Diagnostic;
use crate::model::kinds::{Found, KindIndex};
use crate::model::manifest::Identity;
use crate::model::name::{ClusterName, CommitId, RepoPath, WorkKey, WorkName};
use crate::model::work::{ANNOTATION_MANAGED_KEYS, DeleteOption, DesiredWork};
use crate::render::desired::Desired;
use crate::render::work_folder::wire_size;
use crate::text::diagnostics;
use crate::text::diff;
use crate::text::diff::FieldDiff;

mod guards;
mod print;

pub use guards::{Signatures, WouldHold, would_hold};
pub use print::{markdown, text};

/// The whole comparison. Its JSON has these fields in camel case; enums are objects whose `change`
/// or `fate` names the variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// `None` for a local directory with uncommitted changes.
    pub base: Option<CommitId>,
    pub head: Option<CommitId>,
    pub counts: ReviewCounts,
    /// The head cannot be read at all: every work stays unchanged.
    pub source_frozen: bool,
    /// This version cannot read a part of the head: no work is deleted.
    pub deletes_frozen: bool,
    /// The clusters with works that are not unchanged.
    pub clusters: Vec<ClusterReview>,
    /// Counts of the head's diagnostics.
    pub diagnostics: diagnostics::DiagnosticSummary,
    /// Diagnostics of the head that the base does not have. A different line does not make one new.
    #[serde(serialize_with = "diagnostics::entries")]
    pub new_diagnostics: Vec<Diagnostic>,
    /// The result of the signature check, if the source requires signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signatures: Option<Signatures>,
    /// Changes that the daemon's guards would hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<WouldHold>,
}

/// Counts. Each work counts once; objects count over all works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewCounts {
    pub works_added: usize,
    /// Works with changed objects, rules, labels or annotations, and works that are only suspended
    /// or resumed.
    pub works_changed: usize,
    /// Works of `works_changed` with changed labels or annotations only: the clusters do not
    /// change.
    pub works_metadata_only: usize,
    pub works_deleted: usize,
    /// Works removed from Git with `prune: false`.
    pub works_released: usize,
    pub works_frozen: usize,
    /// Added and changed works that are not written while they are suspended.
    pub works_suspended: usize,
    pub works_unchanged: usize,
    pub objects_added: usize,
    pub objects_changed: usize,
    pub objects_removed: usize,
    /// Clusters with an added, changed, deleted or released work.
    pub clusters_changed: usize,
    pub clusters: usize,
}

/// The changed works of one cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterReview {
    pub cluster: ClusterName,
    pub works: Vec<WorkReview>,
}

/// The change of one work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkReview {
    #[serde(flatten)]
    pub key: WorkKey,
    /// The work folder: the head's, or the base's if the head has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<RepoPath>,
    /// Whether the work is suspended, so nothing is written.
    pub suspended: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    #[serde(flatten)]
    pub change: WorkChange,
}

/// The size of a work's manifests in bytes, as the hub's webhook counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_before: Option<usize>,
    pub bytes: usize,
    /// Percent of `limits::WORK_BYTES_MAX`, rounded up.
    pub percent: usize,
}

/// The kind of change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "change", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum WorkChange {
    Added {
        objects: Vec<ObjectName>,
        /// The base has the work too, but cannot be read there.
        base_unreadable: bool,
    },
    Changed(Box<WorkDiff>),
    Deleted {
        delete_option: DeleteOption,
        objects: Vec<RemovedObject>,
        /// The folder now makes a work of this name.
        #[serde(skip_serializing_if = "Option::is_none")]
        renamed_to: Option<WorkName>,
    },
    /// Removed from Git with `prune: false`: stays on the hub and the cluster, unmanaged.
    Released,
    /// Unreadable in the head: stays unchanged on the hub.
    Frozen,
}

/// The differences of a work that both sides have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkDiff {
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
}

impl WorkDiff {
    /// Whether only metadata of the ManifestWork changes.
    pub fn is_metadata_only(&self) -> bool {
        self.objects.is_empty()
            && !self.reordered
            && self.spec.is_empty()
            && self.suspend.is_none()
            && !self.metadata.is_empty()
    }
}

/// The name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectName {
    pub group: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// A changed object of a work that both sides have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct ObjectChange {
    #[serde(flatten)]
    pub object: ObjectName,
    #[serde(flatten)]
    pub change: ObjectDiff,
}

/// The kind of an object's change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "change", rename_all = "camelCase")]
pub enum ObjectDiff {
    Added,
    Removed(RemovalOutcome),
    Changed { fields: FieldDiff },
}

/// An object that its work no longer has.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct RemovedObject {
    #[serde(flatten)]
    pub object: ObjectName,
    #[serde(flatten)]
    pub outcome: RemovalOutcome,
}

/// The outcome for an object on the cluster after its work drops it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum RemovalOutcome {
    Deleted,
    /// Orphaned, or never owned by the work (`updateStrategy` ReadOnly).
    Stays,
    /// Another work of the cluster has it now.
    MovedTo {
        work: WorkName,
    },
}

impl std::fmt::Display for ObjectName {
    /// Writes the name, as in `Deployment shop/web`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl ObjectName {
    fn of(object: &Value) -> Self {
        let text = |pointer| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let api_version = text("/apiVersion");
        Self {
            group: api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned(),
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
        }
    }

    /// Whether a rule matches this object. The plural of a custom kind is unknown here and not
    /// compared.
    fn is_meant_by(&self, rule: &Identity) -> bool {
        let plural_fits = match KindIndex::default().lookup(&self.group, &self.kind) {
            Found::BuiltIn { resource, .. } => resource == rule.resource,
            Found::Crd { .. } | Found::Guessed { .. } => true,
        };
        plural_fits
            && self.group == rule.group
            && ocm_rules::wildcard(&rule.namespace, &self.namespace)
            && ocm_rules::wildcard(&rule.name, &self.name)
    }
}

impl Review {
    /// Compares two states of one source.
    pub fn new(base: &Desired, head: &Desired) -> Self {
        let mut review = Self {
            base: base.commit,
            head: head.commit,
            counts: ReviewCounts::default(),
            source_frozen: head.frozen.source,
            deletes_frozen: head.frozen.deletes,
            clusters: Vec::new(),
            diagnostics: diagnostics::DiagnosticSummary::of(&head.diagnostics),
            new_diagnostics: new_diagnostics(base, head),
            signatures: None,
            holds: Vec::new(),
        };
        if head.frozen.source {
            review.counts.works_frozen = base.works.len();
            return review;
        }
        let keys: BTreeSet<&WorkKey> =
            base.works.keys().chain(head.works.keys()).chain(&head.frozen.works).collect();
        let clusters: BTreeSet<&ClusterName> = keys.iter().map(|key| &key.cluster).collect();
        review.counts.clusters = clusters.len();
        let mut by_cluster: BTreeMap<&ClusterName, Vec<WorkReview>> = BTreeMap::new();
        for key in keys {
            match compare(key, base, head) {
                Some(work) => by_cluster.entry(&key.cluster).or_default().push(work),
                None => review.counts.works_unchanged += 1,
            }
        }
        for (cluster, mut works) in by_cluster {
            note_moves(&mut works);
            note_renames(&mut works, head);
            works.iter().for_each(|work| review.counts.add(work));
            review.counts.clusters_changed +=
                usize::from(works.iter().any(|work| work.change != WorkChange::Frozen));
            review.clusters.push(ClusterReview { cluster: cluster.clone(), works });
        }
        review
    }

    /// The works that are not unchanged.
    pub fn works(&self) -> impl Iterator<Item = &WorkReview> {
        self.clusters.iter().flat_map(|cluster| &cluster.works)
    }

    /// Whether nothing would be written to the hub.
    pub fn is_empty(&self) -> bool {
        self.works().all(|work| work.change == WorkChange::Frozen)
    }

    /// Whether some change would wait for an approval, a signature or a window.
    pub fn is_held(&self) -> bool {
        !self.holds.is_empty() || matches!(self.signatures, Some(Signatures::Refused { .. }))
    }

    /// The review as one JSON object, with the fields of `Review`.
    pub fn json(&self) -> String {
        // Serialization of these types cannot fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

impl ReviewCounts {
    fn add(&mut self, work: &WorkReview) {
        let writes = matches!(work.change, WorkChange::Added { .. } | WorkChange::Changed(_));
        self.works_suspended += usize::from(writes && work.suspended);
        match &work.change {
            WorkChange::Added { objects, .. } => {
                self.works_added += 1;
                self.objects_added += objects.len();
            }
            WorkChange::Changed(diff) => {
                self.works_changed += 1;
                self.works_metadata_only += usize::from(diff.is_metadata_only());
                for object in &diff.objects {
                    match object.change {
                        ObjectDiff::Added => self.objects_added += 1,
                        ObjectDiff::Removed(_) => self.objects_removed += 1,
                        ObjectDiff::Changed { .. } => self.objects_changed += 1,
                    }
                }
            }
            WorkChange::Deleted { objects, .. } => {
                self.works_deleted += 1;
                self.objects_removed += objects.len();
            }
            WorkChange::Released => self.works_released += 1,
            WorkChange::Frozen => self.works_frozen += 1,
        }
    }
}

/// Compares diagnostics by file, code and message. Lines move with every edit above them.
fn new_diagnostics(base: &Desired, head: &Desired) -> Vec<Diagnostic> {
    let known: BTreeSet<_> =
        base.diagnostics.iter().map(|d| (&d.location.file, d.code, &d.message)).collect();
    head.diagnostics
        .iter()
        .filter(|d| !known.contains(&(&d.location.file, d.code, &d.message)))
        .cloned()
        .collect()
}

/// The change of one work; `None` if there is none.
fn compare(key: &WorkKey, base: &Desired, head: &Desired) -> Option<WorkReview> {
    let (before, after) = (base.works.get(key), head.works.get(key));
    let mut review = WorkReview {
        key: key.clone(),
        path: after.or(before).map(|work| work.path.clone()),
        suspended: after.or(before).is_some_and(|work| work.suspend),
        size: None,
        change: WorkChange::Frozen,
    };
    match (before, after) {
        (Some(before), Some(after)) => {
            if before.body.digest == after.body.digest && before.suspend == after.suspend {
                return None;
            }
            let (old, new) = (Content::of(before), Content::of(after));
            review.size = Some(Size::new(Some(old.bytes), new.bytes));
            review.change = WorkChange::Changed(Box::new(changed(before, &old, after, &new)));
        }
        (None, Some(after)) => {
            let content = Content::of(after);
            review.size = Some(Size::new(None, content.bytes));
            review.change = WorkChange::Added {
                objects: content.manifests.into_keys().collect(),
                base_unreadable: base.frozen.holds(key, Some(after.path.as_str())),
            };
        }
        (Some(before), None) if !head.frozen.holds(key, Some(before.path.as_str())) => {
            review.change = if before.prune { deleted(before) } else { WorkChange::Released };
        }
        (Some(_) | None, None) => {}
    }
    Some(review)
}

/// The parts of a work's spec.
struct Content {
    manifests: BTreeMap<ObjectName, Value>,
    order: Vec<ObjectName>,
    /// The spec without its manifests.
    rest: Value,
    bytes: usize,
}

impl Content {
    fn of(work: &DesiredWork) -> Self {
        let mut rest = work.body.spec.value();
        let manifests = match rest.pointer_mut("/workload/manifests").map(Value::take) {
            Some(Value::Array(manifests)) => manifests,
            _ => Vec::new(),
        };
        if let Some(fields) = rest.as_object_mut() {
            fields.remove("workload");
        }
        let bytes = manifests.iter().map(|object| wire_size(object.to_string().len())).sum();
        let order: Vec<ObjectName> = manifests.iter().map(ObjectName::of).collect();
        let manifests = order.iter().cloned().zip(manifests).collect();
        Self { manifests, order, rest, bytes }
    }

    /// The agent's action on an object that the work no longer lists. The options apply that were
    /// in effect while the object was still listed (OCM work agent: `deleteOption` acts when it is
    /// applied).
    fn outcome(&self, object: &ObjectName, delete_option: &DeleteOption) -> RemovalOutcome {
        let orphaned = match delete_option {
            DeleteOption::Foreground => false,
            DeleteOption::Orphan => true,
            DeleteOption::SelectivelyOrphan(rules) => {
                rules.iter().any(|rule| object.is_meant_by(rule))
            }
        };
        if orphaned || self.is_read_only(object) {
            RemovalOutcome::Stays
        } else {
            RemovalOutcome::Deleted
        }
    }

    fn is_read_only(&self, object: &ObjectName) -> bool {
        let configs = self.rest.get("manifestConfigs").and_then(Value::as_array);
        configs.into_iter().flatten().any(|config| {
            let text = |pointer: &str| {
                config.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            text("/updateStrategy/type") == "ReadOnly"
                && object.is_meant_by(&Identity {
                    group: text("/resourceIdentifier/group"),
                    resource: text("/resourceIdentifier/resource"),
                    namespace: text("/resourceIdentifier/namespace"),
                    name: text("/resourceIdentifier/name"),
                })
        })
    }
}

impl Size {
    fn new(bytes_before: Option<usize>, bytes: usize) -> Self {
        let percent = bytes.saturating_mul(100).div_ceil(limits::WORK_BYTES_MAX);
        Self { bytes_before, bytes, percent }
    }
}

fn changed(before: &DesiredWork, old: &Content, after: &DesiredWork, new: &Content) -> WorkDiff {
    let names: BTreeSet<&ObjectName> = old.manifests.keys().chain(new.manifests.keys()).collect();
    let objects = names.into_iter().filter_map(|name| {
        let change = match (old.manifests.get(name), new.manifests.get(name)) {
            (Some(was), Some(is)) if was == is => return None,
            (Some(was), Some(is)) => ObjectDiff::Changed { fields: diff::diff(was, is) },
            (Some(_), None) => ObjectDiff::Removed(old.outcome(name, &before.delete_option)),
            (None, _) => ObjectDiff::Added,
        };
        Some(ObjectChange { object: name.clone(), change })
    });
    let kept_old = old.order.iter().filter(|name| new.manifests.contains_key(name));
    let kept_new = new.order.iter().filter(|name| old.manifests.contains_key(name));
    let metadata = |work: &DesiredWork| {
        let mut metadata = work.body.metadata();
        // This annotation lists only the keys of the others.
        metadata.annotations.remove(ANNOTATION_MANAGED_KEYS);
        serde_json::json!(metadata)
    };
    WorkDiff {
        objects: objects.collect(),
        reordered: !kept_old.eq(kept_new),
        spec: diff::diff(&old.rest, &new.rest),
        metadata: diff::diff(&metadata(before), &metadata(after)),
        suspend: (before.suspend != after.suspend).then_some(after.suspend),
    }
}

fn deleted(before: &DesiredWork) -> WorkChange {
    let content = Content::of(before);
    let objects = content.manifests.keys().map(|object| RemovedObject {
        object: object.clone(),
        outcome: content.outcome(object, &before.delete_option),
    });
    WorkChange::Deleted {
        delete_option: before.delete_option.clone(),
        objects: objects.collect(),
        renamed_to: None,
    }
}

/// Marks objects that move from one work of a cluster to another. The other work is added or
/// changed: an object may be in one work only.
fn note_moves(works: &mut [WorkReview]) {
    let mut taken: BTreeMap<ObjectName, WorkName> = BTreeMap::new();
    for work in works.iter() {
        let objects: Vec<&ObjectName> = match &work.change {
            WorkChange::Added { objects, .. } => objects.iter().collect(),
            WorkChange::Changed(diff) => {
                let added = diff.objects.iter().filter(|o| o.change == ObjectDiff::Added);
                added.map(|change| &change.object).collect()
            }
            WorkChange::Deleted { .. } | WorkChange::Released | WorkChange::Frozen => Vec::new(),
        };
        taken.extend(objects.into_iter().map(|object| (object.clone(), work.key.work.clone())));
    }
    let moved = |object: &ObjectName, outcome: &mut RemovalOutcome| {
        if let Some(work) = taken.get(object) {
            *outcome = RemovalOutcome::MovedTo { work: work.clone() };
        }
    };
    for work in works {
        match &mut work.change {
            WorkChange::Deleted { objects, .. } => {
                objects.iter_mut().for_each(|object| moved(&object.object, &mut object.outcome));
            }
            WorkChange::Changed(diff) => {
                for ObjectChange { object, change } in &mut diff.objects {
                    if let ObjectDiff::Removed(outcome) = change {
                        moved(object, outcome);
                    }
                }
            }
            WorkChange::Added { .. } | WorkChange::Released | WorkChange::Frozen => {}
        }
    }
}

/// Marks deleted works whose folder now makes a work of another name.
fn note_renames(works: &mut [WorkReview], head: &Desired) {
    let added: BTreeMap<RepoPath, WorkName> = works
        .iter()
        .filter(|work| matches!(work.change, WorkChange::Added { .. }))
        .filter_map(|work| {
            let now = head.works.get(&work.key)?;
            Some((now.path.clone(), work.key.work.clone()))
        })
        .collect();
    for work in works {
        if let (WorkChange::Deleted { renamed_to, .. }, Some(path)) = (&mut work.change, &work.path)
        {
            *renamed_to = added.get(path).cloned();
        }
    }
}
