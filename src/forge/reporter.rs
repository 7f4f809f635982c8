//! Keeps a source's commit statuses as its clusters are. It reads the newest state whenever it comes to it, so that
//! a forge that is slow or away holds up nothing but itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::client::ForgeClient;
use super::contexts::Contexts;
use crate::core::forge::answer::Rejection;
use crate::core::forge::{Board, CommitState, CommitStatus, Next};
use crate::core::status::Verdict;
use crate::core::status::source::SourceStatus;
use crate::limits;

/// The state of a source as the engine last told it; `None` before it is known.
pub type StatusFeed = watch::Receiver<Option<Arc<SourceStatus>>>;

/// Writes the commit statuses of one source.
pub struct CommitStatusReporter {
    client: ForgeClient,
    contexts: Contexts,
    board: Board,
    /// What was last taken in.
    status: Option<Arc<SourceStatus>>,
    started: Instant,
    /// The last write did not succeed, and that was told.
    in_trouble: bool,
    /// Contexts that there are too many, as last told.
    left_out: usize,
    /// Told of each write's outcome, a word of a fixed list.
    count: Option<Count>,
}

/// Counts outcomes.
pub type Count = Box<dyn Fn(&'static str) + Send + Sync>;

impl CommitStatusReporter {
    pub fn new(client: ForgeClient, contexts: Contexts) -> Self {
        Self {
            client,
            contexts,
            board: Board::default(),
            status: None,
            started: Instant::now(),
            in_trouble: false,
            left_out: 0,
            count: None,
        }
    }

    /// Has the outcome of each write told.
    pub fn counted(self, count: Count) -> Self {
        Self { count: Some(count), ..self }
    }

    /// Runs until `stop` is true, or the feed ends.
    pub async fn run(mut self, mut feed: StatusFeed, mut stop: watch::Receiver<bool>) {
        loop {
            self.take_in(feed.borrow_and_update().clone());
            let wake = match self.board.next(self.now()) {
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

    fn take_in(&mut self, status: Option<Arc<SourceStatus>>) {
        let is_known =
            status.as_ref().zip(self.status.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b));
        // A folder on disk has no commit, and no forge that knows of it.
        let Some((status, commit)) = status
            .filter(|_| !is_known)
            .and_then(|status| status.commit.map(|commit| (status, commit)))
        else {
            return;
        };
        let chars_max = self.client.target().provider.description_chars_max();
        let (parts, left_out) = self.contexts.of(&status, chars_max);
        if left_out > self.left_out {
            tracing::warn!(
                source = %status.source, left_out, most = limits::FORGE_CONTEXTS_MAX,
                "there are too many contexts; the rest, in the order of their names, are not written"
            );
        }
        self.left_out = left_out;
        let whole = (None, (status.verdict(), status.line(chars_max)));
        let parts = parts.into_iter().map(|(part, told)| (Some(part), told));
        let statuses = std::iter::once(whole).chain(parts).map(|(part, (verdict, description))| {
            let state = match verdict {
                Verdict::Pending => CommitState::Pending,
                Verdict::Success => CommitState::Success,
                Verdict::Failure => CommitState::Failure,
            };
            CommitStatus { part, commit, state, description }
        });
        self.board.want(statuses.collect(), self.now());
        self.status = Some(status);
    }

    async fn write(&mut self, status: &CommitStatus) {
        let result = self.client.write(status, self.status.as_deref()).await;
        let (now, seed) = (self.now(), fastrand::u64(..));
        if let Some(count) = &self.count {
            count(result.as_ref().map_or_else(Rejection::outcome, |()| "written"));
        }
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
        if let Some(error) = self.board.answered(status, result, now, seed) {
            self.in_trouble = true;
            tracing::warn!(
                provider, repository, %commit, %error,
                "commit statuses cannot be written; the sync goes on, and they are made up for"
            );
        }
    }
}
