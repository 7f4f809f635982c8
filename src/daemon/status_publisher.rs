//! Publishes the status of a source, with a limited rate. The channel keeps the newest status only,
//! so that a slow subscriber does not delay the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::limits;
use gitwork_core::model::name::{ClusterName, CommitId, WorkKey};
use gitwork_forge::reporter::StatusFeed;
use gitwork_hub::execute::{ExecuteError, Outcome};
use gitwork_report::status::source::{FailedWrite, SourceStatus};
use gitwork_retry::RetryClass;
use gitwork_retry::operation_error::describe;
use gitwork_sync::state::SyncState;

/// The clusters that are unreachable, as last read.
pub type Reachability = watch::Receiver<Arc<BTreeSet<ClusterName>>>;

/// Why a source cannot be read; `None` if it can.
pub type SourceError = watch::Receiver<Option<String>>;

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
    /// When the last status was complete.
    last: Instant,
    /// The least time between two statuses.
    pause: Duration,
    /// What the next status has taken so far.
    spent: Duration,
}

impl StatusPublisher {
    /// A publisher, and the channel of its statuses. `now`: the time of the engine's clock.
    pub fn new(reach: Reachability, now: Instant) -> (Self, StatusFeed) {
        let (sender, feed) = watch::channel(None);
        let publisher = Self {
            sender,
            reach,
            failed_writes: BTreeMap::new(),
            unverified: None,
            due: None,
            last: now,
            pause: limits::STATUS_PAUSE,
            spent: Duration::ZERO,
        };
        (publisher, feed)
    }

    /// Marks the status as changed. No status is due once nobody listens: each receiver is a clone
    /// of the first, so that none comes back.
    pub fn touch(&mut self) {
        if !self.sender.is_closed() {
            self.due.get_or_insert(self.last + self.pause);
        }
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
                let failed = FailedWrite { message: describe(error), is_transient };
                self.failed_writes.insert(key.clone(), failed);
            }
            Err(_) => {}
        }
        self.touch();
    }

    /// Publishes the current status if it is due and differs from the last one, and gives it. That
    /// of many works takes several calls: it stays due until then.
    ///
    /// `clock` is the engine's clock, `at` the time of day.
    pub fn publish(
        &mut self,
        state: &mut SyncState,
        clock: &dyn Fn() -> Instant,
        at: Timestamp,
    ) -> Option<Arc<SourceStatus>> {
        if self.reach.has_changed().unwrap_or_default() {
            self.touch();
        }
        let began = clock();
        if self.due.is_none_or(|due| due > began) {
            return None;
        }
        if self.sender.is_closed() {
            self.due = None;
            return None;
        }
        let unreachable = self.reach.borrow().clone();
        let works = limits::WORKS_AT_ONCE;
        if !state.advance_status(&self.failed_writes, &unreachable, at, works) {
            self.spent += clock().saturating_duration_since(began);
            return None;
        }
        self.due = None;
        let published = self.publish_now(state, at);
        self.last = clock();
        let spent = std::mem::take(&mut self.spent) + self.last.saturating_duration_since(began);
        self.pause = (spent * limits::STATUS_PAUSE_FACTOR)
            .clamp(limits::STATUS_PAUSE, limits::STATUS_PAUSE_MAX);
        published
    }

    fn publish_now(&mut self, state: &mut SyncState, at: Timestamp) -> Option<Arc<SourceStatus>> {
        let unreachable = self.reach.borrow_and_update().clone();
        let before = self.sender.borrow().clone();
        let status = state.status(&self.failed_writes, &unreachable, at);
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use gitwork_core::model::name::SourceId;
    use gitwork_sync::guards::GuardOptions;

    /// A publisher at a time, its feed, a state that knows nothing, and the channel of clusters.
    fn publisher(
        now: Instant,
    ) -> (StatusPublisher, StatusFeed, SyncState, watch::Sender<Arc<BTreeSet<ClusterName>>>) {
        let (sender, reach) = watch::channel(Arc::default());
        let (publisher, feed) = StatusPublisher::new(reach, now);
        let source = SourceId::parse("fleet").unwrap();
        (publisher, feed, SyncState::new(source, GuardOptions::default(), 0, now), sender)
    }

    #[test]
    fn pause_after_a_slow_status_is_in_proportion_to_it() {
        let start = Instant::now();
        let (mut publisher, _feed, mut state, _reach) = publisher(start);
        for (cost, pause) in [
            (Duration::ZERO, limits::STATUS_PAUSE),
            (Duration::from_millis(1), limits::STATUS_PAUSE),
            (Duration::from_millis(100), Duration::from_secs(2)),
            (Duration::from_secs(100), limits::STATUS_PAUSE_MAX),
            (Duration::ZERO, limits::STATUS_PAUSE),
        ] {
            publisher.touch();
            let began = publisher.due().unwrap();
            let reads = Cell::new(0);
            let clock = || began + cost * reads.replace(reads.get() + 1);
            assert_eq!(publisher.publish(&mut state, &clock, Timestamp::UNIX_EPOCH), None);
            assert_eq!(publisher.due(), None);
            publisher.touch();
            assert_eq!(publisher.due(), Some(began + cost + pause));
        }
    }

    #[test]
    fn no_status_is_due_once_nobody_listens() {
        let start = Instant::now();
        let (mut publisher, feed, mut state, _reach) = publisher(start);
        publisher.touch();
        drop(feed);
        let late = || start + Duration::from_secs(3_600);
        assert_eq!(publisher.publish(&mut state, &late, Timestamp::UNIX_EPOCH), None);
        publisher.touch();
        assert_eq!(publisher.due(), None);
    }
}
