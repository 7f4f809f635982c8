//! The rules for ManifestWorkReplicaSets that Git no longer has.

use serde_json::{Value, json};

use super::Write;
use crate::model::defaults::TEMPLATE;
use crate::model::name::{ClusterName, WorkKey};
use crate::model::object_digest::ObjectDigest;
use crate::model::work::{DesiredWork, WorkBody};
use crate::plan::effect::Effect;
use crate::plan::inputs::PlanInputs;
use crate::plan::observed::{ListedObject, ObservedWork};
use crate::plan::reason::Reason;

impl Write<'_> {
    /// Whether the body is what the hub has, with `CreateOnly` for its objects.
    pub(super) fn only_stops_writing(&self, body: &WorkBody) -> bool {
        let key = &self.step.key;
        let Some(content) = self.inputs.observed.content(key).filter(|_| key.is_replica_set())
        else {
            return false;
        };
        let (mut before, mut after) = (content.spec(), body.spec.value());
        let configs = [&mut before, &mut after].map(|spec| {
            let template = spec.get_mut(TEMPLATE).and_then(Value::as_object_mut);
            template.and_then(|template| template.remove("manifestConfigs")).unwrap_or_default()
        });
        let strategies = configs[1].as_array().map_or(&[][..], Vec::as_slice);
        let strategy = json!({"type": "CreateOnly"});
        let stops = strategies.iter().all(|one| one.get("updateStrategy") == Some(&strategy));
        stops && before == after && content.metadata() == body.metadata()
    }

    /// Whether it is a set with a cluster that nothing may be written for.
    pub(super) fn goes_to_suspended_cluster(&self) -> bool {
        let PlanInputs { desired, policy, .. } = self.inputs;
        let mut clusters = desired.delivered.iter();
        self.step.key.is_replica_set()
            && clusters.any(|(cluster, sets)| {
                let is_suspended = desired.suspended.clusters.contains(cluster)
                    || policy.suspensions.clusters.contains_key(cluster);
                is_suspended && sets.iter().any(|set| set.key == self.step.key)
            })
    }

    /// Whether objects of the set, which is deleted, have moved to other works.
    pub(super) fn hands_over(&self) -> bool {
        self.step.key.is_replica_set()
            && matches!(self.step.reason, Reason::ReplicaSetGives { .. })
            && self.in_git.is_none()
    }

    /// Whether a set is deleted with an object that Git has in a work of the cluster which does not
    /// own it.
    pub(super) fn loses_object_of_set(&self) -> bool {
        let (key, observed) = (&self.step.key, self.inputs.observed);
        if !key.is_replica_set() || !matches!(self.effect, Effect::Delete { .. }) {
            return false;
        }
        let works = observed.delivered.iter().filter(|(_, one)| one.set == *key);
        let mut objects = works
            .flat_map(|(at, one)| one.work.objects.iter().map(move |object| (&at.cluster, object)));
        !observed.read_sets.contains(key)
            || objects.any(|(cluster, object)| {
                self.is_wanted_on(cluster, object.digest)
                    && !object.is_orphaned()
                    && !self.is_kept_on(cluster, object.digest)
            })
    }

    fn is_wanted_on(&self, cluster: &ClusterName, digest: ObjectDigest) -> bool {
        let desired = self.inputs.desired;
        let has = |work: &DesiredWork| work.object(digest).is_some();
        let mut own = desired.works.of_cluster(cluster);
        self.is_delivered_to(cluster, digest) || own.any(|(_, work)| has(work))
    }

    /// Whether Git has the object in a set for the cluster.
    pub(super) fn is_delivered_to(&self, cluster: &ClusterName, digest: ObjectDigest) -> bool {
        let sets = self.inputs.desired.delivered.get(cluster).into_iter().flatten();
        sets.into_iter().any(|set| set.key != self.step.key && set.object(digest).is_some())
    }

    fn is_kept_on(&self, cluster: &ClusterName, digest: ObjectDigest) -> bool {
        let source = &self.inputs.desired.source;
        let mut all = self.inputs.observed.works.of_cluster(cluster);
        all.any(|(_, work)| work.is_ours(source) && owns(work, digest))
            || self.is_owned_by_set(cluster, digest)
    }

    /// Whether the work of a set that Git has owns the object on the cluster.
    pub(super) fn is_owned_by_set(&self, cluster: &ClusterName, digest: ObjectDigest) -> bool {
        let desired = self.inputs.desired;
        let mut works = WorkKey::entries_of(&self.inputs.observed.delivered, cluster);
        works.any(|(_, one)| {
            one.set != self.step.key
                && desired.works.contains_key(&one.set)
                && owns(&one.work, digest)
        })
    }
}

fn owns(work: &ObservedWork, digest: ObjectDigest) -> bool {
    !work.deleting && work.object(digest).is_some_and(ListedObject::is_owned)
}
