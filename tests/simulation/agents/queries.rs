//! Queries of the checkers, and actions of other clients on the clusters.

use std::collections::BTreeSet;

use gitwork_agent_core::condition;
use gitwork_agent_core::condition::COMPLETE;
use gitwork_api::work::ManifestWorkStatus;
use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::{ClusterName, WorkKey};
use serde::Deserialize;
use serde_json::Value;

use super::{Agents, Object, recorded_identity};
use crate::cluster::{Cluster, Live};
use crate::hub::SimulatedHub;
use crate::moves::{listed, strategy};

impl Agents {
    pub fn get(&self, object: &Object) -> Option<&Live> {
        self.clusters.get(&object.0)?.get(&object.1)
    }

    /// All objects of all clusters.
    pub fn objects(&self) -> impl Iterator<Item = (Object, &Live)> {
        self.clusters.iter().flat_map(|(name, cluster)| {
            cluster.objects().map(|(id, live)| ((name.clone(), id.clone()), live))
        })
    }

    pub fn cluster(&mut self, name: &ClusterName) -> &mut Cluster {
        self.clusters.entry(name.clone()).or_default()
    }

    /// Whether the object is deleted with the work of this name.
    pub fn goes_with(&self, key: &WorkKey, id: &Identity) -> bool {
        let live = self.get(&(key.cluster.clone(), id.clone()));
        let applied = self.applied.get(key);
        live.zip(applied).is_some_and(|(live, applied)| live.is_owned_by(&applied.uid))
    }

    /// The objects on record for a work.
    pub fn recorded(&self, key: &WorkKey) -> Vec<Identity> {
        let applied = self.applied.get(key);
        applied.into_iter().flat_map(|one| one.resources.iter().map(recorded_identity)).collect()
    }

    /// The objects that are deleted with a ManifestWork that was applied last; `uid` is the
    /// ManifestWork's.
    pub fn would_go(&self, key: &WorkKey, uid: &str) -> Vec<Object> {
        let Some(applied) = self.applied.get(key).filter(|one| one.work == uid) else {
            return Vec::new();
        };
        let all = self.clusters.get(&key.cluster).into_iter().flat_map(Cluster::objects);
        // An object that a user created again keeps the owners that the user gave it. An object
        // that another work owns, too, stays.
        let others: Vec<&str> = self
            .applied
            .iter()
            .filter(|(other, _)| other.cluster == key.cluster && *other != key)
            .map(|(_, other)| other.uid.as_str())
            .collect();
        let owned = all.filter(|(_, live)| {
            live.is_owned_by(&applied.uid)
                && live.applied_by.contains_key(&applied.uid)
                && !others.iter().any(|other| live.is_owned_by(other))
        });
        owned.map(|(id, _)| (key.cluster.clone(), id.clone())).collect()
    }

    /// An object of a wholly applied work that is not deleted with the work. An object that has
    /// left the work can still be on record for a while.
    pub fn would_stay(&self, key: &WorkKey, work: &Value) -> Option<Object> {
        let applied = self.applied.get(key).filter(|one| work["metadata"]["uid"] == *one.work)?;
        let status = ManifestWorkStatus::deserialize(&work["status"]).unwrap_or_default();
        let is_whole = condition::find(&status.conditions, "Applied")
            .is_none_or(|applied| applied.status == "True");
        if condition::is_true(&status.conditions, COMPLETE) || !is_whole {
            return None;
        }
        let cluster = self.clusters.get(&key.cluster)?;
        let listed = listed(work);
        let recorded = applied.resources.iter().map(recorded_identity);
        recorded.filter(|id| listed.contains(id)).find_map(|id| {
            // An agent neither owns nor orphans an object that it only reads.
            let is_read_only = strategy(work, &id).as_deref() == Some("ReadOnly");
            let live = cluster.get(&id).filter(|_| !is_read_only)?;
            // The agent may not delete an object that a user created again until it has applied it.
            let is_applied = live.applied_by.contains_key(&applied.uid);
            (is_applied && !live.is_owned_by(&applied.uid)).then(|| (key.cluster.clone(), id))
        })
    }

    /// An applied object without an owner that was not meant to stay.
    pub fn left_behind(&self) -> Option<Object> {
        let uids: BTreeSet<&str> = self.applied.values().map(|one| one.uid.as_str()).collect();
        let is_left = |live: &Live| {
            let owned = uids.iter().any(|uid| live.is_owned_by(uid));
            !live.applied_by.is_empty() && !live.stays && !owned
        };
        self.objects().find(|(_, live)| is_left(live)).map(|(object, _)| object)
    }

    /// A work that the hub no longer has, with objects on record.
    pub fn not_evicted(&self, hub: &SimulatedHub) -> Option<&WorkKey> {
        self.applied.keys().find(|key| hub.object(key).is_none())
    }
}
