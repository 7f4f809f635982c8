//! The works, applied works and tracked objects, as watches and passes last saw them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::items::{AppliedItem, HubWork};
use super::tracking::{ObjectChange, ObjectKey, QueueKey, Tracking, tracking_ordinal};
use gitwork_agent_core::drift_backoff::DriftBackoff;
use gitwork_agent_core::status::ApplyOutcome;
use gitwork_api::work::ManifestResourceMeta;

/// The outcome of the last attempt to apply one manifest.
#[derive(Debug, Clone)]
pub struct ManifestOutcome {
    /// What the status names the manifest by.
    pub meta: ManifestResourceMeta,
    /// For the condition `Applied`.
    pub applied: ApplyOutcome,
    /// The live object's uid; empty if there is no object.
    pub uid: String,
    /// Why the object cannot be recorded as applied, if it cannot.
    pub unrecorded: Option<String>,
    /// When to apply the manifest again although nothing has changed.
    pub retry: Retry,
    /// The object's key in the tracking; `None` if its kind is not known.
    pub object: Option<ObjectKey>,
    /// The corrections of the object, to slow them down if another client undoes them.
    pub drift_backoff: DriftBackoff,
}

/// When a manifest is applied again although nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Only after a change.
    Never,
    /// Soon, then with exponential backoff.
    BackOff,
    /// After this wait.
    After(Duration),
}

/// A work, the outcome of its last pass, and the changes since.
pub struct WorkEntry {
    /// The latest version.
    pub work: Arc<HubWork>,
    /// The outcome of its last pass; empty while a pass is under way.
    pub last_pass: LastPass,
    /// The changes since the last pass began.
    pub pending: PendingChanges,
    /// Passes in a row that failed.
    pub failures: u32,
    /// When the last pass ended.
    pub last_pass_end: Option<Instant>,
}

/// What the last pass over a work found.
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
    /// All of them: the work is new or changed.
    pub everything: bool,
    /// Ordinals of manifests, each with the revision of the latest change of its object.
    pub ordinals: BTreeMap<u32, u64>,
    /// The pass runs even if no manifest is pending.
    pub forced: bool,
}

/// All that the agent knows of hub and cluster.
#[derive(Default)]
pub struct AgentState {
    /// The ManifestWorks of this cluster, by name.
    pub works: HashMap<Arc<str>, WorkEntry>,
    /// The AppliedManifestWorks of all hubs, by name.
    pub applied: HashMap<Arc<str>, Arc<AppliedItem>>,
    /// The latest revision that the watch of the AppliedManifestWorks has reported.
    pub applied_revision: u64,
    /// The objects that belong to them.
    pub tracking: Tracking,
}

impl AgentState {
    /// Stores a work from the hub. Ignores versions older than the stored one. Returns whether the
    /// work needs a pass: not if it is unchanged, or changed only in its status.
    pub fn put_work(&mut self, work: HubWork) -> bool {
        let name: Arc<str> = work.name.as_str().into();
        let Some(entry) = self.works.get_mut(&name) else {
            let pending = PendingChanges { everything: true, ..PendingChanges::default() };
            let entry = WorkEntry {
                work: Arc::new(work),
                last_pass: LastPass::default(),
                pending,
                failures: 0,
                last_pass_end: None,
            };
            self.works.insert(name, entry);
            return true;
        };
        if work.uid == entry.work.uid && work.revision() <= entry.work.revision() {
            return false;
        }
        let needs_pass = work.needs_pass_after(&entry.work);
        entry.work = Arc::new(work);
        if !needs_pass {
            return false;
        }
        entry.failures = 0;
        entry.pending.everything = true;
        true
    }

    /// Stores the response to the agent's own write, which needs no pass unless the spec changed.
    /// Ignores one that comes after a newer version, also of another work with the name.
    pub fn put_written(&mut self, work: HubWork) -> Arc<HubWork> {
        let work = Arc::new(work);
        if let Some(entry) = self.works.get_mut(work.name.as_str())
            && entry.work.revision() <= work.revision()
        {
            if entry.work.spec != work.spec || entry.work.deleting != work.deleting {
                entry.pending.everything = true;
                entry.failures = 0;
            }
            entry.work = work.clone();
        }
        work
    }

    /// Stores the response to a read or write of an AppliedManifestWork, unless a newer version is
    /// stored. A response can come after the event that it is gone: no other event would follow.
    pub fn put_applied(&mut self, item: &Arc<AppliedItem>) {
        let name: Arc<str> = item.metadata.name.as_str().into();
        let known = self.applied.get(&name).map_or(self.applied_revision, |known| known.revision());
        if item.revision() > known {
            self.applied.insert(name, item.clone());
        }
    }

    /// Stops tracking the objects of a work that is gone.
    pub fn unsubscribe_all(&mut self, key: &QueueKey, outcomes: &[ManifestOutcome]) {
        self.unsubscribe_changed(key, outcomes, &[]);
    }

    /// Stops tracking the objects that a work's manifests no longer have.
    pub fn unsubscribe_changed(
        &mut self,
        key: &QueueKey,
        old: &[ManifestOutcome],
        new: &[ManifestOutcome],
    ) {
        for (ordinal, outcome) in old.iter().enumerate() {
            let Some(object) = &outcome.object else { continue };
            if new.get(ordinal).and_then(|one| one.object.as_ref()) != Some(object) {
                self.tracking.unsubscribe(object, key, tracking_ordinal(ordinal));
            }
        }
    }

    /// Marks the changed manifests as pending. Returns the works and applied works to queue.
    pub fn record_changes(&mut self, changes: Vec<ObjectChange>) -> Vec<QueueKey> {
        let mut keys = Vec::new();
        for (key, ordinal, revision) in changes {
            if let QueueKey::Work(name) = &key {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::items::WorkItem;
    use super::*;

    fn work(uid: &str, revision: u64) -> HubWork {
        let item = json!({"metadata": {"name": "web", "uid": uid,
            "resourceVersion": revision.to_string()}});
        HubWork::from(serde_json::from_value::<WorkItem>(item).unwrap())
    }

    #[test]
    fn response_about_a_work_that_was_replaced_since_is_ignored() {
        let mut state = AgentState::default();
        assert!(state.put_work(work("first", 5)));
        assert!(state.put_work(work("second", 9)));
        state.put_written(work("first", 7));
        assert_eq!(&*state.works["web"].work.uid, "second");
        state.put_written(work("second", 10));
        assert_eq!(state.works["web"].work.revision(), 10);
    }

    #[test]
    fn response_about_an_applied_work_that_is_gone_since_is_ignored() {
        let applied = |revision: u64| {
            let item = json!({"metadata": {"name": "hub-web", "uid": "u",
                "resourceVersion": revision.to_string()}});
            Arc::new(serde_json::from_value::<AppliedItem>(item).unwrap())
        };
        let mut state = AgentState { applied_revision: 7, ..AgentState::default() };
        state.put_applied(&applied(7));
        assert!(state.applied.is_empty(), "the watch has reported more than this version");
        state.put_applied(&applied(8));
        state.put_applied(&applied(6));
        assert_eq!(state.applied["hub-web"].revision(), 8);
    }
}
