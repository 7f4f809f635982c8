//! Finds the moves: objects that a work lists on the hub and that Git has in another work.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::name::{ClusterName, WorkKey};
use crate::model::object_digest::ObjectDigest;
use crate::model::work::{DesiredWork, NamedObject};
use crate::plan::inputs::PlanInputs;
use crate::plan::moves::leaving::LeavingObjects;
use crate::plan::observed::{Observed, ObservedWork};
use crate::plan::replica_sets::removed;
use crate::render::desired::{Desired, FrozenWork};

/// A move, before it is known how far it has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundMove<'a> {
    pub(super) digest: ObjectDigest,
    /// The work that lists it on the hub.
    pub(super) from: &'a ObservedWork,
    /// Where it is in Git.
    pub(super) to: Receiver<'a>,
}

/// The work that has an object in Git.
#[derive(Debug, Clone, Copy)]
pub(super) enum Receiver<'a> {
    /// A work with this object.
    Work(&'a DesiredWork, &'a NamedObject),
    /// The ManifestWork of a ManifestWorkReplicaSet with this object. The set's controller writes
    /// it.
    Set(&'a DesiredWork, &'a NamedObject),
    /// A frozen work, which has the object or may have it.
    Frozen(&'a WorkKey),
    /// A work that gets the object once the wave of its cluster begins; or the giving work, which
    /// has an earlier content until then.
    Later(&'a WorkKey),
}

impl<'a> Receiver<'a> {
    pub(super) fn key(self) -> &'a WorkKey {
        match self {
            Self::Work(work, _) | Self::Set(work, _) => &work.key,
            Self::Frozen(key) | Self::Later(key) => key,
        }
    }
}

/// The works that take part in moves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MovingWorks {
    /// All of them: the status of their agents leads to another plan.
    pub all: BTreeSet<WorkKey>,
    /// Giving works whose content must be read from the hub before the next plan.
    pub unread: BTreeSet<WorkKey>,
    /// ManifestWorkReplicaSets that give or get objects, each with a cluster where they do, or with
    /// its own place: their ManifestWorks must be read.
    pub sets: BTreeSet<(ClusterName, WorkKey)>,
}

impl MovingWorks {
    /// The works that take part in moves from what the hub has to what Git wants.
    pub fn of(desired: &Desired, observed: &Observed) -> Self {
        let mut works = Self::default();
        for found in find_all(desired, observed) {
            let (from, to) = (&found.from.key, found.to.key());
            works.all.insert(from.clone());
            if observed.content(from).is_none() {
                works.unread.insert(from.clone());
            }
            match found.to {
                Receiver::Set(..) => drop(works.sets.insert((from.cluster.clone(), to.clone()))),
                _ => drop(works.all.insert(to.clone())),
            }
        }
        for set in removed(desired, observed).filter(|set| !set.deleting) {
            works.all.insert(set.key.clone());
            works.sets.insert((set.key.cluster.clone(), set.key.clone()));
            if observed.content(&set.key).is_none() {
                works.unread.insert(set.key.clone());
            }
        }
        for key in observed.delivered.keys() {
            let of_cluster = desired.works.of_cluster(&key.cluster);
            works.all.extend(of_cluster.map(|(key, _)| key.clone()));
        }
        works.all.extend(LeavingObjects::observe(observed).shared(observed).into_iter().cloned());
        works
    }
}

impl MovingWorks {
    /// With all sets of Git, if Git has lost one: they may get its objects.
    pub fn with_receiving_sets(mut self, desired: &Desired) -> Self {
        if self.sets.iter().any(|(place, set)| *place == set.cluster) {
            let sets = desired.works.iter().filter(|(key, _)| key.is_replica_set());
            self.sets.extend(sets.map(|(key, _)| (key.cluster.clone(), key.clone())));
        }
        self
    }
}

/// All moves, sorted by giving work.
pub(super) fn find(inputs: PlanInputs<'_>) -> Vec<FoundMove<'_>> {
    find_all(inputs.desired, inputs.observed)
}

/// The cost is in the number of works, and in the objects of those clusters that have a work with
/// an object to give.
fn find_all<'a>(desired: &'a Desired, observed: &'a Observed) -> Vec<FoundMove<'a>> {
    let mut lost: BTreeMap<(&ClusterName, ObjectDigest), Vec<&ObservedWork>> = BTreeMap::new();
    for work in observed.works.values().filter(|work| may_give(work, desired)) {
        let wanted = desired.works.get(&work.key);
        for object in &work.objects {
            if wanted.is_none_or(|wanted| wanted.object(object.digest).is_none()) {
                lost.entry((&work.key.cluster, object.digest)).or_default().push(work);
            }
        }
    }
    if lost.is_empty() {
        return Vec::new();
    }
    let clusters: BTreeSet<&ClusterName> = lost.keys().map(|(cluster, _)| *cluster).collect();
    let mut found = Vec::new();
    for to in desired.works.values().filter(|work| clusters.contains(&work.key.cluster)) {
        for object in &*to.objects {
            let digest = object.digest;
            let givers = lost.remove(&(&to.key.cluster, digest)).into_iter().flatten();
            let to = Receiver::Work(to, object);
            found.extend(givers.map(|from| FoundMove { digest, from, to }));
        }
    }
    for (cluster, sets) in desired.delivered.iter().filter(|(name, _)| clusters.contains(name)) {
        for to in sets {
            for object in &*to.objects {
                let digest = object.digest;
                let givers = lost.remove(&(cluster, digest)).into_iter().flatten();
                let to = Receiver::Set(to, object);
                found.extend(givers.map(|from| FoundMove { digest, from, to }));
            }
        }
    }
    let frozen = desired.frozen.objects_by_cluster();
    for ((cluster, digest), givers) in lost {
        let mut frozen = frozen.get(cluster).into_iter().flatten();
        // The policy is asked later: it needs the manifest, which the hub has.
        let may_have = |(_, objects): &&FrozenWork<'_>| objects.may_contain(digest, None);
        let frozen = frozen.find(may_have).map(|(key, _)| *key);
        let later = desired.later_work(cluster, digest);
        for from in givers {
            let is_earlier = desired.has_earlier_content(&from.key);
            let to = match (frozen, later) {
                (Some(key), _) if from.key != *key => Receiver::Frozen(key),
                (_, Some(key)) if from.key != *key => Receiver::Later(key),
                // Nothing is deleted before the cluster gets a content that does not have it.
                _ if is_earlier => Receiver::Later(&from.key),
                _ => continue,
            };
            found.push(FoundMove { digest, from, to });
        }
    }
    found.sort_by_key(|one| (&one.from.key, one.digest));
    found
}

/// Whether a work on the hub may list objects that Git does not have in it. The objects of a work
/// that is being deleted cannot be kept.
fn may_give(work: &ObservedWork, desired: &Desired) -> bool {
    work.is_ours(&desired.source)
        && !work.deleting
        && desired.works.get(&work.key).is_none_or(|wanted| wanted.body.digest != work.digest)
}
