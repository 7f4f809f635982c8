//! Compares two desired states, work by work and object by object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::difference::{
    ClusterReview, ObjectChange, ObjectDiff, ObjectName, RemovalOutcome, RemovedObject, Review,
    ReviewCounts, Size, WorkChange, WorkDiff, WorkReview,
};
use crate::model::diagnostic::Diagnostic;
use crate::model::manifest::Identity;
use crate::model::name::{ClusterName, RepoPath, WorkKey, WorkName};
use crate::model::work::{ANNOTATION_MANAGED_KEYS, DeletionPolicy, DesiredWork};
use crate::render::desired::Desired;
use crate::render::work_folder::wire_size;
use crate::text::diagnostics;
use crate::text::diff;

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
                base_unreadable: base.frozen.may_contain(key, Some(after.path.as_str())),
            };
        }
        (Some(before), None) if !head.frozen.may_contain(key, Some(before.path.as_str())) => {
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
    fn outcome(&self, object: &ObjectName, delete_option: &DeletionPolicy) -> RemovalOutcome {
        let orphaned = match delete_option {
            DeletionPolicy::Foreground => false,
            DeletionPolicy::Orphan => true,
            DeletionPolicy::SelectivelyOrphan(rules) => {
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
