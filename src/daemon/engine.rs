//! One source's engine: fetch, plan, act, for ever. It wakes for the fetch timer, for hints (a changed folder,
//! SIGHUP), for the hub's events and for retries; what it does is decided by values alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::stream::{self, BoxStream, StreamExt};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::bulletin::{Bulletin, Reach, Trouble};
use super::guards::GuardOptions;
use super::leading::{self, Fenced, Lead, Standing};
use super::metrics::{Metrics, Stage};
use super::reader::{SourceReader, on_source};
use super::state::State;
use crate::core::backoff;
use crate::core::desired::Desired;
use crate::core::digest::Digest;
use crate::core::name::{CommitId, SourceId, WorkKey};
use crate::core::observed::ObservedWork;
use crate::core::plan::{Effect, Plan, Reason};
use crate::core::rewind::Known;
use crate::core::signature::judge::Refusal;
use crate::error::with_causes;
use crate::forge::reporter::StatusFeed;
use crate::hub::execute::{ExecuteOptions, Outcome, Task, execute};
use crate::hub::{Hub, HubError, HubEvent};
use crate::limits;
use crate::source::{Read, ReadError};

mod ask;
mod tell;

use tell::tell_read;

/// How an engine goes about its source.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Time between two fetches; spread by a tenth, so that many sources do not fetch at once.
    pub interval: Duration,
    pub guards: GuardOptions,
    pub execute: ExecuteOptions,
}

/// Why an engine ended, or a single pass could not be made.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("the source cannot be read: {0}")]
    Read(#[from] ReadError),
    #[error("the hub cannot be read: {0}")]
    Hub(#[from] HubError),
    #[error("the newest commit is not applied: {0}")]
    Refused(Arc<Refusal>),
    #[error("reading the source ended in a panic; this is a bug in gitwork")]
    Panic,
}

/// Keeps one source and the hub in step.
pub struct Engine {
    id: SourceId,
    hub: Arc<dyn Hub>,
    /// `None` while a thread is busy with it.
    source: Option<Box<dyn SourceReader>>,
    /// The source was wanted while a thread was busy with it: what that was for is to be planned anew.
    source_missed: bool,
    state: State,
    options: EngineOptions,
    metrics: Arc<Metrics>,
    cancel: Arc<AtomicBool>,
    /// What was last told of each work that something holds back, so that it is told once.
    told: BTreeMap<WorkKey, &'static str>,
    /// What waits for approval and was told.
    told_held: BTreeSet<Digest>,
    /// The commits left behind that were told.
    told_left: BTreeSet<CommitId>,
    /// Writes of the record in a row for which the hub had no place, and when the next is due.
    homeless: Option<(u32, Instant)>,
    /// What was known as applied when the fetch under way began.
    known_before: Known,
    lead: Lead,
    /// When the commit that was read was made.
    committed_seconds: Option<i64>,
    /// The refusal that was told.
    told_refusal: Option<Refusal>,
    /// What is told of the source, where somebody listens.
    bulletin: Option<Bulletin>,
    /// Why the source cannot be read now.
    trouble: watch::Sender<Option<String>>,
    /// Called once both sides are known.
    on_ready: Option<Box<dyn FnOnce() + Send>>,
    wall_clock: WallClock,
}

/// Tells the time of day, which may jump either way.
pub type WallClock = Box<dyn Fn() -> Timestamp + Send>;

type Fetched = (Box<dyn SourceReader>, Result<Read, ReadError>);
type Fetch = JoinHandle<Fetched>;

/// What comes in while a pass is under way.
enum PassEvent {
    LookedUp(WorkKey, Box<Result<Option<ObservedWork>, HubError>>),
    Outcome(Box<Outcome>),
}

/// A pass under way.
struct Pass {
    events: BoxStream<'static, PassEvent>,
    stop: watch::Sender<bool>,
    began: Instant,
    /// The last write that was no deletion, and the last that was one.
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

    /// How long writes and deletions took.
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
    /// A hint came while a fetch was under way, which may have been too early for what it hints at.
    hinted: bool,
    reach: Option<Reach>,
}

impl Engine {
    pub fn new(
        hub: Arc<dyn Hub>,
        source: impl SourceReader,
        options: EngineOptions,
        metrics: Arc<Metrics>,
    ) -> Self {
        let id = source.id().clone();
        let state = State::new(id.clone(), options.guards.clone(), source.known_moves(), clock());
        let cancel = Arc::new(AtomicBool::new(false));
        let source: Option<Box<dyn SourceReader>> = Some(Box::new(source));
        let (told, told_held) = (BTreeMap::new(), BTreeSet::new());
        let told_left = BTreeSet::new();
        let (bulletin, on_ready) = (None, None);
        let trouble = watch::Sender::new(None);
        Self {
            id,
            hub,
            source,
            source_missed: false,
            state,
            options,
            metrics,
            cancel,
            told,
            told_held,
            told_left,
            homeless: None,
            known_before: Known::default(),
            lead: Lead::default(),
            committed_seconds: None,
            told_refusal: None,
            bulletin,
            trouble,
            on_ready,
            wall_clock: Box::new(Timestamp::now),
        }
    }

    /// Has the time of day told by another clock, as a simulation needs it.
    pub fn set_wall_clock(&mut self, clock: WallClock) {
        self.wall_clock = clock;
    }

    /// Why the source cannot be read, for whoever wants to know.
    pub fn trouble(&self) -> Trouble {
        self.trouble.subscribe()
    }

    /// Has `call` called once the source has been read and its works on the hub are known.
    pub fn on_ready(&mut self, call: impl FnOnce() + Send + 'static) {
        self.on_ready = Some(Box::new(call));
    }

    /// Has the engine plan and write only while it leads. Without this, it always does.
    pub fn led_by(&mut self, standing: Standing) {
        self.lead = Lead::by(standing.watch());
        self.hub = Arc::new(Fenced::new(self.hub.clone(), standing));
    }

    /// Has the source's state told to whoever listens.
    pub fn listen(&mut self, reach: Reach) -> StatusFeed {
        let (bulletin, feed) = Bulletin::new(reach);
        self.bulletin = Some(bulletin);
        feed
    }

    /// Runs until `stop` is true. What is in flight then is finished or abandoned cleanly.
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
            reach: self.bulletin.as_ref().map(Bulletin::reach),
        };
        while !*stop.borrow() {
            let now = clock();
            if self.state.is_ready()
                && let Some(call) = self.on_ready.take()
            {
                call();
            }
            self.heed_lead(&mut looped);
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
            if let Some(bulletin) = &mut self.bulletin
                && let Some(status) = bulletin.publish(&self.state, clock())
                && self.lead.leads()
            {
                self.metrics.told(&status);
            }
            let wake = self.next_wake(&looped);
            tokio::select! {
                // In this order, so that a simulation can replay what happened. A pass comes to its end, and bursts
                // of events are taken whole: none of them keeps the others waiting for long.
                biased;
                _ = stop.changed() => break,
                () = self.lead.changed() => {}
                fetched = finished(&mut looped.fetch) => self.end_fetch(fetched?, &mut looped),
                event = next_event(&mut looped.pass) => self.on_pass_event(event, &mut looped),
                Some(event) = events.next() => {
                    self.on_hub_event(event);
                    // Events come in bursts; one plan for all that are there.
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
        // What is under way ends by an event of its own.
        let waits = looped.fetch.is_none() && self.may_fetch();
        let fetch = if waits { looped.next_fetch } else { far };
        let plans = looped.pass.is_none() && self.lead.may_plan();
        let retry = if plans { self.state.next_due() } else { None };
        let guards = if looped.pass.is_none() { self.state.guards().next_due() } else { None };
        let bulletin = self.bulletin.as_ref().and_then(Bulletin::due);
        [retry, guards, bulletin].into_iter().flatten().fold(fetch, Instant::min)
    }

    /// Takes in whether this process still leads, or leads now.
    fn heed_lead(&mut self, looped: &mut Loop) {
        match self.lead.heed() {
            Some(leading::Turn::Begins) => {
                // Another has written since, in Git's name and into the record.
                self.state.ask_hub_again();
                (looped.next_fetch, looped.hinted) = (clock(), true);
                self.count_known();
            }
            Some(leading::Turn::Ends) => {
                // What is in flight is abandoned, as at a crash: another may write now.
                looped.pass = None;
                self.state.mark_changed();
                self.metrics.stands_by(&self.id);
            }
            None => {}
        }
    }

    /// Sets the numbers that only a leader tells to what is known.
    fn count_known(&self) {
        if let Some(desired) = self.state.desired() {
            self.metrics.rendered(&self.id, desired);
        }
        if let Some(seconds) = self.committed_seconds {
            self.metrics.commit(&self.id, seconds);
        }
        self.metrics.verified(&self.id, self.told_refusal.is_some());
        if let Some(status) = self.bulletin.as_ref().and_then(Bulletin::last) {
            self.metrics.told(&status);
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
                tracing::warn!(source = %self.id, "writes to the hub were abandoned; the next start looks again");
            }
        }
    }

    /// A new process learns from the hub which commits were applied, before it judges what comes after them.
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
                let trouble = read.refused.as_ref().map(ToString::to_string);
                self.trouble.send_if_modified(|told| {
                    let differs = *told != trouble;
                    *told = trouble;
                    differs
                });
                self.on_read(&read, looped);
            }
            Err(error) => {
                match error.refusal() {
                    Some(refusal) => self.tell_refusal(Some(refusal)),
                    None => {
                        tracing::error!(source = %self.id, error = with_causes(&error), "the source cannot be read; the hub stays as it is");
                    }
                }
                self.metrics.fetched(&self.id, false);
                self.trouble.send_replace(Some(with_causes(&error)));
                looped.failed_fetches = looped.failed_fetches.saturating_add(1);
            }
        }
        let wait = backoff::next_fetch(self.options.interval, looped.failed_fetches, seed);
        looped.next_fetch = clock() + if looped.hinted { Duration::ZERO } else { wait };
    }

    /// What the source remembers, it may have learnt only by reading.
    fn learn_moves(&mut self) {
        if let Some(source) = &self.source {
            self.state.learn_moves(source.known_moves());
        }
    }

    fn on_read(&mut self, read: &Read, looped: &mut Loop) {
        self.lead.fetched();
        self.learn_moves();
        self.metrics.fetched(&self.id, true);
        self.metrics.spent(&self.id, Stage::Fetch, read.spent.fetch);
        if let Some(time) = read.spent.render {
            self.metrics.spent(&self.id, Stage::Render, time);
        }
        self.tell_refusal(read.refused.as_deref());
        if !self.state.set_desired(&read.desired) {
            return;
        }
        if let Some(bulletin) = &mut self.bulletin {
            bulletin.forget_refusals();
            bulletin.touch();
        }
        tell_read(&self.id, read);
        self.committed_seconds = read.committed_seconds;
        if self.lead.leads() {
            self.count_known();
        }
        if let Some(pass) = &looped.pass {
            // What is under way belongs to an older commit: what has not begun is planned anew.
            pass.stop.send_replace(true);
        }
    }

    fn on_hub_event(&mut self, event: HubEvent) {
        if let HubEvent::Interrupted(error) = &event {
            tracing::warn!(source = %self.id, %error, "the watch of the hub broke; it is being restarted");
        }
        self.state.set_event(event);
        if let Some(bulletin) = &mut self.bulletin {
            bulletin.touch();
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
                if let Some(bulletin) = &mut self.bulletin {
                    bulletin.touch();
                }
            }
            PassEvent::Outcome(outcome) => {
                self.tell_outcome(&outcome);
                if let Some(bulletin) = &mut self.bulletin {
                    bulletin.note(&outcome);
                }
                self.state.set_outcome(&outcome, now, seed);
            }
        }
    }

    /// Begins what is to be done now; `None` where that is nothing.
    async fn begin_pass(&mut self, now: Instant) -> Result<Option<Pass>, EngineError> {
        let (stop, stopped) = watch::channel(false);
        let lookups = self.state.take_lookups(now);
        if !lookups.is_empty() {
            return Ok(Some(Pass::new(look_up(&self.hub, lookups), stop)));
        }
        let Some((plan, tasks)) = self.plan(now).await? else { return Ok(None) };
        self.metrics.spent(&self.id, Stage::Plan, now.elapsed());
        self.tell_plan(&plan);
        if tasks.is_empty() {
            return Ok(None);
        }
        let outcomes = execute(self.hub.clone(), tasks, self.options.execute, stopped);
        let events = outcomes.map(|outcome| PassEvent::Outcome(Box::new(outcome))).boxed();
        Ok(Some(Pass::new(events, stop)))
    }

    /// The plan as things are, and its effects that are due.
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
        self.weigh_contests(now);
        let Some(plan) = self.state.plan() else { return Ok(None) };
        if !self.keep_record(&plan, now).await? {
            return Ok(None);
        }
        let due = self.state.due(&plan, now);
        let mut tasks = Vec::with_capacity(due.len());
        let mut changed = BTreeSet::new();
        for (step, effect) in due {
            let (key, effect) = (step.key.clone(), effect.clone());
            // Put back after an edit on the hub: Git has not changed it.
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

    fn weigh_contests(&mut self, now: Instant) {
        if self.state.weigh_contests(now)
            && let Some(bulletin) = &mut self.bulletin
        {
            bulletin.touch();
        }
        self.metrics.contested(&self.id, self.state.contests().len());
    }

    fn set_time(&mut self) {
        self.state.set_time((self.wall_clock)(), &|name| TimeZone::get(name).ok());
    }

    /// Makes one pass, waits for nothing, and answers the plan that is left after it.
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
        tell_read(&self.id, &read);
        // Once to act, once more where a name turned out to be taken or an object to be newer.
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
        self.tell_plan(&plan);
        match read.refused {
            Some(refusal) => Err(EngineError::Refused(refusal)),
            None => Ok((Arc::unwrap_or_clone(plan), read.desired)),
        }
    }
}

/// The time by tokio's clock, which stands still in a simulation until nothing is left to do.
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
        .buffer_unordered(limits::HUB_IN_FLIGHT_PER_CLUSTER)
        .boxed()
}

/// The end of a fetch that is under way; never where there is none.
async fn finished(fetch: &mut Option<Fetch>) -> Result<Fetched, EngineError> {
    match fetch {
        Some(fetch) => fetch.await.map_err(|_| EngineError::Panic),
        None => std::future::pending().await,
    }
}

/// The next change of which clusters can be reached; never where nobody asks.
async fn reach_changed(reach: &mut Option<Reach>) {
    match reach {
        Some(reach) => Bulletin::reach_changed(reach).await,
        None => std::future::pending().await,
    }
}

/// The next event of a pass that is under way; `None` at its end.
async fn next_event(pass: &mut Option<Pass>) -> Option<PassEvent> {
    match pass {
        Some(pass) => pass.events.next().await,
        None => std::future::pending().await,
    }
}
