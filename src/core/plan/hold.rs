//! What only the whole plan can tell: whether it deletes more than its budget, and what is held then.
//!
//! A commit that drops works often brings others: a renamed folder, a wrong path. What it brings must not count as
//! kept, or the same plan would go through once they are made. So a work that is made while deletions are held
//! carries a mark on the hub, where a restart does not lose it, until nothing is held any more. And what Git did not
//! have beside the works that it drops does not count either, mark or no mark: whoever made it may not have known
//! that there is something to delete.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::decide::{is_held, metadata_change};
use super::{Departed, Effect, LastStood, Policy, Reason, Step};
use crate::core::approval::{Approved, Target, plan_hash};
use crate::core::budget::{Budget, Toll, excess};
use crate::core::config::Budgets;
use crate::core::desired::Desired;
use crate::core::name::{ClusterName, WorkKey};
use crate::core::observed::{Observed, ObservedWork};
use crate::core::work::{ANNOTATION_NEWCOMER, WorkBody};

/// Whether the step deletes its work, or begins or waits to.
fn deletes(step: &Step) -> bool {
    matches!(step.effect, Some(Effect::Delete { .. } | Effect::SetDeleteOption { .. }))
        || matches!(step.reason, Reason::WaitingForAgent { .. } | Reason::NotYetOrphaned { .. })
}

/// The budget that judges the plan: no commit loosens its own.
fn budget(desired: &Desired, departed: &Departed, policy: &Policy) -> Budget {
    let then = departed.values().filter_map(|last| last.budgets.as_ref());
    let all: BTreeSet<&Budgets> =
        then.chain(&policy.budgets_before).chain([&desired.rules.budgets]).collect();
    let all = all.into_iter().map(|budgets| Budget::of(&policy.budgets, budgets));
    all.reduce(Budget::stricter).unwrap_or_default()
}

/// Turns deletions into holds where they are over the budget and not approved.
pub fn hold_deletes(
    steps: &mut [Step],
    desired: &Desired,
    observed: &Observed,
    departed: &Departed,
    policy: &Policy,
) {
    let mut clusters: BTreeMap<ClusterName, Toll> = BTreeMap::new();
    let mut unapproved = Approved::new();
    for step in steps.iter().filter(|step| deletes(step)) {
        let Some(work) = observed.works.get(&step.key) else { continue };
        let target = Target { key: step.key.clone(), uid: work.uid.clone() };
        let toll = clusters.entry(step.key.cluster.clone()).or_default();
        if policy.approved.deletions.contains(&target)
            || desired.approved.deletions.contains(&target)
        {
            toll.approved += 1;
        } else {
            toll.unapproved += 1;
            unapproved.insert(target);
        }
    }
    if unapproved.is_empty() {
        return;
    }
    let lasts: Vec<&LastStood> =
        unapproved.iter().filter_map(|target| departed.get(&target.key)).collect();
    let brought = Brought::by(&lasts);
    let kept = observed.works.values().filter(|work| was_kept(work, desired));
    for work in kept.filter(|work| !brought.has(&work.key)) {
        clusters.entry(work.key.cluster.clone()).or_default().kept += 1;
    }
    let Some(excess) = excess(budget(desired, departed, policy), &clusters) else { return };
    let (hash, works) = (plan_hash(&unapproved), unapproved.len());
    let held: BTreeMap<WorkKey, String> =
        unapproved.into_iter().map(|target| (target.key, target.uid)).collect();
    for step in steps.iter_mut().filter(|step| deletes(step)) {
        if let Some(uid) = held.get(&step.key) {
            step.effect = None;
            let uid = uid.clone();
            step.reason = Reason::HeldByBudget { uid, hash, works, excess: excess.clone() };
        }
    }
}

/// Whether the work was there before the commit that is judged, and stays: Git has it, or it cannot be told. What is being
/// deleted goes, even where Git wants it again: its objects may be gone before it is made anew. Of a work without gitwork's
/// annotations it is not known whether it is new.
fn was_kept(work: &ObservedWork, desired: &Desired) -> bool {
    work.is_ours(&desired.source)
        && !work.newcomer
        && work.written.is_some()
        && !work.deleting
        && (desired.works.contains_key(&work.key) || is_held(work, desired))
}

/// What came to Git with what is to be deleted, or after it.
struct Brought<'a>(BTreeMap<*const BTreeSet<WorkKey>, &'a BTreeSet<WorkKey>>);

impl<'a> Brought<'a> {
    fn by(lasts: &[&'a LastStood]) -> Self {
        // One commit mostly removes many works, whose set is one.
        let known = lasts.iter().filter_map(|last| last.brought.as_deref());
        Self(known.map(|set| (std::ptr::from_ref(set), set)).collect())
    }

    fn has(&self, key: &WorkKey) -> bool {
        !self.0.is_empty() && self.0.values().all(|set| set.contains(key))
    }
}

/// For each step, whether it deletes its work now, or would if the budget let it.
pub fn going(steps: &[Step]) -> Vec<bool> {
    let deletes = |step: &Step| {
        matches!(step.effect, Some(Effect::Delete { .. } | Effect::SetDeleteOption { .. }))
            || matches!(step.reason, Reason::HeldByBudget { .. })
    };
    steps.iter().map(deletes).collect()
}

/// Marks what is made while deletions are held, whatever holds them, or because this version cannot read all of Git, and
/// takes the mark off once none is. `going`: what was to be deleted before the guards had their say.
pub fn mark(steps: &mut [Step], going: &[bool], desired: &Desired, observed: &Observed) {
    let mut held =
        going.iter().zip(&*steps).filter(|(going, step)| **going && step.effect.is_none());
    let holds = desired.frozen.deletes || held.next().is_some();
    for step in steps {
        if holds {
            let may_be_new =
                observed.works.get(&step.key).is_none_or(|work| work.written.is_none());
            match &mut step.effect {
                Some(Effect::Create { body } | Effect::Adopt { body, .. }) => mark_body(body),
                // Somebody has taken the mark off, along with gitwork's other annotations.
                Some(Effect::Update { body, .. }) if may_be_new => mark_body(body),
                _ => {}
            }
            continue;
        }
        let Some(there) = observed.works.get(&step.key).filter(|work| work.newcomer) else {
            continue;
        };
        if let (None, Reason::UpToDate, Some(work)) =
            (&step.effect, &step.reason, desired.works.get(&step.key))
        {
            step.effect = Some(Effect::Update {
                body: work.body.clone(),
                resource_version: there.resource_version.clone(),
                metadata: metadata_change(there, &work.body),
            });
            step.reason = Reason::DeletesNoLongerHeld;
        }
        if let Some(Effect::Update { metadata, .. } | Effect::Adopt { metadata, .. }) =
            &mut step.effect
        {
            metadata.remove_annotations.insert(ANNOTATION_NEWCOMER.into());
        }
    }
}

/// The mark is no content: the digest stays.
fn mark_body(body: &mut Arc<WorkBody>) {
    Arc::make_mut(body).newcomer = true;
}
