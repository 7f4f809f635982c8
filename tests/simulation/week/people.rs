//! What operators do: they push, approve, register clusters and remove them, and restore the hub.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gitwork_core::model::approval::{Approval, Approvals, RolloutApproval, RolloutStep};
use gitwork_core::model::digest::Digest;
use gitwork_core::model::facts::ClusterFacts;
use gitwork_core::model::name::{ClusterName, GroupName, WorkKey};
use gitwork_core::plan::guard::Guard;
use gitwork_core::plan::rollout_progress::GroupProgress;
use serde_json::json;

use super::clusters;
use super::history::Version;
use super::world::World;
use crate::fleet::groups::hub_facts::HubFacts;
use crate::fleet::process::Process;
use crate::hub::Backup;

/// The group of the stores.
pub const GROUP: &str = "stores";
pub const GROUP_FILE: &str = "groups/stores/group.yaml";

/// A backup of the hub's etcd.
pub struct HubBackup {
    works: Backup,
    facts: HubFacts,
    approvals: Approvals,
}

impl World {
    fn hint(&self) {
        self.process.iter().for_each(Process::hint);
    }

    /// Somebody pushes a version of the tills. Switzerland gets the one before.
    pub fn release(&mut self, tags: [&'static str; 2]) {
        let last = self.history.versions.last().map(|version| version.tags);
        self.history.versions.push(Version {
            tags,
            approved: None,
            has_failed: false,
            is_rejected: false,
        });
        let Some(last) = last else { return };
        let line = |tag: &str| format!("TILLS_TAG: {tag}\n");
        let swiss = |tag: &str| format!("values: {{TILLS_TAG: {tag}}}");
        let mut texts = vec![(line(last[0]), line(tags[0]))];
        if last[1] != tags[1] {
            texts.push((swiss(last[1]), swiss(tags[1])));
        }
        let texts: Vec<(&str, &str)> =
            texts.iter().map(|(old, new)| (old.as_str(), new.as_str())).collect();
        self.repository.replace(GROUP_FILE, &texts);
        self.hint();
    }

    /// Somebody changes one file and pushes.
    pub fn edit(&mut self, path: &str, texts: &[(&str, &str)]) {
        self.repository.replace(path, texts);
        self.hint();
    }

    /// Somebody pushes a commit that splits `monitoring` into `metrics` and `logs`.
    pub fn split_monitoring(&mut self) {
        self.repository.commit(|files| {
            let moved = std::mem::take(files).into_iter().map(|(path, file)| {
                let to = match path.ends_with("log-shipper.yaml") {
                    true => "everywhere/logs/",
                    false => "everywhere/metrics/",
                };
                (path.replace("everywhere/monitoring/", to), file)
            });
            files.extend(moved);
            files.insert("groups/everywhere/logs/work.yaml".into(), "dependsOn: [base]\n".into());
        });
        self.hint();
    }

    /// How far the rollout of the stores has come, as gitwork reports it.
    pub fn progress(&self) -> GroupProgress {
        let status = self.status().expect("a status");
        let mut rollouts = status.rollouts.iter();
        rollouts.find(|progress| progress.group == GROUP).expect("a rollout").clone()
    }

    /// The stores for which gitwork has stopped the rollout, by its record on the hub.
    pub fn rejected(&self) -> BTreeSet<ClusterName> {
        let record = self.hub.lock().records[&self.id].0.clone();
        let group = GroupName::parse(GROUP).unwrap();
        record.rollouts[&group].rejected.clone().map_or_else(BTreeSet::new, |it| it.clusters)
    }

    /// Somebody approves the wave of the first country by the hash that gitwork reports, if gitwork
    /// already asks for it.
    pub fn approve_countries(&mut self) {
        let progress = self.progress();
        let step = RolloutApproval {
            group: GroupName::parse(GROUP).unwrap(),
            content: Digest::parse(&progress.content).unwrap(),
            step: RolloutStep::Wave("germany".into()),
        };
        let approval = Approval::Rollout { source: self.id.clone(), step };
        if let Some(hash) = progress.approval {
            assert_eq!(hash, approval.hash().to_string(), "{:?}", progress.waits_for);
        }
        self.hub.lock().approved.add(&self.id, approval);
        let now = self.clock.now();
        self.history.versions.last_mut().unwrap().approved = Some(now);
    }

    /// Two stores of these cities join, one each.
    pub fn join(&mut self, cities: [usize; 2]) {
        for city in cities {
            let mut later = (clusters::STORES_OF_A_CITY + 1..).map(|it| clusters::store(city, it));
            let new = later.find(|(name, _)| !self.history.stores.contains_key(name));
            let (name, facts) = new.expect("a number");
            self.history.add(&name, &facts);
            self.register(&name);
            self.facts.change(|all| drop(all.clusters.insert(name, Arc::new(facts))));
        }
    }

    /// The hub gets a namespace for the cluster, and its agent may read it.
    fn register(&mut self, cluster: &ClusterName) {
        assert!(self.hub.create_namespace(cluster), "{cluster} has works");
        self.unregistered.remove(cluster);
    }

    /// A store leaves: its ManagedCluster goes with all of its works.
    pub fn detach(&mut self, store: &str) {
        let cluster = ClusterName::parse(store).unwrap();
        assert!(self.history.stores.contains_key(&cluster));
        self.history.left.insert(cluster.clone());
        self.facts.change(|facts| drop(facts.clusters.remove(&cluster)));
        self.hub.delete_namespace(&cluster);
    }

    /// The agent of a store that has left is removed, too.
    pub fn uninstall(&mut self, store: &str) {
        let cluster = ClusterName::parse(store).unwrap();
        assert!(self.hub.keys().iter().all(|key| key.cluster != cluster), "{store} has works");
        self.clusters.uninstall(&cluster);
        self.unregistered.insert(cluster);
    }

    pub fn back_up(&self) -> HubBackup {
        let approvals = self.hub.lock().approved.clone();
        HubBackup { works: self.hub.back_up(), facts: self.facts.now(), approvals }
    }

    /// The hub and the machine of gitwork are gone.
    pub fn lose_hub(&mut self) {
        self.process.take().expect("a process").kill();
        self.is_hub_dead = true;
    }

    /// Somebody restores the hub. It does not know the stores that joined since the backup, and
    /// still knows those that have left.
    pub fn restore(&mut self, backup: HubBackup) {
        self.hub.restore(backup.works);
        self.hub.lock().approved = backup.approvals;
        self.facts.change(|facts| *facts = backup.facts);
        self.is_hub_dead = false;
        let known = self.facts.now().clusters;
        let unknown = self.history.members().map(|(cluster, _)| cluster);
        let unknown = unknown.filter(|cluster| !known.contains_key(*cluster)).cloned();
        self.unregistered.extend(unknown.collect::<Vec<_>>());
        self.history.is_unconfirmed = true;
    }

    /// Stores that joined since the backup are registered again, and those that had left are
    /// removed again.
    pub fn repair_registrations(&mut self) {
        let known = self.facts.now().clusters;
        let members = self.history.members().map(|(cluster, _)| cluster.clone());
        let missing: Vec<ClusterName> =
            members.filter(|cluster| !known.contains_key(cluster)).collect();
        assert!(!missing.is_empty());
        let left: Vec<ClusterName> =
            self.history.left.iter().filter(|it| known.contains_key(*it)).cloned().collect();
        assert!(!left.is_empty());
        let missing: BTreeMap<ClusterName, Arc<ClusterFacts>> = clusters::all_stores()
            .filter(|(cluster, _)| missing.contains(cluster))
            .map(|(cluster, facts)| (cluster, Arc::new(facts)))
            .collect();
        missing.keys().for_each(|cluster| self.register(cluster));
        self.facts.change(|facts| {
            facts.clusters.retain(|cluster, _| !left.contains(cluster));
            facts.clusters.extend(missing);
        });
        for cluster in &left {
            // No agent is there to do it.
            let works = self.hub.keys().into_iter().filter(|key| key.cluster == *cluster);
            for key in works.collect::<Vec<WorkKey>>() {
                self.hub.user_patches(&key, &json!({"metadata": {"finalizers": []}})).unwrap();
            }
            self.hub.delete_namespace(cluster);
        }
    }

    /// Somebody confirms that the hub was restored, by the hash that gitwork reports.
    pub fn confirm_restore(&mut self) {
        let status = self.status().expect("a status");
        let held = status.held.iter().find(|held| held.guard == Guard::Restore);
        let held = held.expect("changes that wait for the confirmation");
        let record = self.hub.lock().records[&self.id].0.clone();
        let record_generation = record.unconfirmed_restore().expect("a restored hub");
        let approval = Approval::Restored { source: self.id.clone(), record_generation };
        assert_eq!(held.hash, approval.hash(), "{}", held.reason);
        self.hub.lock().approved.add(&self.id, approval);
        self.history.is_unconfirmed = false;
    }
}
