//! Keeps a source's status branch as its clusters are: at most one commit in an interval, of the newest state.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::reporter::{Count, StatusFeed};
use crate::core::backoff::{self, Setback};
use crate::core::status::source::SourceStatus;
use crate::error::with_causes;
use crate::git::{Published, PushError, StatusBranch};

/// What only a person can mend is tried again after so long: credentials may have been given more rights.
const NEEDS_SOMEBODY: Duration = Duration::from_secs(300);

/// Publishes the status of one source.
pub struct StatusBranchReporter {
    /// `None` while a thread is busy with it.
    branch: Option<StatusBranch>,
    interval: Duration,
    failures: u32,
    /// What was last told of a failure, so that it is told once.
    told: Option<String>,
    /// Told of each publication's outcome, a word of a fixed list.
    count: Option<Count>,
}

impl StatusBranchReporter {
    /// `interval` is the least time between two commits.
    pub fn new(branch: StatusBranch, interval: Duration) -> Self {
        Self { branch: Some(branch), interval, failures: 0, told: None, count: None }
    }

    /// Has the outcome of each publication told.
    pub fn counted(self, count: Count) -> Self {
        Self { count: Some(count), ..self }
    }

    /// Runs until `stop` is true, or the feed ends.
    pub async fn run(mut self, mut feed: StatusFeed, mut stop: watch::Receiver<bool>) {
        let cancel = Arc::new(AtomicBool::new(false));
        let mut due = Instant::now();
        let mut open = false;
        loop {
            let status = feed.borrow_and_update().clone();
            open |= status.is_some();
            if let (Some(status), true) = (status, open && Instant::now() >= due) {
                let wait = tokio::select! {
                    wait = self.publish(&status, &cancel) => wait,
                    _ = stop.wait_for(|stop| *stop) => {
                        // The thread sees it within a fraction of a second.
                        cancel.store(true, Ordering::Relaxed);
                        return;
                    }
                };
                due = Instant::now() + wait;
                open = self.failures > 0;
            }
            tokio::select! {
                changed = feed.changed() => if changed.is_err() { return } else { open = true },
                () = tokio::time::sleep_until(due), if open => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Answers how long to wait before the next publication.
    async fn publish(&mut self, status: &Arc<SourceStatus>, cancel: &Arc<AtomicBool>) -> Duration {
        let Some(mut branch) = self.branch.take() else { return NEEDS_SOMEBODY };
        let name = branch.branch().to_owned();
        let (task_status, cancel) = (Arc::clone(status), Arc::clone(cancel));
        let task = tokio::task::spawn_blocking(move || {
            let now = Timestamp::now().as_second();
            let published = branch.publish(&task_status, now, &cancel);
            (branch, published)
        });
        let Ok((branch, published)) = task.await else {
            tracing::error!(source = %status.source, branch = name, "publishing the status ended in a panic; this is a bug in gitwork");
            return NEEDS_SOMEBODY;
        };
        self.branch = Some(branch);
        if let Some(count) = &self.count {
            count(match &published {
                Ok(Published::Pushed { .. }) => "pushed",
                Ok(Published::Unchanged) => "unchanged",
                Err(_) => "failure",
            });
        }
        match published {
            Ok(published) => {
                if let Published::Pushed { commit } = published {
                    tracing::debug!(source = %status.source, branch = name, %commit, "status pushed");
                }
                if self.told.take().is_some() {
                    tracing::info!(source = %status.source, branch = name, "the status is pushed again");
                }
                self.failures = 0;
                self.interval
            }
            Err(error) => self.postpone(status, &name, &error),
        }
    }

    fn postpone(&mut self, status: &SourceStatus, branch: &str, error: &PushError) -> Duration {
        let text = with_causes(error);
        if self.told.as_ref() != Some(&text) {
            tracing::warn!(
                source = %status.source, branch, error = text,
                "the status cannot be pushed; the sync goes on, and it is made up for"
            );
            self.told = Some(text);
        }
        let setback = Setback::Unavailable { retry_after_seconds: None };
        let wait = backoff::delay(self.failures, setback, fastrand::u64(..));
        self.failures = self.failures.saturating_add(1);
        if error.needs_somebody() { NEEDS_SOMEBODY } else { wait.max(self.interval) }
    }
}
