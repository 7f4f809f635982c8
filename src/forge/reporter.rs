//! Keeps a source's commit statuses up to date. It reads the newest state before each write, so a
//! slow or unavailable forge delays nothing else.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::client::ForgeClient;
use super::contexts::Contexts;
use crate::limits;
use gitwork_report::forge::response::Rejection;
use gitwork_report::forge::{CommitState, CommitStatus, Next, OpenStatus, StatusQueue};
use gitwork_report::status::RolloutVerdict;
use gitwork_report::status::source::SourceStatus;
use gitwork_retry::log_error;

/// The source's state as last published by the engine; `None` before it is known.
pub type StatusFeed = watch::Receiver<Option<Arc<SourceStatus>>>;

/// Statuses that are pending on the forge; `None` before they are known.
pub type OpenStatuses = Option<Vec<OpenStatus>>;

/// Keeps which statuses are pending on the forge from one process to the next.
pub struct OpenStatusChannels {
    /// Receives those that are noted: first those that an earlier process left open.
    pub stored: watch::Receiver<OpenStatuses>,
    /// Gets those that are to be noted, once the stored ones are known.
    pub open: watch::Sender<OpenStatuses>,
}

/// Writes the commit statuses of one source.
pub struct CommitStatusReporter {
    client: ForgeClient,
    contexts: Contexts,
    queue: StatusQueue,
    /// The state that the queue has.
    status: Option<Arc<SourceStatus>>,
    started: Instant,
    /// The last write failed, and that was logged.
    is_failing: bool,
    /// Contexts over the limit, as last logged.
    left_out: usize,
    /// Called with each write's outcome, a metric label.
    count: Option<Count>,
    open: Option<OpenStatusChannels>,
    is_resumed: bool,
}

/// Counts outcomes.
pub type Count = Box<dyn Fn(&'static str) + Send + Sync>;

impl CommitStatusReporter {
    /// A reporter that has written nothing yet.
    pub fn new(client: ForgeClient, contexts: Contexts) -> Self {
        Self {
            client,
            contexts,
            queue: StatusQueue::default(),
            status: None,
            started: Instant::now(),
            is_failing: false,
            left_out: 0,
            count: None,
            open: None,
            is_resumed: false,
        }
    }

    /// Sets the function that counts the outcome of each write.
    pub fn counted(self, count: Count) -> Self {
        Self { count: Some(count), ..self }
    }

    /// Closes the statuses that an earlier process left open, if a newer commit has overtaken them.
    pub fn resuming(self, channels: OpenStatusChannels) -> Self {
        Self { open: Some(channels), ..self }
    }

    /// Runs until `stop` is true, or the feed ends.
    pub async fn run(mut self, mut feed: StatusFeed, mut stop: watch::Receiver<bool>) {
        loop {
            self.observe(feed.borrow_and_update().clone());
            self.keep_open();
            let wake = match self.queue.next(self.now()) {
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
                () = stored(&mut self.open), if !self.is_resumed => {}
                () = tokio::time::sleep_until(wake) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Resumes what an earlier process left open, and says what is open now.
    fn keep_open(&mut self) {
        let Some(OpenStatusChannels { stored, open }) = &self.open else { return };
        if !self.is_resumed {
            let Some(stored) = &*stored.borrow() else { return };
            self.queue.resume(stored);
            self.is_resumed = true;
        }
        let now = Some(self.queue.open());
        open.send_if_modified(|before| {
            let differs = *before != now;
            *before = now;
            differs
        });
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn now_far(&self) -> Instant {
        Instant::now() + Duration::from_secs(3_600)
    }

    fn observe(&mut self, status: Option<Arc<SourceStatus>>) {
        let is_known =
            status.as_ref().zip(self.status.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b));
        // A directory on disk has no commit and no forge.
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
                "too many contexts; the last ones by name are not written"
            );
        }
        self.left_out = left_out;
        let whole = (None, (status.verdict(), status.line(chars_max)));
        let parts = parts.into_iter().map(|(part, outcome)| (Some(part), outcome));
        let statuses = std::iter::once(whole).chain(parts).map(|(part, (verdict, description))| {
            let state = match verdict {
                RolloutVerdict::Pending => CommitState::Pending,
                RolloutVerdict::Success => CommitState::Success,
                RolloutVerdict::Failure => CommitState::Failure,
            };
            CommitStatus { part, commit, state, description }
        });
        self.queue.want(statuses.collect(), self.now());
        self.status = Some(status);
    }

    /// Has a status noted as open before it is pending on the forge, so that the next process
    /// closes it if this one is killed.
    async fn note(&mut self, status: &CommitStatus) {
        let Some(open) = self.queue.intend(status).filter(|_| self.open.is_some()) else { return };
        let noted = async {
            stored(&mut self.open).await;
            self.keep_open();
            let Some(OpenStatusChannels { stored, .. }) = &mut self.open else { return };
            let has_it = |stored: &OpenStatuses| {
                stored.as_ref().is_some_and(|stored| stored.contains(&open))
            };
            // An error means that nothing is noted any more.
            let _ended = stored.wait_for(has_it).await.is_err();
        };
        let _late = tokio::time::timeout(limits::OPEN_STATUS_NOTED, noted).await.is_err();
    }

    async fn write(&mut self, status: &CommitStatus) {
        self.note(status).await;
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
                tracing::debug!(
                    provider, repository, %commit, state = ?status.state, "commit status written"
                );
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(provider, repository, "commit statuses are written again");
                }
            }
            Err(error) => {
                log_error!(
                    debug, error, provider, repository, %commit, "commit status not written"
                );
            }
        }
        if let Some(error) = self.queue.answered(status, result, now, seed) {
            self.is_failing = true;
            log_error!(
                warn, &error, provider, repository, %commit,
                "cannot write commit statuses; the sync continues, and gitwork retries"
            );
        }
    }
}

/// Waits until the stored statuses are known.
async fn stored(channels: &mut Option<OpenStatusChannels>) {
    if let Some(channels) = channels
        && channels.stored.wait_for(Option::is_some).await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
