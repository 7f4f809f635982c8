//! The guards of one source: approvals, suspensions, restored hubs, rewinds, and windows for
//! changes. They set the policy of the next plan. No IO and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::facts::SourceFacts;
use crate::rewind_guard::RewindGuard;
use crate::rollouts::GroupRecords;
use gitwork_core::config::RewindPolicy;
use gitwork_core::config::source_rules::SourceRules;
use gitwork_core::config::window;
use gitwork_core::config::window::ChangeWindows;
use gitwork_core::model::approval::Approval;
use gitwork_core::model::name::WorkKey;
use gitwork_core::model::source_origin::SourceOrigin;
use gitwork_core::plan::drift_backoff::Contentions;
use gitwork_core::plan::record::{Record, RecordInputs};
use gitwork_core::plan::removed_set::RemovedSet;
use gitwork_core::plan::rollouts::RolloutWaits;
use gitwork_core::plan::{Guard, Plan, PlanPolicy, PlanStep, Reason};
use gitwork_core::render::desired::Desired;

/// The operator's settings for one source.
#[derive(Debug, Clone, Default)]
pub struct GuardOptions {
    /// The repository and path of the source. The hub's record must have the same; `None` to
    /// accept any.
    pub origin: Option<SourceOrigin>,
    /// Budgets, and whether all may be deleted.
    pub policy: PlanPolicy,
    /// What to do if the head does not build on all applied commits.
    pub rewind: RewindPolicy,
    /// The operator's change windows. Those of the repository restrict them further.
    pub windows: ChangeWindows,
}

/// The guards of one source.
#[derive(Debug)]
pub struct Guards {
    origin: Option<SourceOrigin>,
    /// The policy of the next plan.
    policy: PlanPolicy,
    rewind: RewindGuard,
    /// The operator's windows.
    windows: ChangeWindows,
    /// The repository's windows in the last commit without held changes.
    windows_before: Option<ChangeWindows>,
    /// An operator confirmed that the hub was restored.
    confirmed: bool,
}

impl Guards {
    pub(crate) fn new(options: GuardOptions) -> Self {
        let GuardOptions { origin, policy, rewind, windows } = options;
        let rewind = RewindGuard::new(rewind);
        Self { origin, policy, rewind, windows, windows_before: None, confirmed: false }
    }

    /// Replaces the operator's settings from the next plan on.
    pub(crate) fn set_options(&mut self, options: GuardOptions) {
        let GuardOptions { origin, policy, rewind, windows } = options;
        self.origin = origin;
        let budgets_before = self.policy.budgets_before.take();
        self.policy = PlanPolicy { budgets_before, ..policy };
        self.rewind.set_policy(rewind);
        self.windows = windows;
    }

    /// The policy of the next plan.
    pub fn policy(&self) -> &PlanPolicy {
        &self.policy
    }

    /// The guard against rewinds.
    pub fn rewind(&self) -> &RewindGuard {
        &self.rewind
    }

    /// Sets the updates that have waited long enough for those of other works.
    pub(crate) fn set_overdue_updates(&mut self, overdue: BTreeSet<WorkKey>) {
        self.policy.overdue_updates = overdue;
    }

    /// Sets the works that another writer keeps changing. Gives whether they differ from before.
    pub(crate) fn set_contentions(&mut self, contentions: Contentions) -> bool {
        let before = std::mem::replace(&mut self.policy.contentions, contentions);
        before != self.policy.contentions
    }

    /// Keeps the repository's rules of a commit without held changes: they judge the next commit,
    /// too.
    pub(crate) fn keep_rules(&mut self, rules: &SourceRules) {
        self.policy.budgets_before = Some(rules.budgets.clone());
        self.windows_before = Some(rules.windows.clone());
    }

    /// Sets the works that wait for the wave of their cluster. Gives whether they differ from
    /// before.
    pub(crate) fn set_rollout_waits(&mut self, waits: RolloutWaits) -> bool {
        let differs = waits != self.policy.rollout_waits;
        // What is equal stays shared.
        if differs {
            self.policy.rollout_waits = waits;
        }
        differs
    }

    /// Sets what becomes of replica sets that Git no longer has.
    pub(crate) fn set_removed_sets(&mut self, sets: BTreeMap<WorkKey, RemovedSet>) {
        if sets != self.policy.removed_sets {
            self.policy.removed_sets = sets;
        }
    }

    /// Updates the policy from the facts at this time; does nothing before Git and the hub are
    /// known. `zone` looks up time zones.
    pub(crate) fn update(
        &mut self,
        facts: &SourceFacts,
        now: Timestamp,
        zone: &dyn Fn(&str) -> Option<TimeZone>,
    ) {
        let Some(desired) = facts.desired().filter(|_| facts.hub.is_listed()) else { return };
        let directives = facts.directives.known().cloned().unwrap_or_default();
        self.policy.approved = directives.approvals;
        self.policy.suspensions = directives.suspensions;
        self.update_origin(facts, desired);
        self.update_restored(facts, desired);
        self.policy.held_rewind = self.rewind.judge(facts, self.policy.restored.is_some());
        let mut all = vec![&self.windows, &desired.rules.windows];
        all.extend(&self.windows_before);
        self.policy.closed = window::closed(&all, zone, now);
    }

    /// An approval in Git does not count: the other repository could approve itself.
    fn update_origin(&mut self, facts: &SourceFacts, desired: &Desired) {
        let recorded = facts.record.current().and_then(|record| record.origin.clone());
        let differing = recorded.zip(self.origin.clone()).filter(|(from, to)| from != to);
        let held = differing.filter(|both| !self.policy.approved.origins.contains(both));
        self.policy.other_origin = held.map(|(from, to)| {
            Arc::new(Approval::Origin { source: desired.source.clone(), from, to })
        });
    }

    fn update_restored(&mut self, facts: &SourceFacts, desired: &Desired) {
        let is_recorded = facts.record.current().is_some_and(|record| record.restored);
        let all = [&self.policy.approved, &desired.approved];
        let unconfirmed = facts.record.unconfirmed_restore();
        let is_approved =
            |generation: &u64| all.iter().any(|all| all.restored.contains(generation));
        self.confirmed = is_recorded && unconfirmed.as_ref().is_some_and(is_approved);
        let held = unconfirmed.filter(|_| !self.confirmed);
        let source = desired.source.clone();
        self.policy.restored = held.map(|generation| {
            Arc::new(Approval::Restored { source, record_generation: generation })
        });
    }

    /// Whether no guard holds changes of the plan, except suspensions of works and clusters, and
    /// rollouts. Then the rules of this commit apply to the next one. A commit that could not be
    /// read completely has no rules.
    pub(crate) fn is_nothing_held(&self, desired: &Desired, plan: &Plan) -> bool {
        let never = [Guard::Suspension, Guard::Rollout];
        let judges = Guard::ALL.into_iter().filter(|guard| !never.contains(guard));
        let held: usize = judges.map(|guard| plan.held_by(guard)).sum();
        let is_read = !desired.frozen.source && !desired.frozen.deletes;
        let is_suspended = self.policy.suspensions.source.is_some() || desired.suspended.source;
        held == 0 && is_read && !is_suspended && self.policy.other_origin.is_none()
    }

    /// The record to write before the plan is executed; `None` if it stays as it is, as long as it
    /// has another origin.
    pub(crate) fn record_to_write(
        &self,
        facts: &SourceFacts,
        plan: &Plan,
        rollouts: &GroupRecords,
    ) -> Option<Record> {
        let (desired, commits_on_works) = (facts.desired()?, facts.hub.commits_on_works()?);
        if self.policy.other_origin.is_some() {
            return None;
        }
        let has_abandoned =
            facts.record.current().is_some_and(|record| !record.abandoned.is_empty());
        let writes = plan.effects().next().is_some();
        let is_revert =
            |step: &PlanStep| matches!(step.reason, Reason::EditedOnHub { .. } | Reason::UpToDate);
        // A source that has nothing on the hub needs no record.
        let is_on_hub = writes || facts.hub.has_works() || facts.record.current().is_some();
        facts.record.next(&RecordInputs {
            head: desired.commit,
            rules: desired.rules.clone(),
            abandoned_commits: self.rewind.abandoned_commits().clone(),
            on_hub: has_abandoned.then_some(&**commits_on_works),
            nothing_is_held: self.is_nothing_held(desired, plan),
            applies: plan.effects().any(|(step, _)| !is_revert(step)),
            is_signed: facts.is_signed(),
            rewind_is_held: self.policy.held_rewind.is_some(),
            writes,
            confirmed: self.confirmed,
            origin: self.origin.clone().filter(|_| is_on_hub),
            rollouts: Some(rollouts),
        })
    }
}

#[cfg(test)]
mod tests;
