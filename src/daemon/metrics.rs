//! Metrics in the OpenMetrics text format. Labels are bounded: sources, and words of a fixed list.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use gitwork_core::model::name::SourceId;
use gitwork_core::plan::{Action, Guard, Plan};
use gitwork_core::render::desired::Desired;
use gitwork_core::report::status::State;
use gitwork_core::report::status::source::SourceStatus;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSource {
    source: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    source: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Write {
    source: String,
    effect: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Planned {
    source: String,
    action: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Held {
    source: String,
    guard: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Webhook {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStage {
    source: String,
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    source: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HubRequest {
    verb: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ForgeWrite {
    source: String,
    provider: &'static str,
    outcome: &'static str,
}

/// A part of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Fetch,
    Render,
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

/// Buckets from the plan of a small fleet to the writes of a large one: 1 ms to 4 minutes.
fn durations() -> Histogram {
    Histogram::new([0.001, 0.004, 0.016, 0.06, 0.25, 1.0, 4.0, 15.0, 60.0, 240.0])
}

/// The daemon's metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    fetches: Family<ResultLabels, Counter>,
    last_fetch: Family<OfSource, Gauge>,
    works: Family<Planned, Gauge>,
    errors: Family<OfSource, Gauge>,
    writes: Family<Write, Counter>,
    plans: Family<OfSource, Counter>,
    held_deletes: Family<OfSource, Gauge>,
    held_works: Family<Held, Gauge>,
    webhooks: Family<Webhook, Counter>,
    durations: Family<OfStage, Histogram, fn() -> Histogram>,
    states: Family<OfState, Gauge>,
    commit: Family<OfSource, Gauge>,
    synced_commit: Family<OfSource, Gauge>,
    hub_requests: Family<HubRequest, Counter>,
    forge_writes: Family<ForgeWrite, Counter>,
    branch_commits: Family<ResultLabels, Counter>,
    unverified: Family<OfSource, Gauge>,
    leads: Family<OfSource, Gauge>,
    backed_off: Family<OfSource, Gauge>,
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
        let of = &mut registry;
        Self {
            fetches: family(of, "fetches", "Fetches of a source, by result"),
            last_fetch: family(
                of,
                "last_fetch_timestamp_seconds",
                "When the source was last fetched, in seconds since 1970",
            ),
            works: family(of, "works", "Works by their action in the last plan"),
            errors: family(of, "source_errors", "Errors in the source's files"),
            writes: family(of, "hub_writes", "Writes to the hub, by effect and result"),
            plans: family(of, "plans", "Plans made for a source"),
            held_deletes: family(
                of,
                "held_deletes",
                "Deletions over the budget that wait for approval",
            ),
            held_works: family(of, "held_works", "Works that the last plan holds, by guard"),
            unverified: family(
                of,
                "unverified_commit",
                "1 while the newest commit fails its verification",
            ),
            leads: family(
                of,
                "is_leader",
                "1 while this daemon is the leader of the source, 0 while it is a standby",
            ),
            backed_off: family(
                of,
                "backed_off_works",
                "Works that another client keeps changing and that are backed off",
            ),
            webhooks: family(of, "webhooks", "Webhooks of forges, by result"),
            durations: {
                let family: Family<OfStage, Histogram, fn() -> Histogram> =
                    Family::new_with_constructor(durations);
                let help = "Duration of each stage of a sync, in seconds";
                of.register("sync_duration_seconds", help, family.clone());
                family
            },
            states: family(of, "work_states", "Works by state"),
            commit: family(
                of,
                "commit_timestamp_seconds",
                "Time of the commit that was read, in seconds since 1970",
            ),
            synced_commit: family(
                of,
                "synced_commit_timestamp_seconds",
                "Time of the last commit that the hub has completely, in seconds since 1970",
            ),
            hub_requests: family(of, "hub_requests", "Requests to the hub, by verb and outcome"),
            forge_writes: family(
                of,
                "forge_writes",
                "Commit statuses and check runs, by forge and outcome",
            ),
            branch_commits: family(
                of,
                "status_branch_commits",
                "Pushes to the status branch, by result",
            ),
            registry,
        }
    }
}

/// A family of metrics, registered.
fn family<L, M>(registry: &mut Registry, name: &str, help: &str) -> Family<L, M>
where
    L: EncodeLabelSet + Clone + std::hash::Hash + Eq + std::fmt::Debug + Send + Sync + 'static,
    M: EncodeMetric + TypedMetric + Default + std::fmt::Debug + Send + Sync + 'static,
{
    let family = Family::default();
    registry.register(name, help, family.clone());
    family
}

impl Metrics {
    /// Counts a fetch.
    pub fn fetched(&self, source: &SourceId, succeeded: bool) {
        let label = ResultLabels { source: source.to_string(), result: word(succeeded) };
        self.fetches.get_or_create(&label).inc();
        if succeeded {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
            self.last_fetch.get_or_create(&of_source(source)).set(seconds);
        }
    }

    /// Sets whether the newest commit fails its verification.
    pub fn verified(&self, source: &SourceId, unverified: bool) {
        self.unverified.get_or_create(&of_source(source)).set(i64::from(unverified));
    }

    /// Sets whether this daemon is the leader of the source.
    pub fn leads(&self, source: &SourceId, leads: bool) {
        self.leads.get_or_create(&of_source(source)).set(i64::from(leads));
    }

    /// Removes the metrics that only the leader reports: on a standby they would become stale.
    pub fn standby(&self, source: &SourceId) {
        let label = of_source(source);
        for family in
            [&self.errors, &self.held_deletes, &self.commit, &self.synced_commit, &self.unverified]
        {
            family.remove(&label);
        }
        let source = || source.to_string();
        for guard in Guard::ALL {
            self.held_works.remove(&Held { source: source(), guard: guard.as_str() });
        }
        for action in Action::ALL {
            self.works.remove(&Planned { source: source(), action: action.as_str() });
        }
        for state in State::ALL {
            self.states.remove(&OfState { source: source(), state: state.as_str() });
        }
    }

    /// Sets the errors in the files of the source.
    pub fn rendered(&self, source: &SourceId, desired: &Desired) {
        let errors = desired.diagnostics.iter().filter(|found| found.is_error()).count();
        self.errors.get_or_create(&of_source(source)).set(count(errors));
    }

    /// Records a plan.
    pub fn planned(&self, source: &SourceId, plan: &Plan) {
        self.plans.get_or_create(&of_source(source)).inc();
        let held = plan.held_deletions().map_or(0, |held| held.works.len());
        self.held_deletes.get_or_create(&of_source(source)).set(count(held));
        for guard in Guard::ALL {
            let label = Held { source: source.to_string(), guard: guard.as_str() };
            self.held_works.get_or_create(&label).set(count(plan.held_by(guard)));
        }
        for action in Action::ALL {
            let works = plan.steps.iter().filter(|step| step.action() == action).count();
            let label = Planned { source: source.to_string(), action: action.as_str() };
            self.works.get_or_create(&label).set(count(works));
        }
    }

    /// Sets how many works are backed off because another client keeps changing them.
    pub fn set_backed_off(&self, source: &SourceId, works: usize) {
        self.backed_off.get_or_create(&of_source(source)).set(count(works));
    }

    /// Counts a write to the hub.
    pub fn wrote(&self, source: &SourceId, effect: &'static str, succeeded: bool) {
        let source = source.to_string();
        self.writes.get_or_create(&Write { source, effect, result: word(succeeded) }).inc();
    }

    /// Records the duration of a stage.
    pub fn spent(&self, source: &SourceId, stage: Stage, time: Duration) {
        let label = OfStage { source: source.to_string(), stage: stage.as_str() };
        self.durations.get_or_create(&label).observe(time.as_secs_f64());
    }

    /// Sets how many works are in each state.
    pub fn set_states(&self, status: &SourceStatus) {
        for state in State::ALL {
            let works = status.works.values().filter(|work| work.state == state).count();
            let label = OfState { source: status.source.to_string(), state: state.as_str() };
            self.states.get_or_create(&label).set(count(works));
        }
    }

    /// Sets the time of the commit that was read, in seconds since 1970.
    pub fn commit(&self, source: &SourceId, committed_seconds: i64) {
        self.commit.get_or_create(&of_source(source)).set(committed_seconds);
    }

    /// Sets the time of the last commit that the hub has completely.
    pub fn synced(&self, source: &SourceId, committed_seconds: i64) {
        self.synced_commit.get_or_create(&of_source(source)).set(committed_seconds);
    }

    /// Counts a request to the hub.
    pub fn hub_request(&self, verb: &'static str, outcome: &'static str) {
        self.hub_requests.get_or_create(&HubRequest { verb, outcome }).inc();
    }

    /// Counts a commit status or check run.
    pub fn forge_write(&self, source: &SourceId, provider: &'static str, outcome: &'static str) {
        let source = source.to_string();
        self.forge_writes.get_or_create(&ForgeWrite { source, provider, outcome }).inc();
    }

    /// Counts a push to the status branch: `pushed`, `unchanged` or `failure`.
    pub fn branch_commit(&self, source: &SourceId, result: &'static str) {
        self.branch_commits
            .get_or_create(&ResultLabels { source: source.to_string(), result })
            .inc();
    }

    /// Counts a webhook.
    pub fn webhook(&self, accepted: bool) {
        let result = if accepted { "accepted" } else { "refused" };
        self.webhooks.get_or_create(&Webhook { result }).inc();
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
        metrics.fetched(&source, true);
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
