//! The rules for objects that move between works.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Write;
use crate::model::defaults::TEMPLATE;
use crate::model::digest::Digest;
use crate::model::object_digest::ObjectDigest;
use crate::model::work::WorkBody;
use crate::plan::effect::Effect;
use crate::plan::observed::{ListedObject, ObservedWork};
use crate::plan::work_spec::WorkSpec;

impl<'a> Write<'a> {
    /// Whether the body consists of manifests that Git has for the work or that the hub lists in
    /// it, and an object moves from it or to it.
    pub(super) fn is_transitional(&self, body: &WorkBody) -> bool {
        let in_git = self.in_git;
        let of_hub = self.inputs.observed.content(&self.step.key);
        let mut known = in_git.map(|work| manifests(&work.body.spec.value())).unwrap_or_default();
        known.extend(of_hub.map(|content| manifests(&content.spec())).unwrap_or_default());
        let known: BTreeSet<Digest> = known.iter().map(Digest::of_json).collect();
        let body_manifests = manifests(&body.spec.value());
        let is_known = body_manifests.iter().all(|one| known.contains(&Digest::of_json(one)));
        let metadata = body.metadata();
        let has_metadata = in_git
            .is_some_and(|work| work.body.metadata().labels == metadata.labels)
            || of_hub.is_some_and(|content| content.metadata().labels == metadata.labels);
        let differs = self.gives().next().is_some() || self.receives() || self.shares();
        is_known && has_metadata && differs
    }

    /// Whether the agent of another work may still own an object that this one lists on the hub.
    fn shares(&self) -> bool {
        let (key, leaving) = (&self.step.key, &self.objects.works().leaving);
        let owners = |digest| leaving.get(&(&key.cluster, digest)).into_iter().flatten();
        let mut objects = self.there.into_iter().flat_map(|work| work.objects.iter());
        objects.any(|object| owners(object.digest).any(|other| *other != key))
    }

    /// The objects that the work lists on the hub and that Git has, or may have, in another work,
    /// or that it keeps until its cluster gets another content.
    fn gives(&self) -> impl Iterator<Item = ObjectDigest> {
        let there = self.there;
        let content = self.inputs.observed.content(&self.step.key);
        let spec = content.map(|content| WorkSpec::of(content.spec())).unwrap_or_default();
        let objects = there.into_iter().flat_map(|work| work.objects.iter());
        let objects = objects.map(|object| object.digest);
        objects.filter(move |digest| self.wanted_elsewhere(*digest, spec.manifest(*digest)))
    }

    fn wanted_elsewhere(&self, digest: ObjectDigest, manifest: Option<&Value>) -> bool {
        let key = &self.step.key;
        if self.in_git.is_some_and(|work| work.object(digest).is_some()) {
            return false;
        }
        // What an earlier content of a group lacks stays until the cluster gets another one.
        let desired = self.inputs.desired;
        let later = desired.later_work(&key.cluster, digest);
        if desired.has_earlier_content(key) || later.is_some_and(|other| other != key) {
            return true;
        }
        let works = self.objects.works();
        if self.is_delivered_to(&key.cluster, digest) {
            return true;
        }
        let others = works.in_git.get(&(&key.cluster, digest)).into_iter().flatten();
        let frozen = works.frozen.get(&key.cluster).into_iter().flatten();
        others.into_iter().any(|other| *other != key)
            || frozen
                .into_iter()
                .any(|(other, objects)| *other != key && objects.may_contain(digest, manifest))
    }

    /// Whether Git has an object in the work that another work lists on the hub.
    fn receives(&self) -> bool {
        let Some(in_git) = self.in_git else { return false };
        in_git.objects.iter().any(|object| self.others(object.digest).next().is_some())
    }

    /// The other works of the cluster that list the object on the hub.
    fn others(&self, digest: ObjectDigest) -> impl Iterator<Item = &'a ObservedWork> {
        let key = &self.step.key;
        let works = self.objects.works().on_hub.get(&(&key.cluster, digest));
        works.into_iter().flatten().copied().filter(|work| work.key != *key)
    }

    /// Whether Git has every object of the work in other works.
    pub(super) fn is_moved_away(&self) -> bool {
        let objects = self.there.map_or(0, |work| work.objects.len());
        objects > 0 && self.gives().count() == objects
    }

    pub(super) fn loses_moved_object(&self) -> bool {
        let Some(there) = self.there else { return false };
        if !there.is_ours(&self.inputs.desired.source) || !there.agent.seen {
            return false;
        }
        let given: Vec<ObjectDigest> = self.gives().collect();
        if given.is_empty() {
            return false;
        }
        let left = match self.effect {
            Effect::Delete { .. } | Effect::Release { .. } => BTreeSet::new(),
            Effect::SetDeleteOption { .. } => return false,
            Effect::Create { body } | Effect::Update { body, .. } | Effect::Adopt { body, .. } => {
                let manifests = manifests(&body.spec.value());
                manifests.iter().filter_map(ObjectDigest::of_manifest).collect()
            }
        };
        let mut lost = given.into_iter().filter(|digest| !left.contains(digest));
        // An agent that has not reported may own what it has not on record, and keep it.
        let is_reported = there.agent.has_settled();
        lost.any(|digest| {
            let orphaned = there.object(digest).is_some_and(ListedObject::is_orphaned);
            let is_kept = orphaned || (is_reported && self.is_owned_elsewhere(digest));
            !is_kept
        })
    }

    /// Whether the hub shows another work of the source to own the object on the cluster, and this
    /// plan leaves it so.
    fn is_owned_elsewhere(&self, digest: ObjectDigest) -> bool {
        let source = &self.inputs.desired.source;
        let by_set = self.is_owned_by_set(&self.step.key.cluster, digest);
        by_set
            || self.others(digest).any(|work| {
                work.is_ours(source)
                    && !work.deleting
                    && work.object(digest).is_some_and(ListedObject::is_owned)
                    && self.objects.goes_on_owning(work, digest)
            })
    }

    pub(super) fn is_empty(&self) -> bool {
        let Some(body) = self.effect.body() else { return false };
        // The objects of what Git has are known: it need not be parsed.
        let in_git = self.in_git.filter(|work| work.body.digest == body.digest);
        if in_git.is_some_and(|work| !work.objects.is_empty()) {
            return false;
        }
        let spec = body.spec.value();
        manifests(spec.get(TEMPLATE).unwrap_or(&spec)).is_empty()
    }
}

fn manifests(spec: &Value) -> Vec<Value> {
    let manifests = spec.pointer("/workload/manifests").and_then(Value::as_array);
    manifests.cloned().unwrap_or_default()
}
