//! What an engine does: it brings the state of one source up to date with Git and the hub, plans,
//! and applies the results. It decides nothing about time and leadership.

use std::sync::Arc;
use std::time::Instant;

use futures::stream::BoxStream;
use jiff::tz::TimeZone;

use super::error::EngineError;
use super::git_history::{self, AncestryQuery};
use super::hub_queries;
use super::pass::{Pass, PassEvent};
use super::record_keeper::RecordKeeper;
use super::reports::Reports;
use super::source_access::{Fetched, SourceAccess};
use super::tasks::due_tasks;
use crate::clock::monotonic;
use crate::leader_guarded_hub::LeaderGuardedHub;
use crate::leadership::Leadership;
use crate::limits;
use crate::metrics::{Metrics, Stage};
use crate::reader::SourceReader;
use gitwork_core::model::facts::Facts;
use gitwork_core::model::name::SourceId;
use gitwork_core::plan::Plan;
use gitwork_core::rollout::earlier::EarlierContents;
use gitwork_hub::execute::{ExecuteOptions, Task};
use gitwork_hub::{Hub, HubEvent};
use gitwork_runtime::clock::WallClock;
use gitwork_sync::facts::ReplacedDesired;
use gitwork_sync::guards::GuardOptions;
use gitwork_sync::state::SyncState;

mod once;

/// The replaced state of fewer works is dropped at once, in less than a millisecond.
const WORKS_DROPPED_HERE: usize = 2_000;

/// Reconciles the hub with one source, one step at each call.
pub(super) struct Reconciler {
    id: SourceId,
    hub: Arc<dyn Hub>,
    options: ExecuteOptions,
    record: RecordKeeper,
    pub source: SourceAccess,
    pub state: SyncState,
    pub reports: Reports,
    pub wall_clock: WallClock,
}

impl Reconciler {
    /// A reconciler that has read nothing yet.
    pub fn new(
        hub: Arc<dyn Hub>,
        reader: Box<dyn SourceReader>,
        guards: GuardOptions,
        options: ExecuteOptions,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (id, generation) = (reader.id().clone(), reader.known_record_generation());
        Self {
            hub,
            options,
            record: RecordKeeper::new(id.clone()),
            source: SourceAccess::new(reader),
            state: SyncState::new(id.clone(), guards, generation, monotonic()),
            reports: Reports::new(id.clone(), metrics),
            wall_clock: WallClock::system(),
            id,
        }
    }

    /// Rejects writes to the hub unless this daemon is the leader.
    pub fn guard_writes(&mut self, leadership: Leadership) {
        self.hub = Arc::new(LeaderGuardedHub::new(self.hub.clone(), leadership));
    }

    /// The events of the hub.
    pub fn watch_hub(&self) -> BoxStream<'static, HubEvent> {
        self.hub.watch(&self.id)
    }

    /// Applies an event of the hub. Other tasks come between the parts of a list, and before its
    /// plan: to record a list takes long by itself.
    pub async fn apply_hub_event(&mut self, event: HubEvent) {
        self.reports.hub_event(&event);
        let facts = self.state.facts_mut();
        let HubEvent::Listed(works) = event else { return facts.set_event(event) };
        let mut list = facts.begin_list(works);
        while !facts.advance_list(&mut list, limits::WORKS_AT_ONCE) {
            tokio::task::yield_now().await;
        }
        let replaced = list.into_replaced();
        drop_elsewhere(replaced.len(), replaced);
        tokio::task::yield_now().await;
    }

    /// Reads directives and the record from the hub if they are due. Gives whether an operator
    /// requests a sync.
    pub async fn ask_hub(&mut self, now: Instant) -> bool {
        let mut is_requested = false;
        if self.state.facts().directives.is_due(now) {
            let facts = self.state.facts_mut();
            is_requested = hub_queries::ask_directives(&*self.hub, &self.id, facts, now).await;
            // Windows open and close, and clocks are set, without an event.
            self.set_time();
        }
        self.record.read_due(&*self.hub, &mut self.state, now).await;
        is_requested
    }

    /// Whether a fetch can begin. A new process first reads from the hub which commit was verified,
    /// to verify later ones.
    pub fn can_fetch(&self) -> bool {
        !self.source.is_fetching() && !self.waits_for_hub()
    }

    /// Whether the hub has to say which commit was verified before a fetch begins.
    fn waits_for_hub(&self) -> bool {
        self.source.needs_verification_base() && self.state.facts().verification_base().is_none()
    }

    /// Begins what the first fetch can do while it waits for the hub. Gives `false` if it does not
    /// wait, or if that was done before.
    pub fn read_ahead(&mut self) -> bool {
        self.waits_for_hub() && self.source.begin_reading_ahead()
    }

    /// Begins a fetch, with these facts of the hub or those of the last one. `accepts_ahead`: what
    /// was fetched ahead may serve it. [`SourceAccess::fetched`] waits for its end.
    pub fn begin_fetch(&mut self, facts_of_hub: Option<Arc<Facts>>, accepts_ahead: bool) {
        if let Some(facts) = facts_of_hub {
            self.source.set_facts(facts);
        }
        self.set_earlier_contents();
        let facts = self.state.facts();
        self.source.begin_fetch(facts.verification_base(), facts.known_commits(), accepts_ahead);
    }

    /// Has the next read of Git render the contents that clusters keep or get. A new term begins
    /// as a new process does, with none: since the last one, another leader may have given clusters
    /// a newer content, which the older one would replace.
    fn set_earlier_contents(&mut self) {
        let none = EarlierContents::new();
        self.source.set_earlier(self.state.earlier_contents().unwrap_or(&none));
    }

    /// Whether clusters keep or get other contents of groups than when Git was read.
    pub fn wants_other_contents(&self) -> bool {
        let contents = self.state.earlier_contents();
        contents.is_some_and(|contents| contents != self.source.earlier())
    }

    /// Applies the result of a fetch. Gives whether the desired state changed. `leads`: this daemon
    /// is the leader.
    pub fn apply_fetch(&mut self, fetched: Fetched, leads: bool) -> bool {
        if fetched.missed_query {
            self.state.facts_mut().mark_changed();
        }
        let at = self.wall_clock.now();
        let read = match fetched.read {
            Ok(read) => read,
            Err(error) => {
                self.reports.fetch_failed(&error, at, leads);
                return false;
            }
        };
        self.state.facts_mut().history.read_after(fetched.known_before);
        self.observe_known_record();
        self.reports.fetched(&read, at, leads);
        let facts = self.state.facts_mut();
        facts.set_signed(read.is_signed);
        let Some(ReplacedDesired(before)) =
            facts.replace_desired(&read.desired, read.change.as_ref())
        else {
            return false;
        };
        self.reports.desired_changed(&read, leads);
        before.into_iter().for_each(|before| drop_elsewhere(before.works.len(), before));
        true
    }

    /// Applies what the source remembers of the record; a fetch may have updated it.
    fn observe_known_record(&mut self) {
        self.source.known_rejected().into_iter().for_each(|it| self.state.set_known_rejected(it));
        if let Some(generation) = self.source.known_record_generation() {
            self.state.facts_mut().record.observe_generation(generation);
        }
    }

    /// Begins a pass; `None` if there is nothing to do.
    pub async fn begin_pass(&mut self, now: Instant) -> Result<Option<Pass>, EngineError> {
        let lookups = self.state.take_lookups(now);
        if !lookups.is_empty() {
            return Ok(Some(Pass::look_up(&self.hub, lookups)));
        }
        let Some((plan, tasks)) = self.plan(now).await? else { return Ok(None) };
        self.reports.spent(Stage::Plan, monotonic().saturating_duration_since(now));
        self.reports.planned(&plan);
        if tasks.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.execute(tasks)))
    }

    /// Begins to write to the hub.
    fn execute(&mut self, tasks: Vec<Task>) -> Pass {
        self.reports.log.pass_begins(tasks.len());
        Pass::execute(&self.hub, tasks, self.options)
    }

    /// The current plan, and its effects that are due; `None` before all that it needs is known.
    async fn plan(&mut self, now: Instant) -> Result<Option<(Arc<Plan>, Vec<Task>)>, EngineError> {
        let facts = self.state.facts_mut();
        let Some(desired) = facts.desired().cloned().filter(|_| facts.is_ready()) else {
            return Ok(None);
        };
        let ancestry = git_history::ask_ancestry(&mut self.source, facts, now).await?;
        if ancestry != AncestryQuery::Known {
            tracing::debug!(source = %self.id, ?ancestry, "no plan without the head's history");
            return Ok(None);
        }
        git_history::ask_removed_works(&mut self.source, self.state.facts_mut(), now).await?;
        hub_queries::read_contents(&*self.hub, &self.id, self.state.facts_mut(), now).await;
        self.set_time();
        if self.state.guards().rewind().doubts_read() {
            return Ok(None);
        }
        let changed = self.state.update_contentions(now);
        self.reports.contentions(self.state.guards().policy().contentions.len(), changed);
        let Some(plan) = self.state.plan(now) else { return Ok(None) };
        for violation in self.state.violations() {
            tracing::error!(
                source = %self.id, work = %violation.key, rule = violation.rule.as_str(),
                "the plan breaks a rule; nothing is done for this work; report this as a bug"
            );
        }
        self.reports.log.followed_rewind(&plan, self.state.guards().rewind().followed());
        let (hub, source, state) = (&*self.hub, &mut self.source, &mut self.state);
        let record = self.record.write_due(hub, state, source, &plan, now).await?;
        if record.is_written() {
            // The plan depends on the record.
            self.set_time();
        }
        if !record.allows_execution() {
            return Ok(None);
        }
        let tasks = due_tasks(&mut self.source, &self.state, &desired, &plan, now).await?;
        Ok(Some((plan, tasks)))
    }

    /// Publishes the status if it is due. Gives `false` if that takes another call. `leads`: this
    /// daemon is the leader.
    pub fn publish_due_status(&mut self, leads: bool) -> bool {
        let (at, now) = (self.wall_clock.now(), monotonic());
        self.reports.publish_due_status(&mut self.state, at, leads);
        self.reports.status_due().is_none_or(|due| due > now)
    }

    /// Applies the time of day to the guards, and unreachable clusters to rollouts.
    fn set_time(&mut self) {
        if let Some(reach) = self.reports.reach() {
            let offline = reach.borrow().clone();
            self.state.set_offline(&offline);
        }
        self.state.set_time(self.wall_clock.now(), &|name| TimeZone::get(name).ok());
    }

    /// Applies the remaining events of a pass.
    pub async fn finish(&mut self, mut pass: Pass) {
        while let Some(event) = pass.next().await {
            self.apply_pass_event(event);
        }
        self.reports.log.pass_ended();
    }

    /// Applies an event of a pass.
    pub fn apply_pass_event(&mut self, event: PassEvent) {
        let (now, seed) = (monotonic(), fastrand::u64(..));
        match event {
            PassEvent::LookedUp(key, found) => {
                self.state.set_looked_up(&key, *found, now, seed);
                self.reports.status_changed();
            }
            PassEvent::Outcome(outcome) => {
                self.reports.outcome(&outcome);
                self.state.set_outcome(&outcome, now, seed);
            }
        }
    }
}

/// Drops what was replaced. That of a large source has as many small parts as works, and would keep
/// the engine from all else.
fn drop_elsewhere(works: usize, replaced: impl Send + 'static) {
    if works < WORKS_DROPPED_HERE {
        return;
    }
    // Without a thread, the closure drops it here.
    let dropped = std::thread::Builder::new().name("drop".into()).spawn(move || drop(replaced));
    dropped.map_or_else(drop, drop);
}
