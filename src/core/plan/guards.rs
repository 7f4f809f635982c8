//! What keeps a whole source, a cluster or a work as it is: suspensions, rewinds, closed windows, a restored hub.
//!
//! A guard never adds a step. It takes the effect off one and says why, so that `plan` shows what would be done.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Effect, Policy, Reason, Step};
use crate::core::approval::{Approval, Approved, Target};
use crate::core::desired::Desired;
use crate::core::name::WorkKey;
use crate::core::observed::Observed;

/// Whether the step takes a work away, begins to, or lets go of it.
fn removes(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Delete { .. } | Effect::SetDeleteOption { .. } | Effect::Release { .. }
    )
}

/// Whether the step only puts back what gitwork wrote last and somebody edited since: no change of Git's.
fn puts_back(step: &Step, observed: &Observed) -> bool {
    let Some(Effect::Update { body, .. }) = &step.effect else { return false };
    let there = observed.works.get(&step.key);
    there.is_some_and(|work| work.written == Some(body.digest))
}

/// Holds what the policy's guards do not let through.
pub fn guard(steps: &mut [Step], desired: &Desired, observed: &Observed, policy: &Policy) {
    suspend(steps, desired, policy);
    hold_rewind(steps, observed, policy);
    hold_after_restore(steps, policy);
    hold_for_window(steps, desired, observed, policy);
    wait_for_rivals(steps, policy);
}

fn hold(step: &mut Step, reason: Reason) {
    step.effect = None;
    step.reason = reason;
}

fn suspend(steps: &mut [Step], desired: &Desired, policy: &Policy) {
    for step in steps {
        if let Some(suspension) = policy.suspensions.of(&step.key) {
            hold(step, Reason::SuspendedOnHub { suspension: suspension.clone() });
        } else if desired.suspended.covers(&step.key) {
            hold(step, Reason::Suspended);
        }
    }
}

fn hold_rewind(steps: &mut [Step], observed: &Observed, policy: &Policy) {
    let Some(rewind) = &policy.held_rewind else { return };
    let hash = Approval::Rewind(Arc::unwrap_or_clone(rewind.clone())).hash();
    for step in steps.iter_mut() {
        if step.effect.is_some() && !puts_back(step, observed) {
            hold(step, Reason::HeldByRewind { rewind: rewind.clone(), hash });
        }
    }
}

/// What a backup brought back was deleted for a reason, or is what the backup was restored for: only a person knows.
fn hold_after_restore(steps: &mut [Step], policy: &Policy) {
    let Some(restored) = &policy.restored else { return };
    let hash = restored.hash();
    for step in steps.iter_mut().filter(|step| step.effect.as_ref().is_some_and(removes)) {
        hold(step, Reason::HeldByRestore { approval: restored.clone(), hash });
    }
}

/// Lets a work be for a while that somebody else changes again and again. Content that was not written before goes through.
fn wait_for_rivals(steps: &mut [Step], policy: &Policy) {
    if policy.contests.is_empty() {
        return;
    }
    for step in steps {
        let contest = policy.contests.get(&step.key).filter(|contest| contest.waits);
        let (Some(contest), Some(effect)) = (contest, &step.effect) else { continue };
        if effect.body().is_some_and(|body| body.digest == contest.content) {
            hold(step, Reason::Contested { contest: contest.clone() });
        }
    }
}

/// What stands for a write in an approval of changes.
fn version(effect: &Effect, there: Option<&str>) -> String {
    match effect {
        Effect::Create { body } | Effect::Update { body, .. } | Effect::Adopt { body, .. } => {
            body.digest.to_string()
        }
        Effect::SetDeleteOption { .. } | Effect::Delete { .. } | Effect::Release { .. } => {
            there.unwrap_or_default().to_owned()
        }
    }
}

fn hold_for_window(steps: &mut [Step], desired: &Desired, observed: &Observed, policy: &Policy) {
    let Some(closed) = &policy.closed else { return };
    let approves = |target: &Target| {
        let all = [&policy.approved, &desired.approved];
        all.iter().any(|all| all.changes.contains(target) || all.deletions.contains(target))
    };
    let mut held: BTreeMap<WorkKey, Target> = BTreeMap::new();
    for step in steps.iter().filter(|step| !puts_back(step, observed)) {
        let Some(effect) = &step.effect else { continue };
        let there = observed.works.get(&step.key).map(|work| work.uid.as_str());
        let target = Target { key: step.key.clone(), uid: version(effect, there) };
        if !approves(&target) {
            held.insert(step.key.clone(), target);
        }
    }
    if held.is_empty() {
        return;
    }
    let works: Approved = held.values().cloned().collect();
    let hash = Approval::Changes { source: desired.source.clone(), works }.hash();
    for step in steps.iter_mut() {
        if let Some(target) = held.remove(&step.key) {
            let closed = closed.clone();
            hold(step, Reason::HeldByWindow { version: target.uid, hash, closed });
        }
    }
}
