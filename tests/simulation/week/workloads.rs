//! The clusters: their agents, the controllers of their workloads, and what reaches them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::{ClusterName, WorkKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::history::History;
use crate::agents::{Agents, Object};
use crate::hub::{SimulatedHub, generation, is_deleting};
use crate::moves::listed;

/// How long the replicas of a workload take to become ready.
const START: SignedDuration = SignedDuration::from_secs(45);
/// How often an agent looks for a work that the hub no longer has.
const RETRY: SignedDuration = SignedDuration::from_secs(60);

/// The state of a work that an agent acted on.
type Version = (Value, i64, bool);

/// All clusters. They run on, whoever reaches them.
pub struct Clusters {
    hub: SimulatedHub,
    agents: Arc<Mutex<Agents>>,
    /// The number of writes of the hub that were seen; `None`: something else may have changed.
    writes: Option<usize>,
    /// The number of changes of each cluster's works that were seen on the hub.
    seen: BTreeMap<ClusterName, usize>,
    /// The works that agents have to act on.
    pending: BTreeSet<WorkKey>,
    acted_on: BTreeMap<WorkKey, Version>,
    /// The workloads that start, each with the work that has it.
    starting: BTreeSet<(Timestamp, Object, WorkKey)>,
    /// Works that the hub does not have, and when their agents look again.
    absent: BTreeMap<WorkKey, Timestamp>,
    /// An image whose containers crash, and where.
    crashing: Option<CrashingImage>,
}

struct CrashingImage {
    image: String,
    is_on: fn(&str) -> bool,
}

impl Clusters {
    pub fn new(hub: &SimulatedHub, agents: &Arc<Mutex<Agents>>) -> Self {
        Self {
            hub: hub.clone(),
            agents: agents.clone(),
            writes: None,
            seen: BTreeMap::new(),
            pending: BTreeSet::new(),
            acted_on: BTreeMap::new(),
            starting: BTreeSet::new(),
            absent: BTreeMap::new(),
            crashing: None,
        }
    }

    pub fn agents(&self) -> MutexGuard<'_, Agents> {
        self.agents.lock().unwrap()
    }

    /// From now on, containers with this image crash on some clusters.
    pub fn crash(&mut self, image: &str, is_on: fn(&str) -> bool) {
        self.crashing = Some(CrashingImage { image: image.to_owned(), is_on });
    }

    /// What agents and controllers do at this time. `cut`: the agents that cannot reach the hub.
    pub fn act(&mut self, now: Timestamp, cut: &BTreeSet<ClusterName>, history: &mut History) {
        let agents = self.agents.clone();
        let mut agents = agents.lock().unwrap();
        agents.now = now;
        agents.cut.clone_from(cut);
        self.observe_hub(now, history);
        self.run_controllers(now, &mut agents);
        let due = self.absent.iter().filter(|(_, at)| **at <= now);
        self.pending.extend(due.map(|(key, _)| key.clone()));
        let reached = self.pending.extract_if(.., |key| !cut.contains(&key.cluster));
        for key in reached.collect::<Vec<_>>() {
            self.act_on(now, &mut agents, &key);
        }
        assert_eq!(agents.take_wrong(), None);
        history.observe_objects(now, agents.take_events().0);
        history.observe_tills(now, &agents);
    }

    /// Reads all changes of works on the hub since the last time.
    fn observe_hub(&mut self, now: Timestamp, history: &mut History) {
        let writes = Some(self.hub.writes());
        if std::mem::replace(&mut self.writes, writes) == writes {
            return;
        }
        for cluster in history.clusters() {
            let seen = self.seen.entry(cluster.clone()).or_default();
            while let Some((key, work)) = self.hub.change(&cluster, *seen) {
                *seen += 1;
                history.observe_work(now, &key, work.as_deref());
                let version = work.as_deref().map(version);
                if version.is_none() || self.acted_on.get(&key) != version.as_ref() {
                    self.pending.insert(key);
                }
            }
        }
    }

    fn act_on(&mut self, now: Timestamp, agents: &mut Agents, key: &WorkKey) {
        agents.step(&self.hub, key);
        let Some(work) = self.hub.object(key) else {
            self.acted_on.remove(key);
            match agents.recorded(key).is_empty() {
                true => drop(self.absent.remove(key)),
                false => drop(self.absent.insert(key.clone(), now + RETRY)),
            }
            return;
        };
        self.absent.remove(key);
        self.acted_on.insert(key.clone(), version(&work));
        for id in listed(&work).into_iter().filter(|id| id.group == "apps") {
            let object = (key.cluster.clone(), id);
            let is_new = |live: &crate::cluster::Live| {
                let seen = &live.object.get("status").cloned().unwrap_or_default();
                seen["observedGeneration"] != live.object["metadata"]["generation"]
            };
            if agents.get(&object).is_some_and(is_new) {
                self.starting.insert((now + START, object, key.clone()));
            }
        }
    }

    /// Lets workloads become ready whose replicas have started.
    fn run_controllers(&mut self, now: Timestamp, agents: &mut Agents) {
        while self.starting.first().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, object, key)) = self.starting.pop_first() else { break };
            let Some(live) = agents.get(&object) else { continue };
            let text = Value::Object(live.object.clone()).to_string();
            let crashes = self.crashing.as_ref().is_some_and(|CrashingImage { image, is_on }| {
                is_on(object.0.as_str()) && text.contains(&format!("{image}\""))
            });
            let status = status(&live.object["spec"], &live.object["metadata"], !crashes);
            let (cluster, id) = object;
            agents.cluster(&cluster).patch(&id, &json!({"status": status})).unwrap();
            self.acted_on.remove(&key);
            self.pending.insert(key);
        }
    }

    /// Looks at all works on the hub once more: it was restored.
    pub fn meet_restored_hub(&mut self) {
        self.writes = None;
    }

    /// Forgets the agent of a cluster, which is uninstalled.
    pub fn uninstall(&mut self, cluster: &ClusterName) {
        self.absent.retain(|key, _| key.cluster != *cluster);
        self.pending.retain(|key| key.cluster != *cluster);
    }

    /// A reachable agent that has not applied what the hub has.
    pub fn lagging(&self, cut: &BTreeSet<ClusterName>) -> Option<WorkKey> {
        let reached = self.hub.keys().into_iter().filter(|key| !cut.contains(&key.cluster));
        let mut reached = reached.filter(|key| {
            let work = self.hub.object(key);
            self.acted_on.get(key) != work.as_deref().map(version).as_ref()
        });
        reached.next()
    }
}

fn version(work: &Value) -> Version {
    (work["metadata"]["uid"].clone(), generation(work), is_deleting(work))
}

/// What the controllers of Deployments, StatefulSets and DaemonSets report.
fn status(spec: &Value, metadata: &Value, is_ready: bool) -> Value {
    let replicas = spec["replicas"].as_i64().unwrap_or(1);
    let ready = if is_ready { replicas } else { 0 };
    json!({
        "observedGeneration": metadata["generation"],
        "replicas": replicas, "updatedReplicas": replicas,
        "availableReplicas": ready, "readyReplicas": ready,
        "desiredNumberScheduled": 1, "updatedNumberScheduled": 1,
        "numberAvailable": i64::from(is_ready),
    })
}

/// The identity of an object in the namespace of the shops.
pub fn shop(group: &str, resource: &str, name: &str) -> Identity {
    Identity {
        group: group.into(),
        resource: resource.into(),
        namespace: "shop".into(),
        name: name.into(),
    }
}
