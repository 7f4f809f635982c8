//! A plan: one step for each work.

use std::fmt;

use crate::model::name::{CommitId, RepoPath, WorkKey};
use crate::plan::action::Action;
use crate::plan::effect::Effect;
use crate::plan::guard::Guard;
use crate::plan::reason::Reason;

/// One line of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanStep {
    /// The work.
    pub key: WorkKey,
    /// The work folder, if Git has or had one.
    pub path: Option<RepoPath>,
    /// The write; `None` if nothing is done now. `reason` says why.
    pub effect: Option<Effect>,
    /// Why the effect is in the plan, or why there is none.
    pub reason: Reason,
}

/// All steps, sorted by key: one for each work that Git wants, and for each work of this source
/// on the hub.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The commit that is planned for; `None` for a local directory.
    pub commit: Option<CommitId>,
    /// Sorted by key; no two steps of one work.
    pub steps: Vec<PlanStep>,
}

impl Plan {
    /// The steps that write something, with their effects.
    pub fn effects(&self) -> impl Iterator<Item = (&PlanStep, &Effect)> {
        self.steps.iter().filter_map(|step| Some((step, step.effect.as_ref()?)))
    }

    /// Whether nothing is done now. Works may still be held or wait: see [`Self::is_settled`].
    pub fn is_empty(&self) -> bool {
        self.effects().next().is_none()
    }

    /// Whether the hub has exactly what Git wants, as far as Git could be read.
    pub fn is_settled(&self) -> bool {
        self.steps.iter().all(PlanStep::is_settled)
    }

    /// The number of works that a guard holds.
    pub fn held_by(&self, guard: Guard) -> usize {
        self.steps.iter().filter(|step| step.reason.guard() == Some(guard)).count()
    }
}

impl PlanStep {
    /// What the step does, in one word.
    pub fn action(&self) -> Action {
        Action::of(self.effect.as_ref(), &self.reason)
    }

    /// Whether the hub has the work as Git wants it.
    pub fn is_settled(&self) -> bool {
        self.effect.is_none() && self.reason == Reason::UpToDate
    }
}

impl fmt::Display for PlanStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.key, self.action(), self.reason)?;
        match &self.path {
            Some(path) => write!(f, " ({path})"),
            None => Ok(()),
        }
    }
}
