//! The engine of one source: fetch, plan, execute, in a loop. It wakes for the fetch timer, for
//! hints (a changed folder, SIGHUP, a webhook), for events of the hub and for retries.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::stream::{self, BoxStream, StreamExt};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::leadership::{LeaderGuardedHub, Leadership, LeadershipChange, LeadershipState};
use super::metrics::{Metrics, Stage};
use super::reader::{SourceReader, on_source};
use super::status_publisher::{Reachability, SourceError, StatusPublisher};
use gitwork_core::model::name::{SourceId, WorkKey};
use gitwork_core::model::operation_error::{ErrorClass, OperationError, describe};
use gitwork_core::plan::backoff;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_core::plan::rewind::AppliedCommits;
use gitwork_core::plan::{Effect, Plan, PlanStep, Reason};
use gitwork_core::render::desired::Desired;
use gitwork_core::signature::verification::VerificationFailure;
use gitwork_core::sync::guards::GuardOptions;
use gitwork_core::sync::state::SyncState;
use gitwork_forge::reporter::StatusFeed;
use gitwork_hub::execute::{ExecuteError, ExecuteOptions, Outcome, Task, execute};
use gitwork_hub::{Hub, HubError, HubEvent};
use gitwork_runtime::limits;
use gitwork_source::{SourceReadError, SourceState};

mod log;
mod queries;

use log::SourceLog;

/// The settings of an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Time between two fetches, with a jitter of a tenth.
    pub interval: Duration,
    pub guards: GuardOptions,
    pub execute: ExecuteOptions,
}

/// Why an engine ended, or a single pass failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("the source cannot be read: {0}")]
    Read(#[from] SourceReadError),
    #[error("the hub cannot be read: {0}")]
    Hub(#[from] HubError),
    #[error("the newest commit is not applied: {0}")]
    Refused(Arc<VerificationFailure>),
    #[error("reading the source ended in a panic; this is a bug in gitwork")]
    Panic,
}

impl OperationError for EngineError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Read(error) => error.class(),
            Self::Hub(error) => error.class(),
            Self::Refused(_) => ErrorClass::NeedsAction,
            Self::Panic => ErrorClass::Bug,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Read(error) => error.reason(),
            Self::Hub(error) => error.reason(),
            Self::Refused(_) => "VerificationFailed",
            Self::Panic => "Panic",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Read(error) => error.hints(),
            Self::Hub(error) => error.hints(),
            Self::Refused(_) | Self::Panic => Vec::new(),
        }
    }
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
    lead: LeadershipState,
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

/// Reads the time of day, which may jump in both directions.
pub type WallClock = Box<dyn Fn() -> Timestamp + Send>;

type Fetched = (Box<dyn SourceReader>, Result<SourceState, SourceReadError>);
type Fetch = JoinHandle<Fetched>;

/// An event of a pass.
enum PassEvent {
    LookedUp(WorkKey, Box<Result<Option<ObservedWork>, HubError>>),
    Outcome(Box<Outcome>),
}

/// A running pass.
struct Pass {
    events: BoxStream<'static, PassEvent>,
    stop: watch::Sender<bool>,
    began: Instant,
    /// When the last write ended, and the last deletion.
    applied: Option<Instant>,
    pruned: Option<Instant>,
}

impl Pass {
    fn new(events: BoxStream<'static, PassEvent>, stop: watch::Sender<bool>) -> Self {
        Self { events, stop, began: clock(), applied: None, pruned: None }
    }

    fn note(&mut self, event: &PassEvent) {
        if let PassEvent::Outcome(outcome) = event {
            let is_deletion = matches!(outcome.task.effect, Effect::Delete { .. });
            let last = if is_deletion { &mut self.pruned } else { &mut self.applied };
            *last = Some(clock());
        }
    }

    /// The duration of writes and of deletions.
    fn spent(&self) -> impl Iterator<Item = (Stage, Duration)> {
        let applied = self.applied.map(|end| (Stage::Apply, end - self.began));
        let from = self.applied.unwrap_or(self.began);
        let pruned = self.pruned.map(|end| (Stage::Prune, end.saturating_duration_since(from)));
        applied.into_iter().chain(pruned)
    }
}

/// The timers and streams of the loop.
struct Loop {
    fetch: Option<Fetch>,
    pass: Option<Pass>,
    next_fetch: Instant,
    failed_fetches: u32,
    /// A hint came during the running fetch, which may have missed its cause: fetch again.
    hinted: bool,
    reach: Option<Reachability>,
}

impl Engine {
    pub fn new(
        hub: Arc<dyn Hub>,
        source: impl SourceReader,
        options: EngineOptions,
        metrics: Arc<Metrics>,
    ) -> Self {
        let id = source.id().clone();
        let state =
            SyncState::new(id.clone(), options.guards.clone(), source.known_moves(), clock());
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
            lead: LeadershipState::default(),
            committed_seconds: None,
            publisher,
            source_error,
            on_ready,
            wall_clock: Box::new(Timestamp::now),
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
        self.lead = LeadershipState::by(leadership.watch());
        self.hub = Arc::new(LeaderGuardedHub::new(self.hub.clone(), leadership));
    }

    /// Publishes the status of the source, and gives the channel.
    pub fn publish_status(&mut self, reach: Reachability) -> StatusFeed {
        let (publisher, feed) = StatusPublisher::new(reach, clock());
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
        let mut looped = Loop {
            fetch: None,
            pass: None,
            next_fetch: clock(),
            failed_fetches: 0,
            hinted: false,
            reach: self.publisher.as_ref().map(StatusPublisher::reach),
        };
        while !*stop.borrow() {
            let now = clock();
            if self.state.is_ready()
                && let Some(call) = self.on_ready.take()
            {
                call();
            }
            self.apply_leadership(&mut looped);
            self.ask_hub(&mut looped).await;
            if looped.fetch.is_none() && looped.next_fetch <= now && self.may_fetch() {
                looped.hinted = false;
                looped.fetch = self.begin_fetch();
            }
            if looped.pass.is_none() && self.lead.may_plan() && self.state.wants_plan(now) {
                looped.pass = self.begin_pass(now).await?;
                if self.state.guards().doubts_read() && looped.failed_fetches == 0 {
                    looped.next_fetch = now;
                }
            }
            if let Some(publisher) = &mut self.publisher
                && let Some(status) = publisher.publish(&self.state, clock(), (self.wall_clock)())
                && self.lead.leads()
            {
                self.metrics.set_states(&status);
            }
            let wake = self.next_wake(&looped);
            tokio::select! {
                // The order is fixed, so that a simulation can be replayed. No branch starves
                // another: a pass ends, and a burst of events is handled at once.
                biased;
                _ = stop.changed() => break,
                () = self.lead.changed() => {}
                fetched = finished(&mut looped.fetch) => self.end_fetch(fetched?, &mut looped),
                event = next_event(&mut looped.pass) => self.on_pass_event(event, &mut looped),
                Some(event) = events.next() => {
                    self.on_hub_event(event);
                    // Events come in bursts: make one plan for all of them.
                    while let Some(Some(event)) = futures::FutureExt::now_or_never(events.next()) {
                        self.on_hub_event(event);
                    }
                }
                Some(()) = hints.recv() => {
                    looped.next_fetch = clock();
                    looped.hinted = true;
                }
                () = reach_changed(&mut looped.reach) => {}
                () = tokio::time::sleep_until(wake.into()) => {}
            }
        }
        self.shut_down(looped).await;
        Ok(())
    }

    fn next_wake(&self, looped: &Loop) -> Instant {
        let far = clock() + Duration::from_secs(3_600);
        // The end of a running fetch wakes the loop.
        let waits = looped.fetch.is_none() && self.may_fetch();
        let fetch = if waits { looped.next_fetch } else { far };
        let plans = looped.pass.is_none() && self.lead.may_plan();
        let retry = if plans { self.state.next_due() } else { None };
        let guards = if looped.pass.is_none() { self.state.guards().next_due() } else { None };
        let publisher = self.publisher.as_ref().and_then(StatusPublisher::due);
        [retry, guards, publisher].into_iter().flatten().fold(fetch, Instant::min)
    }

    /// Applies a change of leadership.
    fn apply_leadership(&mut self, looped: &mut Loop) {
        match self.lead.observe() {
            Some(LeadershipChange::Gained) => {
                // Another process may have written works and the record since.
                self.state.ask_hub_again();
                (looped.next_fetch, looped.hinted) = (clock(), true);
                self.count_known();
            }
            Some(LeadershipChange::Lost) => {
                // Requests in flight are abandoned, as at a crash: another process may write now.
                looped.pass = None;
                self.state.mark_changed();
                self.metrics.standby(&self.id);
            }
            None => {}
        }
    }

    /// Sets the metrics that only the leader reports.
    fn count_known(&self) {
        if let Some(desired) = self.state.desired() {
            self.metrics.rendered(&self.id, desired);
        }
        if let Some(seconds) = self.committed_seconds {
            self.metrics.commit(&self.id, seconds);
        }
        self.metrics.verified(&self.id, self.log.is_unverified());
        if let Some(status) = self.publisher.as_ref().and_then(StatusPublisher::last) {
            self.metrics.set_states(&status);
        }
    }

    /// Ends within `limits::SHUTDOWN`.
    async fn shut_down(&mut self, looped: Loop) {
        self.cancel.store(true, Ordering::Relaxed);
        if let Some(mut pass) = looped.pass {
            pass.stop.send_replace(true);
            let drained = async {
                while let Some(event) = pass.events.next().await {
                    self.take_pass_event(event);
                }
            };
            if tokio::time::timeout(limits::SHUTDOWN, drained).await.is_err() {
                tracing::warn!(source = %self.id, "abandoned writes to the hub; the next start \
                    reads it again");
            }
        }
    }

    /// A new process first reads from the hub which commits were applied, to verify later ones.
    fn may_fetch(&self) -> bool {
        let wants = self.source.as_ref().is_some_and(|source| source.wants_applied());
        self.lead.may_fetch() && (!wants || self.state.knows_hub())
    }

    fn begin_fetch(&mut self) -> Option<Fetch> {
        let mut source = self.source.take()?;
        self.lead.fetching();
        if source.wants_applied() {
            source.set_applied(self.state.applied().unwrap_or_default());
        }
        self.known_before = self.state.known();
        let cancel = self.cancel.clone();
        Some(on_source(source, move |source| source.read(&cancel)))
    }

    fn end_fetch(&mut self, (source, read): Fetched, looped: &mut Loop) {
        looped.fetch = None;
        self.source = Some(source);
        if std::mem::take(&mut self.source_missed) {
            self.state.mark_changed();
        }
        let seed = fastrand::u64(..);
        match read {
            Ok(read) => {
                looped.failed_fetches = 0;
                self.state.set_read_after(std::mem::take(&mut self.known_before));
                let source_error = read.refused.as_ref().map(ToString::to_string);
                self.source_error.send_if_modified(|before| {
                    let differs = *before != source_error;
                    *before = source_error;
                    differs
                });
                self.on_read(&read, looped);
            }
            Err(error) => {
                match error.refusal() {
                    Some(refusal) => self.report_verification(Some(refusal)),
                    None => {
                        tracing::error!(
                            source = %self.id, reason = error.reason(), error = describe(&error),
                            "the source cannot be read; the hub stays as it is"
                        );
                    }
                }
                self.metrics.fetched(&self.id, false);
                self.source_error.send_replace(Some(describe(&error)));
                looped.failed_fetches = looped.failed_fetches.saturating_add(1);
            }
        }
        let wait = backoff::next_fetch(self.options.interval, looped.failed_fetches, seed);
        looped.next_fetch = clock() + if looped.hinted { Duration::ZERO } else { wait };
    }

    /// Reads the record generation that the source remembers; a fetch may have updated it.
    fn learn_moves(&mut self) {
        if let Some(source) = &self.source {
            self.state.learn_moves(source.known_moves());
        }
    }

    fn on_read(&mut self, read: &SourceState, looped: &mut Loop) {
        self.lead.fetched();
        self.learn_moves();
        self.metrics.fetched(&self.id, true);
        self.metrics.spent(&self.id, Stage::Fetch, read.spent.fetch);
        if let Some(time) = read.spent.render {
            self.metrics.spent(&self.id, Stage::Render, time);
        }
        self.report_verification(read.refused.as_deref());
        if !self.state.set_desired(&read.desired) {
            return;
        }
        if let Some(publisher) = &mut self.publisher {
            publisher.forget_refusals();
            publisher.touch();
        }
        self.log.read(read);
        self.committed_seconds = read.committed_seconds;
        if self.lead.leads() {
            self.count_known();
        }
        if let Some(pass) = &looped.pass {
            // The running pass belongs to an older commit: tasks that have not begun are planned
            // again.
            pass.stop.send_replace(true);
        }
    }

    /// Reports whether the newest commit is verified.
    fn report_verification(&mut self, failure: Option<&VerificationFailure>) {
        if self.lead.leads() {
            self.metrics.verified(&self.id, failure.is_some());
        }
        if let Some(publisher) = &mut self.publisher {
            publisher.set_unverified(failure.map(|failure| (failure.head, failure.to_string())));
        }
        self.log.verification(failure);
    }

    fn report_plan(&mut self, plan: &Plan) {
        self.metrics.planned(&self.id, plan);
        let is_as_git_wants =
            |step: &PlanStep| step.is_settled() || step.reason == Reason::Suspended;
        if let Some(seconds) = self.committed_seconds
            && plan.steps.iter().all(is_as_git_wants)
        {
            self.metrics.synced(&self.id, seconds);
        }
        self.log.plan(plan);
    }

    fn report_outcome(&self, outcome: &Outcome) {
        self.log.outcome(outcome);
        // A task that never began is no failed write.
        if !matches!(outcome.result, Err(ExecuteError::Stopped)) {
            let effect = outcome.task.effect.name();
            self.metrics.wrote(&self.id, effect, outcome.result.is_ok());
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

    fn on_pass_event(&mut self, event: Option<PassEvent>, looped: &mut Loop) {
        let Some(event) = event else {
            for (stage, time) in looped.pass.take().iter().flat_map(Pass::spent) {
                self.metrics.spent(&self.id, stage, time);
            }
            return;
        };
        if let Some(pass) = &mut looped.pass {
            pass.note(&event);
        }
        self.take_pass_event(event);
    }

    fn take_pass_event(&mut self, event: PassEvent) {
        let (now, seed) = (clock(), fastrand::u64(..));
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

    /// Begins a pass; `None` if there is nothing to do.
    async fn begin_pass(&mut self, now: Instant) -> Result<Option<Pass>, EngineError> {
        let (stop, stopped) = watch::channel(false);
        let lookups = self.state.take_lookups(now);
        if !lookups.is_empty() {
            return Ok(Some(Pass::new(look_up(&self.hub, lookups), stop)));
        }
        let Some((plan, tasks)) = self.plan(now).await? else { return Ok(None) };
        self.metrics.spent(&self.id, Stage::Plan, clock().saturating_duration_since(now));
        self.report_plan(&plan);
        if tasks.is_empty() {
            return Ok(None);
        }
        let outcomes = execute(self.hub.clone(), tasks, self.options.execute, stopped);
        let events = outcomes.map(|outcome| PassEvent::Outcome(Box::new(outcome))).boxed();
        Ok(Some(Pass::new(events, stop)))
    }

    /// The current plan, and its effects that are due.
    async fn plan(&mut self, now: Instant) -> Result<Option<(Arc<Plan>, Vec<Task>)>, EngineError> {
        let Some(desired) = self.state.desired().cloned().filter(|_| self.state.is_ready()) else {
            return Ok(None);
        };
        if !self.ask_ancestry(&desired, now).await? {
            return Ok(None);
        }
        self.ask_history(&desired, now).await?;
        self.set_time();
        if self.state.guards().doubts_read() {
            return Ok(None);
        }
        self.update_contentions(now);
        let Some(plan) = self.state.plan() else { return Ok(None) };
        for violation in self.state.violations() {
            tracing::error!(
                source = %self.id, work = %violation.key, rule = violation.rule.as_str(),
                "the plan breaks a rule; nothing is done for this work; report this as a bug"
            );
        }
        if !self.keep_record(&plan, now).await? {
            return Ok(None);
        }
        let due = self.state.due(&plan, now);
        let mut tasks = Vec::with_capacity(due.len());
        let mut changed = BTreeSet::new();
        for (step, effect) in due {
            let (key, effect) = (step.key.clone(), effect.clone());
            // An edit on the hub is corrected: the work keeps its commit in Git.
            let commit = matches!(step.reason, Reason::EditedOnHub { .. })
                .then(|| self.state.commit_on_hub(&key))
                .flatten();
            if commit.is_none() {
                changed.extend(desired.works.get(&key).map(|work| work.path.clone()));
            }
            tasks.push(Task { key, effect, commit });
        }
        let commits = self.last_changed(desired.commit, changed).await?;
        for task in tasks.iter_mut().filter(|task| task.commit.is_none()) {
            let path = desired.works.get(&task.key).map(|work| &work.path);
            task.commit = path.and_then(|path| commits.get(path).copied()).or(desired.commit);
        }
        Ok(Some((plan, tasks)))
    }

    fn update_contentions(&mut self, now: Instant) {
        if self.state.update_contentions(now)
            && let Some(publisher) = &mut self.publisher
        {
            publisher.touch();
        }
        self.metrics.set_backed_off(&self.id, self.state.contests().len());
    }

    fn set_time(&mut self) {
        self.state.set_time((self.wall_clock)(), &|name| TimeZone::get(name).ok());
    }

    /// Makes one pass without waiting, and gives the plan that is left after it.
    pub async fn once(mut self) -> Result<(Plan, Arc<Desired>), EngineError> {
        self.state.set_listed(self.hub.list(Some(&self.id)).await?);
        let said = self.hub.directives(&self.id).await?;
        self.state.set_directives(Some(said), clock());
        self.state.set_record(self.hub.record(&self.id).await?);
        let (cancel, applied) = (self.cancel.clone(), self.state.applied().unwrap_or_default());
        self.state.set_read_after(self.state.known());
        let read = self.with_source(move |source| {
            source.set_applied(applied);
            source.read(&cancel)
        });
        let read = read.await?.ok_or(EngineError::Panic)??;
        self.learn_moves();
        if !self.state.guards().is_known() {
            self.state.set_record(self.hub.record(&self.id).await?);
        }
        self.state.set_desired(&read.desired);
        self.log.read(&read);
        // A second round handles names that were taken and objects that were newer.
        for _ in 0..2 {
            let now = clock();
            let lookups = self.state.take_lookups(now);
            let mut events = look_up(&self.hub, lookups);
            while let Some(event) = events.next().await {
                self.take_pass_event(event);
            }
            let Some((_, tasks)) = self.plan(now).await? else { break };
            let (_running, stopped) = watch::channel(false);
            let mut outcomes = execute(self.hub.clone(), tasks, self.options.execute, stopped);
            while let Some(outcome) = outcomes.next().await {
                self.take_pass_event(PassEvent::Outcome(Box::new(outcome)));
            }
        }
        let plan = self.state.plan().unwrap_or_default();
        self.report_plan(&plan);
        match read.refused {
            Some(refusal) => Err(EngineError::Refused(refusal)),
            None => Ok((Arc::unwrap_or_clone(plan), read.desired)),
        }
    }
}

/// The time of tokio's clock. In a simulation it advances only when all tasks wait.
fn clock() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn look_up(hub: &Arc<dyn Hub>, keys: Vec<WorkKey>) -> BoxStream<'static, PassEvent> {
    let hub = hub.clone();
    stream::iter(keys)
        .map(move |key| {
            let hub = hub.clone();
            async move {
                let found = hub.get(&key).await;
                PassEvent::LookedUp(key, Box::new(found))
            }
        })
        .buffer_unordered(gitwork_hub::limits::HUB_IN_FLIGHT_PER_CLUSTER)
        .boxed()
}

/// The end of the running fetch; pending if there is none.
async fn finished(fetch: &mut Option<Fetch>) -> Result<Fetched, EngineError> {
    match fetch {
        Some(fetch) => fetch.await.map_err(|_| EngineError::Panic),
        None => std::future::pending().await,
    }
}

/// The next change of unreachable clusters; pending without a status.
async fn reach_changed(reach: &mut Option<Reachability>) {
    match reach {
        Some(reach) => StatusPublisher::reach_changed(reach).await,
        None => std::future::pending().await,
    }
}

/// The next event of the running pass; `None` at its end.
async fn next_event(pass: &mut Option<Pass>) -> Option<PassEvent> {
    match pass {
        Some(pass) => pass.events.next().await,
        None => std::future::pending().await,
    }
}
