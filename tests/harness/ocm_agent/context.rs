//! What a run of a controller sees, what it can write, and how it ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::gate::Gate;
use super::json::{is_deleting, merge_patch, name, set_metadata, text, uid};
use super::requests::{Address, Mappings, RequestError, Requests};

const WORK_GROUP: &str = "work.open-cluster-management.io";
pub const WORK_FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";
pub const APPLIED_FINALIZER: &str =
    "cluster.open-cluster-management.io/applied-manifest-work-cleanup";

/// When a key comes back after a run without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// With the next event.
    No,
    /// After a time of the agent's clock.
    After(Duration),
    /// Soon: it waits for something that has no event.
    Waiting,
}

/// Why a run failed. Its key comes back with exponential backoff.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Manifests that were not applied, or could not be looked up.
    #[error("{}", .0.join("; "))]
    Manifests(Vec<String>),
}

/// What a run ends with.
pub type RunOutcome = Result<Requeue, RunError>;

/// Which works are the agent's.
#[derive(Clone, Debug)]
pub struct Identity {
    pub cluster_name: String,
    pub hub_hash: String,
    pub agent_id: String,
    pub eviction_grace: Duration,
}

impl Identity {
    pub fn applied_name(&self, work: &str) -> String {
        format!("{}-{work}", self.hub_hash)
    }

    pub fn work_address(&self, name: &str) -> Address {
        Address {
            group: WORK_GROUP.to_owned(),
            version: "v1".to_owned(),
            resource: "manifestworks".to_owned(),
            namespace: self.cluster_name.clone(),
            name: name.to_owned(),
        }
    }

    pub fn applied_address(&self, name: &str) -> Address {
        Address {
            group: WORK_GROUP.to_owned(),
            version: "v1".to_owned(),
            resource: "appliedmanifestworks".to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
        }
    }
}

/// What informers have delivered, by name.
#[derive(Default)]
pub struct Caches {
    pub works: BTreeMap<String, Value>,
    pub applied: BTreeMap<String, Value>,
}

/// What a run can read and write.
#[derive(Clone)]
pub struct Context {
    pub identity: Identity,
    pub hub: Requests,
    pub cluster: Requests,
    pub caches: Arc<Mutex<Caches>>,
    pub now: Timestamp,
}

impl Context {
    /// The same for a run that stops at a gate.
    pub fn gated(&self, gate: &Gate) -> Self {
        let mut context = self.clone();
        context.hub.gate = Some(gate.clone());
        context.cluster.gate = Some(gate.clone());
        context
    }

    /// Without what only a process keeps.
    pub fn of_new_process(&self) -> Self {
        let mut context = self.clone();
        context.caches = Arc::default();
        context.hub.mappings = Mappings::default();
        context.cluster.mappings = Mappings::default();
        context
    }

    pub fn caches(&self) -> MutexGuard<'_, Caches> {
        self.caches.lock().unwrap()
    }

    /// A ManifestWork, as the informer has delivered it.
    pub fn work(&self, name: &str) -> Option<Value> {
        self.caches().works.get(name).cloned()
    }

    /// An AppliedManifestWork, as the informer has delivered it.
    pub fn applied(&self, name: &str) -> Option<Value> {
        self.caches().applied.get(name).cloned()
    }

    /// Upstream's patcher: a merge patch from the cached object to the new one, only if there is a
    /// difference, and only if the object on the server is the cached one.
    pub async fn patch_work(&self, old: &Value, new: &Value) -> Result<(), RequestError> {
        let at = self.identity.work_address(name(old));
        patch(&self.hub, &at, old, new).await
    }

    /// [`Context::patch_work`] for an AppliedManifestWork.
    pub async fn patch_applied(&self, old: &Value, new: &Value) -> Result<(), RequestError> {
        let at = self.identity.applied_address(name(old));
        patch(&self.cluster, &at, old, new).await
    }
}

async fn patch(
    requests: &Requests,
    at: &Address,
    old: &Value,
    new: &Value,
) -> Result<(), RequestError> {
    let mut change = merge_patch(old, new);
    if change.as_object().is_some_and(Map::is_empty) {
        return Ok(());
    }
    set_metadata(&mut change, "uid", uid(old).into());
    let version = text(old, "/metadata/resourceVersion");
    set_metadata(&mut change, "resourceVersion", version.into());
    match change.get("status") {
        Some(_) => requests.merge_status(at, &change).await?,
        None => requests.merge(at, &change).await?,
    };
    Ok(())
}

/// A cached object that is not being deleted.
pub fn active(object: Option<Value>) -> Option<Value> {
    object.filter(|object| !is_deleting(object))
}
