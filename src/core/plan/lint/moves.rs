//! The rules for objects that move between works.

use serde_json::Value;

use super::Write;
use crate::model::object_digest::ObjectDigest;
use crate::model::work::WorkBody;
use crate::plan::effect::Effect;
use crate::plan::observed::{ListedObject, ObservedWork};

impl Write<'_> {
    /// Whether the body consists of manifests that Git has for the work or that the hub lists in
    /// it, and an object moves from it or to it.
    pub(super) fn is_transitional(&self, body: &WorkBody) -> bool {
        let in_git = self.inputs.desired.works.get(&self.step.key);
        let of_hub = self.inputs.observed.content(&self.step.key);
        let mut known = in_git.map(|work| manifests(&work.body.spec.value())).unwrap_or_default();
        known.extend(of_hub.map(|content| manifests(&content.spec())).unwrap_or_default());
        let is_known = manifests(&body.spec.value()).iter().all(|one| known.contains(one));
        let metadata = body.metadata();
        let has_metadata = in_git
            .is_some_and(|work| work.body.metadata().labels == metadata.labels)
            || of_hub.is_some_and(|content| content.metadata().labels == metadata.labels);
        is_known && has_metadata && (self.gives().next().is_some() || self.receives())
    }

    /// The objects that the work lists on the hub and that Git has, or may have, in another work.
    fn gives(&self) -> impl Iterator<Item = ObjectDigest> {
        let there = self.on_hub();
        let objects = there.into_iter().flat_map(|work| work.objects.iter());
        objects.map(|object| object.digest).filter(|digest| self.wanted_elsewhere(*digest))
    }

    fn wanted_elsewhere(&self, digest: ObjectDigest) -> bool {
        let key = &self.step.key;
        let others = self.inputs.desired.works.values();
        let mut others = others.filter(|work| work.key.cluster == key.cluster && work.key != *key);
        let in_git = self.inputs.desired.works.get(key);
        let mut frozen = self.inputs.desired.frozen.objects.iter();
        in_git.is_none_or(|work| work.object(digest).is_none())
            && (others.any(|work| work.object(digest).is_some())
                || frozen.any(|(other, objects)| {
                    other.cluster == key.cluster && other != key && objects.may_contain(digest)
                }))
    }

    /// Whether Git has an object in the work that another work lists on the hub.
    fn receives(&self) -> bool {
        let key = &self.step.key;
        let Some(in_git) = self.inputs.desired.works.get(key) else { return false };
        let is_other = |work: &&ObservedWork| work.key.cluster == key.cluster && work.key != *key;
        let others = self.inputs.observed.works.values().filter(is_other);
        others
            .into_iter()
            .any(|work| in_git.objects.iter().any(|object| work.object(object.digest).is_some()))
    }

    /// Whether Git has every object of the work in other works.
    pub(super) fn is_moved_away(&self) -> bool {
        let objects = self.on_hub().map_or(0, |work| work.objects.len());
        objects > 0 && self.gives().count() == objects
    }

    pub(super) fn loses_moved_object(&self) -> bool {
        let Some(there) = self.on_hub() else { return false };
        if !there.is_ours(&self.inputs.desired.source) || !there.agent.seen {
            return false;
        }
        let left = match self.effect {
            Effect::Delete { .. } | Effect::Release { .. } => Vec::new(),
            Effect::SetDeleteOption { .. } => return false,
            Effect::Create { body } | Effect::Update { body, .. } | Effect::Adopt { body, .. } => {
                let manifests = manifests(&body.spec.value());
                manifests.iter().filter_map(ObjectDigest::of_manifest).collect()
            }
        };
        let mut lost = self.gives().filter(|digest| !left.contains(digest));
        lost.any(|digest| {
            let orphaned = there.object(digest).is_some_and(ListedObject::is_orphaned);
            !orphaned && !self.is_owned_elsewhere(digest)
        })
    }

    /// Whether the hub shows another work of the source to own the object on the cluster.
    fn is_owned_elsewhere(&self, digest: ObjectDigest) -> bool {
        let (key, source) = (&self.step.key, &self.inputs.desired.source);
        self.inputs.observed.works.values().any(|work| {
            work.key.cluster == key.cluster
                && work.key != *key
                && work.is_ours(source)
                && !work.deleting
                && work.object(digest).is_some_and(ListedObject::is_owned)
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.effect.body().is_some_and(|body| manifests(&body.spec.value()).is_empty())
    }
}

fn manifests(spec: &Value) -> Vec<Value> {
    let manifests = spec.pointer("/workload/manifests").and_then(Value::as_array);
    manifests.cloned().unwrap_or_default()
}
