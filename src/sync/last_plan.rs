//! The last plan of one source.

use std::sync::Arc;

use gitwork_core::model::name::WorkKey;
use gitwork_core::plan::conflicting_manager::ConflictingManager;
use gitwork_core::plan::drift_backoff::Written;
use gitwork_core::plan::incremental::{IncrementalPlan, InputRevisions};
use gitwork_core::plan::lint;
use gitwork_core::plan::lint::PlanViolation;
use gitwork_core::plan::{Effect, Plan, PlanInputs, Reason};

/// The last plan, and of which state of the source it is.
#[derive(Debug, Default)]
pub(crate) struct LastPlan {
    plan: Option<Arc<Plan>>,
    /// The newest plan by cluster, from which the next one is made.
    planner: IncrementalPlan,
    /// Rules that the plan breaks, by a bug of the planner. Nothing is done for these works.
    violations: Vec<PlanViolation>,
    /// The revision of the facts that it follows from.
    revision: u64,
}

impl LastPlan {
    /// Makes the plan of `inputs`. `revision`: the one of the facts among them.
    pub(crate) fn replace(
        &mut self,
        inputs: PlanInputs<'_>,
        revisions: InputRevisions<'_>,
        revision: u64,
    ) -> Arc<Plan> {
        let plan = self.planner.plan(inputs, revisions);
        self.violations = lint::check(&plan, inputs);
        debug_assert_eq!(self.violations, [], "the planner keeps the rules");
        self.revision = revision;
        self.plan = Some(plan.clone());
        plan
    }

    /// Plans some `works_max` works that the next plan of `inputs` would have to plan: see
    /// [`IncrementalPlan::advance`].
    pub(crate) fn advance(
        &mut self,
        inputs: PlanInputs<'_>,
        revisions: InputRevisions<'_>,
        works_max: usize,
    ) -> bool {
        self.planner.advance(inputs, revisions, works_max)
    }

    /// Whether the facts are those of the last plan.
    pub(crate) fn is_current(&self, revision: u64) -> bool {
        self.revision == revision
    }

    /// The plan of `inputs`: the last one if it is current, or else another.
    pub(crate) fn current_or_new(
        &mut self,
        inputs: PlanInputs<'_>,
        revisions: InputRevisions<'_>,
        revision: u64,
    ) -> Arc<Plan> {
        let last = self.plan.as_ref().filter(|_| self.is_current(revision));
        last.cloned().unwrap_or_else(|| self.planner.plan(inputs, revisions))
    }

    /// The rules that the plan breaks.
    pub(crate) fn violations(&self) -> &[PlanViolation] {
        &self.violations
    }

    /// Whether the step of a work breaks a rule.
    pub(crate) fn breaks_rule(&self, key: &WorkKey) -> bool {
        self.violations.iter().any(|found| found.key == *key)
    }

    /// The content that an effect of this plan writes; `None` if it writes none, or only a marker.
    pub(crate) fn content_of(&self, key: &WorkKey, effect: &Effect) -> Option<Written> {
        let body = effect.body()?;
        let step = self.plan.as_ref()?.steps.get(key)?;
        let (edited, by) = match &step.reason {
            Reason::DeletesNoLongerHeld | Reason::GroupChanged => return None,
            Reason::EditedOnHub { by } => {
                (true, by.clone().unwrap_or_else(|| Arc::new(ConflictingManager::Unknown)))
            }
            Reason::NewInGit => (false, Arc::new(ConflictingManager::Deleter)),
            // The previous content was written by a gitwork.
            _ => (false, Arc::new(ConflictingManager::Gitwork)),
        };
        Some(Written { content: body.digest, edited, by })
    }
}
