//! Metrics in the OpenMetrics text format. Labels are bounded: sources, and words of a fixed list.

use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use gitwork_core::model::name::SourceId;
use gitwork_core::plan::{Action, Guard, Plan};
use gitwork_core::render::desired::Desired;
use gitwork_core::report::status::State;
use gitwork_core::report::status::source::SourceStatus;

mod families;

use families::{
    ForgeWrite, Held, HubRequest, OfSource, OfStage, OfState, PlanMetrics, Planned, ResultLabels,
    SourceMetrics, Webhook, Write, WriteMetrics,
};

/// A part of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The transfer from the remote.
    Fetch,
    /// From Git's files to ManifestWorks.
    Render,
    /// From the works in Git and on the hub to the steps.
    Plan,
    /// From the first write of a pass to the last that is no deletion.
    Apply,
    /// From there to the last deletion.
    Prune,
}

impl Stage {
    fn as_str(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Render => "render",
            Self::Plan => "plan",
            Self::Apply => "apply",
            Self::Prune => "prune",
        }
    }
}

/// The daemon's metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    source: SourceMetrics,
    plan: PlanMetrics,
    write: WriteMetrics,
}

fn word(succeeded: bool) -> &'static str {
    if succeeded { "success" } else { "failure" }
}

fn of_source(source: &SourceId) -> OfSource {
    OfSource { source: source.to_string() }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("gitwork");
        let source = SourceMetrics::new(&mut registry);
        let plan = PlanMetrics::new(&mut registry);
        let write = WriteMetrics::new(&mut registry);
        Self { registry, source, plan, write }
    }
}

impl Metrics {
    /// Counts a fetch that ended at `now`.
    pub fn fetched(&self, source: &SourceId, succeeded: bool, now: Timestamp) {
        let label = ResultLabels { source: source.to_string(), result: word(succeeded) };
        self.source.fetches.get_or_create(&label).inc();
        if succeeded {
            self.source.last_fetch.get_or_create(&of_source(source)).set(now.as_second());
        }
    }

    /// Sets whether the newest commit fails its verification.
    pub fn verified(&self, source: &SourceId, unverified: bool) {
        self.source.unverified.get_or_create(&of_source(source)).set(i64::from(unverified));
    }

    /// Sets whether this daemon is the leader of the source.
    pub fn leads(&self, source: &SourceId, leads: bool) {
        self.source.leads.get_or_create(&of_source(source)).set(i64::from(leads));
    }

    /// Removes the metrics that only the leader reports: on a standby they would become stale.
    pub fn standby(&self, source: &SourceId) {
        let label = of_source(source);
        for family in [
            &self.source.errors,
            &self.plan.held_deletes,
            &self.source.commit,
            &self.plan.synced_commit,
            &self.source.unverified,
        ] {
            family.remove(&label);
        }
        let source = || source.to_string();
        for guard in Guard::ALL {
            self.plan.held_works.remove(&Held { source: source(), guard: guard.as_str() });
        }
        for action in Action::ALL {
            self.plan.works.remove(&Planned { source: source(), action: action.as_str() });
        }
        for state in State::ALL {
            self.plan.states.remove(&OfState { source: source(), state: state.as_str() });
        }
    }

    /// Sets the errors in the files of the source.
    pub fn rendered(&self, source: &SourceId, desired: &Desired) {
        let errors = desired.diagnostics.iter().filter(|found| found.is_error()).count();
        self.source.errors.get_or_create(&of_source(source)).set(count(errors));
    }

    /// Records a plan.
    pub fn planned(&self, source: &SourceId, plan: &Plan) {
        self.plan.plans.get_or_create(&of_source(source)).inc();
        let held = plan.held_deletions().map_or(0, |held| held.works.len());
        self.plan.held_deletes.get_or_create(&of_source(source)).set(count(held));
        for guard in Guard::ALL {
            let label = Held { source: source.to_string(), guard: guard.as_str() };
            self.plan.held_works.get_or_create(&label).set(count(plan.held_by(guard)));
        }
        for action in Action::ALL {
            let works = plan.steps.iter().filter(|step| step.action() == action).count();
            let label = Planned { source: source.to_string(), action: action.as_str() };
            self.plan.works.get_or_create(&label).set(count(works));
        }
    }

    /// Sets how many works are backed off because another client keeps changing them.
    pub fn set_backed_off(&self, source: &SourceId, works: usize) {
        self.plan.backed_off.get_or_create(&of_source(source)).set(count(works));
    }

    /// Counts a write to the hub.
    pub fn wrote(&self, source: &SourceId, effect: &'static str, succeeded: bool) {
        let source = source.to_string();
        self.write.writes.get_or_create(&Write { source, effect, result: word(succeeded) }).inc();
    }

    /// Records the duration of a stage.
    pub fn spent(&self, source: &SourceId, stage: Stage, time: Duration) {
        let label = OfStage { source: source.to_string(), stage: stage.as_str() };
        self.plan.durations.get_or_create(&label).observe(time.as_secs_f64());
    }

    /// Sets how many works are in each state.
    pub fn set_states(&self, status: &SourceStatus) {
        for state in State::ALL {
            let works = status.works.values().filter(|work| work.state == state).count();
            let label = OfState { source: status.source.to_string(), state: state.as_str() };
            self.plan.states.get_or_create(&label).set(count(works));
        }
    }

    /// Sets the time of the commit that was read, in seconds since 1970.
    pub fn commit(&self, source: &SourceId, committed_seconds: i64) {
        self.source.commit.get_or_create(&of_source(source)).set(committed_seconds);
    }

    /// Sets the time of the last commit that the hub has completely.
    pub fn synced(&self, source: &SourceId, committed_seconds: i64) {
        self.plan.synced_commit.get_or_create(&of_source(source)).set(committed_seconds);
    }

    /// Counts a request to the hub.
    pub fn hub_request(&self, verb: &'static str, outcome: &'static str) {
        self.write.hub_requests.get_or_create(&HubRequest { verb, outcome }).inc();
    }

    /// Counts a commit status or check run.
    pub fn forge_write(&self, source: &SourceId, provider: &'static str, outcome: &'static str) {
        let source = source.to_string();
        self.write.forge_writes.get_or_create(&ForgeWrite { source, provider, outcome }).inc();
    }

    /// Counts a push to the status branch: `pushed`, `unchanged` or `failure`.
    pub fn branch_commit(&self, source: &SourceId, result: &'static str) {
        self.write
            .branch_commits
            .get_or_create(&ResultLabels { source: source.to_string(), result })
            .inc();
    }

    /// Counts a webhook.
    pub fn webhook(&self, accepted: bool) {
        let result = if accepted { "accepted" } else { "refused" };
        self.source.webhooks.get_or_create(&Webhook { result }).inc();
    }

    /// The metrics in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _infallible = text::encode(&mut out, &self.registry);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
    use gitwork_core::plan::{PlanStep, Reason};

    #[test]
    fn held_works_are_counted_until_released() {
        let metrics = Metrics::default();
        let source = SourceId::parse("fleet").unwrap();
        let key = WorkKey {
            cluster: ClusterName::parse("edge-1").unwrap(),
            work: WorkName::parse("web").unwrap(),
        };
        let planned = |reason: Reason| {
            let step = PlanStep { key: key.clone(), path: None, effect: None, reason };
            metrics.planned(&source, &Plan { commit: None, steps: vec![step] });
            metrics.encode()
        };
        let line = |guard: &str, works: usize| {
            format!("gitwork_held_works{{source=\"fleet\",guard=\"{guard}\"}} {works}\n")
        };
        let held = planned(Reason::Suspended);
        assert!(
            held.contains(&line("suspension", 1)) && held.contains(&line("rewind", 0)),
            "{held}"
        );
        assert!(planned(Reason::UpToDate).contains(&line("suspension", 0)));
    }

    #[test]
    fn a_standby_reports_no_metric_of_the_leader() {
        let metrics = Metrics::default();
        let source = SourceId::parse("fleet").unwrap();
        metrics.leads(&source, true);
        metrics.fetched(&source, true, Timestamp::UNIX_EPOCH);
        metrics.planned(&source, &Plan::default());
        metrics.verified(&source, true);
        metrics.commit(&source, 1_700_000_000);
        metrics.synced(&source, 1_700_000_000);
        metrics.leads(&source, false);
        metrics.standby(&source);
        let left = metrics.encode();
        let mut names: Vec<&str> = left
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once('{').map(|(name, _)| name))
            .collect();
        names.sort_unstable();
        let known = ["fetches_total", "is_leader", "last_fetch_timestamp_seconds", "plans_total"];
        assert_eq!(names, known.map(|name| format!("gitwork_{name}")), "{left}");
    }
}
