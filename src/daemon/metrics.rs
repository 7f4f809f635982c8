//! Metrics in the OpenMetrics text format. Labels are bounded: sources, and words of a fixed list.

use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::registry::Registry;

use gitwork_core::model::name::SourceId;
use gitwork_core::plan::rollout_progress::WaveProgress;
use gitwork_core::plan::{Action, Guard, Plan};
use gitwork_core::render::desired::Desired;
use gitwork_report::status::State;
use gitwork_report::status::source::SourceStatus;
use gitwork_runtime::probes::metrics_text;

mod families;

use families::{
    ForgeWrite, HeldWorks, HubRequest, LeaderMetrics, OfSource, OfStage, OfState, PassMetrics,
    Planned, ResultLabels, SourceMetrics, Webhook, Write,
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
    leader: LeaderMetrics,
    pass: PassMetrics,
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
        let leader = LeaderMetrics::new(&mut registry);
        let pass = PassMetrics::new(&mut registry);
        Self { registry, source, leader, pass }
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
        self.leader.unverified.get_or_create(&of_source(source)).set(i64::from(unverified));
    }

    /// Sets whether this daemon is the leader of the source.
    pub fn leads(&self, source: &SourceId, leads: bool) {
        self.source.leads.get_or_create(&of_source(source)).set(i64::from(leads));
    }

    /// Removes the metrics that only the leader reports: on a standby they would become stale.
    pub fn standby(&self, source: &SourceId) {
        self.leader.remove(source);
    }

    /// Sets the errors in the files of the source.
    pub fn rendered(&self, source: &SourceId, desired: &Desired) {
        let errors = desired.diagnostics.iter().filter(|found| found.is_error()).count();
        self.leader.errors.get_or_create(&of_source(source)).set(count(errors));
    }

    /// Records a plan.
    pub fn planned(&self, source: &SourceId, plan: &Plan) {
        self.pass.plans.get_or_create(&of_source(source)).inc();
        let held = plan.held_deletions().map_or(0, |held| held.works.len());
        self.leader.held_deletes.get_or_create(&of_source(source)).set(count(held));
        for guard in Guard::ALL {
            let label = HeldWorks { source: source.to_string(), guard: guard.as_str() };
            self.leader.held_works.get_or_create(&label).set(count(plan.held_by(guard)));
        }
        for action in Action::ALL {
            let works = plan.steps.count(action);
            let label = Planned { source: source.to_string(), action: action.as_str() };
            self.leader.works.get_or_create(&label).set(count(works));
        }
    }

    /// Sets how many works are backed off because another client keeps changing them.
    pub fn set_backed_off(&self, source: &SourceId, works: usize) {
        self.leader.backed_off.get_or_create(&of_source(source)).set(count(works));
    }

    /// Counts a write to the hub.
    pub fn wrote(&self, source: &SourceId, effect: &'static str, succeeded: bool) {
        let source = source.to_string();
        self.pass.writes.get_or_create(&Write { source, effect, result: word(succeeded) }).inc();
    }

    /// Records the duration of a stage.
    pub fn spent(&self, source: &SourceId, stage: Stage, time: Duration) {
        let label = OfStage { source: source.to_string(), stage: stage.as_str() };
        self.pass.durations.get_or_create(&label).observe(time.as_secs_f64());
    }

    /// Counts a step of the engine that took longer than [`crate::limits::ENGINE_PAUSE`].
    pub fn paused(&self, source: &SourceId, time: Duration) {
        self.pass.pauses.get_or_create(&of_source(source)).observe(time.as_secs_f64());
    }

    /// Sets how many works are in each state, and how far rollouts have come.
    pub fn set_states(&self, status: &SourceStatus) {
        for state in State::ALL {
            let works = status.works.count(state);
            let label = OfState { source: status.source.to_string(), state: state.as_str() };
            self.leader.states.get_or_create(&label).set(count(works));
        }
        let mut clusters = WaveProgress::default().by_state();
        for wave in status.rollouts.iter().flat_map(|rollout| &rollout.waves) {
            for (sum, (_, number)) in clusters.iter_mut().zip(wave.by_state()) {
                sum.1 += number;
            }
        }
        for (state, number) in clusters {
            let label = OfState { source: status.source.to_string(), state };
            self.leader.rollout_clusters.get_or_create(&label).set(count(number));
        }
    }

    /// Sets the time of the commit that was read, in seconds since 1970.
    pub fn commit(&self, source: &SourceId, committed_seconds: i64) {
        self.leader.commit.get_or_create(&of_source(source)).set(committed_seconds);
    }

    /// Sets the time of the last commit that the hub has completely.
    pub fn synced(&self, source: &SourceId, committed_seconds: i64) {
        self.leader.synced_commit.get_or_create(&of_source(source)).set(committed_seconds);
    }

    /// Counts a request to the hub.
    pub fn hub_request(&self, verb: &'static str, outcome: &'static str) {
        self.pass.hub_requests.get_or_create(&HubRequest { verb, outcome }).inc();
    }

    /// Counts a commit status or check run.
    pub fn forge_write(&self, source: &SourceId, provider: &'static str, outcome: &'static str) {
        let source = source.to_string();
        self.pass.forge_writes.get_or_create(&ForgeWrite { source, provider, outcome }).inc();
    }

    /// Counts a push to the status branch: `pushed`, `unchanged` or `failure`.
    pub fn branch_commit(&self, source: &SourceId, result: &'static str) {
        self.pass
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
        metrics_text(&self.registry)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use gitwork_core::config::source_rules::SourceRules;
    use gitwork_core::model::approval::Approvals;
    use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
    use gitwork_core::plan::{PlanStep, Reason};
    use gitwork_core::render::desired::{Frozen, Suspended};
    use gitwork_report::status::work_states::WorkStates;

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
            metrics.planned(&source, &Plan { commit: None, steps: vec![step].into() });
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

    fn no_works(source: &SourceId) -> Desired {
        Desired {
            delivered: BTreeMap::new(),
            source: source.clone(),
            commit: None,
            works: Default::default(),
            frozen: Frozen::default(),
            rules: SourceRules::default(),
            approved: Approvals::default(),
            suspended: Suspended::default(),
            needed_facts: None,
            rollouts: BTreeMap::new(),
            later: BTreeMap::new(),
            facts: None,
            diagnostics: Vec::new(),
        }
    }

    fn no_states(source: &SourceId) -> SourceStatus {
        SourceStatus {
            source: source.clone(),
            commit: None,
            record_generation: 0,
            works: WorkStates::default(),
            unreachable: BTreeSet::new(),
            errors: 0,
            first_error: None,
            findings: Vec::new(),
            facts: None,
            held: Vec::new(),
            rollouts: Vec::new(),
        }
    }

    /// The names of the metrics that have a value of the source `fleet`, without their prefix.
    fn reported(metrics: &Metrics) -> BTreeSet<String> {
        let text = metrics.encode();
        let samples = text.lines().filter(|line| line.contains("source=\"fleet\""));
        let names = samples.filter_map(|line| line.strip_prefix("gitwork_")?.split('{').next());
        names.map(str::to_owned).collect()
    }

    #[test]
    fn a_standby_reports_no_metric_of_the_leader() {
        let metrics = Metrics::default();
        let source = SourceId::parse("fleet").unwrap();
        metrics.leads(&source, true);
        metrics.fetched(&source, true, Timestamp::UNIX_EPOCH);
        metrics.rendered(&source, &no_works(&source));
        metrics.planned(&source, &Plan::default());
        metrics.verified(&source, true);
        metrics.commit(&source, 1_700_000_000);
        metrics.synced(&source, 1_700_000_000);
        metrics.set_backed_off(&source, 1);
        metrics.set_states(&no_states(&source));
        let as_leader = reported(&metrics);
        metrics.leads(&source, false);
        metrics.standby(&source);
        let as_standby = reported(&metrics);
        let kept = ["fetches_total", "is_leader", "last_fetch_timestamp_seconds", "plans_total"];
        assert_eq!(as_standby, kept.map(str::to_owned).into());
        let of_the_leader = [
            "backed_off_works",
            "commit_timestamp_seconds",
            "held_deletes",
            "held_works",
            "rollout_clusters",
            "source_errors",
            "synced_commit_timestamp_seconds",
            "unverified_commit",
            "work_states",
            "works",
        ];
        let removed: BTreeSet<String> = as_leader.difference(&as_standby).cloned().collect();
        assert_eq!(removed, of_the_leader.map(str::to_owned).into());
    }
}
