//! The changes of a plan that wait for an approval.

use std::sync::Arc;

use crate::model::approval::{Approval, Approved, Target};
use crate::model::digest::Digest;
use crate::model::name::SourceId;
use crate::plan::budget::Excess;
use crate::plan::guard::Guard;
use crate::plan::reason::Reason;
use crate::plan::step::{Plan, PlanStep};

/// All deletions of one plan that wait for approval.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldDeletions {
    /// The hash that an approval names.
    pub hash: Digest,
    /// The works, each with its uid.
    pub works: Approved,
    /// The bound that the plan exceeds; of several emptied clusters, the first one.
    pub excess: Arc<Excess>,
}

/// Changes of one plan that one guard holds until they are approved, or until time passes.
#[derive(Debug, Clone, PartialEq)]
pub struct Hold {
    /// The approval that allows them; `gitwork approve` takes its hash.
    pub approval: Approval,
    /// The guard.
    pub guard: Guard,
    /// The number of works.
    pub works: usize,
    /// Why, for people.
    pub reason: String,
}

impl Plan {
    /// The deletions that wait for approval.
    pub fn held_deletions(&self) -> Option<HeldDeletions> {
        let mut works = Approved::new();
        let mut found = None;
        for step in self.steps.of_held_clusters() {
            if let Reason::HeldByBudget { uid, hash, excess, .. } = &step.reason {
                works.insert(Target { key: step.key.clone(), uid: uid.clone() });
                found.get_or_insert_with(|| (*hash, excess.clone()));
            }
        }
        found.map(|(hash, excess)| HeldDeletions { hash, works, excess })
    }

    /// Everything that waits for approval, by guard. Suspensions are not among them:
    /// `gitwork resume` ends those.
    pub fn holds(&self, source: &SourceId) -> Vec<Hold> {
        let mut found: Vec<Hold> = Vec::new();
        let mut changes = Approved::new();
        for step in self.steps.of_held_clusters() {
            let Some((guard, approval)) = held_approval(step, source) else { continue };
            if let Reason::HeldByWindow { version, .. } = &step.reason {
                changes.insert(Target { key: step.key.clone(), uid: version.clone() });
            }
            // Each wave of each group has its own.
            let is_same = |hold: &Hold| {
                hold.guard == guard && (guard != Guard::Rollout || hold.approval == approval)
            };
            match found.iter_mut().find(|hold| is_same(hold)) {
                Some(hold) => hold.works += 1,
                None => {
                    let reason = step.reason.cause().unwrap_or_default();
                    found.push(Hold { approval, guard, works: 1, reason });
                }
            }
        }
        for hold in &mut found {
            if let Approval::Changes { works, .. } = &mut hold.approval {
                *works = std::mem::take(&mut changes);
            }
        }
        found.extend(self.held_deletions().map(|held| Hold {
            works: held.works.len(),
            reason: held.excess.to_string(),
            approval: Approval::Deletions(held.works),
            guard: Guard::Budget,
        }));
        found.sort_by_key(|hold| hold.guard);
        found
    }
}

/// The guard that holds a step, and the approval that allows it. The approval of a closed window
/// lists no works yet. Deletions over the budget are collected elsewhere.
fn held_approval(step: &PlanStep, source: &SourceId) -> Option<(Guard, Approval)> {
    match &step.reason {
        Reason::HeldByOrigin { approval, .. } => {
            Some((Guard::Origin, Arc::unwrap_or_clone(approval.clone())))
        }
        Reason::HeldByRewind { rewind, .. } => {
            Some((Guard::Rewind, Approval::Rewind(Arc::unwrap_or_clone(rewind.clone()))))
        }
        Reason::HeldByRestore { approval, .. } => {
            Some((Guard::Restore, Arc::unwrap_or_clone(approval.clone())))
        }
        Reason::HeldByWindow { .. } => {
            let works = Approved::new();
            Some((Guard::Window, Approval::Changes { source: source.clone(), works }))
        }
        Reason::HeldByRollout { wait } => {
            let (approval, _) = wait.approval.as_ref()?;
            Some((wait.guard(), Arc::unwrap_or_clone(approval.clone())))
        }
        _ => None,
    }
}
