//! The engine of one source: fetch, plan, execute, in a loop. It wakes for the fetch timer, for
//! hints (a changed folder, SIGHUP, a webhook), for events of the hub and for retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::stream::StreamExt;
use tokio::sync::{mpsc, watch};

use super::clock::{WallClock, monotonic};
use super::leader_guarded_hub::LeaderGuardedHub;
use super::leadership::{Leadership, LeadershipChange, LeadershipState};
use super::metrics::Metrics;
use super::reader::SourceReader;
use super::status_publisher::{Reachability, SourceError, StatusPublisher};
use gitwork_core::model::name::SourceId;
use gitwork_core::plan::rewind::AppliedCommits;
use gitwork_core::sync::guards::GuardOptions;
use gitwork_core::sync::state::SyncState;
use gitwork_forge::reporter::StatusFeed;
use gitwork_hub::execute::ExecuteOptions;
use gitwork_hub::{Hub, HubEvent};
use gitwork_runtime::limits;

mod error;
mod fetch;
mod log;
mod pass;
mod queries;
mod report;
mod tasks;

pub use error::EngineError;
use log::SourceLog;
use tasks::{Fetch, Pass, PassEvent, finished, next_event};

/// The settings of an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Time between two fetches, with a jitter of a tenth.
    pub interval: Duration,
    /// The operator's guards: budgets, windows, rewinds and restored hubs.
    pub guards: GuardOptions,
    /// Bounds of the writes to the hub.
    pub execute: ExecuteOptions,
}

/// Keeps the hub in step with one source.
pub struct Engine {
    id: SourceId,
    hub: Arc<dyn Hub>,
    /// `None` while a thread uses it.
    source: Option<Box<dyn SourceReader>>,
    /// A plan needed the source while a thread used it: plan again once it is back.
    source_missed: bool,
    state: SyncState,
    options: EngineOptions,
    metrics: Arc<Metrics>,
    cancel: Arc<AtomicBool>,
    log: SourceLog,
    /// Failed writes of the record in a row because its namespace is missing or forbidden, and when
    /// the next one is due.
    record_failures: Option<(u32, Instant)>,
    /// The applied commits that were known when the running fetch began.
    known_before: AppliedCommits,
    leadership: LeadershipState,
    /// The time of the commit that was read, in seconds since 1970.
    committed_seconds: Option<i64>,
    /// Publishes the status, if it has subscribers.
    publisher: Option<StatusPublisher>,
    /// Why the source cannot be read.
    source_error: watch::Sender<Option<String>>,
    /// Called once the source was read and its works are known.
    on_ready: Option<Box<dyn FnOnce() + Send>>,
    wall_clock: WallClock,
}

/// What the loop runs and waits for.
struct LoopState {
    fetch: Option<Fetch>,
    pass: Option<Pass>,
    next_fetch: Instant,
    failed_fetches: u32,
    /// A hint came during the running fetch, which may have missed its cause: fetch again.
    hinted: bool,
    reach: Option<Reachability>,
}

impl Engine {
    /// An engine that has read nothing yet. It is always the leader, has the clock of this machine
    /// and publishes no status until the other methods say otherwise.
    pub fn new(
        hub: Arc<dyn Hub>,
        source: impl SourceReader,
        options: EngineOptions,
        metrics: Arc<Metrics>,
    ) -> Self {
        let id = source.id().clone();
        let (guards, generation) = (options.guards.clone(), source.known_record_generation());
        let state = SyncState::new(id.clone(), guards, generation, monotonic());
        let cancel = Arc::new(AtomicBool::new(false));
        let source: Option<Box<dyn SourceReader>> = Some(Box::new(source));
        let log = SourceLog::new(id.clone());
        let (publisher, on_ready) = (None, None);
        let source_error = watch::Sender::new(None);
        Self {
            id,
            hub,
            source,
            source_missed: false,
            state,
            options,
            metrics,
            cancel,
            log,
            record_failures: None,
            known_before: AppliedCommits::default(),
            leadership: LeadershipState::default(),
            committed_seconds: None,
            publisher,
            source_error,
            on_ready,
            wall_clock: WallClock::system(),
        }
    }

    /// Replaces the clock of the time of day, as a simulation needs it.
    pub fn set_wall_clock(&mut self, clock: WallClock) {
        self.wall_clock = clock;
    }

    /// A channel with the error that keeps the source from being read.
    pub fn source_error(&self) -> SourceError {
        self.source_error.subscribe()
    }

    /// Calls `call` once the source was read and its works on the hub are known.
    pub fn on_ready(&mut self, call: impl FnOnce() + Send + 'static) {
        self.on_ready = Some(Box::new(call));
    }

    /// Lets the engine plan and write only while it is the leader. Without this call, it always
    /// does.
    pub fn set_leadership(&mut self, leadership: Leadership) {
        self.leadership = LeadershipState::by(leadership.watch());
        self.hub = Arc::new(LeaderGuardedHub::new(self.hub.clone(), leadership));
    }

    /// Publishes the status of the source, and gives the channel.
    pub fn publish_status(&mut self, reach: Reachability) -> StatusFeed {
        let (publisher, feed) = StatusPublisher::new(reach, monotonic());
        self.publisher = Some(publisher);
        feed
    }

    /// Runs until `stop` is true. Requests in flight are then finished or abandoned.
    pub async fn run(
        mut self,
        mut hints: mpsc::Receiver<()>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), EngineError> {
        let mut events = self.hub.watch(&self.id);
        let mut loop_state = LoopState {
            fetch: None,
            pass: None,
            next_fetch: monotonic(),
            failed_fetches: 0,
            hinted: false,
            reach: self.publisher.as_ref().map(StatusPublisher::reach),
        };
        while !*stop.borrow() {
            let now = monotonic();
            if self.state.is_ready()
                && let Some(call) = self.on_ready.take()
            {
                call();
            }
            self.apply_leadership(&mut loop_state);
            self.ask_hub(&mut loop_state).await;
            if loop_state.fetch.is_none() && loop_state.next_fetch <= now && self.may_fetch() {
                loop_state.hinted = false;
                loop_state.fetch = self.begin_fetch();
            }
            if loop_state.pass.is_none() && self.leadership.may_plan() && self.state.wants_plan(now)
            {
                loop_state.pass = self.begin_pass(now).await?;
                // The branch may only seem rewound because it was read too early: read it again.
                // After a failed fetch, its backoff decides when.
                if self.state.guards().doubts_read() && loop_state.failed_fetches == 0 {
                    loop_state.next_fetch = now;
                }
            }
            self.publish_due_status();
            let wake = self.next_wake(&loop_state);
            tokio::select! {
                // The order is fixed, so that a simulation can be replayed. No branch starves
                // another: a pass ends, and a burst of events is handled at once.
                biased;
                _ = stop.changed() => break,
                () = self.leadership.changed() => {}
                fetched = finished(&mut loop_state.fetch) => {
                    self.end_fetch(fetched?, &mut loop_state);
                }
                event = next_event(&mut loop_state.pass) => {
                    self.on_pass_event(event, &mut loop_state);
                }
                Some(event) = events.next() => {
                    self.on_hub_event(event);
                    // Events come in bursts: make one plan for all of them.
                    while let Some(Some(event)) = futures::FutureExt::now_or_never(events.next()) {
                        self.on_hub_event(event);
                    }
                }
                Some(()) = hints.recv() => {
                    loop_state.next_fetch = monotonic();
                    loop_state.hinted = true;
                }
                () = reach_changed(&mut loop_state.reach) => {}
                () = tokio::time::sleep_until(wake.into()) => {}
            }
        }
        self.shut_down(loop_state).await;
        Ok(())
    }

    fn next_wake(&self, loop_state: &LoopState) -> Instant {
        let far = monotonic() + Duration::from_secs(3_600);
        // The end of a running fetch wakes the loop.
        let waits = loop_state.fetch.is_none() && self.may_fetch();
        let fetch = if waits { loop_state.next_fetch } else { far };
        let plans = loop_state.pass.is_none() && self.leadership.may_plan();
        let retry = if plans { self.state.next_due() } else { None };
        let guards = if loop_state.pass.is_none() { self.state.guards().next_due() } else { None };
        let publisher = self.publisher.as_ref().and_then(StatusPublisher::due);
        [retry, guards, publisher].into_iter().flatten().fold(fetch, Instant::min)
    }

    /// Applies a change of leadership.
    fn apply_leadership(&mut self, loop_state: &mut LoopState) {
        match self.leadership.observe() {
            Some(LeadershipChange::Gained) => {
                // Another process may have written works and the record since.
                self.state.guards_mut().ask_again();
                (loop_state.next_fetch, loop_state.hinted) = (monotonic(), true);
                self.set_leader_metrics();
            }
            Some(LeadershipChange::Lost) => {
                // Requests in flight are abandoned, as at a crash: another process may write now.
                loop_state.pass = None;
                self.state.mark_changed();
                self.metrics.standby(&self.id);
            }
            None => {}
        }
    }

    /// Ends within `limits::SHUTDOWN`.
    async fn shut_down(&mut self, loop_state: LoopState) {
        self.cancel.store(true, Ordering::Relaxed);
        if let Some(mut pass) = loop_state.pass {
            pass.stop();
            let drained = async {
                while let Some(event) = pass.next().await {
                    self.apply_pass_event(event);
                }
            };
            if tokio::time::timeout(limits::SHUTDOWN, drained).await.is_err() {
                tracing::warn!(source = %self.id, "abandoned writes to the hub; the next start \
                    reads it again");
            }
        }
    }

    fn on_hub_event(&mut self, event: HubEvent) {
        if let HubEvent::Interrupted(error) = &event {
            tracing::warn!(source = %self.id, %error, "the watch of the hub broke; restarting it");
        }
        self.state.set_event(event);
        if let Some(publisher) = &mut self.publisher {
            publisher.touch();
        }
    }

    fn on_pass_event(&mut self, event: Option<PassEvent>, loop_state: &mut LoopState) {
        let Some(event) = event else {
            for (stage, time) in loop_state.pass.take().iter().flat_map(Pass::spent) {
                self.metrics.spent(&self.id, stage, time);
            }
            return;
        };
        if let Some(pass) = &mut loop_state.pass {
            pass.note(&event);
        }
        self.apply_pass_event(event);
    }

    fn apply_pass_event(&mut self, event: PassEvent) {
        let (now, seed) = (monotonic(), fastrand::u64(..));
        match event {
            PassEvent::LookedUp(key, found) => {
                self.state.set_looked_up(&key, *found, now, seed);
                if let Some(publisher) = &mut self.publisher {
                    publisher.touch();
                }
            }
            PassEvent::Outcome(outcome) => {
                self.report_outcome(&outcome);
                if let Some(publisher) = &mut self.publisher {
                    publisher.observe(&outcome);
                }
                self.state.set_outcome(&outcome, now, seed);
            }
        }
    }
}

/// The next change of unreachable clusters; pending without a status.
async fn reach_changed(reach: &mut Option<Reachability>) {
    match reach {
        Some(reach) => StatusPublisher::reach_changed(reach).await,
        None => std::future::pending().await,
    }
}
