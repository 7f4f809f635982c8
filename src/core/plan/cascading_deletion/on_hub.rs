//! The deletions of a plan against the hub.
//!
//! Of the objects that works lose, the hub's works have only digests. So Namespaces and
//! CustomResourceDefinitions are found by the objects that they enclose.

use std::collections::BTreeMap;

use serde_json::json;

use crate::model::manifest::Identity;
use crate::model::name::{ClusterName, WorkKey};
use crate::model::object_digest::ObjectDigest;
use crate::model::work::{DeletionPolicy, DesiredWork};
use crate::plan::cascading_deletion::deletion::{
    CascadingDeletion, CascadingDeletions, ClusterLosses, Deleted, EnclosingKind, EnclosingObject,
};
use crate::plan::cascading_deletion::enclosed::EnclosedObjects;
use crate::plan::last_known::LastKnownStates;
use crate::plan::observed::{ListedObject, Observed, ObservedWork};
use crate::plan::reason::Reason;
use crate::plan::step::{Plan, PlanStep};
use crate::render::desired::{Desired, FrozenWork};

/// What a plan against the hub followed from.
#[derive(Debug, Clone, Copy)]
pub struct HubPlanInputs<'a> {
    /// What Git wants.
    pub desired: &'a Desired,
    /// What the hub has.
    pub observed: &'a Observed,
    /// The last state in Git of works that it no longer has.
    pub last_known: &'a LastKnownStates,
}

/// The Namespaces and CustomResourceDefinitions that works of the source lose by a plan, also by
/// held steps, with the objects that go with them. `is_shown` selects the works that lose them. The
/// objects of ManifestWorkReplicaSets on the hub are not known, so nothing is said of theirs.
pub fn on_hub(
    inputs: HubPlanInputs<'_>,
    plan: &Plan,
    is_shown: impl Fn(&WorkKey) -> bool,
) -> Vec<CascadingDeletion> {
    let mut dropped: BTreeMap<&ClusterName, Vec<Dropped<'_>>> = BTreeMap::new();
    for step in plan.steps.iter().filter(|step| is_shown(&step.key)) {
        let found = inputs.dropped(step);
        if !found.is_empty() {
            dropped.entry(&step.key.cluster).or_default().extend(found);
        }
    }
    let frozen = inputs.desired.frozen.objects_by_cluster();
    let (mut all, mut objects) = (CascadingDeletions::default(), EnclosedObjects::default());
    for (cluster, dropped) in dropped {
        let frozen = frozen.get(cluster).map_or(&[][..], Vec::as_slice);
        let lost = LostByCluster::new(inputs.desired, cluster, dropped, frozen);
        all.add(cluster, lost.losses(&mut objects));
    }
    all.into_vec()
}

/// An object that a work on the hub lists, and no longer has in Git.
struct Dropped<'a> {
    work: &'a ObservedWork,
    object: &'a ListedObject,
    /// The final deleteOption of a removed work. One that Git still has orphans what the hub's
    /// option orphans: the agent acts on it when it applies the work.
    option: Option<&'a DeletionPolicy>,
}

impl Dropped<'_> {
    /// Whether the agent deletes the object.
    fn is_deleted(&self, identity: &Identity) -> bool {
        let is_orphaned = match self.option {
            Some(option) => option.orphans(identity),
            None => self.object.orphaned,
        };
        !is_orphaned && !self.object.read_only
    }
}

impl<'a> HubPlanInputs<'a> {
    /// The objects that a work loses once its step is executed.
    fn dropped(self, step: &PlanStep) -> Vec<Dropped<'a>> {
        let Some(work) = self.observed.works.get(&step.key) else { return Vec::new() };
        // Before an agent has seen the work, its objects do not exist.
        let exists = work.agent.seen && !work.deleting;
        if !work.is_ours(&self.desired.source) || !exists || stays(&step.reason) {
            return Vec::new();
        }
        let wanted = self.desired.works.get(&step.key);
        let last = self.last_known.get(&step.key);
        if wanted.is_none() && !last.map_or(work.prune, |last| last.prune) {
            return Vec::new();
        }
        let option = last.map_or(&work.delete_option, |last| &last.delete_option);
        let option = wanted.is_none().then_some(option);
        let is_wanted = |object: &&ListedObject| {
            wanted.is_some_and(|wanted| wanted.object(object.digest).is_some())
        };
        let objects = work.objects.iter().filter(|object| !is_wanted(object));
        objects.map(|object| Dropped { work, object, option }).collect()
    }
}

/// Whether the work keeps its objects until somebody decides otherwise.
fn stays(reason: &Reason) -> bool {
    reason.is_suspension()
        || matches!(
            reason,
            Reason::Frozen
                | Reason::UnknownMembership
                | Reason::NeverInGit
                | Reason::Conflict { .. }
                | Reason::PruneOff { .. }
                | Reason::WaitingToRelease { .. }
        )
}

/// What the works of one cluster lose, and none of them gets.
struct LostByCluster<'a> {
    lost: BTreeMap<ObjectDigest, Dropped<'a>>,
    works: Vec<&'a DesiredWork>,
    frozen: &'a [FrozenWork<'a>],
}

impl<'a> LostByCluster<'a> {
    fn new(
        desired: &'a Desired,
        cluster: &ClusterName,
        dropped: Vec<Dropped<'a>>,
        frozen: &'a [FrozenWork<'a>],
    ) -> Self {
        let own = desired.works.of_cluster(cluster).map(|(_, work)| work);
        let delivered = desired.delivered.get(cluster).into_iter().flatten();
        let works: Vec<&DesiredWork> = own.chain(delivered).map(|work| &**work).collect();
        let by_digest = dropped.into_iter().map(|one| (one.object.digest, one));
        let mut lost: BTreeMap<ObjectDigest, Dropped<'_>> = by_digest.collect();
        let later = WorkKey::entries_of(&desired.later, cluster).map(|(_, objects)| objects);
        let all = works.iter().map(|work| &work.objects).chain(later);
        for object in all.flat_map(|objects| objects.iter()) {
            lost.remove(&object.digest);
        }
        Self { lost, works, frozen }
    }

    /// The objects that go with what is lost.
    fn losses(&self, objects: &mut EnclosedObjects) -> ClusterLosses {
        let mut losses = ClusterLosses::default();
        let mut known: BTreeMap<EnclosingObject, Option<Deleted>> = BTreeMap::new();
        for work in self.works.iter().filter(|_| !self.lost.is_empty()) {
            for object in &*objects.of(work) {
                for enclosing in object.enclosing() {
                    let found = known.entry(enclosing);
                    let found = found.or_insert_with_key(|enclosing| self.deleted(enclosing));
                    found.iter().for_each(|deleted| losses.add(deleted, &work.key.work));
                }
            }
        }
        losses
    }

    fn deleted(&self, enclosing: &EnclosingObject) -> Option<Deleted> {
        let EnclosingObject { kind, name } = enclosing;
        let (group, kind, resource, api_version) = match kind {
            EnclosingKind::Namespace => ("", "Namespace", "namespaces", "v1"),
            EnclosingKind::CustomResourceDefinition => (
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
                "customresourcedefinitions",
                "apiextensions.k8s.io/v1",
            ),
        };
        let digest = ObjectDigest::new(group, kind, "", name);
        let lost = self.lost.get(&digest)?;
        let manifest = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        // It may have moved there.
        let may_have = |(key, objects): &FrozenWork<'_>| {
            **key != lost.work.key && objects.may_contain(digest, Some(&manifest))
        };
        let identity = Identity::of_manifest(&manifest, resource);
        let is_deleted = lost.is_deleted(&identity) && !self.frozen.iter().any(may_have);
        is_deleted.then(|| (enclosing.clone(), lost.work.key.work.clone()))
    }
}
