//! A hub in memory: deterministic, with seeded faults. `tests/contract` says what it has to be like, and a real
//! kube-apiserver passes the same list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

// Not tokio's channels: those stand still for a task that never yields to the runtime.
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use gitwork::api::work::manifest_work_spec_schema;
use gitwork::core::approval::Approvals;
use gitwork::core::directives::Directives;
use gitwork::core::effect::{self, Request};
use gitwork::core::name::{ClusterName, CommitId, SourceId, WorkKey};
use gitwork::core::observed::ObservedWork;
use gitwork::core::plan::Effect;
use gitwork::core::record::Record;
use gitwork::hub::{Hub, HubError, HubEvent, StoredRecord};
use serde_json::{Value, json};

use super::patch::{json_patch, merge_patch};

/// The schema of a ManifestWork's spec, for its defaults.
static SCHEMA: LazyLock<Value> = LazyLock::new(manifest_work_spec_schema);

/// How often each fault strikes, in percent of the calls that it may strike.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// A call is not answered, and nothing was done.
    pub unavailable: u8,
    /// A write is done, and its answer lost.
    pub answer_lost: u8,
    /// An admission webhook refuses a write.
    pub refused: u8,
    /// All watches break just before a change, and miss it.
    pub watches_cut: u8,
}

/// ManifestWorks and records.
pub type Backup = (BTreeMap<WorkKey, Arc<Value>>, BTreeMap<SourceId, (Record, u64)>);

/// Shared by all its users; cloning it gives another hand on the same hub.
#[derive(Clone)]
pub struct SimulatedHub {
    state: Arc<Mutex<State>>,
}

pub(super) struct State {
    clusters: BTreeSet<ClusterName>,
    works: BTreeMap<WorkKey, Arc<Value>>,
    /// What was read off each of them: it takes long, and every resourceVersion stands for one content.
    read: BTreeMap<WorkKey, ObservedWork>,
    /// etcd's revision: the source of resourceVersions and uids.
    revision: u64,
    watchers: Vec<(SourceId, UnboundedSender<HubEvent>)>,
    /// Fields of the spec that this hub's CRD does not have: they are dropped when an object is stored.
    unknown_fields: Vec<String>,
    /// What somebody has approved.
    pub(super) approved: Approvals,
    /// Records of sources, and how often each was written.
    pub(super) records: BTreeMap<SourceId, (Record, u64)>,
    faults: Faults,
    random: fastrand::Rng,
    /// Writes that were done and changed something.
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
            unknown_fields: Vec::new(),
            approved: Approvals::default(),
            records: BTreeMap::new(),
            faults: Faults::default(),
            random: fastrand::Rng::with_seed(seed),
            writes: 0,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// From now on the hub drops these fields of the spec, as an older CRD does.
    pub fn forget_fields(&self, fields: &[&str]) {
        self.lock().unknown_fields = fields.iter().map(|field| (*field).to_owned()).collect();
    }

    /// Breaks all watches; they list again by themselves.
    pub fn cut_watches(&self) {
        self.lock().watchers.clear();
    }

    /// How many writes changed something.
    pub fn writes(&self) -> usize {
        self.lock().writes
    }

    /// All raw objects.
    pub fn objects(&self) -> BTreeMap<WorkKey, Value> {
        let state = self.lock();
        state.works.iter().map(|(key, work)| (key.clone(), Value::clone(work))).collect()
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

    /// The names of all objects.
    pub fn keys(&self) -> Vec<WorkKey> {
        self.lock().works.keys().cloned().collect()
    }

    /// All that is in the hub's etcd.
    pub fn back_up(&self) -> Backup {
        let state = self.lock();
        (state.works.clone(), state.records.clone())
    }

    /// The hub's etcd is restored from a backup, with its revision moved on (`etcdutl snapshot restore
    /// --bump-revision`), and all watches break.
    pub fn restore(&self, (works, records): Backup) {
        let mut state = self.lock();
        state.clusters.extend(works.keys().map(|key| key.cluster.clone()));
        state.works = works;
        state.records = records;
        state.revision += 1_000;
        state.watchers.clear();
    }

    /// Whether the cluster's namespace is there and takes works.
    pub fn has_namespace(&self, cluster: &ClusterName) -> bool {
        self.lock().clusters.contains(cluster)
    }

    /// A cluster's namespace is being deleted, and all its works with it.
    pub fn delete_namespace(&self, cluster: &ClusterName) {
        let mut state = self.lock();
        state.clusters.remove(cluster);
        let works: Vec<WorkKey> =
            state.works.keys().filter(|key| key.cluster == *cluster).cloned().collect();
        for key in works {
            let _gone = state.delete(&key, None);
        }
    }

    /// A cluster's namespace is made, once the old one is gone. Answers whether it could be.
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

    /// Somebody else's POST.
    pub fn user_creates(&self, work: Value) -> Result<Value, HubError> {
        let text =
            |pointer: &str| work.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let key = super::key(text("/metadata/namespace"), text("/metadata/name"));
        self.lock().create(&key, work).map(|work| Value::clone(&work))
    }

    /// Somebody else's merge patch of anything but the status.
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

    /// Somebody else's DELETE.
    pub fn user_deletes(&self, key: &WorkKey) -> Result<(), HubError> {
        self.lock().delete(key, None).map(drop)
    }

    /// The works of one source, or all of them.
    pub fn works_of(&self, source: Option<&SourceId>) -> Vec<ObservedWork> {
        self.lock().listed(source)
    }

    /// One write, at once.
    pub fn call(&self, key: &WorkKey, effect: &Effect, commit: Option<CommitId>) -> Answer {
        let mut state = self.lock();
        state.fail_at_random()?;
        let refused = state.faults.refused;
        if state.strikes(refused) {
            let message = "an admission webhook said no".into();
            return Err(HubError::Refused { key: key.to_string(), message });
        }
        let cut = state.faults.watches_cut;
        if state.strikes(cut) {
            state.watchers.clear();
        }
        let stored = match effect::request(key, effect, commit) {
            Request::Create(object) => Some(state.create(key, object)?),
            Request::JsonPatch(operations) => state.modify(key, |work| {
                json_patch(work, &operations)
                    .map_err(|message| HubError::Refused { key: key.to_string(), message })
            })?,
            Request::MergePatch(patch) => state.modify(key, |work| {
                merge_patch(work, &patch);
                Ok(())
            })?,
            Request::Delete { uid, resource_version } => {
                state.delete(key, Some((&uid, &resource_version)))?
            }
        };
        let lost = state.faults.answer_lost;
        if state.strikes(lost) {
            return Err(unavailable("the answer was lost"));
        }
        Ok(stored.and_then(|_| state.observed(key)))
    }
}

type Answer = Result<Option<ObservedWork>, HubError>;

/// An object as it stands after a write; `None` where it is gone.
type Stored = Result<Option<Arc<Value>>, HubError>;

fn unavailable(message: &str) -> HubError {
    HubError::Unavailable { message: message.into(), retry_after_seconds: None }
}

impl State {
    fn strikes(&mut self, percent: u8) -> bool {
        self.random.u8(0..100) < percent
    }

    fn fail_at_random(&mut self) -> Result<(), HubError> {
        let percent = self.faults.unavailable;
        if self.strikes(percent) { Err(unavailable("the hub is away")) } else { Ok(()) }
    }

    fn create(&mut self, key: &WorkKey, mut work: Value) -> Result<Arc<Value>, HubError> {
        if !self.clusters.contains(&key.cluster) {
            return Err(HubError::NoNamespace { cluster: key.cluster.to_string() });
        }
        if self.works.contains_key(key) {
            return Err(HubError::Exists { key: key.to_string() });
        }
        put_or_remove(&mut work, "status", None);
        work["metadata"]["uid"] = format!("uid-{}", self.revision + 1).into();
        work["metadata"]["generation"] = 1.into();
        work["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        self.admit(key, &mut work, None)?;
        Ok(self.store(key, work))
    }

    /// Any change of an object, with the resourceVersion that it carries as its precondition.
    pub(super) fn modify(
        &mut self,
        key: &WorkKey,
        change: impl FnOnce(&mut Value) -> Result<(), HubError>,
    ) -> Stored {
        let stale = || HubError::Stale { key: key.to_string() };
        let old = self.works.get(key).ok_or_else(stale)?.clone();
        let mut new = Value::clone(&old);
        change(&mut new)?;
        if new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"] {
            return Err(stale());
        }
        for fixed in ["uid", "generation", "creationTimestamp", "deletionTimestamp"] {
            put_or_remove(&mut new["metadata"], fixed, old["metadata"].get(fixed).cloned());
        }
        self.admit(key, &mut new, Some(&old))?;
        if new == *old {
            return Ok(Some(old));
        }
        if is_deleting(&new) && !has_finalizers(&new) {
            self.remove(key);
            return Ok(None);
        }
        if new["spec"] != old["spec"] {
            new["metadata"]["generation"] = (generation(&old) + 1).into();
        }
        Ok(Some(self.store(key, new)))
    }

    fn delete(&mut self, key: &WorkKey, precondition: Option<(&str, &str)>) -> Stored {
        let stale = || HubError::Stale { key: key.to_string() };
        let Some(old) = self.works.get(key).cloned() else {
            return if precondition.is_some() { Ok(None) } else { Err(stale()) };
        };
        let metadata = &old["metadata"];
        if let Some((uid, version)) = precondition
            && (metadata["uid"] != uid || metadata["resourceVersion"] != version)
        {
            return Err(stale());
        }
        if !has_finalizers(&old) {
            self.remove(key);
            return Ok(None);
        }
        if is_deleting(&old) {
            return Ok(Some(old));
        }
        let mut new = Value::clone(&old);
        new["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        new["metadata"]["generation"] = (generation(&old) + 1).into();
        Ok(Some(self.store(key, new)))
    }

    /// What the API server does to an object before it stores it.
    fn admit(&self, key: &WorkKey, work: &mut Value, old: Option<&Value>) -> Result<(), HubError> {
        // What was admitted once is admitted again as it is, unless the CRD has changed since.
        let known = old.is_some_and(|old| old["spec"] == work["spec"]);
        if !known || !self.unknown_fields.is_empty() {
            self.admit_spec(key, work)?;
        }
        for map in ["labels", "annotations", "finalizers"] {
            let empty = match &work["metadata"][map] {
                Value::Object(fields) => fields.is_empty(),
                Value::Array(items) => items.is_empty(),
                other => other.is_null(),
            };
            if empty {
                put_or_remove(&mut work["metadata"], map, None);
            }
        }
        put_or_remove_null(work, "status");
        Ok(())
    }

    fn admit_spec(&self, key: &WorkKey, work: &mut Value) -> Result<(), HubError> {
        let policy = work.pointer("/spec/deleteOption/propagationPolicy").and_then(Value::as_str);
        if policy.is_some_and(|p| !["Foreground", "Orphan", "SelectivelyOrphan"].contains(&p)) {
            let message = "spec.deleteOption.propagationPolicy: Unsupported value".into();
            return Err(HubError::Refused { key: key.to_string(), message });
        }
        for field in &self.unknown_fields {
            put_or_remove(&mut work["spec"], field, None);
        }
        fill_in_defaults(&mut work["spec"], &SCHEMA);
        write_numbers_as_go(&mut work["spec"]);
        let manifests = work.pointer_mut("/spec/workload/manifests").and_then(Value::as_array_mut);
        for manifest in manifests.into_iter().flatten() {
            if let Some(Value::Object(metadata)) = manifest.get_mut("metadata") {
                let empty = [json!(null), json!({}), json!([]), json!("")];
                metadata.retain(|_, field| !empty.contains(field));
            }
        }
        Ok(())
    }

    fn store(&mut self, key: &WorkKey, mut work: Value) -> Arc<Value> {
        self.revision += 1;
        self.writes += 1;
        work["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let work = Arc::new(work);
        let old = self.works.insert(key.clone(), work.clone());
        self.tell(key, old.as_deref());
        work
    }

    fn remove(&mut self, key: &WorkKey) {
        self.revision += 1;
        self.writes += 1;
        let old = self.works.remove(key);
        self.tell(key, old.as_deref());
    }

    fn tell(&mut self, key: &WorkKey, old: Option<&Value>) {
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
        (HubEvent::Listed(self.listed(Some(source))), receiver)
    }
}

fn stored((record, version): (Record, u64)) -> StoredRecord {
    StoredRecord { record, resource_version: version.to_string() }
}

impl Hub for SimulatedHub {
    fn directives<'a>(
        &'a self,
        _source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Directives, HubError>> {
        let answer = {
            let mut state = self.lock();
            let approvals = state.approved.clone();
            state.fail_at_random().map(|()| Directives { approvals, ..Directives::default() })
        };
        Box::pin(async move { answer })
    }

    fn record<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Option<StoredRecord>, HubError>> {
        let answer = {
            let mut state = self.lock();
            let found = state.records.get(source).cloned();
            state.fail_at_random().map(|()| found.map(stored))
        };
        Box::pin(async move { answer })
    }

    fn set_record<'a>(
        &'a self,
        source: &'a SourceId,
        record: &'a Record,
        before: Option<&'a StoredRecord>,
    ) -> BoxFuture<'a, Result<StoredRecord, HubError>> {
        let answer = {
            let mut state = self.lock();
            let there = state.records.get(source).map(|(_, version)| version.to_string());
            match state.fail_at_random() {
                Err(error) => Err(error),
                Ok(()) if there != before.map(|before| before.resource_version.clone()) => {
                    Err(HubError::Stale { key: format!("the record of {source}") })
                }
                Ok(()) => {
                    state.revision += 1;
                    let written = (record.clone(), state.revision);
                    state.records.insert(source.clone(), written.clone());
                    Ok(stored(written))
                }
            }
        };
        Box::pin(async move { answer })
    }

    fn watch(&self, source: &SourceId) -> BoxStream<'static, HubEvent> {
        let start = (self.clone(), source.clone(), None);
        let next = |(hub, source, events): (Self, SourceId, Option<UnboundedReceiver<_>>)| async {
            let Some(mut events) = events else {
                let (listed, events) = hub.lock().subscribe(&source);
                return Some((listed, (hub, source, Some(events))));
            };
            match events.next().await {
                Some(event) => Some((event, (hub, source, Some(events)))),
                None => {
                    let event = HubEvent::Interrupted(unavailable("the watch was cut"));
                    Some((event, (hub, source, None)))
                }
            }
        };
        stream::unfold(start, next).boxed()
    }

    fn list<'a>(
        &'a self,
        source: Option<&'a SourceId>,
    ) -> BoxFuture<'a, Result<Vec<ObservedWork>, HubError>> {
        let mut state = self.lock();
        let answer = state.fail_at_random().map(|()| state.listed(source));
        Box::pin(std::future::ready(answer))
    }

    fn get<'a>(&'a self, key: &'a WorkKey) -> BoxFuture<'a, Answer> {
        let mut state = self.lock();
        let answer = state.fail_at_random().map(|()| state.observed(key));
        Box::pin(std::future::ready(answer))
    }

    fn execute<'a>(
        &'a self,
        key: &'a WorkKey,
        effect: &'a Effect,
        commit: Option<CommitId>,
    ) -> BoxFuture<'a, Answer> {
        Box::pin(async move { self.call(key, effect, commit) })
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

/// Structural defaulting: a missing field of an object that is there gets its schema's default.
fn fill_in_defaults(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, property) in properties.into_iter().flatten() {
                if let Some(default) = property.get("default")
                    && !fields.contains_key(name)
                {
                    fields.insert(name.clone(), default.clone());
                }
                if let Some(field) = fields.get_mut(name) {
                    fill_in_defaults(field, property);
                }
            }
        }
        Value::Array(items) => {
            let schema = schema.get("items").unwrap_or(&Value::Null);
            items.iter_mut().for_each(|item| fill_in_defaults(item, schema));
        }
        _ => {}
    }
}

/// The API server reads a number as int64 where it can, else as float64, and writes whole floats as integers.
fn write_numbers_as_go(value: &mut Value) {
    match value {
        Value::Number(number) if !number.is_i64() => {
            let float = number.as_f64().unwrap();
            let whole = float.fract() == 0.0 && float.abs() < 1e15;
            *value = if whole { json!(float as i64) } else { json!(float) };
        }
        Value::Array(items) => items.iter_mut().for_each(write_numbers_as_go),
        Value::Object(fields) => fields.values_mut().for_each(write_numbers_as_go),
        _ => {}
    }
}
