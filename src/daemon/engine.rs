//! The engine of one source: fetch, plan, execute, in a loop. It wakes for the fetch timer, for
//! hints (a changed folder, SIGHUP, a webhook), for events of the hub and for retries.
//!
//! - here: the loop, which decides when to act.
//! - `reconciler`: each step of it, which decides what to do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::stream::StreamExt;
use tokio::sync::{mpsc, watch};

use super::clock::monotonic;
use super::facts_feed::FactsFeed;
use super::leadership::{Leadership, LeadershipChange, LeadershipState};
use super::limits;
use super::metrics::Metrics;
use super::reader::SourceReader;
use super::status_publisher::{Reachability, SourceError, StatusPublisher};
use gitwork_core::plan::Plan;
use gitwork_core::render::desired::Desired;
use gitwork_forge::reporter::StatusFeed;
use gitwork_hub::Hub;
use gitwork_hub::execute::ExecuteOptions;
use gitwork_runtime::clock::WallClock;
use gitwork_sync::guards::GuardOptions;

mod error;
mod facts_input;
mod fetch_schedule;
mod git_history;
mod hub_queries;
mod log;
mod pass;
mod pauses;
mod reconciler;
mod record_keeper;
mod reports;
mod source_access;
mod tasks;

pub use error::EngineError;
use facts_input::FactsInput;
use fetch_schedule::FetchSchedule;
use pass::{Pass, next_event};
use pauses::watched;
use reconciler::Reconciler;
use source_access::Fetched;

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
    reconciler: Reconciler,
    leadership: LeadershipState,
    schedule: FetchSchedule,
    facts: FactsInput,
    /// The running pass.
    pass: Option<Pass>,
    /// Called once the source was read and its works are known.
    on_ready: Option<Box<dyn FnOnce() + Send>>,
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
        let EngineOptions { interval, guards, execute } = options;
        Self {
            reconciler: Reconciler::new(hub, Box::new(source), guards, execute, metrics),
            leadership: LeadershipState::default(),
            schedule: FetchSchedule::new(interval, monotonic()),
            facts: FactsInput::default(),
            pass: None,
            on_ready: None,
        }
    }

    /// Replaces the clock of the time of day, as a simulation needs it.
    pub fn set_wall_clock(&mut self, clock: WallClock) {
        self.reconciler.wall_clock = clock;
    }

    /// Takes what the hub says of clusters from a feed. Without this call, the source keeps the
    /// facts that it is configured with.
    pub fn set_facts_feed(&mut self, feed: FactsFeed) {
        self.facts = FactsInput::from_feed(feed);
    }

    /// A channel with the error that keeps the source from being read.
    pub fn source_error(&self) -> SourceError {
        self.reconciler.reports.source_error()
    }

    /// Calls `call` once the source was read and its works on the hub are known.
    pub fn on_ready(&mut self, call: impl FnOnce() + Send + 'static) {
        self.on_ready = Some(Box::new(call));
    }

    /// Lets the engine plan and write only while it is the leader. Without this call, it always
    /// does.
    pub fn set_leadership(&mut self, leadership: Leadership) {
        self.leadership = LeadershipState::by(leadership.watch());
        self.reconciler.guard_writes(leadership);
    }

    /// Publishes the status of the source, and gives the channel.
    pub fn publish_status(&mut self, reach: Reachability) -> StatusFeed {
        self.reconciler.reports.publish_status(reach, monotonic())
    }

    /// Makes one pass without waiting, and gives the plan that is left after it.
    pub async fn once(self) -> Result<(Plan, Arc<Desired>), EngineError> {
        self.reconciler.once(self.facts).await
    }

    /// Runs until `stop` is true. Requests in flight are then finished or abandoned. Long pauses
    /// are logged and counted.
    pub async fn run(
        self,
        hints: mpsc::Receiver<()>,
        stop: watch::Receiver<bool>,
    ) -> Result<(), EngineError> {
        let on_pause = self.reconciler.reports.on_pause();
        watched(self.run_unwatched(hints, stop), on_pause).await
    }

    async fn run_unwatched(
        mut self,
        mut hints: mpsc::Receiver<()>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), EngineError> {
        let mut events = self.reconciler.watch_hub();
        let mut reach = self.reconciler.reports.reach();
        while !*stop.borrow() {
            let mut is_behind = !self.begin_due(monotonic()).await?;
            is_behind |= !self.reconciler.publish_due_status(self.leadership.leads());
            if is_behind {
                // What is due has more parts. Other tasks come first.
                tokio::task::yield_now().await;
            }
            let wake = self.next_wake();
            tokio::select! {
                // The order is fixed, so that a simulation can be replayed. No branch starves
                // another: a pass ends, and a burst of events is handled at once.
                biased;
                _ = stop.changed() => break,
                () = self.leadership.changed() => {}
                fetched = self.reconciler.source.fetched() => if let Some(fetched) = fetched? {
                    self.end_fetch(fetched);
                },
                event = next_event(&mut self.pass) => match event {
                    Some(event) => self.reconciler.apply_pass_event(event),
                    None => self.reconciler.reports.pass_ended(self.pass.take().as_ref()),
                },
                Some(event) = events.next() => {
                    let mut next = Some(event);
                    // Events come in bursts: make one plan for all of them.
                    while let Some(event) = next {
                        self.reconciler.apply_hub_event(event).await;
                        next = events.next().now_or_never().flatten();
                    }
                }
                is_outdated = self.facts.changed() => if is_outdated {
                    self.schedule.hint(monotonic());
                },
                Some(()) = hints.recv() => self.schedule.hint(monotonic()),
                () = reach_changed(&mut reach) => {}
                () = std::future::ready(()), if is_behind => {}
                () = tokio::time::sleep_until(wake.into()), if !is_behind => {}
            }
        }
        self.shut_down().await;
        Ok(())
    }

    /// Begins what is due at `now`: queries of the hub, a fetch, a pass. Gives `false` if a pass is
    /// planned in part only: that of many works takes several calls.
    async fn begin_due(&mut self, now: Instant) -> Result<bool, EngineError> {
        if self.reconciler.state.facts().is_ready()
            && let Some(call) = self.on_ready.take()
        {
            call();
        }
        self.apply_leadership(now);
        if self.pass.is_none() && self.reconciler.ask_hub(now).await {
            self.schedule.hint(now);
        }
        // A fetch takes the reader, which a plan may need. What the last fetch brought is planned
        // before the next one begins, or a push during each fetch would postpone the plan for ever.
        if !self.schedule.has_ended() {
            self.begin_due_fetch(now);
        }
        let wants_pass = self.may_plan() && self.reconciler.state.wants_plan(now);
        let is_ready = wants_pass && self.reconciler.state.advance_plan(limits::WORKS_AT_ONCE);
        if is_ready {
            self.begin_pass(now).await?;
        }
        if !self.reconciler.source.is_fetching() && self.reconciler.wants_other_contents() {
            self.schedule.hint(now);
        }
        self.begin_due_fetch(now);
        Ok(is_ready || !wants_pass)
    }

    fn begin_due_fetch(&mut self, now: Instant) {
        if !self.schedule.is_due(now) || !self.leadership.may_fetch() {
            return;
        }
        if self.reconciler.can_fetch() {
            let is_hinted = self.schedule.begin();
            self.leadership.fetching();
            self.reconciler.begin_fetch(self.facts.begin_read(), !is_hinted);
        } else if self.reconciler.read_ahead() {
            self.schedule.begin();
        }
    }

    async fn begin_pass(&mut self, now: Instant) -> Result<(), EngineError> {
        self.schedule.planned();
        self.pass = self.reconciler.begin_pass(now).await?;
        // The branch may only seem rewound because it was read too early: read it again.
        if self.reconciler.state.guards().rewind().doubts_read() {
            self.schedule.repeat(now);
        }
        Ok(())
    }

    /// Applies a change of leadership.
    fn apply_leadership(&mut self, now: Instant) {
        let Reconciler { state, reports, .. } = &mut self.reconciler;
        match self.leadership.observe() {
            Some(LeadershipChange::Gained) => {
                state.begin_term(now);
                self.facts.ask_again();
                self.schedule.hint(now);
                reports.set_leader_metrics(state.facts().desired().map(Arc::as_ref));
            }
            Some(LeadershipChange::Lost) => {
                // Requests in flight are abandoned, as at a crash: another process may write now.
                self.pass = None;
                state.facts_mut().mark_changed();
                reports.remove_leader_metrics();
            }
            None => {}
        }
    }

    /// Whether a fetch may begin once it is due.
    fn may_fetch(&self) -> bool {
        self.leadership.may_fetch() && self.reconciler.can_fetch()
    }

    /// Whether a pass may begin once it is due.
    fn may_plan(&self) -> bool {
        self.pass.is_none() && self.leadership.may_plan() && self.facts.is_current()
    }

    /// When the next step is due, if nothing happens before.
    fn next_wake(&self) -> Instant {
        let Reconciler { state, reports, .. } = &self.reconciler;
        let far = monotonic() + Duration::from_secs(3_600);
        // The end of a running fetch wakes the loop.
        let fetch = if self.may_fetch() { self.schedule.next() } else { far };
        let retry = if self.may_plan() { state.next_due() } else { None };
        let guards = if self.pass.is_none() { state.facts().next_read() } else { None };
        [retry, guards, reports.status_due()].into_iter().flatten().fold(fetch, Instant::min)
    }

    /// Applies the result of a fetch, and sets when the next one is due.
    fn end_fetch(&mut self, fetched: Fetched) {
        let succeeded = fetched.read.is_ok();
        if succeeded {
            self.leadership.fetched();
        }
        if let Ok(read) = &fetched.read {
            self.facts.end_read(&read.desired);
        }
        let changed = self.reconciler.apply_fetch(fetched, self.leadership.leads());
        if changed && let Some(pass) = &self.pass {
            // The running pass belongs to an older commit: tasks that have not begun are planned
            // again.
            pass.stop();
        }
        self.schedule.end(succeeded, monotonic(), fastrand::u64(..));
    }

    /// Ends within `limits::SHUTDOWN`.
    async fn shut_down(&mut self) {
        self.reconciler.source.cancel();
        let Some(pass) = self.pass.take() else { return };
        pass.stop();
        let finished = self.reconciler.finish(pass);
        if tokio::time::timeout(gitwork_runtime::limits::SHUTDOWN, finished).await.is_err() {
            tracing::warn!(source = %self.reconciler.source.id(), "abandoned writes to the hub; \
                the next start reads it again");
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
