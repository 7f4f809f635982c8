//! Publishes the status of a source, with a limited rate. The channel keeps the newest status only,
//! so that a slow subscriber does not delay the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;

use gitwork_core::model::name::{ClusterName, CommitId, WorkKey};
use gitwork_core::report::status::source::{FailedWrite, SourceStatus};
use gitwork_core::sync::state::SyncState;
use gitwork_forge::reporter::StatusFeed;
use gitwork_hub::execute::{ExecuteError, Outcome};
use gitwork_retry::RetryClass;

/// The clusters that are unreachable, as last read.
pub type Reachability = watch::Receiver<Arc<BTreeSet<ClusterName>>>;

/// Why a source cannot be read; `None` if it can.
pub type SourceError = watch::Receiver<Option<String>>;

/// Between two statuses: events come in bursts, and one status of 10,000 works costs milliseconds.
const PAUSE: Duration = Duration::from_millis(500);

/// Publishes the status of one source.
#[derive(Debug)]
pub struct StatusPublisher {
    sender: watch::Sender<Option<Arc<SourceStatus>>>,
    reach: Reachability,
    failed_writes: BTreeMap<WorkKey, FailedWrite>,
    /// The newest commit, if it failed its verification, and why.
    unverified: Option<(CommitId, String)>,
    /// When the next status is due; `None` if nothing changed.
    due: Option<Instant>,
    last: Instant,
}

impl StatusPublisher {
    /// A publisher, and the channel of its statuses. `now`: the time of the engine's clock.
    pub fn new(reach: Reachability, now: Instant) -> (Self, StatusFeed) {
        let (sender, feed) = watch::channel(None);
        let (failed_writes, unverified, last) = (BTreeMap::new(), None, now);
        (Self { sender, reach, failed_writes, unverified, due: None, last }, feed)
    }

    /// Marks the status as changed.
    pub fn touch(&mut self) {
        self.due.get_or_insert(self.last + PAUSE);
    }

    /// When the next status is due.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Forgets the failed writes of an older commit.
    pub fn forget_failed_writes(&mut self) {
        self.failed_writes.clear();
    }

    /// Sets the newest commit that failed its verification, and why.
    pub fn set_unverified(&mut self, unverified: Option<(CommitId, String)>) {
        if self.unverified != unverified {
            self.unverified = unverified;
            self.touch();
        }
    }

    /// Records the outcome of a write.
    pub fn observe(&mut self, outcome: &Outcome) {
        let key = &outcome.task.key;
        match &outcome.result {
            Ok(_) => drop(self.failed_writes.remove(key)),
            Err(ExecuteError::Hub(error)) => {
                let is_transient = matches!(
                    error.retry_class(),
                    RetryClass::Stale | RetryClass::Unavailable { .. }
                );
                let failed = FailedWrite { message: error.to_string(), is_transient };
                self.failed_writes.insert(key.clone(), failed);
            }
            Err(_) => {}
        }
        self.touch();
    }

    /// Publishes the current status if it is due and differs from the last one, and gives it.
    ///
    /// `now` is the time of the engine's clock, `at` the time of day.
    pub fn publish(
        &mut self,
        state: &SyncState,
        now: Instant,
        at: Timestamp,
    ) -> Option<Arc<SourceStatus>> {
        if self.reach.has_changed().unwrap_or_default() {
            self.touch();
        }
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        (self.due, self.last) = (None, now);
        let unreachable = self.reach.borrow_and_update().clone();
        let before = self.sender.borrow().clone();
        let status = state.status(&self.failed_writes, &unreachable, at, before.as_deref());
        let status = status.map(|mut status| {
            if let Some((commit, why)) = &self.unverified {
                status.refuse(*commit, why);
            }
            status
        });
        let status = status.filter(|status| before.as_deref() != Some(status))?;
        tracing::debug!(source = %status.source, "{}", status.line(1_000));
        let status = Arc::new(status);
        self.sender.send_replace(Some(Arc::clone(&status)));
        Some(status)
    }

    /// The last published status.
    pub fn last(&self) -> Option<Arc<SourceStatus>> {
        self.sender.borrow().clone()
    }

    /// Ends when the unreachable clusters change; pending once nothing reads them.
    pub async fn reach_changed(reach: &mut Reachability) {
        if reach.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The channel of unreachable clusters.
    pub fn reach(&self) -> Reachability {
        self.reach.clone()
    }
}
