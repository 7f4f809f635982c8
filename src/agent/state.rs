//! The state that watches and passes share: works, applied works and tracked objects.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::items::{AppliedItem, HubWork};
use super::tracking::{ObjectChange, ObjectKey, Tracking};
use gitwork_agent_core::drift_backoff::DriftBackoff;
use gitwork_agent_core::status::ApplyOutcome;
use gitwork_api::work::ManifestResourceMeta;

/// The outcome of the last attempt to apply one manifest.
#[derive(Debug, Clone)]
pub struct ManifestOutcome {
    pub meta: ManifestResourceMeta,
    pub applied: ApplyOutcome,
    /// The live object's uid; empty if there is no object.
    pub uid: String,
    /// Why the object cannot be recorded as applied, if it cannot.
    pub unrecorded: Option<String>,
    pub retry: Retry,
    pub object: Option<ObjectKey>,
    pub fight: DriftBackoff,
}

/// When a manifest is applied again although nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    Never,
    /// Soon, then with exponential backoff.
    BackOff,
    After(Duration),
}

/// A work, the outcome of its last pass, and the changes since.
pub struct WorkEntry {
    pub work: Arc<HubWork>,
    pub last_pass: LastPass,
    pub pending: PendingChanges,
    /// Passes in a row that failed.
    pub failures: u32,
    /// When the last pass ended.
    pub last_pass_end: Option<Instant>,
}

#[derive(Debug, Default)]
pub struct LastPass {
    /// One for each manifest in the work's order; empty before the first pass.
    pub outcomes: Vec<ManifestOutcome>,
    /// The work's generation that was applied.
    pub generation: i64,
}

/// The manifests that the next pass applies.
#[derive(Debug, Clone, Default)]
pub struct PendingChanges {
    pub everything: bool,
    /// Ordinals of manifests, each with the revision of the latest change of its object.
    pub ordinals: BTreeMap<u32, u64>,
}

#[derive(Default)]
pub struct WorkState {
    pub works: HashMap<Arc<str>, WorkEntry>,
    pub applied: HashMap<Arc<str>, Arc<AppliedItem>>,
    pub tracking: Tracking,
}

/// Whether a changed work needs a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassNeed {
    /// No change, or only in its status.
    Nothing,
    /// A pass is needed.
    Something,
}

impl WorkState {
    /// Stores a work from the hub. Ignores versions older than the stored one.
    pub fn put_work(&mut self, work: HubWork) -> PassNeed {
        let name: Arc<str> = work.name.as_str().into();
        let Some(entry) = self.works.get_mut(&name) else {
            let pending = PendingChanges { everything: true, ordinals: BTreeMap::new() };
            let entry = WorkEntry {
                work: Arc::new(work),
                last_pass: LastPass::default(),
                pending,
                failures: 0,
                last_pass_end: None,
            };
            self.works.insert(name, entry);
            return PassNeed::Something;
        };
        if work.uid == entry.work.uid && work.revision() <= entry.work.revision() {
            return PassNeed::Nothing;
        }
        let same = entry.work.asks_the_same(&work);
        entry.work = Arc::new(work);
        if same {
            return PassNeed::Nothing;
        }
        entry.failures = 0;
        entry.pending.everything = true;
        PassNeed::Something
    }

    /// Stores the response to the agent's own write, which needs no pass unless the spec changed.
    pub fn put_written(&mut self, work: HubWork) -> Arc<HubWork> {
        let work = Arc::new(work);
        if let Some(entry) = self.works.get_mut(work.name.as_str())
            && (entry.work.uid != work.uid || entry.work.revision() <= work.revision())
        {
            if entry.work.spec != work.spec || entry.work.deleting != work.deleting {
                entry.pending.everything = true;
                entry.failures = 0;
            }
            entry.work = work.clone();
        }
        work
    }

    /// Marks the changed manifests as pending. Returns the works and applied works to queue.
    pub fn record_changes(&mut self, changes: Vec<ObjectChange>) -> Vec<super::tracking::QueueKey> {
        let mut keys = Vec::new();
        for (key, ordinal, revision) in changes {
            if let super::tracking::QueueKey::Work(name) = &key {
                let Some(entry) = self.works.get_mut(name) else { continue };
                let latest = entry.pending.ordinals.entry(ordinal).or_default();
                *latest = (*latest).max(revision);
            }
            if keys.last() != Some(&key) {
                keys.push(key);
            }
        }
        keys
    }
}
