//! Checks a plan against the rules, without the planner's code.
//!
//! It reads the plan and its inputs, and shares no decision with the planner, so that a mistake in
//! one is found by the other. Tests call it after every plan; the daemon calls it before execution.

mod moves;
mod object_index;
mod replica_sets;

use std::fmt;
use std::sync::Arc;

use crate::config::AdoptionPolicy;
use crate::model::approval::Target;
use crate::model::name::{ClusterName, WorkKey};
use crate::model::work::DesiredWork;
use crate::plan::effect::Effect;
use crate::plan::inputs::PlanInputs;
use crate::plan::lint::object_index::ObjectIndex;
use crate::plan::observed::ObservedWork;
use crate::plan::reason::Reason;
use crate::plan::step::{Plan, PlanStep};

/// A step that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanViolation {
    /// The work of the step.
    pub key: WorkKey,
    /// The rule.
    pub rule: BrokenRule,
}

/// The rules that every plan keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BrokenRule {
    /// Steps are sorted by work, and each work has at most one.
    SecondStep,
    /// A step writes only works that the source owns, creates, or may adopt.
    ForeignWork,
    /// A step writes only the content that Git has for the work.
    ContentNotInGit,
    /// A deletion, its preparation or a release has a reason from Git: Git was read, and does not
    /// have the work, but its history does, as far as it is known.
    NoReasonFromGit,
    /// A write names the object and the state that the hub has; a create finds the name free.
    NoPrecondition,
    /// No write of a work that is frozen, suspended or being deleted.
    BlockedWork,
    /// No change that another origin, a held rewind, a restored hub or a closed window forbids.
    HeldChange,
    /// No unapproved deletion of everything that the source has.
    DeletesEverything,
    /// No put-back that has to wait for another writer.
    BackedOffWork,
    /// A work that lists an object which Git has in another work keeps it until that work owns it,
    /// or until it has orphaned the object.
    LosesMovedObject,
    /// No write of a work without objects: the hub rejects it.
    EmptyWork,
}

impl BrokenRule {
    /// The violation in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SecondStep => "the work has two steps, or the steps are not sorted",
            Self::ForeignWork => "the work does not belong to the source",
            Self::ContentNotInGit => "Git does not have this content",
            Self::NoReasonFromGit => "Git does not ask for the removal",
            Self::NoPrecondition => "the write does not name the state on the hub",
            Self::BlockedWork => "the work is frozen, suspended or being deleted",
            Self::HeldChange => "a guard holds the change",
            Self::DeletesEverything => {
                "the plan deletes all works of the source without an approval"
            }
            Self::BackedOffWork => "the put-back has to wait for another writer",
            Self::LosesMovedObject => {
                "an object moves to another work, which does not own it on the cluster yet"
            }
            Self::EmptyWork => "the work would have no objects",
        }
    }
}

impl fmt::Display for PlanViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.rule.as_str())
    }
}

/// The violations of a plan, in the order of its steps; none for a sound plan.
pub fn check(plan: &Plan, inputs: PlanInputs<'_>) -> Vec<PlanViolation> {
    let mut found = Vec::new();
    let mut report = |step: &PlanStep, rule: BrokenRule| {
        found.push(PlanViolation { key: step.key.clone(), rule });
    };
    let mut last: Option<&ClusterName> = None;
    for cluster in plan.steps.clusters() {
        let first = cluster.iter().next().filter(|_| last >= cluster.name());
        first.into_iter().chain(cluster.unsorted()).for_each(|step| {
            report(step, BrokenRule::SecondStep);
        });
        last = cluster.name();
    }
    let empties = deletes_everything(plan, inputs);
    let objects = ObjectIndex::new(plan, inputs);
    for cluster in plan.steps.clusters().filter(|cluster| cluster.has_effects()) {
        // To look up the cluster for each work takes longer than all else.
        let on_hub = cluster.name().and_then(|name| inputs.observed.works.entries_of(name));
        let in_git = cluster.name().and_then(|name| inputs.desired.works.entries_of(name));
        for step in cluster.iter() {
            let Some(effect) = &step.effect else { continue };
            let there = on_hub.and_then(|works| works.get(&step.key));
            let in_git = in_git.and_then(|works| works.get(&step.key)).map(Arc::as_ref);
            let write = Write { step, effect, inputs, there, in_git, objects: &objects };
            write.broken_rules(empties).for_each(|rule| report(step, rule));
        }
    }
    found
}

/// Whether no work of the source that Git has, or may have, stays on the hub.
fn deletes_everything(plan: &Plan, inputs: PlanInputs<'_>) -> bool {
    let PlanInputs { desired, observed, policy, .. } = inputs;
    let has_deletions = plan.effects().any(|(_, effect)| matches!(effect, Effect::Delete { .. }));
    let stays = |work: &ObservedWork| {
        work.is_ours(&desired.source)
            && (desired.works.contains_key(&work.key)
                || desired.frozen.may_contain(&work.key, work.path.as_deref()))
    };
    has_deletions && !policy.allow_delete_all && !observed.works.values().any(stays)
}

/// One write of a plan, with the plan's inputs.
struct Write<'a> {
    step: &'a PlanStep,
    effect: &'a Effect,
    inputs: PlanInputs<'a>,
    /// The work on the hub.
    there: Option<&'a ObservedWork>,
    in_git: Option<&'a DesiredWork>,
    objects: &'a ObjectIndex<'a>,
}

impl Write<'_> {
    /// `empties`: the plan deletes all works of the source.
    fn broken_rules(&self, empties: bool) -> impl Iterator<Item = BrokenRule> {
        let rules = [
            (BrokenRule::ForeignWork, self.is_foreign()),
            (BrokenRule::ContentNotInGit, self.has_other_content()),
            (BrokenRule::NoReasonFromGit, self.lacks_reason_from_git()),
            (BrokenRule::NoPrecondition, self.lacks_precondition()),
            (BrokenRule::BlockedWork, self.is_blocked()),
            (BrokenRule::HeldChange, self.is_held()),
            (BrokenRule::BackedOffWork, self.is_backed_off()),
            (BrokenRule::DeletesEverything, empties && self.deletes_unapproved()),
            (BrokenRule::LosesMovedObject, self.loses_moved_object() || self.loses_object_of_set()),
            (BrokenRule::EmptyWork, self.is_empty()),
        ];
        rules.into_iter().filter(|(_, is_broken)| *is_broken).map(|(rule, _)| rule)
    }

    fn is_foreign(&self) -> bool {
        let source = &self.inputs.desired.source;
        let Some(there) = self.there else {
            return !matches!(self.effect, Effect::Create { .. });
        };
        if !matches!(self.effect, Effect::Adopt { .. }) {
            return !there.is_ours(source);
        }
        let adoption = self.inputs.policy.adoption;
        let is_annotated = there.adopt.as_deref() == Some(source.as_str());
        let may_adopt = match adoption {
            AdoptionPolicy::Never => false,
            AdoptionPolicy::Annotated => is_annotated,
            AdoptionPolicy::Unowned => is_annotated || there.unowned,
        };
        there.is_ours(source) || !may_adopt
    }

    fn has_other_content(&self) -> bool {
        let Some(body) = self.effect.body() else { return false };
        self.in_git.is_none_or(|work| work.body.digest != body.digest)
            && !self.is_transitional(body)
            && !self.only_stops_writing(body)
    }

    fn lacks_reason_from_git(&self) -> bool {
        let frozen = &self.inputs.desired.frozen;
        let path = self.there.and_then(|work| work.path.as_deref());
        let has_reason = match self.effect {
            // A work that gives all its objects away is deleted, and may be created again.
            Effect::Delete { .. } if matches!(self.step.reason, Reason::MovesObjects { .. }) => {
                return !self.is_moved_away() || frozen.may_contain(&self.step.key, path);
            }
            Effect::Delete { .. } if self.hands_over() => {
                return frozen.may_contain(&self.step.key, path);
            }
            Effect::Delete { .. } => matches!(self.step.reason, Reason::RemovedFromGit { .. }),
            Effect::SetDeleteOption { .. } => {
                matches!(self.step.reason, Reason::DeleteOptionFirst { .. })
            }
            Effect::Release { .. } => matches!(self.step.reason, Reason::PruneOff { .. }),
            Effect::Create { .. } | Effect::Update { .. } | Effect::Adopt { .. } => return false,
        };
        // A release only removes gitwork's own marks.
        let is_release = matches!(self.effect, Effect::Release { .. });
        let was_in_git = is_release
            || self.is_moved_away()
            || !self.inputs.last_known.is_never_in_git(&self.step.key);
        !(has_reason && was_in_git)
            || self.in_git.is_some()
            || frozen.may_contain(&self.step.key, path)
    }

    fn lacks_precondition(&self) -> bool {
        let Some(there) = self.there else { return self.effect.resource_version().is_some() };
        let is_other_object =
            matches!(self.effect, Effect::Delete { uid, .. } if *uid != there.uid);
        let version = self.effect.resource_version();
        is_other_object || version != Some(&there.resource_version) || version == Some("")
    }

    fn is_blocked(&self) -> bool {
        let PlanInputs { desired, policy, .. } = self.inputs;
        let key = &self.step.key;
        let is_suspended = desired.suspended.covers(key)
            || policy.suspensions.of(key).is_some()
            || self.in_git.is_some_and(|work| work.suspend);
        is_suspended
            || self.goes_to_suspended_cluster()
            || desired.frozen.contains(key)
            || self.there.is_some_and(|work| work.deleting)
    }

    /// Whether the hub has the content already, or had it by gitwork's last write.
    fn is_put_back(&self) -> bool {
        let (Some(body), Some(there)) = (self.effect.body(), self.there) else { return false };
        matches!(self.effect, Effect::Update { .. })
            && (there.written == Some(body.digest) || there.digest == body.digest)
    }

    fn is_held(&self) -> bool {
        let PlanInputs { desired, policy, .. } = self.inputs;
        if policy.other_origin.is_some() {
            return true;
        }
        if policy.restored.is_some() && self.effect.removes() {
            return true;
        }
        let key = &self.step.key;
        if policy.rollout_waits.of(key).is_some() && !desired.has_earlier_content(key) {
            return true;
        }
        if self.is_put_back() {
            return false;
        }
        let waits_for_window =
            policy.closed.is_some() && !self.is_approved() && !self.inputs.is_returned(key);
        policy.held_rewind.is_some() || waits_for_window
    }

    /// Whether an operator approves the change of the work.
    fn is_approved(&self) -> bool {
        let uid = || self.there.map(|work| work.uid.to_string()).unwrap_or_default();
        // An approval of the content in Git covers what a move needs on the way there.
        let version = self.in_git.map_or_else(uid, |work| work.body.digest.to_string());
        let target = Target { key: self.step.key.clone(), uid: version };
        let PlanInputs { desired, policy, .. } = self.inputs;
        [&policy.approved, &desired.approved]
            .iter()
            .any(|all| all.changes.contains(&target) || all.deletions.contains(&target))
    }

    fn is_backed_off(&self) -> bool {
        let contention = self.inputs.policy.contentions.get(&self.step.key);
        let (Some(contention), Some(body)) = (contention, self.effect.body()) else { return false };
        let has_content = self.there.is_some_and(|there| there.digest == body.digest);
        contention.waits && contention.content == body.digest && !has_content
    }

    fn deletes_unapproved(&self) -> bool {
        let Effect::Delete { uid, .. } = self.effect else { return false };
        let target = Target { key: self.step.key.clone(), uid: uid.to_string() };
        let PlanInputs { desired, policy, .. } = self.inputs;
        !self.is_moved_away()
            && !policy.approved.deletions.contains(&target)
            && !desired.approved.deletions.contains(&target)
    }
}

#[cfg(test)]
mod tests;
