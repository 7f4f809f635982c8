//! Works that wait for others, as `dependsOn` in work.yaml asks.
//!
//! - A new work waits until each work that it depends on is on the hub with the content of the same
//!   commit, and the agent reports it as applied and available. Of a work that is Complete, the
//!   agent applies no later content: it counts as available.
//! - An update waits until the agent has tried to apply the update of the other work, and no longer
//!   than [`UPDATE_WAIT_MAX`]: a broken dependency keeps no fix from its dependents. So does a new
//!   work that gets objects from other works.
//! - Git removes several works: one is deleted after those that depend on it.
//!
//! A work whose own changes are held delays no update.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::model::name::WorkKey;
use crate::plan::action::Action;
use crate::plan::awaited::{AwaitedState, UPDATE_WAIT_MAX};
use crate::plan::candidates::CandidateChange;
use crate::plan::effect::Effect;
use crate::plan::hazards::{Hazards, puts_back};
use crate::plan::inputs::{PlanInputs, is_removed, is_unknown};
use crate::plan::observed::ObservedWork;
use crate::plan::reason::Reason;
use crate::plan::step::{Plan, PlanStep};

/// Works of removed dependents that are followed to find a cycle: Git never had one at one commit.
const FOLLOWED_MAX: usize = 100;

/// The works that wait for others, each with the reason.
pub(super) type Waits = BTreeMap<WorkKey, Reason>;

/// The changes of a plan, to find what works wait for.
pub(super) struct Order<'a> {
    pub(super) inputs: PlanInputs<'a>,
    pub(super) hazards: &'a Hazards,
    /// The change of a work; `None` if the hub has it as Git wants it, or there is none.
    pub(super) change: &'a dyn Fn(&WorkKey) -> Option<&'a CandidateChange>,
}

impl Order<'_> {
    /// The works among these changes that wait.
    pub(super) fn waits<'b>(&self, changes: impl Iterator<Item = &'b CandidateChange>) -> Waits {
        let removed = self.removed_dependents();
        let found = changes.filter_map(|change| {
            let (work, awaited) = match change.effect.as_ref()? {
                Effect::Create { .. } | Effect::Update { .. } | Effect::Adopt { .. }
                    if !change.has_dependencies =>
                {
                    return None;
                }
                Effect::Create { .. } if !change.receives_objects => {
                    self.unavailable(&change.key)?
                }
                effect if puts_back(&change.key, effect, self.inputs.observed) => return None,
                Effect::Create { .. } | Effect::Update { .. } | Effect::Adopt { .. } => {
                    (self.untried(&change.key)?, AwaitedState::Tried)
                }
                Effect::Delete { .. } => {
                    (self.dependent_on(&change.key, &removed)?, AwaitedState::Gone)
                }
                Effect::SetDeleteOption { .. } | Effect::Release { .. } => return None,
            };
            Some((change.key.clone(), Reason::WaitsForWork { work: work.clone(), awaited }))
        });
        found.collect()
    }

    fn dependencies(&self, key: &WorkKey) -> &[WorkKey] {
        self.inputs.desired.works.get(key).map_or(&[], |work| &work.depends_on)
    }

    fn ours(&self, key: &WorkKey) -> Option<&ObservedWork> {
        let PlanInputs { desired, observed, .. } = self.inputs;
        observed.works.get(key).filter(|work| work.is_ours(&desired.source) && !work.deleting)
    }

    /// The first work that must be available before the work is created.
    fn unavailable(&self, key: &WorkKey) -> Option<(&WorkKey, AwaitedState)> {
        let mut dependencies = self.dependencies(key).iter();
        dependencies.find_map(|other| Some((other, self.awaited(other)?)))
    }

    /// What the work lacks to be available.
    fn awaited(&self, key: &WorkKey) -> Option<AwaitedState> {
        if !self.inputs.desired.works.contains_key(key) {
            return Some(AwaitedState::Readable);
        }
        let is_written = |change: &CandidateChange| {
            let reason = &change.reason;
            change.effect.is_none() && matches!(reason, Reason::UpToDate | Reason::ChangedByServer)
        };
        let Some(there) = self.ours(key).filter(|_| (self.change)(key).is_none_or(is_written))
        else {
            return Some(AwaitedState::Written);
        };
        let agent = &there.agent;
        if agent.finished {
            return None;
        }
        if !agent.applied {
            return Some(AwaitedState::Applied);
        }
        (!agent.available).then_some(AwaitedState::Available)
    }

    /// The first work whose update is to be tried before that of this work.
    fn untried(&self, key: &WorkKey) -> Option<&WorkKey> {
        if self.inputs.policy.overdue_updates.contains(key) {
            return None;
        }
        self.dependencies(key).iter().find(|other| self.will_be_tried(other))
    }

    /// Whether the work has an update that the agent is to try.
    fn will_be_tried(&self, key: &WorkKey) -> bool {
        if !self.inputs.desired.works.contains_key(key) {
            return false;
        }
        match (self.change)(key) {
            Some(change) if change.effect.is_some() => {
                self.hazards.forbids(change, self.inputs).is_none()
            }
            Some(change) if Action::of(None, &change.reason) == Action::Wait => true,
            Some(change) if Action::of(None, &change.reason) == Action::Hold => {
                change.reason == Reason::ChangedByServer && self.is_untried(key)
            }
            _ => self.is_untried(key),
        }
    }

    fn is_untried(&self, key: &WorkKey) -> bool {
        self.ours(key).is_some_and(|there| !there.agent.has_tried())
    }

    /// The removed works on the hub that depended on others, by the work that they depended on.
    fn removed_dependents(&self) -> BTreeMap<&WorkKey, Vec<&WorkKey>> {
        let PlanInputs { desired, observed, last_known, .. } = self.inputs;
        let removed = last_known.all_dependencies().filter(|(key, _)| {
            let there = observed.works.get(key);
            there.is_some_and(|work| is_removed(work, desired) && !is_unknown(work, desired))
        });
        let mut dependents: BTreeMap<&WorkKey, Vec<&WorkKey>> = BTreeMap::new();
        for (key, dependencies) in removed {
            for other in dependencies {
                dependents.entry(other).or_default().push(key);
            }
        }
        dependents
    }

    /// A removed work that is still on the hub and depends on this one, which is removed, too.
    fn dependent_on<'b>(
        &self,
        key: &WorkKey,
        dependents: &BTreeMap<&WorkKey, Vec<&'b WorkKey>>,
    ) -> Option<&'b WorkKey> {
        if self.inputs.desired.works.contains_key(key) {
            return None;
        }
        let mut found = dependents.get(key)?.iter();
        found.find(|dependent| !is_before(key, dependent, dependents)).copied()
    }
}

/// Whether one work depended on another, directly or not.
fn is_before(
    dependent: &WorkKey,
    dependency: &WorkKey,
    dependents: &BTreeMap<&WorkKey, Vec<&WorkKey>>,
) -> bool {
    let mut seen = BTreeSet::from([dependency]);
    let mut next = vec![dependency];
    while let Some(at) = next.pop().filter(|_| seen.len() <= FOLLOWED_MAX) {
        for one in dependents.get(at).into_iter().flatten() {
            if *one == dependent {
                return true;
            }
            if seen.insert(one) {
                next.push(one);
            }
        }
    }
    false
}

/// The works that others wait for in a plan.
pub fn awaited_works(plan: &Plan) -> BTreeSet<WorkKey> {
    let waits = plan.steps.of_unsettled_clusters().filter_map(|step| match &step.reason {
        Reason::WaitsForWork { work, .. } => Some(work.clone()),
        _ => None,
    });
    waits.collect()
}

/// Since when updates wait for those of other works.
#[derive(Debug, Default)]
pub struct UpdateWaits {
    since: BTreeMap<WorkKey, Instant>,
    /// The time of the last plan, which took those that were overdue then.
    planned: Option<Instant>,
}

impl UpdateWaits {
    /// Takes the updates that wait in a plan. One that has begun to wait counts until it is made.
    pub fn record(&mut self, plan: &Plan, now: Instant) {
        self.planned = Some(now);
        let is_change = |step: &PlanStep| step.effect.is_some() || step.reason.is_wait_for_update();
        self.since.retain(|key, _| plan.steps.get(key).is_some_and(is_change));
        let unsettled = plan.steps.of_unsettled_clusters();
        for step in unsettled.filter(|step| step.reason.is_wait_for_update()) {
            self.since.entry(step.key.clone()).or_insert(now);
        }
    }

    /// The updates that have waited long enough.
    pub fn overdue(&self, now: Instant) -> BTreeSet<WorkKey> {
        let all = self.since.iter();
        let overdue = all.filter(|(_, since)| now.duration_since(**since) >= UPDATE_WAIT_MAX);
        overdue.map(|(key, _)| key.clone()).collect()
    }

    /// When the next update has waited long enough, of those that the last plan let wait.
    pub fn next_overdue(&self) -> Option<Instant> {
        let all = self.since.values().map(|since| *since + UPDATE_WAIT_MAX);
        all.filter(|due| self.planned.is_none_or(|planned| *due > planned)).min()
    }
}

#[cfg(test)]
mod tests;
