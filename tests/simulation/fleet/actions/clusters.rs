//! Agents, and users of the clusters.

use std::collections::BTreeSet;

use gitwork_core::model::name::{ClusterName, WorkKey};
use serde_json::json;

use crate::agents::{Agents, identity};
use crate::fleet::run::World;
use crate::git_work::{config_map, manifest, object_name};
use crate::hub::SimulatedHub;
use crate::key;
use crate::refactoring::all_names;
use crate::world::CLUSTERS;

impl World {
    /// Deletes a cluster's namespace, by mistake or because the cluster is detached, or creates it
    /// again.
    pub(super) fn delete_or_create_namespace(&mut self) {
        let cluster = self.any_key().cluster;
        if !self.hub.has_namespace(&cluster) {
            self.create_namespace(&cluster);
            return;
        }
        let is_detached = self.random.bool();
        self.checker.trace(|| format!("{cluster} loses its namespace; detached: {is_detached}"));
        self.checker.disturb_cluster(&cluster);
        self.hub.delete_namespace(&cluster);
        let keys = self.hub.keys().into_iter().filter(|key| key.cluster == cluster);
        let keys: Vec<WorkKey> = keys.collect();
        if is_detached {
            self.checker.agents.lock().unwrap().cut.insert(cluster);
            for key in &keys {
                // No agent is left to remove the finalizer: the hub does.
                let without = json!({"metadata": {"finalizers": null}});
                self.hub.user_patches(key, &without).unwrap();
            }
        }
        self.observe_all();
    }

    pub(super) fn observe_all(&self) {
        for cluster in CLUSTERS {
            all_names().for_each(|name| self.checker.observe(&key(cluster, name)));
        }
    }

    pub(super) fn create_namespace(&mut self, cluster: &ClusterName) {
        if self.hub.create_namespace(cluster) {
            self.checker.agents.lock().unwrap().cut.remove(cluster);
            self.checker.trace(|| format!("{cluster} has its namespace again"));
        }
    }

    pub(in crate::fleet) fn create_missing_namespaces(&mut self) {
        self.settle();
        for cluster in CLUSTERS {
            let cluster = ClusterName::parse(cluster).unwrap();
            if !self.hub.has_namespace(&cluster) {
                self.create_namespace(&cluster);
            }
        }
    }

    pub(in crate::fleet) fn agents_step(&mut self) {
        for _ in 0..self.random.u8(1..6) {
            self.agent_acts();
        }
        if self.chance(40) {
            self.settle();
        }
    }

    /// Lets an agent act on a work.
    fn agent_step(&mut self, key: &WorkKey) {
        self.with_agents(key, |agents, hub, _| {
            agents.step(hub, key);
            BTreeSet::new()
        });
        self.checker.observe(key);
    }

    /// Lets the agent of a cluster do a part of its work.
    pub(in crate::fleet) fn agent_acts(&mut self) {
        let key = self.any_key();
        let acted_on = self.with_agents(&key, |agents, hub, random| agents.act(hub, &key, random));
        acted_on.iter().for_each(|key| self.checker.observe(key));
    }

    fn with_agents(
        &mut self,
        key: &WorkKey,
        act: impl FnOnce(&mut Agents, &SimulatedHub, &mut fastrand::Rng) -> BTreeSet<WorkKey>,
    ) -> BTreeSet<WorkKey> {
        let mut agents = self.checker.agents.lock().unwrap();
        agents.now = self.cluster_time();
        let acted_on = act(&mut agents, &self.hub, &mut self.random);
        let wrong = agents.take_wrong();
        drop(agents);
        // Works that are gone without their agent are evicted, whatever the others let stay.
        let is_disturbed = self.checker.is_cluster_disturbed(&key.cluster);
        if let Some(why) = wrong.filter(|_| !is_disturbed) {
            self.checker.fail(|| format!("the agent of {key}: {why}"));
        }
        self.checker.follow_objects();
        acted_on
    }

    /// Lets every agent act until it has nothing to do.
    pub(in crate::fleet) fn settle(&mut self) {
        let agents = self.checker.agents.lock().unwrap();
        let keys = agents.keys(&self.hub);
        let cut = agents.cut.clone();
        drop(agents);
        for key in keys.into_iter().filter(|key| !cut.contains(&key.cluster)) {
            let before = self.hub.version(&key);
            if before.is_some() && before.as_ref() == self.acted_on.get(&key) {
                continue;
            }
            self.agent_step(&key);
            match self.hub.version(&key) {
                Some(after) => drop(self.acted_on.insert(key, after)),
                None => drop(self.acted_on.remove(&key)),
            }
        }
        self.observe_all();
        self.checker.trace(|| "the agents are idle".into());
    }

    /// Cuts an agent off from the hub, or connects it again.
    pub(super) fn cut_agent(&mut self) {
        let cluster = self.any_key().cluster;
        let mut agents = self.checker.agents.lock().unwrap();
        let is_cut = !agents.cut.remove(&cluster);
        if is_cut {
            agents.cut.insert(cluster.clone());
        }
        drop(agents);
        self.checker.trace(|| format!("the agent of {cluster} is cut off: {is_cut}"));
    }

    /// A user edits, deletes or creates an object on a cluster.
    pub(super) fn cluster_user(&mut self) {
        let key = self.any_key();
        let name = if self.random.bool() { "a" } else { "b" };
        let mut agents = self.checker.agents.lock().unwrap();
        let cluster = agents.cluster(&key.cluster);
        let id = config_map(&object_name(&key, name));
        let what = match self.random.u8(..6) {
            0 | 1 => {
                cluster.user_edits(&id, "edited");
                "edits"
            }
            2 => {
                cluster.user_deletes(&id);
                "deletes"
            }
            3 => {
                cluster.user_recreates(&id, false);
                "creates again"
            }
            4 => {
                cluster.user_recreates(&id, true);
                "creates again, with its owners,"
            }
            _ => {
                let theirs = manifest(&object_name(&key, "foreign"), "theirs");
                let id = identity(&theirs);
                let _there = theirs.as_object().map(|fields| cluster.create(&id, fields.clone()));
                self.foreign.insert((key.cluster.clone(), id));
                "creates an object beside"
            }
        };
        drop(agents);
        self.checker.follow_objects();
        self.come_back(&key);
        self.checker.trace(|| format!("on the cluster, a user {what} {name} of {key}"));
    }

    /// Agents come back to the work, and to any other that may have its objects.
    pub(super) fn come_back(&mut self, key: &WorkKey) {
        self.acted_on.retain(|other, _| other.cluster != key.cluster);
    }

    pub(super) fn fail_objects(&mut self) {
        let key = self.any_key();
        let object = (key.cluster.clone(), config_map(&object_name(&key, "a")));
        let mut agents = self.checker.agents.lock().unwrap();
        if !agents.failing.remove(&object) {
            agents.failing.insert(object);
        }
        drop(agents);
        self.acted_on.clear();
        self.checker.trace(|| format!("an object of {key} can, or cannot, be applied"));
    }
}
