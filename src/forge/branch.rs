//! Keeps a source's status branch up to date: at most one commit in each interval, with the newest
//! state.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::reporter::{Count, StatusFeed};
use gitwork_core::model::operation_error::{OperationError, describe};
use gitwork_git::{Published, PushError, StatusBranch};
use gitwork_report::status::source::SourceStatus;
use gitwork_retry::{RetryClass, log_error};
use gitwork_runtime::clock::WallClock;

/// Retry interval of an error that the operator must fix, for example by granting more rights.
const NEEDS_SOMEBODY: Duration = Duration::from_secs(300);

/// Publishes the status of one source.
pub struct StatusBranchReporter {
    /// `None` while a thread uses it.
    branch: Option<StatusBranch>,
    interval: Duration,
    clock: WallClock,
    failures: u32,
    /// The last logged error. Each error is logged once.
    logged: Option<String>,
    /// Called with each publication's outcome, a metric label.
    count: Option<Count>,
}

impl StatusBranchReporter {
    /// `interval` is the minimum time between two commits. Commits have the time of `clock`.
    pub fn new(branch: StatusBranch, interval: Duration, clock: WallClock) -> Self {
        Self { branch: Some(branch), interval, clock, failures: 0, logged: None, count: None }
    }

    /// Sets the function that counts the outcome of each publication.
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
                        // The thread checks it several times a second.
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

    /// Returns how long to wait before the next publication.
    async fn publish(&mut self, status: &Arc<SourceStatus>, cancel: &Arc<AtomicBool>) -> Duration {
        let Some(mut branch) = self.branch.take() else { return NEEDS_SOMEBODY };
        let name = branch.branch().to_owned();
        let (task_status, cancel) = (Arc::clone(status), Arc::clone(cancel));
        let clock = self.clock.clone();
        let task = tokio::task::spawn_blocking(move || {
            let now = clock.now().as_second();
            let published = branch.publish(&task_status, now, &cancel);
            (branch, published)
        });
        let Ok((branch, published)) = task.await else {
            tracing::error!(
                source = %status.source, branch = name,
                "publishing the status panicked; this is a bug in gitwork"
            );
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
                    tracing::debug!(
                        source = %status.source, branch = name, %commit, "status pushed"
                    );
                }
                if self.logged.take().is_some() {
                    tracing::info!(
                        source = %status.source, branch = name, "the status is pushed again"
                    );
                }
                self.failures = 0;
                self.interval
            }
            Err(error) => self.postpone(status, &name, &error),
        }
    }

    fn postpone(&mut self, status: &SourceStatus, branch: &str, error: &PushError) -> Duration {
        let text = describe(error);
        if self.logged.as_ref() != Some(&text) {
            log_error!(
                warn, error, source = %status.source, branch,
                "cannot push the status; the sync continues, and gitwork retries"
            );
            self.logged = Some(text);
        }
        let class = RetryClass::Unavailable { retry_after_seconds: None };
        let wait = gitwork_retry::delay(self.failures, class, fastrand::u64(..));
        self.failures = self.failures.saturating_add(1);
        if error.needs_action() { NEEDS_SOMEBODY } else { wait.max(self.interval) }
    }
}
