//! Keeps a source's commit statuses as its clusters are. It reads the newest state whenever it comes to it, so that
//! a forge that is slow or away holds up nothing but itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::client::ForgeClient;
use crate::core::forge::{CommitState, CommitStatus, Next, Schedule};
use crate::core::status::Verdict;
use crate::core::status::source::SourceStatus;

/// The state of a source as the engine last told it; `None` before it is known.
pub type StatusFeed = watch::Receiver<Option<Arc<SourceStatus>>>;

/// Writes the commit statuses of one source.
#[derive(Debug)]
pub struct CommitStatusReporter {
    client: ForgeClient,
    schedule: Schedule,
    started: Instant,
    /// The last write did not succeed, and that was told.
    in_trouble: bool,
}

impl CommitStatusReporter {
    pub fn new(client: ForgeClient) -> Self {
        let schedule = Schedule::default();
        Self { client, schedule, started: Instant::now(), in_trouble: false }
    }

    /// Runs until `stop` is true, or the feed ends.
    pub async fn run(mut self, mut feed: StatusFeed, mut stop: watch::Receiver<bool>) {
        loop {
            self.take_in(feed.borrow_and_update().as_deref());
            let wake = match self.schedule.next(self.now()) {
                Next::Write(status) => {
                    tokio::select! {
                        () = self.write(&status) => continue,
                        _ = stop.wait_for(|stop| *stop) => return,
                    }
                }
                Next::Wait(until) => self.started + until,
                Next::Idle => self.now_far(),
            };
            tokio::select! {
                changed = feed.changed() => if changed.is_err() { return },
                () = tokio::time::sleep_until(wake) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn now_far(&self) -> Instant {
        Instant::now() + Duration::from_secs(3_600)
    }

    fn take_in(&mut self, status: Option<&SourceStatus>) {
        // A folder on disk has no commit, and no forge that knows of it.
        let Some((status, commit)) = status.and_then(|status| Some((status, status.commit?)))
        else {
            return;
        };
        let state = match status.verdict() {
            Verdict::Pending => CommitState::Pending,
            Verdict::Success => CommitState::Success,
            Verdict::Failure => CommitState::Failure,
        };
        let description = status.line(self.client.target().provider.description_chars_max());
        let now = self.now();
        self.schedule.want(CommitStatus { commit, state, description }, now);
    }

    async fn write(&mut self, status: &CommitStatus) {
        let result = self.client.write(status).await;
        let (now, seed) = (self.now(), fastrand::u64(..));
        let target = self.client.target();
        let (provider, repository) = (target.provider.as_str(), target.repository.as_str());
        let commit = status.commit;
        match &result {
            Ok(()) => {
                tracing::debug!(provider, repository, %commit, state = ?status.state, "commit status written");
                if std::mem::take(&mut self.in_trouble) {
                    tracing::info!(provider, repository, "commit statuses are written again");
                }
            }
            Err(error) => {
                tracing::debug!(provider, repository, %commit, %error, "commit status not written");
            }
        }
        if let Some(error) = self.schedule.answered(status, result, now, seed) {
            self.in_trouble = true;
            tracing::warn!(
                provider, repository, %commit, %error,
                "commit statuses cannot be written; the sync goes on, and they are made up for"
            );
        }
    }
}
