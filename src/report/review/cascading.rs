//! Namespaces and CustomResourceDefinitions that a change deletes, with the objects that go with
//! them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::difference::{ClusterReview, ObjectDiff, RemovalOutcome, WorkChange, WorkReview};
use super::object_name::ObjectName;
use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use gitwork_core::model::work::DesiredWork;
use gitwork_core::plan::cascading_deletion::{
    CascadingDeletion, CascadingDeletions, ClusterLosses, Deleted, EnclosedObjects, EnclosingKind,
    EnclosingObject,
};
use gitwork_core::plan::work_spec::WorkSpec;
use gitwork_core::render::desired::Desired;

/// The deletions of these changes, with all objects of their clusters that go with them.
pub(super) fn cascading_deletions(
    clusters: &[ClusterReview],
    base: &Desired,
    head: &Desired,
) -> Vec<CascadingDeletion> {
    let changed: BTreeMap<&ClusterName, &[WorkReview]> =
        clusters.iter().map(|one| (&one.cluster, one.works.as_slice())).collect();
    let mut all = CascadingDeletions::default();
    let mut objects = EnclosedObjects::default();
    for (cluster, deletions) in by_cluster(clusters, base) {
        let mut losses = Losses { deletions: &deletions, found: ClusterLosses::default() };
        let own = head.works.of_cluster(cluster).map(|(_, work)| work);
        let delivered = head.delivered.get(cluster).into_iter().flatten();
        for work in own.chain(delivered) {
            for one in &*objects.of(work) {
                losses.add(&work.key.work, &one.group, &one.kind, &one.namespace);
            }
        }
        for work in changed.get(cluster).copied().into_iter().flatten() {
            for ObjectName { group, kind, namespace, .. } in remaining(work, base) {
                losses.add(&work.key.work, &group, &kind, &namespace);
            }
        }
        all.add(cluster, losses.found);
    }
    all.into_vec()
}

/// The objects that go with what one cluster deletes.
struct Losses<'a> {
    deletions: &'a Deletions,
    found: ClusterLosses,
}

impl Losses<'_> {
    /// Counts an object, if it goes with a deleted one.
    fn add(&mut self, work: &WorkName, group: &str, kind: &str, namespace: &str) {
        let Deletions { namespaces, kinds } = self.deletions;
        let of_kind = kinds.get(group).and_then(|kinds| kinds.get(kind));
        for deleted in namespaces.get(namespace).into_iter().chain(of_kind) {
            self.found.add(deleted, work);
        }
    }
}

/// What one cluster deletes.
#[derive(Default)]
struct Deletions {
    /// By name.
    namespaces: BTreeMap<String, Deleted>,
    /// CustomResourceDefinitions by the group and the kind that they define.
    kinds: BTreeMap<String, BTreeMap<String, Deleted>>,
}

impl Deletions {
    /// Adds what a work loses. `base`: the work before.
    fn extend(&mut self, work: &WorkReview, base: &DesiredWork) {
        let mut spec = None;
        for object in deleted(&work.change) {
            let ObjectName { group, kind, name, .. } = object;
            let Some(enclosing) = EnclosingObject::of(group, kind, name) else { continue };
            let kind = enclosing.kind;
            let deleted = (enclosing, work.key.work.clone());
            if kind == EnclosingKind::Namespace {
                self.namespaces.insert(name.clone(), deleted);
                continue;
            }
            let spec = spec.get_or_insert_with(|| WorkSpec::of(base.body.spec.value()));
            let defined = spec.manifest(object.digest()).and_then(defined_kind);
            if let Some((group, kind)) = defined {
                self.kinds.entry(group).or_default().insert(kind, deleted);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.namespaces.is_empty() && self.kinds.is_empty()
    }
}

/// The group and the kind that a CustomResourceDefinition defines.
fn defined_kind(manifest: &Value) -> Option<(String, String)> {
    let text = |pointer| manifest.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    text("/spec/group").zip(text("/spec/names/kind"))
}

/// What the clusters delete, also of ManifestWorkReplicaSets.
fn by_cluster<'a>(
    clusters: &'a [ClusterReview],
    base: &'a Desired,
) -> BTreeMap<&'a ClusterName, Deletions> {
    let mut all: BTreeMap<&ClusterName, Deletions> = BTreeMap::new();
    let mut sets: BTreeMap<&WorkKey, &WorkReview> = BTreeMap::new();
    for work in clusters.iter().flat_map(|cluster| &cluster.works) {
        if work.key.is_replica_set() {
            sets.insert(&work.key, work);
        } else if let Some(before) = base.works.get(&work.key) {
            all.entry(&work.key.cluster).or_default().extend(work, before);
        }
    }
    for (cluster, delivered) in base.delivered.iter().filter(|_| !sets.is_empty()) {
        for before in delivered {
            if let Some(set) = sets.get(&before.key) {
                all.entry(cluster).or_default().extend(set, before);
            }
        }
    }
    all.retain(|_, deletions| !deletions.is_empty());
    all
}

/// The objects that the cluster deletes.
fn deleted(change: &WorkChange) -> Vec<&ObjectName> {
    match change {
        WorkChange::Changed(diff) => {
            let removed = |one: &ObjectDiff| *one == ObjectDiff::Removed(RemovalOutcome::Deleted);
            let objects = diff.objects.iter().filter(|one| removed(&one.change));
            objects.map(|one| &one.object).collect()
        }
        WorkChange::Deleted { objects, .. } => {
            let deleted = objects.iter().filter(|one| one.outcome == RemovalOutcome::Deleted);
            deleted.map(|one| &one.object).collect()
        }
        WorkChange::Added { .. } | WorkChange::Released { .. } | WorkChange::Frozen => Vec::new(),
    }
}

/// The objects that stay on the cluster, and that the head does not have in this work.
fn remaining(work: &WorkReview, base: &Desired) -> Vec<ObjectName> {
    let stays = |outcome: &RemovalOutcome| {
        matches!(outcome, RemovalOutcome::Stays | RemovalOutcome::MayHaveMoved { .. })
    };
    let all = || base.works.get(&work.key).map(|work| ObjectName::all_of(work)).unwrap_or_default();
    match &work.change {
        WorkChange::Added { .. } => Vec::new(),
        WorkChange::Changed(diff) => {
            let removed = diff.objects.iter().filter(
                |one| matches!(&one.change, ObjectDiff::Removed(outcome) if stays(outcome)),
            );
            removed.map(|one| one.object.clone()).collect()
        }
        WorkChange::Deleted { objects, .. } => {
            let left = objects.iter().filter(|one| stays(&one.outcome));
            left.map(|one| one.object.clone()).collect()
        }
        WorkChange::Released { objects } => {
            let moved: BTreeSet<&ObjectName> = objects.iter().map(|one| &one.object).collect();
            all().into_iter().filter(|object| !moved.contains(object)).collect()
        }
        WorkChange::Frozen => all(),
    }
}
