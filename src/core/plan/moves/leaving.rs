//! Objects that a work on the hub no longer lists and that its agent may still own.
//!
//! An agent that sees that an object has left its work deletes the object, unless another work
//! owns it. So the other work must go on owning the object until the agent has reported that.

use std::collections::BTreeMap;

use crate::model::name::{ClusterName, WorkKey};
use crate::model::object_digest::ObjectDigest;
use crate::plan::effect::Effect;
use crate::plan::observed::{ListedObject, Observed, ObservedWork};
use crate::plan::work_spec::WorkSpec;

/// The works whose agents may still own objects that these works do not keep.
#[derive(Debug, Default)]
pub struct LeavingObjects<'a> {
    owners: BTreeMap<(&'a ClusterName, ObjectDigest), Vec<&'a WorkKey>>,
}

impl<'a> LeavingObjects<'a> {
    /// Those of all works on the hub.
    pub fn observe(observed: &'a Observed) -> Self {
        let mut owners: BTreeMap<_, Vec<&WorkKey>> = BTreeMap::new();
        for work in observed.works.values().filter(|work| work.agent.seen) {
            let deleted = work.objects.iter().filter(|one| work.deleting && !one.orphaned);
            let deleted = deleted.map(|one| one.digest);
            for object in work.left.iter().copied().chain(deleted) {
                owners.entry((&work.key.cluster, object)).or_default().push(&work.key);
            }
        }
        Self { owners }
    }

    /// The works whose agents may still own an object that another work lists.
    pub(super) fn shared(&self, observed: &Observed) -> Vec<&'a WorkKey> {
        if self.owners.is_empty() {
            return Vec::new();
        }
        let others = observed.works.values().flat_map(|work| self.owners_beside(work));
        others.map(|(_, other)| other).collect()
    }

    /// The works that own an object which another work's agent may still own.
    pub(super) fn shared_works<'b>(&self, observed: &'b Observed) -> Vec<&'b WorkKey> {
        if self.owners.is_empty() {
            return Vec::new();
        }
        let works = observed.works.values();
        works.filter(|work| !self.shared_by(work).is_empty()).map(|work| &work.key).collect()
    }

    /// The objects of a work that other works' agents may still own, with those works.
    fn owners_beside<'b>(
        &'b self,
        work: &'b ObservedWork,
    ) -> impl Iterator<Item = (&'b ListedObject, &'a WorkKey)> {
        work.objects.iter().flat_map(|object| {
            let owners = self.owners.get(&(&work.key.cluster, object.digest));
            let others = owners.into_iter().flatten().filter(|other| ***other != work.key);
            others.map(move |other| (object, *other))
        })
    }

    /// Whether the agent of another work than this one may still own the object.
    pub(super) fn is_beside(&self, work: &WorkKey, object: ObjectDigest) -> bool {
        let owners = self.owners.get(&(&work.cluster, object));
        owners.into_iter().flatten().any(|other| *other != work)
    }

    /// The objects that the work should own and other works' agents may still own, each with one of
    /// those works.
    pub(super) fn shared_by(&self, work: &ObservedWork) -> BTreeMap<ObjectDigest, &'a WorkKey> {
        if self.owners.is_empty() {
            return BTreeMap::new();
        }
        let owned = self.owners_beside(work).filter(|(one, _)| one.should_be_owned());
        owned.map(|(one, other)| (one.digest, other)).collect()
    }

    /// A work whose agent would delete an object if the effect were executed now: `there` would
    /// not own the object any longer.
    pub fn would_delete(&self, there: &ObservedWork, effect: &Effect) -> Option<&'a WorkKey> {
        if self.owners.is_empty() {
            return None;
        }
        let shared = self.owners_beside(there).filter(|(one, _)| one.should_be_owned());
        let mut shared = shared.peekable();
        shared.peek()?;
        if let Effect::SetDeleteOption { delete_option, .. } = effect {
            // The identities of the objects are not known: any new rule may be about one of them.
            let adds_rules = delete_option.orphans_more_than(&there.delete_option);
            return shared.next().filter(|_| adds_rules).map(|(_, other)| other);
        }
        let spec = WorkSpec::of(effect.body()?.spec.value());
        let (_, other) = shared.find(|(one, _)| spec.may_disown(one.digest))?;
        Some(other)
    }
}
