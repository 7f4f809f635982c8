//! The state that watches and passes share, and the queue of passes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::mutex::lock;
use super::state::AgentState;
use super::tracking::{ObjectChange, QueueKey};
use gitwork_runtime::queue::Queue;

/// Delay before a pass, since changes of one object often come in pairs.
const COALESCE: Duration = Duration::from_millis(10);
/// Delay before a pass over a work that is being deleted: usually its objects are all gone by then,
/// and so is the work.
const COALESCE_DELETIONS: Duration = Duration::from_secs(1);
/// Minimum time between two passes over one work that its objects' changes start.
const PASS_INTERVAL_MIN: Duration = Duration::from_millis(250);

/// The works, applied works and tracked objects, and the queue of passes.
#[derive(Default)]
pub struct SharedState {
    /// Guards works, applied works and tracking together: a change of one often changes another.
    works: Mutex<AgentState>,
    /// Guards the numbers of failures in a row of AppliedManifestWorks.
    applied_failures: Mutex<HashMap<Arc<str>, u32>>,
    /// The passes to run. The queue has a lock of its own.
    pub queue: Queue<QueueKey>,
    /// Which collections were listed completely once.
    pub listed: watch::Sender<ListedCollections>,
}

/// The collections that were listed completely once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListedCollections {
    /// The ManifestWorks on the hub.
    pub works: bool,
    /// The AppliedManifestWorks on the cluster.
    pub applied: bool,
}

impl ListedCollections {
    /// Whether all of them were listed.
    pub fn is_complete(self) -> bool {
        self.works && self.applied
    }
}

impl SharedState {
    /// Locks works, applied works and tracking. Do not hold the lock over an `await`.
    pub fn lock(&self) -> MutexGuard<'_, AgentState> {
        lock(&self.works)
    }

    /// Locks the numbers of failures in a row of AppliedManifestWorks.
    pub fn applied_failures(&self) -> MutexGuard<'_, HashMap<Arc<str>, u32>> {
        lock(&self.applied_failures)
    }

    /// Marks manifests as pending after changes of their objects, and queues the passes.
    pub fn notify(&self, changes: Vec<ObjectChange>) {
        if changes.is_empty() {
            return;
        }
        let keys = self.lock().record_changes(changes);
        let now = Instant::now();
        for key in keys {
            let (delay, last_pass_end) = match &key {
                QueueKey::Work(name) => match self.lock().works.get(name) {
                    Some(entry) if entry.work.deleting => (COALESCE_DELETIONS, None),
                    Some(entry) => (COALESCE, entry.last_pass_end),
                    None => continue,
                },
                QueueKey::Applied(_) => (COALESCE, None),
            };
            let not_before = last_pass_end.map_or(now, |ended| ended + PASS_INTERVAL_MIN);
            self.queue.add_at(key, not_before.max(now + delay));
        }
    }

    /// Retries failing works: a prerequisite appeared, or an API server is back.
    pub fn retry_failed(&self) {
        let failed: Vec<Arc<str>> = self
            .lock()
            .works
            .iter()
            .filter(|(_, entry)| entry.failures > 0)
            .map(|(name, _)| name.clone())
            .collect();
        for name in failed {
            self.queue.add(QueueKey::Work(name));
        }
        let failed: Vec<Arc<str>> = self.applied_failures().keys().cloned().collect();
        for name in failed {
            self.queue.add(QueueKey::Applied(name));
        }
    }

    /// Queues a pass over every manifest of some works. Returns the works that are gone.
    pub fn apply_again(&self, names: impl IntoIterator<Item = Arc<str>>) -> Vec<Arc<str>> {
        let mut gone = Vec::new();
        let mut state = self.lock();
        for name in names {
            match state.works.get_mut(&name) {
                Some(entry) => {
                    entry.pending.everything = true;
                    self.queue.add(QueueKey::Work(name));
                }
                None => gone.push(name),
            }
        }
        gone
    }
}
