//! Compares two desired states, work by work and object by object.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::cascading::cascading_deletions;
use super::difference::{
    AddedObject, ClusterReview, ObjectChange, ObjectDiff, RECREATED_ON_MAX, RemovalOutcome,
    RemovedObject, Review, ReviewCounts, Size, WorkChange, WorkDiff, WorkReview,
};
use super::moves::Moves;
use super::object_name::ObjectName;
use gitwork_core::model::defaults::TEMPLATE;
use gitwork_core::model::diagnostic::Diagnostic;
use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::{ClusterName, RepoPath, WorkKey, WorkName};
use gitwork_core::model::work::{ANNOTATION_MANAGED_KEYS, DeletionPolicy, DesiredWork};
use gitwork_core::plan::MemberChange;
use gitwork_core::plan::immutable::ImmutableChange;
use gitwork_core::plan::work_spec::WorkSpec;
use gitwork_core::render::desired::Desired;
use gitwork_core::render::renderer::RenderedChange;
use gitwork_core::render::wire_size;
use gitwork_core::text::diagnostics;
use gitwork_core::text::diff;

impl Review {
    /// Compares two states of one source.
    pub fn new(base: &Desired, head: &Desired) -> Self {
        Self::of(base, head, |_| true)
    }

    /// Compares the states of a change. `is_shown` selects works, of a change with all clusters.
    pub fn of_change(change: &RenderedChange, is_shown: impl Fn(&WorkKey) -> bool) -> Self {
        let mut review = Self::of(&change.base, &change.head, is_shown);
        review.counts.works_unchanged += change.unread.works;
        review.counts.clusters += change.unread.clusters;
        review
    }

    /// Compares the works of two states that `is_shown` selects. Their objects may move from and to
    /// works that it leaves out.
    pub fn of(base: &Desired, head: &Desired, is_shown: impl Fn(&WorkKey) -> bool) -> Self {
        let mut review = Self {
            base: base.commit,
            head: head.commit,
            counts: ReviewCounts::default(),
            source_frozen: head.frozen.source,
            deletes_frozen: head.frozen.deletes,
            clusters: Vec::new(),
            cascading_deletions: Vec::new(),
            member_changes: Vec::new(),
            diagnostics: diagnostics::DiagnosticSummary::of(&head.diagnostics),
            new_diagnostics: new_diagnostics(base, head),
            signatures: None,
            holds: Vec::new(),
        };
        if head.frozen.source {
            review.counts.works_frozen = base.works.keys().filter(|key| is_shown(key)).count();
            return review;
        }
        let keys: BTreeSet<&WorkKey> =
            base.works.keys().chain(head.works.keys()).chain(&head.frozen.works).collect();
        let keys: Vec<&WorkKey> = keys.into_iter().filter(|key| is_shown(key)).collect();
        let clusters: BTreeSet<&ClusterName> = keys.iter().map(|key| &key.cluster).collect();
        review.counts.clusters = clusters.len();
        let states = States { base, head, moves: Moves::between(base, head) };
        let mut by_cluster: BTreeMap<&ClusterName, Vec<WorkReview>> = BTreeMap::new();
        for key in keys {
            match states.compare(key) {
                Some(work) => by_cluster.entry(&key.cluster).or_default().push(work),
                None => review.counts.works_unchanged += 1,
            }
        }
        for (cluster, mut works) in by_cluster {
            note_renames(&mut works, base, head);
            works.iter().for_each(|work| review.counts.add(work));
            review.counts.clusters_changed +=
                usize::from(works.iter().any(|work| work.change != WorkChange::Frozen));
            review.clusters.push(ClusterReview { cluster: cluster.clone(), works });
        }
        note_other_clusters(&mut review.clusters);
        review.cascading_deletions = cascading_deletions(&review.clusters, base, head);
        review.member_changes = MemberChange::between(base, head, is_shown);
        review
    }
}

/// The diagnostics that the base does not have. Compares them by file, code and message: lines move
/// with every edit above them.
fn new_diagnostics(base: &Desired, head: &Desired) -> Vec<Diagnostic> {
    problems_of_changes(base, head, |_| false)
}

/// The diagnostics of what changed: new ones, also in files that did not change, such as those of
/// a work that lost one of its values, and all of the files and folders for which `is_changed`.
pub fn problems_of_changes(
    base: &Desired,
    head: &Desired,
    is_changed: impl Fn(&RepoPath) -> bool,
) -> Vec<Diagnostic> {
    let known: BTreeSet<_> =
        base.diagnostics.iter().map(|d| (&d.location.file, d.code, &d.message)).collect();
    let is_known = |d: &&Diagnostic| known.contains(&(&d.location.file, d.code, &d.message));
    let is_of_change = |d: &&Diagnostic| {
        is_changed(&d.location.file) || d.related.iter().any(|(at, _)| is_changed(&at.file))
    };
    head.diagnostics.iter().filter(|d| !is_known(d) || is_of_change(d)).cloned().collect()
}

/// The two states, and the objects that move between works.
struct States<'a> {
    base: &'a Desired,
    head: &'a Desired,
    moves: Moves<'a>,
}

impl States<'_> {
    /// The change of one work; `None` if there is none.
    fn compare(&self, key: &WorkKey) -> Option<WorkReview> {
        let Self { base, head, .. } = self;
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
                let is_same = before.body.digest == after.body.digest
                    && before.suspend == after.suspend
                    && before.depends_on == after.depends_on;
                if is_same {
                    return None;
                }
                let (old, new) = (Content::of(before), Content::of(after));
                review.size = Some(Size::new(Some(old.bytes), new.bytes));
                let objects = self.objects(before, &old, &new);
                let diff = WorkDiff { objects, ..settings(before, &old, after, &new) };
                review.change = WorkChange::Changed(Box::new(diff));
            }
            (None, Some(after)) => {
                let content = Content::of(after);
                review.size = Some(Size::new(None, content.bytes));
                let added = |object| {
                    let moved_from = self.moves.to(key, &object);
                    AddedObject { object, moved_from }
                };
                review.change = WorkChange::Added {
                    objects: content.manifests.into_keys().map(added).collect(),
                    base_unreadable: base.frozen.may_contain(key, Some(after.path.as_str())),
                };
            }
            (Some(before), None) if !head.frozen.may_contain(key, Some(before.path.as_str())) => {
                review.change = self.removed(before);
            }
            (Some(_) | None, None) => {}
        }
        Some(review)
    }

    /// The objects that differ between two contents of one work.
    fn objects(&self, before: &DesiredWork, old: &Content, new: &Content) -> Vec<ObjectChange> {
        let names: BTreeSet<&ObjectName> =
            old.manifests.keys().chain(new.manifests.keys()).collect();
        let settings = LazyCell::new(|| WorkSpec::of(new.rest.clone()));
        let changes = names.into_iter().filter_map(|name| {
            let change = match (old.manifests.get(name), new.manifests.get(name)) {
                (Some(was), Some(is)) if was == is => return None,
                (Some(was), Some(is)) => ObjectDiff::Changed {
                    fields: diff::diff(was, is),
                    immutable: ImmutableChange::in_work(&settings, was, is),
                },
                (Some(_), None) => ObjectDiff::Removed(self.outcome(before, old, name)),
                (None, _) => {
                    let moved_from = self.moves.to(&before.key, name).map(Box::new);
                    ObjectDiff::Added { moved_from }
                }
            };
            Some(ObjectChange { object: name.clone(), change })
        });
        changes.collect()
    }

    /// What becomes of an object that its work no longer has.
    fn outcome(
        &self,
        work: &DesiredWork,
        content: &Content,
        object: &ObjectName,
    ) -> RemovalOutcome {
        if let Some(found) = self.moves.from(&work.key, object) {
            let (work, forecast) = (found.to.clone(), found.forecast.clone());
            return RemovalOutcome::MovedTo { work, forecast };
        }
        match self.moves.frozen(&work.key, object) {
            Some(may_have) => RemovalOutcome::MayHaveMoved { work: may_have.clone() },
            None => content.outcome(object, &work.delete_option),
        }
    }

    fn removed(&self, before: &DesiredWork) -> WorkChange {
        let content = Content::of(before);
        let objects = content.manifests.keys().map(|object| RemovedObject {
            object: object.clone(),
            outcome: self.outcome(before, &content, object),
        });
        // A work that has given all of its objects away would be empty: it is not released.
        if !before.prune && !self.moves.is_moved_away(before) {
            let is_moved =
                |one: &RemovedObject| matches!(one.outcome, RemovalOutcome::MovedTo { .. });
            return WorkChange::Released { objects: objects.filter(is_moved).collect() };
        }
        WorkChange::Deleted {
            delete_option: before.delete_option.clone(),
            objects: objects.collect(),
            renamed_to: None,
            recreated_on: Vec::new(),
        }
    }
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
        // What is beside the template of a replica set is compared with it.
        let template = rest.get_mut(TEMPLATE).map(Value::take);
        if let (Some(Value::Object(template)), Some(fields)) = (template, rest.as_object_mut()) {
            fields.remove(TEMPLATE);
            fields.extend(template);
        }
        let manifests = match rest.pointer_mut("/workload/manifests").map(Value::take) {
            Some(Value::Array(manifests)) => manifests,
            _ => Vec::new(),
        };
        if let Some(fields) = rest.as_object_mut() {
            fields.remove("workload");
        }
        let bytes = manifests.iter().map(wire_size).sum();
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

/// The names of the works that a work depends on. Those of its own cluster go without the cluster,
/// so that equal changes on several clusters are equal.
fn dependencies(work: &DesiredWork) -> Vec<String> {
    let name = |key: &WorkKey| match key.cluster == work.key.cluster {
        true => key.work.to_string(),
        false => key.to_string(),
    };
    work.depends_on.iter().map(name).collect()
}

/// What differs between two contents of one work, but for its objects.
fn settings(before: &DesiredWork, old: &Content, after: &DesiredWork, new: &Content) -> WorkDiff {
    let kept_old = old.order.iter().filter(|name| new.manifests.contains_key(name));
    let kept_new = new.order.iter().filter(|name| old.manifests.contains_key(name));
    let metadata = |work: &DesiredWork| {
        let mut metadata = work.body.metadata();
        // This annotation lists only the keys of the others.
        metadata.annotations.remove(ANNOTATION_MANAGED_KEYS);
        serde_json::json!(metadata)
    };
    WorkDiff {
        objects: Vec::new(),
        reordered: !kept_old.eq(kept_new),
        spec: diff::diff(&old.rest, &new.rest),
        metadata: diff::diff(&metadata(before), &metadata(after)),
        suspend: (before.suspend != after.suspend).then_some(after.suspend),
        depends_on: (before.depends_on != after.depends_on).then(|| dependencies(after)),
    }
}

/// Marks deleted works that have another name now: all of their objects, and of no other deleted
/// work, are in it, or their folder makes it.
fn note_renames(works: &mut [WorkReview], base: &Desired, head: &Desired) {
    let is_added = |key: &WorkKey| !base.works.contains_key(key) && head.works.contains_key(key);
    let mut receivers: BTreeMap<WorkName, usize> = BTreeMap::new();
    for work in works.iter() {
        if let Some(to) = only_receiver(&work.change) {
            *receivers.entry(to.clone()).or_default() += 1;
        }
    }
    let added: BTreeMap<RepoPath, WorkName> = works
        .iter()
        .filter(|work| matches!(work.change, WorkChange::Added { .. }))
        .filter_map(|work| Some((work.path.clone()?, work.key.work.clone())))
        .collect();
    for work in works {
        let receiver = only_receiver(&work.change).filter(|to| receivers.get(*to) == Some(&1));
        let receiver = receiver.map(|to| WorkKey { work: to.clone(), ..work.key.clone() });
        let receiver = receiver.filter(is_added).map(|key| key.work);
        let of_folder = work.path.as_ref().and_then(|path| added.get(path)).cloned();
        if let WorkChange::Deleted { renamed_to, .. } = &mut work.change {
            *renamed_to = receiver.or(of_folder);
        }
    }
}

/// The work that gets all objects of a deleted work.
fn only_receiver(change: &WorkChange) -> Option<&WorkName> {
    if !change.is_moved_away() {
        return None;
    }
    let receivers = change.removals().into_iter().filter_map(|outcome| match outcome {
        RemovalOutcome::MovedTo { work, .. } => Some(work),
        _ => None,
    });
    let receivers: BTreeSet<&WorkName> = receivers.collect();
    receivers.first().copied().filter(|_| receivers.len() == 1)
}

/// Marks deleted works that are new on other clusters, with the same name and the deleted objects,
/// as a renamed folder of a cluster gives. No object moves to another cluster.
fn note_other_clusters(clusters: &mut [ClusterReview]) {
    let mut added: BTreeMap<WorkName, Vec<(ClusterName, BTreeSet<ObjectName>)>> = BTreeMap::new();
    for work in clusters.iter().flat_map(|cluster| &cluster.works) {
        if let WorkChange::Added { objects, .. } = &work.change {
            let objects = objects.iter().map(|added| added.object.clone()).collect();
            let WorkKey { cluster, work } = work.key.clone();
            added.entry(work).or_default().push((cluster, objects));
        }
    }
    for work in clusters.iter_mut().flat_map(|cluster| &mut cluster.works) {
        let Some(there) = added.get(&work.key.work) else { continue };
        let WorkChange::Deleted { objects, recreated_on, .. } = &mut work.change else { continue };
        let gone = objects.iter().filter(|one| one.outcome == RemovalOutcome::Deleted);
        let gone: Vec<&ObjectName> = gone.map(|one| &one.object).collect();
        let has_all = |there: &BTreeSet<ObjectName>| gone.iter().all(|one| there.contains(*one));
        if !gone.is_empty() {
            let same = there.iter().filter(|(_, objects)| has_all(objects));
            let names = same.map(|(cluster, _)| cluster.clone());
            *recreated_on = names.take(RECREATED_ON_MAX).collect();
        }
    }
}
