//! Works on which the writes of moves rely: they own objects that other works give up.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::name::{ClusterName, SourceId, WorkKey};
use crate::model::object_digest::ObjectDigest;
use crate::plan::effect::Effect;
use crate::plan::moves::body::manifests;
use crate::plan::observed::{ListedObject, Observed, ObservedWork};

/// For each work that loses objects by a write, the works that go on owning them, as the hub shows
/// them. The agent deletes an object of which none is an owner. `moving`: the works that take part
/// in moves.
pub fn remaining_owners<'a>(
    writes: impl Iterator<Item = (&'a WorkKey, &'a Effect)>,
    moving: &BTreeSet<WorkKey>,
    observed: &Observed,
    source: &SourceId,
) -> BTreeMap<WorkKey, BTreeSet<WorkKey>> {
    let mut all: BTreeMap<WorkKey, BTreeSet<WorkKey>> = BTreeMap::new();
    let mut givers: BTreeMap<(&ClusterName, ObjectDigest), Vec<&WorkKey>> = BTreeMap::new();
    for (key, effect) in writes.filter(|(key, _)| moving.contains(*key)) {
        let Some(there) = observed.works.get(key) else { continue };
        for object in lost(there, effect) {
            givers.entry((&key.cluster, object)).or_default().push(key);
        }
    }
    if givers.is_empty() {
        return all;
    }
    let works = moving.iter().filter_map(|key| observed.works.get(key));
    for owner in works.filter(|work| work.is_ours(source) && !work.deleting) {
        for object in owner.objects.iter().filter(|object| object.is_owned()) {
            let givers = givers.get(&(&owner.key.cluster, object.digest));
            for giver in givers.into_iter().flatten().filter(|giver| ***giver != owner.key) {
                all.entry((*giver).clone()).or_default().insert(owner.key.clone());
            }
        }
    }
    all
}

/// The objects that a work no longer lists after a write, without those that it has orphaned.
fn lost(there: &ObservedWork, effect: &Effect) -> Vec<ObjectDigest> {
    let kept: BTreeSet<ObjectDigest> = match effect {
        Effect::Delete { .. } => BTreeSet::new(),
        Effect::Create { body } | Effect::Update { body, .. } | Effect::Adopt { body, .. } => {
            manifests(&body.spec.value()).iter().filter_map(ObjectDigest::of_manifest).collect()
        }
        Effect::SetDeleteOption { .. } | Effect::Release { .. } => return Vec::new(),
    };
    let is_lost = |object: &&ListedObject| !object.is_orphaned() && !kept.contains(&object.digest);
    there.objects.iter().filter(is_lost).map(|object| object.digest).collect()
}
