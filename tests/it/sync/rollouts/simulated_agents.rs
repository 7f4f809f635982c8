//! One task that acts as the agents of many clusters, and records what each cluster had.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures::StreamExt;
use gitwork_api::work::ManifestWork;
use gitwork_core::model::work::LABEL_SOURCE;
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::super::fixture::{value_of, works};
use super::stage::GROUP;

/// What an agent does with a work that has a given content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behavior {
    /// It applies it, and all is healthy.
    Apply,
    /// It reports nothing.
    Wait,
    /// Its API server rejects an object.
    Reject,
    /// It applies it, and an object does not become available.
    Unavailable,
}

/// The agents of the clusters that this process simulates.
pub struct SimulatedAgents {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    simulated: BTreeSet<String>,
    /// What the agents do, by the value of the content; else they apply it.
    behaviors: BTreeMap<String, Behavior>,
    /// What single agents do, by cluster and value.
    exceptions: BTreeMap<(String, String), Behavior>,
    /// The work as the hub has it, by cluster.
    works: BTreeMap<String, Seen>,
    /// The values that each cluster had, one after the other.
    history: BTreeMap<String, Vec<String>>,
    /// The largest number of clusters at a time that had a value and had not reported on it.
    most: BTreeMap<String, usize>,
    /// When each value came to a cluster, and when its agent reported it as healthy.
    arrivals: Vec<Moment>,
    reports: Vec<Moment>,
}

/// When something happened to a value on a cluster.
#[derive(Debug, Clone)]
pub struct Moment {
    pub at: Instant,
    pub cluster: String,
    pub value: String,
}

#[derive(Clone)]
struct Seen {
    value: String,
    generation: i64,
    manifests: usize,
    /// What the agent reported of this generation.
    reported: Option<Behavior>,
}

impl Drop for SimulatedAgents {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl SimulatedAgents {
    /// Follows the works `tills` of a source, and acts for the clusters of this list.
    pub fn start(client: Client, source: &str, simulated: &[String]) -> Self {
        let simulated = simulated.iter().cloned().collect();
        let state = Arc::new(Mutex::new(State { simulated, ..State::default() }));
        let changed = Arc::new(Notify::new());
        let (source, shared, notify) = (source.to_owned(), state.clone(), changed.clone());
        let task = tokio::spawn(async move { run(&client, &source, &shared, &notify).await });
        Self { state, changed, task }
    }

    fn state<T>(&self, read: impl FnOnce(&mut State) -> T) -> T {
        read(&mut self.state.lock().unwrap())
    }

    /// Sets what the agents do with the content of this value.
    pub fn set(&self, value: &str, behavior: Behavior) {
        self.state(|state| state.behaviors.insert(value.to_owned(), behavior));
        self.changed.notify_one();
    }

    /// Sets what the agent of one cluster does with it.
    pub fn set_of(&self, cluster: &str, value: &str, behavior: Behavior) {
        let at = (cluster.to_owned(), value.to_owned());
        self.state(|state| state.exceptions.insert(at, behavior));
        self.changed.notify_one();
    }

    /// The clusters that have this content and have not reported on it.
    pub fn in_progress(&self, value: &str) -> BTreeSet<String> {
        self.state(|state| state.in_progress(value))
    }

    /// The largest number of clusters at a time that have had this content in progress.
    pub fn most_in_progress(&self, value: &str) -> usize {
        self.state(|state| state.most.get(value).copied().unwrap_or_default())
    }

    /// The clusters that got this value, in this order.
    pub fn arrivals(&self, value: &str) -> Vec<Moment> {
        self.state(|state| moments_of(value, &state.arrivals))
    }

    /// When the agents reported this value as healthy, just before they did.
    pub fn reports(&self, value: &str) -> Vec<Moment> {
        self.state(|state| moments_of(value, &state.reports))
    }

    /// The values that a cluster had, one after the other, without repetitions.
    pub fn history(&self, cluster: &str) -> Vec<String> {
        self.state(|state| state.history.get(cluster).cloned().unwrap_or_default())
    }
}

fn moments_of(value: &str, all: &[Moment]) -> Vec<Moment> {
    all.iter().filter(|one| one.value == value).cloned().collect()
}

impl State {
    fn in_progress(&self, value: &str) -> BTreeSet<String> {
        let works = self.works.iter();
        let waiting = works.filter(|(cluster, seen)| {
            self.simulated.contains(*cluster) && seen.value == value && seen.reported.is_none()
        });
        waiting.map(|(cluster, _)| cluster.clone()).collect()
    }

    fn observe(&mut self, work: &ManifestWork) {
        let (Some(cluster), Some(value)) = (work.namespace(), value_of(work)) else { return };
        let generation = work.metadata.generation.unwrap_or_default();
        let before = self.works.get(&cluster);
        let reported = before.filter(|seen| seen.generation == generation);
        let manifests = work.spec.workload.as_ref().map_or(0, |workload| workload.manifests.len());
        let seen = Seen {
            value: value.clone(),
            generation,
            manifests,
            reported: reported.and_then(|seen| seen.reported),
        };
        let history = self.history.entry(cluster.clone()).or_default();
        if history.last() != Some(&value) {
            history.push(value.clone());
            let at = Instant::now();
            self.arrivals.push(Moment { at, cluster: cluster.clone(), value: value.clone() });
        }
        self.works.insert(cluster, seen);
        let now = self.in_progress(&value).len();
        let most = self.most.entry(value).or_default();
        *most = now.max(*most);
    }

    /// The reports that are due: cluster, work and behavior.
    fn due(&self) -> Vec<(String, Seen, Behavior)> {
        let simulated = self.works.iter().filter(|(cluster, _)| self.simulated.contains(*cluster));
        let due = simulated.filter_map(|(cluster, seen)| {
            let exception = self.exceptions.get(&(cluster.clone(), seen.value.clone()));
            let behavior = exception.or_else(|| self.behaviors.get(&seen.value));
            let behavior = behavior.copied().unwrap_or(Behavior::Apply);
            let is_due = behavior != Behavior::Wait && seen.reported != Some(behavior);
            is_due.then(|| (cluster.clone(), seen.clone(), behavior))
        });
        due.collect()
    }
}

async fn run(client: &Client, source: &str, state: &Mutex<State>, changed: &Notify) {
    let all: Api<ManifestWork> = Api::all(client.clone());
    let config = watcher::Config::default().labels(&format!("{LABEL_SOURCE}={source}"));
    let mut events = watcher(all, config).default_backoff().boxed();
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(Event::Apply(work) | Event::InitApply(work))) => {
                    if work.name_any() == GROUP {
                        state.lock().unwrap().observe(&work);
                    }
                }
                Some(Ok(Event::Delete(work))) => {
                    let cluster = work.namespace().unwrap_or_default();
                    if work.name_any() == GROUP {
                        state.lock().unwrap().works.remove(&cluster);
                    }
                }
                // An error is followed by a new list.
                Some(_) => {}
                None => return,
            },
            () = changed.notified() => {}
        }
        let due = state.lock().unwrap().due();
        for (cluster, seen, behavior) in due {
            let at = Instant::now();
            report(client, &cluster, &seen, behavior).await;
            let mut state = state.lock().unwrap();
            if behavior == Behavior::Apply {
                let moment = Moment { at, cluster: cluster.clone(), value: seen.value };
                state.reports.push(moment);
            }
            if let Some(work) = state.works.get_mut(&cluster) {
                work.reported = Some(behavior);
            }
        }
    }
}

/// Writes what the agent says of this generation, as gitwork's and OCM's agents do since they say
/// when they applied each object.
async fn report(client: &Client, cluster: &str, seen: &Seen, behavior: Behavior) {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = |is_true: bool| if is_true { "True" } else { "False" };
    let condition = |kind: &str, is_true: bool| {
        json!({
            "type": kind, "status": status(is_true), "observedGeneration": seen.generation,
            "reason": "Simulated", "message": "", "lastTransitionTime": now,
        })
    };
    let conditions = [
        condition("Applied", behavior != Behavior::Reject),
        condition("Available", behavior == Behavior::Apply),
    ];
    let manifests: Vec<Value> = (0..seen.manifests)
        .map(|ordinal| {
            json!({"resourceMeta": {"ordinal": ordinal, "kind": "ConfigMap"},
                "conditions": conditions})
        })
        .collect();
    let patch = json!({"status": {
        "conditions": conditions, "resourceStatus": {"manifests": manifests},
    }});
    let params = PatchParams::default();
    match works(client.clone(), cluster).patch_status(GROUP, &params, &Patch::Merge(patch)).await {
        Ok(_) => {}
        // The work is gone, which is an event of its own.
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => panic!("{cluster}: {error}"),
    }
}
