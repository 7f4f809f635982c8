//! What an engine reports: metrics, the log and the status.

use super::Engine;
use crate::status_publisher::StatusPublisher;
use gitwork_core::plan::{Plan, PlanStep, Reason};
use gitwork_core::signature::verification::VerificationFailure;
use gitwork_hub::execute::{ExecuteError, Outcome};

impl Engine {
    /// Sets the metrics that only the leader reports.
    pub(super) fn count_known(&self) {
        if let Some(desired) = self.state.desired() {
            self.metrics.rendered(&self.id, desired);
        }
        if let Some(seconds) = self.committed_seconds {
            self.metrics.commit(&self.id, seconds);
        }
        self.metrics.verified(&self.id, self.log.is_unverified());
        if let Some(status) = self.publisher.as_ref().and_then(StatusPublisher::last) {
            self.metrics.set_states(&status);
        }
    }

    /// Reports whether the newest commit is verified.
    pub(super) fn report_verification(&mut self, failure: Option<&VerificationFailure>) {
        if self.lead.leads() {
            self.metrics.verified(&self.id, failure.is_some());
        }
        if let Some(publisher) = &mut self.publisher {
            publisher.set_unverified(failure.map(|failure| (failure.head, failure.to_string())));
        }
        self.log.verification(failure);
    }

    pub(super) fn report_plan(&mut self, plan: &Plan) {
        self.metrics.planned(&self.id, plan);
        let is_as_git_wants =
            |step: &PlanStep| step.is_settled() || step.reason == Reason::Suspended;
        if let Some(seconds) = self.committed_seconds
            && plan.steps.iter().all(is_as_git_wants)
        {
            self.metrics.synced(&self.id, seconds);
        }
        self.log.plan(plan);
    }

    pub(super) fn report_outcome(&self, outcome: &Outcome) {
        self.log.outcome(outcome);
        // A task that never began is no failed write.
        if !matches!(outcome.result, Err(ExecuteError::Stopped)) {
            let effect = outcome.task.effect.name();
            self.metrics.wrote(&self.id, effect, outcome.result.is_ok());
        }
    }
}
