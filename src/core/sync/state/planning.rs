//! The plans that follow from the state of one source, and what of them is due.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::SyncState;
use crate::model::name::{ClusterName, SourceId, WorkKey};
use crate::plan;
use crate::plan::lint;
use crate::plan::lint::PlanViolation;
use crate::plan::observed::Observed;
use crate::plan::record::Record;
use crate::plan::{Effect, Plan, PlanInputs, PlanStep, Reason};
use crate::report::status::source::{FailedWrite, SourceStatus, StatusInputs};
use crate::sync::guards::Guards;

impl SyncState {
    fn is_dirty(&self) -> bool {
        self.dirty || self.guards.has_changed()
    }

    /// Whether a new plan is due.
    pub fn wants_plan(&self, now: Instant) -> bool {
        self.is_ready() && (self.is_dirty() || self.next_due().is_some_and(|due| due <= now))
    }

    /// The inputs of a plan; `None` before both sides are known.
    fn inputs(&self) -> Option<PlanInputs<'_>> {
        let (desired, observed) = (self.desired.as_ref()?, self.hub.observed()?);
        let last_known = self.history.last_known();
        Some(PlanInputs { desired, observed, last_known, policy: &self.policy })
    }

    /// Updates the policy from the guards at this time. `zone` looks up time zones.
    pub fn set_time(&mut self, now: Timestamp, zone: &dyn Fn(&str) -> Option<TimeZone>) {
        let (Some(desired), Some(commits_on_works)) =
            (&self.desired, self.hub.commits_on_works().cloned())
        else {
            return;
        };
        let before = self.policy.closed.is_some();
        self.guards.apply(&mut self.policy, desired, &commits_on_works, now, zone);
        // A doubtful read is repeated before the plan.
        self.dirty |= before != self.policy.closed.is_some() || self.guards.doubts_read();
    }

    /// Makes the current plan; `None` before both sides are known.
    pub fn plan(&mut self) -> Option<Arc<Plan>> {
        // All responses to the last plan have arrived.
        self.hub.settle();
        self.inputs()?;
        // Drop the old plan first: two plans would be most of a pass's memory.
        self.planned = None;
        let inputs = self.inputs()?;
        let plan = Arc::new(plan_of(inputs));
        let violations = lint::check(&plan, inputs);
        debug_assert_eq!(violations, [], "the planner keeps the rules");
        let is_nothing_held = Guards::is_nothing_held(&self.policy, inputs.desired, &plan);
        self.violations = violations;
        self.dirty = false;
        self.guards.reset_changed();
        if is_nothing_held && let Some(desired) = self.desired.clone() {
            // The rules of a commit apply to the next commit only.
            self.policy.budgets_before = Some(desired.rules.budgets.clone());
            self.guards.keep_windows(&desired);
        }
        self.drop_retries(&plan);
        self.planned = Some(plan.clone());
        Some(plan)
    }

    /// Drops retries that the plan no longer needs, and looks up names that another owner has.
    fn drop_retries(&mut self, plan: &Plan) {
        let (Some(desired), Some(observed)) = (&self.desired, self.hub.observed()) else { return };
        let can_act = plan.effects().filter(|(step, effect)| self.may_act(step, effect));
        let can_act: BTreeSet<&WorkKey> = can_act.map(|(step, _)| &step.key).collect();
        // The watch does not show the deletion of a foreign work.
        let is_anothers = |step: &&PlanStep| match step.reason {
            Reason::Conflict { .. } => true,
            Reason::BeingDeleted { .. } => is_foreign(observed, &step.key, &desired.source),
            _ => false,
        };
        let taken = plan.steps.iter().filter(is_anothers).map(|step| &step.key);
        let taken: Vec<&WorkKey> = taken.collect();
        self.dirty |= self.retries.retain(plan, &can_act, &taken);
    }

    /// A removal needs the final `deleteOption` in Git first.
    fn may_act(&self, step: &PlanStep, effect: &Effect) -> bool {
        effect.body().is_some() || self.history.has_looked_up(&step.key)
    }

    /// The rules that the last plan breaks.
    pub fn violations(&self) -> &[PlanViolation] {
        &self.violations
    }

    /// The record to write before the plan is executed.
    pub fn record_to_write(&self, plan: &Plan) -> Option<Record> {
        let (desired, commits_on_works) = (self.desired.as_ref()?, self.hub.commits_on_works()?);
        let nothing_is_held = Guards::is_nothing_held(&self.policy, desired, plan);
        self.guards.record_to_write(desired, commits_on_works, plan, nothing_is_held)
    }

    /// The steps of a plan that are due, without those in backoff.
    pub fn due<'a>(&self, plan: &'a Plan, now: Instant) -> Vec<(&'a PlanStep, &'a Effect)> {
        let breaks_rule =
            |step: &PlanStep| self.violations.iter().any(|found| found.key == step.key);
        let is_due = |step: &PlanStep, effect: &Effect| {
            self.may_act(step, effect)
                && !breaks_rule(step)
                && self.retries.is_due(&step.key, effect, now)
        };
        plan.effects().filter(|(step, effect)| is_due(step, effect)).collect()
    }

    /// When the next retry is due; `None` if nothing can be planned.
    pub fn next_due(&self) -> Option<Instant> {
        // A time in the past must not wake the loop while nothing can be planned.
        if !self.is_ready() || self.guards.doubts_read() {
            return None;
        }
        let postponed = self.history.due();
        let next = self.retries.next_due().into_iter().chain(postponed).min()?;
        // Without the history there is no plan and no retry.
        if self.knows_ancestry() { Some(next) } else { postponed }
    }

    /// The status of the source; `None` before both sides are known.
    pub fn status(
        &self,
        failed_writes: &BTreeMap<WorkKey, FailedWrite>,
        unreachable: &BTreeSet<ClusterName>,
        now: Timestamp,
        before: Option<&SourceStatus>,
    ) -> Option<SourceStatus> {
        let inputs = self.inputs()?;
        // Plan again if the last plan is of an older state.
        let last = self.planned.as_ref().filter(|_| !self.is_dirty()).cloned();
        let plan = &*last.unwrap_or_else(|| Arc::new(plan_of(inputs)));
        let inputs = StatusInputs {
            desired: inputs.desired,
            observed: inputs.observed,
            plan,
            contentions: &self.policy.contentions,
            record_generation: self.guards.recorded().map_or(0, |known| known.record_generation),
            failed_writes,
            unreachable,
            now,
        };
        Some(SourceStatus::of(&inputs, before))
    }
}

fn plan_of(inputs: PlanInputs<'_>) -> Plan {
    plan::plan(inputs.desired, inputs.observed, inputs.last_known, inputs.policy)
}

/// Whether the hub has the work of another owner.
fn is_foreign(observed: &Observed, key: &WorkKey, source: &SourceId) -> bool {
    observed.works.get(key).is_some_and(|work| !work.is_ours(source))
}
