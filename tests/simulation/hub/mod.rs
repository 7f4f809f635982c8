//! A hub in memory: deterministic, with seeded faults. It passes the contract in `tests/contract`,
//! as a real kube-apiserver does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

// No channels of tokio: those do not work for a task that never yields to the runtime.
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use gitwork_core::model::approval::Approvals;
use gitwork_core::model::name::{ClusterName, CommitId, SourceId, WorkKey};
use gitwork_core::model::work::MANAGER;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_core::plan::record::Record;
use gitwork_core::plan::request::Request;
use gitwork_core::plan::{Effect, request};
use gitwork_hub::{HubError, HubEvent};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::fleet::machine_clock::MachineClock;
use crate::patch::{json_patch, merge_patch};

mod api_server;
mod requests;

/// The rate of each fault, in percent of the calls that it can affect.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// A call gets no response, and nothing is done.
    pub unavailable: u8,
    /// A write is done, and its response is lost.
    pub answer_lost: u8,
    /// An admission webhook rejects a write.
    pub refused: u8,
    /// All watches break just before a change, and miss it.
    pub watches_cut: u8,
}

/// ManifestWorks and records.
pub type Backup = (BTreeMap<WorkKey, Arc<Value>>, BTreeMap<SourceId, (Record, u64)>);

/// A change of one work; `None` if it is gone.
pub type WorkChange = (WorkKey, Option<Arc<Value>>);

/// A hub. Clones share their state.
#[derive(Clone)]
pub struct SimulatedHub {
    state: Arc<Mutex<State>>,
}

pub(super) struct State {
    clusters: BTreeSet<ClusterName>,
    works: BTreeMap<WorkKey, Arc<Value>>,
    /// The parsed works. Parsing takes long, and each resourceVersion has one content.
    read: BTreeMap<WorkKey, ObservedWork>,
    /// etcd's revision: the source of resourceVersions and uids.
    revision: u64,
    watchers: Vec<(SourceId, UnboundedSender<HubEvent>)>,
    /// All changes of each cluster's works, oldest first. Agents watch them.
    changes: BTreeMap<ClusterName, Vec<WorkChange>>,
    /// Fields of the spec that this hub's CRD does not have. They are dropped when an object is
    /// stored.
    unknown_fields: Vec<String>,
    /// The operators' approvals.
    pub(super) approved: Approvals,
    /// The records of sources, with their versions.
    pub(super) records: BTreeMap<SourceId, (Record, u64)>,
    faults: Faults,
    random: fastrand::Rng,
    /// If there is one, works say when gitwork wrote them last.
    clock: Option<MachineClock>,
    /// The number of writes that changed something.
    pub(super) writes: usize,
}

impl SimulatedHub {
    /// An empty hub with a namespace for each cluster.
    pub fn new(clusters: &[&str], seed: u64) -> Self {
        let state = State {
            clusters: clusters.iter().map(|name| ClusterName::parse(name).unwrap()).collect(),
            works: BTreeMap::new(),
            read: BTreeMap::new(),
            revision: 0,
            watchers: Vec::new(),
            changes: BTreeMap::new(),
            unknown_fields: Vec::new(),
            approved: Approvals::default(),
            records: BTreeMap::new(),
            faults: Faults::default(),
            random: fastrand::Rng::with_seed(seed),
            clock: None,
            writes: 0,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Lets works say from now on when gitwork wrote them last.
    pub fn keep_times(&self, clock: &MachineClock) {
        self.lock().clock = Some(clock.clone());
    }

    /// Drops these fields of the spec from now on, as an older CRD does.
    pub fn forget_fields(&self, fields: &[&str]) {
        self.lock().unknown_fields = fields.iter().map(|field| (*field).to_owned()).collect();
    }

    /// Breaks all watches. They list again by themselves.
    pub fn cut_watches(&self) {
        self.lock().watchers.clear();
    }

    /// The number of writes that changed something.
    pub fn writes(&self) -> usize {
        self.lock().writes
    }

    /// All raw objects.
    pub fn objects(&self) -> BTreeMap<WorkKey, Value> {
        let state = self.lock();
        state.works.iter().map(|(key, work)| (key.clone(), Value::clone(work))).collect()
    }

    /// The uid and the generation of each object.
    pub fn specs(&self) -> Vec<(WorkKey, String, i64)> {
        let state = self.lock();
        let uid = |work: &Value| work["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let works = state.works.iter();
        works.map(|(key, work)| (key.clone(), uid(work), generation(work))).collect()
    }

    /// One raw object.
    pub fn object(&self, key: &WorkKey) -> Option<Arc<Value>> {
        self.lock().works.get(key).cloned()
    }

    /// One object as gitwork reads it.
    pub fn observed(&self, key: &WorkKey) -> Option<ObservedWork> {
        self.lock().observed(key)
    }

    /// The resourceVersion of an object.
    pub fn version(&self, key: &WorkKey) -> Option<String> {
        let state = self.lock();
        state.works.get(key)?["metadata"]["resourceVersion"].as_str().map(str::to_owned)
    }

    /// A change of a cluster's works, by its number. An agent that watches sees them in this order.
    pub fn change(&self, cluster: &ClusterName, number: usize) -> Option<WorkChange> {
        self.lock().changes.get(cluster)?.get(number).cloned()
    }

    /// A work as it was with this resourceVersion.
    pub fn version_of(&self, key: &WorkKey, version: &str) -> Option<Arc<Value>> {
        let state = self.lock();
        let mut changes = state.changes.get(&key.cluster)?.iter().rev();
        let is_version = |work: &Arc<Value>| work["metadata"]["resourceVersion"] == version;
        changes.find_map(|(other, work)| work.clone().filter(|it| other == key && is_version(it)))
    }

    /// The names of all objects.
    pub fn keys(&self) -> Vec<WorkKey> {
        self.lock().works.keys().cloned().collect()
    }

    /// The content of the hub's etcd.
    pub fn back_up(&self) -> Backup {
        let state = self.lock();
        (state.works.clone(), state.records.clone())
    }

    /// Restores the hub's etcd from a backup with a higher revision (`etcdutl snapshot restore
    /// --bump-revision`). All watches break.
    pub fn restore(&self, (works, records): Backup) {
        let mut state = self.lock();
        state.clusters.extend(works.keys().map(|key| key.cluster.clone()));
        let before = std::mem::replace(&mut state.works, works);
        let now = state.works.clone();
        before.keys().filter(|key| !now.contains_key(key)).for_each(|key| state.note(key));
        now.keys().for_each(|key| state.note(key));
        state.records = records;
        state.revision += 1_000;
        state.watchers.clear();
    }

    /// Whether the cluster's namespace exists and accepts works.
    pub fn has_namespace(&self, cluster: &ClusterName) -> bool {
        self.lock().clusters.contains(cluster)
    }

    /// Deletes a cluster's namespace with all its works.
    pub fn delete_namespace(&self, cluster: &ClusterName) {
        let mut state = self.lock();
        state.clusters.remove(cluster);
        let works: Vec<WorkKey> =
            state.works.keys().filter(|key| key.cluster == *cluster).cloned().collect();
        for key in works {
            let _gone = state.delete(&key, None);
        }
    }

    /// Creates a cluster's namespace once the old one is gone. Returns whether that was possible.
    pub fn create_namespace(&self, cluster: &ClusterName) -> bool {
        let mut state = self.lock();
        let is_free = state.works.keys().all(|key| key.cluster != *cluster);
        if is_free {
            state.clusters.insert(cluster.clone());
        }
        is_free
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Another client's POST.
    pub fn user_creates(&self, work: Value) -> Result<Value, HubError> {
        let text =
            |pointer: &str| work.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let key = super::key(text("/metadata/namespace"), text("/metadata/name"));
        self.lock().create(&key, work).map(|work| Value::clone(&work))
    }

    /// Another client's merge patch of anything but the status.
    pub fn user_patches(&self, key: &WorkKey, patch: &Value) -> Stored {
        self.lock().modify(key, |work| {
            let status = work.get("status").cloned();
            merge_patch(work, patch);
            put_or_remove(work, "status", status);
            Ok(())
        })
    }

    /// A merge patch of the status.
    pub fn patch_status(&self, key: &WorkKey, patch: &Value) -> Stored {
        let status = patch.get("status").cloned().unwrap_or_default();
        self.lock().modify(key, |work| {
            merge_patch(&mut work["status"], &status);
            Ok(())
        })
    }

    /// A merge patch of the status, with a resourceVersion as its precondition.
    pub fn patch_status_at(&self, key: &WorkKey, version: &Value, patch: &Value) -> Stored {
        self.lock().modify(key, |work| {
            work["metadata"]["resourceVersion"] = version.clone();
            merge_patch(&mut work["status"], patch);
            Ok(())
        })
    }

    /// Another client's DELETE.
    pub fn user_deletes(&self, key: &WorkKey) -> Result<(), HubError> {
        self.lock().delete(key, None).map(drop)
    }

    /// The works of one source, or all of them.
    pub fn works_of(&self, source: Option<&SourceId>) -> Vec<ObservedWork> {
        self.lock().listed(source)
    }

    /// Makes one write at once.
    pub fn call(&self, key: &WorkKey, effect: &Effect, commit: Option<CommitId>) -> WorkResult {
        let mut state = self.lock();
        state.fail_at_random()?;
        let refused = state.faults.refused;
        if state.happens(refused) {
            let message = "denied by an admission webhook".into();
            return Err(HubError::WriteRejected { key: key.to_string(), message });
        }
        let cut = state.faults.watches_cut;
        if state.happens(cut) {
            state.watchers.clear();
        }
        let now = state.clock.as_ref().map(MachineClock::now);
        let stored = match request::request(key, effect, commit) {
            Request::Create(object) => {
                let mut object = object.into_value();
                set_written(&mut object, now);
                Some(state.create(key, object)?)
            }
            Request::JsonPatch(operations) => state.modify(key, |work| {
                json_patch(work, &operations.into_value())
                    .map_err(|message| HubError::WriteRejected { key: key.to_string(), message })?;
                set_written(work, now);
                Ok(())
            })?,
            Request::MergePatch(patch) => state.modify(key, |work| {
                merge_patch(work, &patch);
                set_written(work, now);
                Ok(())
            })?,
            Request::Delete { uid, resource_version } => {
                state.delete(key, Some((&uid, &resource_version)))?
            }
        };
        let lost = state.faults.answer_lost;
        if state.happens(lost) {
            return Err(unavailable("the response was lost"));
        }
        Ok(stored.and_then(|_| state.observed(key)))
    }
}

/// Sets when gitwork wrote the work last.
fn set_written(work: &mut Value, now: Option<Timestamp>) {
    if let Some(now) = now {
        let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        work["metadata"]["managedFields"] = json!([{"manager": MANAGER, "time": time}]);
    }
}

type WorkResult = Result<Option<ObservedWork>, HubError>;

/// An object after a write; `None` if it is gone.
type Stored = Result<Option<Arc<Value>>, HubError>;

fn unavailable(message: &str) -> HubError {
    HubError::Unavailable { message: message.into(), retry_after_seconds: None }
}

impl State {
    fn happens(&mut self, percent: u8) -> bool {
        self.random.u8(0..100) < percent
    }

    fn fail_at_random(&mut self) -> Result<(), HubError> {
        let percent = self.faults.unavailable;
        if self.happens(percent) { Err(unavailable("the hub is unavailable")) } else { Ok(()) }
    }

    fn store(&mut self, key: &WorkKey, mut work: Value) -> Arc<Value> {
        self.revision += 1;
        self.writes += 1;
        work["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let work = Arc::new(work);
        let old = self.works.insert(key.clone(), work.clone());
        self.note(key);
        self.notify(key, old.as_deref());
        work
    }

    fn remove(&mut self, key: &WorkKey) {
        self.revision += 1;
        self.writes += 1;
        let old = self.works.remove(key);
        self.note(key);
        self.notify(key, old.as_deref());
    }

    /// Adds the work's state to the changes that agents watch.
    fn note(&mut self, key: &WorkKey) {
        let work = self.works.get(key).cloned();
        self.changes.entry(key.cluster.clone()).or_default().push((key.clone(), work));
    }

    fn notify(&mut self, key: &WorkKey, old: Option<&Value>) {
        let mut watchers = std::mem::take(&mut self.watchers);
        watchers.retain(|(source, events)| {
            let was = old.is_some_and(|work| is_of(work, source));
            let is = self.works.get(key).is_some_and(|work| is_of(work, source));
            let event = match self.observed(key).filter(|_| is) {
                Some(work) => HubEvent::Changed(Box::new(work)),
                None if was => HubEvent::Gone(key.clone()),
                None => return !events.is_closed(),
            };
            events.unbounded_send(event).is_ok()
        });
        self.watchers = watchers;
    }

    fn listed(&mut self, source: Option<&SourceId>) -> Vec<ObservedWork> {
        let works = self.works.iter().filter(|(_, work)| source.is_none_or(|s| is_of(work, s)));
        let keys: Vec<WorkKey> = works.map(|(key, _)| key.clone()).collect();
        keys.iter().filter_map(|key| self.observed(key)).collect()
    }

    /// One work as gitwork reads it.
    fn observed(&mut self, key: &WorkKey) -> Option<ObservedWork> {
        let work = self.works.get(key)?;
        let version = &work["metadata"]["resourceVersion"];
        if let Some(read) = self.read.get(key).filter(|read| *version == *read.resource_version) {
            return Some(read.clone());
        }
        let read = ObservedWork::from_manifest_work(Value::clone(work)).unwrap();
        self.read.insert(key.clone(), read.clone());
        Some(read)
    }

    fn subscribe(&mut self, source: &SourceId) -> (HubEvent, UnboundedReceiver<HubEvent>) {
        let (sender, receiver) = unbounded();
        self.watchers.push((source.clone(), sender));
        (HubEvent::Listed(self.listed(Some(source)).into_iter().collect()), receiver)
    }
}

fn is_of(work: &Value, source: &SourceId) -> bool {
    work["metadata"]["labels"]["gitwork.dev/source"] == source.as_str()
}

pub(super) fn is_deleting(work: &Value) -> bool {
    work["metadata"].get("deletionTimestamp").is_some()
}

fn has_finalizers(work: &Value) -> bool {
    work["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty())
}

pub(super) fn generation(work: &Value) -> i64 {
    work["metadata"]["generation"].as_i64().unwrap()
}

fn put_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(fields) = object.as_object_mut() else { return };
    match value {
        Some(value) => drop(fields.insert(field.into(), value)),
        None => drop(fields.remove(field)),
    }
}

fn put_or_remove_null(object: &mut Value, field: &str) {
    if object.get(field).is_some_and(Value::is_null) {
        put_or_remove(object, field, None);
    }
}
