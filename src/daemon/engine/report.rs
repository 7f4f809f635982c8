//! What an engine reports: metrics, the log and the status.

use super::Engine;
use crate::clock::monotonic;
use crate::status_publisher::StatusPublisher;
use gitwork_core::plan::{Guard, Plan, PlanStep};
use gitwork_core::signature::verification::VerificationFailure;
use gitwork_hub::execute::{ExecuteError, Outcome};

impl Engine {
    /// Sets the metrics that only the leader reports.
    pub(super) fn set_leader_metrics(&self) {
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

    /// Publishes the status if it is due. The leader also sets the numbers of works by state.
    pub(super) fn publish_due_status(&mut self) {
        let (now, at) = (monotonic(), self.wall_clock.now());
        if let Some(publisher) = &mut self.publisher
            && let Some(status) = publisher.publish(&self.state, now, at)
            && self.leadership.leads()
        {
            self.metrics.set_states(&status);
        }
    }

    /// Reports whether the newest commit is verified.
    pub(super) fn report_verification(&mut self, failure: Option<&VerificationFailure>) {
        if self.leadership.leads() {
            self.metrics.verified(&self.id, failure.is_some());
        }
        if let Some(publisher) = &mut self.publisher {
            publisher.set_unverified(failure.map(|failure| (failure.head, failure.to_string())));
        }
        self.log.verification(failure);
    }

    pub(super) fn report_plan(&mut self, plan: &Plan) {
        self.metrics.planned(&self.id, plan);
        if let Some(seconds) = self.committed_seconds
            && is_synced(plan)
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

/// Whether the hub has the planned commit completely. Suspended works may differ, whether Git or an
/// operator on the hub suspends them.
fn is_synced(plan: &Plan) -> bool {
    let is_suspended = |step: &PlanStep| step.reason.guard() == Some(Guard::Suspension);
    plan.steps.iter().all(|step| step.is_settled() || is_suspended(step))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
    use gitwork_core::plan::Reason;

    fn plan(reasons: Vec<Reason>) -> Plan {
        let cluster = ClusterName::parse("edge-1").unwrap();
        let steps = reasons.into_iter().enumerate().map(|(index, reason)| {
            let work = WorkName::parse(&format!("work-{index}")).unwrap();
            let key = WorkKey { cluster: cluster.clone(), work };
            PlanStep { key, path: None, effect: None, reason }
        });
        Plan { commit: None, steps: steps.collect() }
    }

    #[test]
    fn suspended_works_do_not_keep_a_commit_from_being_synced() {
        let on_hub = || Reason::SuspendedOnHub { suspension: Arc::default() };
        assert!(is_synced(&plan(Vec::new())));
        assert!(is_synced(&plan(vec![Reason::UpToDate, Reason::Suspended])));
        assert!(is_synced(&plan(vec![Reason::UpToDate, on_hub()])));
        assert!(is_synced(&plan(vec![Reason::Suspended, on_hub()])));
        for other in [Reason::NewInGit, Reason::Frozen, Reason::WaitingForAgent { generation: 2 }] {
            assert!(
                !is_synced(&plan(vec![Reason::UpToDate, on_hub(), other.clone()])),
                "{other:?}"
            );
        }
    }
}
