//! The state of one source between passes, and the plans, due writes and status that follow from
//! it. No IO and no clock: time is passed in.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::facts::SourceFacts;
use crate::guards::{GuardOptions, Guards};
use crate::hub::{HubError, Outcome, StoredRecord};
use crate::last_plan::LastPlan;
use crate::retries::Retries;
use crate::rollouts::{GroupRecords, RolloutInputs, Rollouts};
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{ClusterName, GroupName, SourceId, WorkKey};
use gitwork_core::plan::lint::PlanViolation;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_core::plan::order::{UpdateWaits, awaited_works};
use gitwork_core::plan::record::Record;
use gitwork_core::plan::replica_sets::removed_sets;
use gitwork_core::plan::rollouts::RolloutControl;
use gitwork_core::plan::{Effect, Plan, PlanStep};
use gitwork_core::rollout::earlier::EarlierContents;
use gitwork_report::status::incremental::{IncrementalStatus, SharedInputs};
use gitwork_report::status::source::{FailedWrite, SourceStatus, StatusInputs};

/// Works whose last write failed, unreachable clusters, and the time.
type AboutStatus<'a> = (&'a BTreeMap<WorkKey, FailedWrite>, &'a BTreeSet<ClusterName>, Timestamp);

/// The state of one source.
#[derive(Debug)]
pub struct SyncState {
    facts: SourceFacts,
    guards: Guards,
    retries: Retries,
    update_waits: UpdateWaits,
    last_plan: LastPlan,
    /// Works that writes of the last plan rely on and that are read again before, by the work that
    /// is written.
    unconfirmed_owners: BTreeMap<WorkKey, BTreeSet<WorkKey>>,
    rollouts: Rollouts,
    /// The contents of groups that the status branch calls rejected.
    known_rejected: BTreeMap<GroupName, Digest>,
    /// Clusters that cannot be reached.
    offline: BTreeSet<ClusterName>,
    /// The time of day, as last set.
    time: Option<Timestamp>,
    /// When rollouts change because of the time alone.
    rollouts_due: Option<Instant>,
    status: IncrementalStatus,
}

impl SyncState {
    /// `known_record_generation`: what this machine remembers of the source's record on the hub.
    /// `now` is the start of all backoffs.
    pub fn new(
        source: SourceId,
        options: GuardOptions,
        known_record_generation: u64,
        now: Instant,
    ) -> Self {
        Self {
            facts: SourceFacts::new(source, known_record_generation),
            guards: Guards::new(options),
            retries: Retries::new(now),
            update_waits: UpdateWaits::default(),
            last_plan: LastPlan::default(),
            unconfirmed_owners: BTreeMap::new(),
            rollouts: Rollouts::default(),
            known_rejected: BTreeMap::new(),
            offline: BTreeSet::new(),
            time: None,
            rollouts_due: None,
            status: IncrementalStatus::default(),
        }
    }

    /// What Git, the hub and operators say.
    pub fn facts(&self) -> &SourceFacts {
        &self.facts
    }

    /// The facts, to record what was read.
    pub fn facts_mut(&mut self) -> &mut SourceFacts {
        &mut self.facts
    }

    /// The guards, with the policy of the next plan.
    pub fn guards(&self) -> &Guards {
        &self.guards
    }

    /// Takes the works that are due for a look-up, which begins now.
    pub fn take_lookups(&mut self, now: Instant) -> Vec<WorkKey> {
        self.facts.hub.begin_lookups(now);
        self.retries.take_lookups(now)
    }

    /// Replaces the settings of the operator.
    pub fn set_options(&mut self, options: GuardOptions) {
        self.guards.set_options(options);
        self.facts.mark_changed();
    }

    /// This process has become the leader: another one may have written works, directives and
    /// record.
    pub fn begin_term(&mut self, now: Instant) {
        self.facts.begin_term(now);
        self.rollouts = Rollouts::default();
    }

    /// Sets the source's record on the hub; `None` if the hub has none.
    pub fn set_record(&mut self, found: Option<StoredRecord>) {
        if let Some(stored) = &found {
            self.guards.keep_rules(&stored.record.rules);
        }
        self.facts.record.set_read(found, self.facts.hub.has_works());
    }

    /// Records the result of a look-up. `seed` spreads the time of the next one.
    pub fn set_looked_up(
        &mut self,
        key: &WorkKey,
        looked_up: Result<Option<ObservedWork>, HubError>,
        now: Instant,
        seed: u64,
    ) {
        self.facts.mark_changed();
        let is_taken = match looked_up {
            Ok(found) => Ok(self.facts.record_lookup(key, found)),
            Err(error) => Err(error.retry_class()),
        };
        self.retries.looked_up(key, is_taken, (now, seed));
    }

    /// Records the outcome of an effect. `seed` spreads the time of the next try.
    pub fn set_outcome(&mut self, outcome: &Outcome, now: Instant, seed: u64) {
        self.facts.mark_changed();
        let (key, effect) = (&outcome.task.key, &outcome.task.effect);
        match &outcome.result {
            Ok(response) => {
                self.retries.succeeded(key, self.last_plan.content_of(key, effect), now);
                if self.facts.hub.record_response(key, effect, response.clone()) {
                    self.retries.look_up(key);
                }
            }
            Err(error) => {
                self.facts.hub.write_failed(key);
                self.retries.failed(&outcome.task, error, (now, seed));
            }
        }
    }

    /// Sets the clusters that cannot be reached, from the next [`Self::set_time`] on.
    pub fn set_offline(&mut self, offline: &BTreeSet<ClusterName>) {
        if self.offline != *offline {
            self.offline.clone_from(offline);
        }
    }

    /// Updates guards and rollouts for this time. `zone` looks up time zones.
    pub fn set_time(&mut self, now: Timestamp, zone: &dyn Fn(&str) -> Option<TimeZone>) {
        let was_closed = self.guards.policy().closed.is_some();
        self.guards.update(&self.facts, now, zone);
        let is_closed = self.guards.policy().closed.is_some();
        // A doubtful read is repeated before the plan.
        if was_closed != is_closed || self.guards.rewind().doubts_read() {
            self.facts.mark_changed();
        }
        self.time = Some(now);
        self.update_rollouts(now, zone);
    }

    fn update_rollouts(&mut self, now: Timestamp, zone: &dyn Fn(&str) -> Option<TimeZone>) {
        let Some(plan) = self.facts.inputs(self.guards.policy()) else { return };
        let Some(desired) = self.facts.desired() else { return };
        if !self.facts.record.is_known() {
            return;
        }
        let none = GroupRecords::new();
        let recorded = self.facts.record.current().map_or(&none, |record| &record.rollouts);
        let (offline, known_rejected) = (&self.offline, &self.known_rejected);
        let revisions = self.facts.hub.revisions();
        let inputs = RolloutInputs {
            plan,
            desired,
            revisions,
            recorded,
            known_rejected,
            offline,
            now,
            zone,
        };
        let waits = self.rollouts.update(inputs);
        if self.guards.set_rollout_waits(waits) {
            self.facts.mark_changed();
        }
    }

    /// Sets the contents of groups that the status branch calls rejected. They count on a hub that
    /// was restored from a backup, whose record may not know of them.
    pub fn set_known_rejected(&mut self, contents: BTreeMap<GroupName, Digest>) {
        self.known_rejected = contents;
    }

    /// What clusters of groups keep or get in place of the content of Git's head, for the next read
    /// of Git; `None` before that is known.
    pub fn earlier_contents(&self) -> Option<&EarlierContents> {
        self.rollouts.earlier()
    }

    /// What operators may ask for in rollouts, by group.
    pub fn rollout_controls(&self) -> &[RolloutControl] {
        self.rollouts.controls()
    }

    /// Updates the works that another client keeps changing, for the next plan. Gives whether they
    /// changed.
    pub fn update_contentions(&mut self, now: Instant) -> bool {
        self.guards.set_contentions(self.retries.contentions(now))
    }

    /// Whether a new plan is due.
    pub fn wants_plan(&self, now: Instant) -> bool {
        let is_changed = || !self.last_plan.is_current(self.facts.revision());
        self.facts.is_ready() && (is_changed() || self.next_due().is_some_and(|due| due <= now))
    }

    /// Makes the current plan; `None` before Git and the hub are known.
    pub fn plan(&mut self, now: Instant) -> Option<Arc<Plan>> {
        // All responses to the last plan have arrived.
        self.facts.hub.settle();
        self.guards.set_overdue_updates(self.update_waits.overdue(now));
        let known = self.facts.inputs(self.guards.policy())?;
        self.guards.set_removed_sets(removed_sets(known.desired, known.observed));
        let inputs = self.facts.inputs(self.guards.policy())?;
        let (revisions, revision) = (self.facts.revisions(), self.facts.revision());
        let plan = self.last_plan.replace(inputs, revisions, revision);
        self.update_waits.record(&plan, now);
        self.facts.set_awaited(awaited_works(&plan), self.rollouts.open().clone());
        self.rollouts_due = self.rollouts.recheck().zip(self.time).map(|(at, time)| {
            now + Duration::try_from(at.duration_since(time)).unwrap_or_default()
        });
        let desired = self.facts.desired()?;
        if self.guards.is_nothing_held(desired, &plan) {
            // The rules of a commit apply to the next commit only.
            self.guards.keep_rules(&desired.rules);
        }
        self.unconfirmed_owners = self.facts.hub.unconfirmed_owners(&plan);
        let owners = self.unconfirmed_owners.values().flatten();
        self.retries.look_up_at(owners, self.facts.hub.settles_at());
        let can_act = |key: &&WorkKey| {
            let step = plan.steps.get(key);
            let with_effect = step.and_then(|step| Some((step, step.effect.as_ref()?)));
            with_effect.is_some_and(|(step, effect)| self.may_act(step, effect))
        };
        let can_act = self.retries.backed_off().filter(can_act).cloned().collect();
        if self.retries.retain(&plan, &self.facts, &self.unconfirmed_owners, &can_act) {
            self.facts.mark_changed();
        }
        Some(plan)
    }

    /// The rules that the last plan breaks.
    pub fn violations(&self) -> &[PlanViolation] {
        self.last_plan.violations()
    }

    /// The record to write before the plan is executed; `None` if it stays as it is.
    pub fn record_to_write(&self, plan: &Plan) -> Option<Record> {
        self.guards.record_to_write(&self.facts, plan, self.rollouts.records())
    }

    /// The steps of the last plan that are due, without those in backoff and those that rely on a
    /// work that is read again first. Clusters that get an earlier content back come first, those
    /// of the latest wave before others.
    pub fn due<'a>(&self, plan: &'a Plan, now: Instant) -> Vec<(&'a PlanStep, &'a Effect)> {
        let is_due = |step: &PlanStep, effect: &Effect| {
            self.may_act(step, effect) && self.retries.is_due(&step.key, effect, now)
        };
        let mut due: Vec<_> =
            plan.effects().filter(|(step, effect)| is_due(step, effect)).collect();
        due.sort_by_key(|(step, _)| Reverse(self.rollouts.returning_wave(&step.key.cluster)));
        due
    }

    /// Whether an effect of the last plan waits for nothing but its backoff.
    fn may_act(&self, step: &PlanStep, effect: &Effect) -> bool {
        self.facts.history.allows(step, effect)
            && !self.last_plan.breaks_rule(&step.key)
            && !self.rollouts.is_outdated(&step.key)
            && !self.unconfirmed_owners.contains_key(&step.key)
    }

    /// When the next retry is due; `None` if nothing can be planned.
    pub fn next_due(&self) -> Option<Instant> {
        // A time in the past must not wake the loop while nothing can be planned.
        if !self.facts.is_ready() || self.guards.rewind().doubts_read() {
            return None;
        }
        let postponed = self.facts.history.due();
        let retries = self.retries.next_due().into_iter().chain(self.facts.hub.contents_due());
        let waits = self.update_waits.next_overdue().into_iter().chain(self.rollouts_due);
        let next = retries.chain(postponed).chain(waits).min()?;
        // Without the history there is no plan and no retry.
        if self.facts.knows_ancestry() { Some(next) } else { postponed }
    }

    /// Plans some `works_max` works that the next plan would have to plan. Gives whether none is
    /// left. The plan is the same.
    pub fn advance_plan(&mut self, works_max: usize) -> bool {
        if !self.facts.find_works_to_read(works_max) {
            return false;
        }
        self.advance_steps(works_max)
    }

    /// As [`Self::advance_plan`], without what is read before a plan.
    fn advance_steps(&mut self, works_max: usize) -> bool {
        let Some(inputs) = self.facts.inputs(self.guards.policy()) else { return true };
        self.last_plan.is_current(self.facts.revision())
            || self.last_plan.advance(inputs, self.facts.revisions(), works_max)
    }

    /// Computes the states of some `works_max` works, which the next status would have to compute.
    /// Gives whether none is left. The other arguments are those of [`Self::status`], which is the
    /// same.
    pub fn advance_status(
        &mut self,
        failed_writes: &BTreeMap<WorkKey, FailedWrite>,
        unreachable: &BTreeSet<ClusterName>,
        now: Timestamp,
        works_max: usize,
    ) -> bool {
        if !self.advance_steps(works_max) {
            return false;
        }
        let about = (failed_writes, unreachable, now);
        let advanced = self
            .with_status(about, |status, inputs, shared| status.advance(inputs, shared, works_max));
        advanced.unwrap_or(true)
    }

    /// The status of the source; `None` before Git and the hub are known. The one before it gives
    /// the times at which states began.
    pub fn status(
        &mut self,
        failed_writes: &BTreeMap<WorkKey, FailedWrite>,
        unreachable: &BTreeSet<ClusterName>,
        now: Timestamp,
    ) -> Option<SourceStatus> {
        self.with_status((failed_writes, unreachable, now), IncrementalStatus::update)
    }

    fn with_status<T>(
        &mut self,
        (failed_writes, unreachable, now): AboutStatus<'_>,
        compute: impl FnOnce(&mut IncrementalStatus, &StatusInputs<'_>, SharedInputs<'_>) -> T,
    ) -> Option<T> {
        let inputs = self.facts.inputs(self.guards.policy())?;
        let (revisions, revision) = (self.facts.revisions(), self.facts.revision());
        let plan = self.last_plan.current_or_new(inputs, revisions, revision);
        let recorded = self.facts.record.current();
        let shared = SharedInputs {
            desired: self.facts.desired()?,
            plan: &plan,
            observed: self.facts.hub.revisions(),
        };
        let inputs = StatusInputs {
            desired: inputs.desired,
            observed: inputs.observed,
            plan: &plan,
            contentions: &inputs.policy.contentions,
            record_generation: recorded.map_or(0, |record| record.record_generation),
            failed_writes,
            unreachable,
            rollouts: self.rollouts.progress(),
            now,
        };
        Some(compute(&mut self.status, &inputs, shared))
    }
}

#[cfg(test)]
mod tests;
