//! What an engine reports of its source: metrics, the log, the status, and why it cannot be read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;

use super::log::SourceLog;
use super::pass::Pass;
use crate::clock::monotonic;
use crate::metrics::{Metrics, Stage};
use crate::status_publisher::{Reachability, SourceError, StatusPublisher};
use gitwork_core::model::name::SourceId;
use gitwork_core::model::operation_error::describe;
use gitwork_core::plan::{Plan, PlanStep};
use gitwork_core::render::desired::Desired;
use gitwork_core::signature::verification::VerificationFailure;
use gitwork_forge::reporter::StatusFeed;
use gitwork_hub::HubEvent;
use gitwork_hub::execute::{ExecuteError, Outcome};
use gitwork_retry::log_error;
use gitwork_source::{SourceReadError, SourceState};
use gitwork_sync::state::SyncState;

/// The reports of one source. Some metrics have values of the leader only: `leads` says whether
/// this daemon is the leader.
pub(super) struct Reports {
    id: SourceId,
    metrics: Arc<Metrics>,
    pub log: SourceLog,
    /// `None` if nothing subscribes to the status.
    publisher: Option<StatusPublisher>,
    source_error: watch::Sender<Option<String>>,
    /// The time of the commit that was read, in seconds since 1970.
    committed_seconds: Option<i64>,
}

impl Reports {
    pub fn new(id: SourceId, metrics: Arc<Metrics>) -> Self {
        let (log, source_error) = (SourceLog::new(id.clone()), watch::Sender::new(None));
        Self { id, metrics, log, publisher: None, source_error, committed_seconds: None }
    }

    /// Logs and counts a pause of the engine.
    pub fn on_pause(&self) -> impl FnMut(Duration) + use<> {
        let (id, metrics) = (self.id.clone(), self.metrics.clone());
        move |spent| {
            metrics.paused(&id, spent);
            let milliseconds = spent.as_millis();
            tracing::debug!(source = %id, milliseconds, "the engine computed without a break");
        }
    }

    /// A channel with the error that keeps the source from being read.
    pub fn source_error(&self) -> SourceError {
        self.source_error.subscribe()
    }

    /// Publishes the status from now on, and gives the channel.
    pub fn publish_status(&mut self, reach: Reachability, now: Instant) -> StatusFeed {
        let (publisher, feed) = StatusPublisher::new(reach, now);
        self.publisher = Some(publisher);
        feed
    }

    /// The channel of unreachable clusters, if the status is published.
    pub fn reach(&self) -> Option<Reachability> {
        self.publisher.as_ref().map(StatusPublisher::reach)
    }

    /// When the next status is due.
    pub fn status_due(&self) -> Option<Instant> {
        self.publisher.as_ref().and_then(StatusPublisher::due)
    }

    /// Publishes the status if it is due. `at` is the time of day.
    pub fn publish_due_status(&mut self, state: &mut SyncState, at: Timestamp, leads: bool) {
        if let Some(publisher) = &mut self.publisher
            && let Some(status) = publisher.publish(state, &monotonic, at)
            && leads
        {
            self.metrics.set_states(&status);
        }
    }

    /// Marks the status as changed.
    pub fn status_changed(&mut self) {
        if let Some(publisher) = &mut self.publisher {
            publisher.touch();
        }
    }

    /// Sets the metrics that only the leader reports.
    pub fn set_leader_metrics(&self, desired: Option<&Desired>) {
        if let Some(desired) = desired {
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

    /// Removes the metrics that only the leader reports.
    pub fn remove_leader_metrics(&self) {
        self.metrics.standby(&self.id);
    }

    /// Reports a fetch that succeeded at `at`.
    pub fn fetched(&mut self, read: &SourceState, at: Timestamp, leads: bool) {
        let source_error = read.verification_failure.as_ref().map(ToString::to_string);
        self.source_error.send_if_modified(|before| {
            let differs = *before != source_error;
            *before = source_error;
            differs
        });
        self.metrics.fetched(&self.id, true, at);
        self.spent(Stage::Fetch, read.spent.fetch);
        if let Some(time) = read.spent.render {
            self.spent(Stage::Render, time);
        }
        self.verification(read.verification_failure.as_deref(), leads);
    }

    /// Reports a fetch that failed at `at`.
    pub fn fetch_failed(&mut self, error: &SourceReadError, at: Timestamp, leads: bool) {
        match error.verification_failure() {
            Some(failure) => self.verification(Some(failure), leads),
            None => {
                log_error!(
                    error, error, source = %self.id,
                    "the source cannot be read; the hub stays as it is"
                );
            }
        }
        self.metrics.fetched(&self.id, false, at);
        self.source_error.send_replace(Some(describe(error)));
    }

    /// Reports whether the newest commit is verified.
    fn verification(&mut self, failure: Option<&VerificationFailure>, leads: bool) {
        if leads {
            self.metrics.verified(&self.id, failure.is_some());
        }
        if let Some(publisher) = &mut self.publisher {
            publisher.set_unverified(failure.map(|failure| (failure.head, failure.to_string())));
        }
        self.log.verification(failure);
    }

    /// Reports another desired state than before.
    pub fn desired_changed(&mut self, read: &SourceState, leads: bool) {
        if let Some(publisher) = &mut self.publisher {
            publisher.forget_failed_writes();
            publisher.touch();
        }
        self.log.read(read);
        self.committed_seconds = read.committed_seconds;
        if leads {
            self.set_leader_metrics(Some(&read.desired));
        }
    }

    /// Reports an event of the hub.
    pub fn hub_event(&mut self, event: &HubEvent) {
        if let HubEvent::Interrupted(error) = event {
            log_error!(
                warn, error, source = %self.id, "the watch of the hub broke; restarting it"
            );
        }
        self.status_changed();
    }

    /// Reports how many works another client keeps changing. `changed`: they are others than
    /// before.
    pub fn contentions(&mut self, works: usize, changed: bool) {
        if changed {
            self.status_changed();
        }
        self.metrics.set_backed_off(&self.id, works);
    }

    /// Reports a plan.
    pub fn planned(&mut self, plan: &Plan) {
        self.metrics.planned(&self.id, plan);
        if let Some(seconds) = self.committed_seconds
            && is_synced(plan)
        {
            self.metrics.synced(&self.id, seconds);
        }
        self.log.plan(plan);
        // Approvals and the time change what works wait for, without an event of the hub.
        self.status_changed();
    }

    /// Reports the outcome of a write.
    pub fn outcome(&mut self, outcome: &Outcome) {
        self.log.outcome(outcome);
        // A task that never began is no failed write.
        if !matches!(outcome.result, Err(ExecuteError::Stopped)) {
            let effect = outcome.task.effect.name();
            self.metrics.wrote(&self.id, effect, outcome.result.is_ok());
        }
        if let Some(publisher) = &mut self.publisher {
            publisher.observe(outcome);
        }
    }

    /// Reports the writes and the durations of a pass that has ended.
    pub fn pass_ended(&mut self, pass: Option<&Pass>) {
        self.log.pass_ended();
        for (stage, time) in pass.into_iter().flat_map(Pass::spent) {
            self.spent(stage, time);
        }
    }

    /// Reports the duration of a stage.
    pub fn spent(&self, stage: Stage, time: Duration) {
        self.metrics.spent(&self.id, stage, time);
    }
}

/// Whether the hub has the planned commit completely. Suspended works may differ, whether Git or an
/// operator on the hub suspends them.
fn is_synced(plan: &Plan) -> bool {
    let is_suspended = |step: &PlanStep| step.effect.is_none() && step.reason.is_suspension();
    plan.steps.of_unsettled_clusters().all(|step| step.is_settled() || is_suspended(step))
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
