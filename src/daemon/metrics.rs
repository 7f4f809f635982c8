//! Metrics in the OpenMetrics text format. Labels are bounded: sources, and words of a fixed list.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::core::desired::Desired;
use crate::core::name::SourceId;
use crate::core::plan::{Action, Guard, Plan};
use crate::core::status::State;
use crate::core::status::source::SourceStatus;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSource {
    source: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Result {
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

/// From a plan of a small fleet to the writes of a large one: 1 ms to 4 minutes.
fn durations() -> Histogram {
    Histogram::new([0.001, 0.004, 0.016, 0.06, 0.25, 1.0, 4.0, 15.0, 60.0, 240.0])
}

/// What the daemon counts.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    fetches: Family<Result, Counter>,
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
    branch_commits: Family<Result, Counter>,
    refused: Family<OfSource, Gauge>,
    leads: Family<OfSource, Gauge>,
    contested: Family<OfSource, Gauge>,
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
            works: family(of, "works", "Works by what the last plan does with them"),
            errors: family(of, "source_errors", "Errors in the source's files"),
            writes: family(of, "hub_writes", "Writes to the hub, by effect and result"),
            plans: family(of, "plans", "Plans made for a source"),
            held_deletes: family(
                of,
                "held_deletes",
                "Deletions over the budget that wait for approval",
            ),
            held_works: family(
                of,
                "held_works",
                "Works that the last plan holds, by the guard that does",
            ),
            refused: family(
                of,
                "refused_commit",
                "1 while the newest commit is refused for its signatures",
            ),
            leads: family(
                of,
                "leads",
                "1 while this daemon leads the source, 0 while it stands by",
            ),
            contested: family(
                of,
                "contested_works",
                "Works that somebody else keeps changing, so that they are put back less often",
            ),
            webhooks: family(of, "webhooks", "Webhooks of forges, by result"),
            durations: {
                let family: Family<OfStage, Histogram, fn() -> Histogram> =
                    Family::new_with_constructor(durations);
                let help = "How long each stage of a sync took, in seconds";
                of.register("sync_duration_seconds", help, family.clone());
                family
            },
            states: family(of, "work_states", "Works by how far their clusters are with them"),
            commit: family(
                of,
                "commit_timestamp_seconds",
                "When the commit that was read was made, in seconds since 1970",
            ),
            synced_commit: family(
                of,
                "synced_commit_timestamp_seconds",
                "When the last commit that the hub has whole was made, in seconds since 1970",
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
    pub fn fetched(&self, source: &SourceId, succeeded: bool) {
        let label = Result { source: source.to_string(), result: word(succeeded) };
        self.fetches.get_or_create(&label).inc();
        if succeeded {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
            self.last_fetch.get_or_create(&of_source(source)).set(seconds);
        }
    }

    /// Whether the newest commit is refused for its signatures.
    pub fn verified(&self, source: &SourceId, refused: bool) {
        self.refused.get_or_create(&of_source(source)).set(i64::from(refused));
    }

    /// Whether this daemon leads the source.
    pub fn leads(&self, source: &SourceId, leads: bool) {
        self.leads.get_or_create(&of_source(source)).set(i64::from(leads));
    }

    /// Another tells how far the source is from now on: what was known here would only grow old.
    pub fn stands_by(&self, source: &SourceId) {
        let label = of_source(source);
        for family in
            [&self.errors, &self.held_deletes, &self.commit, &self.synced_commit, &self.refused]
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

    pub fn rendered(&self, source: &SourceId, desired: &Desired) {
        let errors = desired.diagnostics.iter().filter(|found| found.is_error()).count();
        self.errors.get_or_create(&of_source(source)).set(count(errors));
    }

    pub fn planned(&self, source: &SourceId, plan: &Plan) {
        self.plans.get_or_create(&of_source(source)).inc();
        let held = plan.held().map_or(0, |held| held.works.len());
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

    /// How many works somebody else keeps changing.
    pub fn contested(&self, source: &SourceId, works: usize) {
        self.contested.get_or_create(&of_source(source)).set(count(works));
    }

    pub fn wrote(&self, source: &SourceId, effect: &'static str, succeeded: bool) {
        let source = source.to_string();
        self.writes.get_or_create(&Write { source, effect, result: word(succeeded) }).inc();
    }

    /// How long a stage took.
    pub fn spent(&self, source: &SourceId, stage: Stage, time: Duration) {
        let label = OfStage { source: source.to_string(), stage: stage.as_str() };
        self.durations.get_or_create(&label).observe(time.as_secs_f64());
    }

    /// How far the clusters are.
    pub fn told(&self, status: &SourceStatus) {
        for state in State::ALL {
            let works = status.works.values().filter(|work| work.state == state).count();
            let label = OfState { source: status.source.to_string(), state: state.as_str() };
            self.states.get_or_create(&label).set(count(works));
        }
    }

    /// A commit was read that was made then, in seconds since 1970.
    pub fn commit(&self, source: &SourceId, committed_seconds: i64) {
        self.commit.get_or_create(&of_source(source)).set(committed_seconds);
    }

    /// The hub has all of a commit that was made then.
    pub fn synced(&self, source: &SourceId, committed_seconds: i64) {
        self.synced_commit.get_or_create(&of_source(source)).set(committed_seconds);
    }

    pub fn hub_request(&self, verb: &'static str, outcome: &'static str) {
        self.hub_requests.get_or_create(&HubRequest { verb, outcome }).inc();
    }

    pub fn forge_write(&self, source: &SourceId, provider: &'static str, outcome: &'static str) {
        let source = source.to_string();
        self.forge_writes.get_or_create(&ForgeWrite { source, provider, outcome }).inc();
    }

    /// A push to the status branch: `pushed`, `unchanged` or `failure`.
    pub fn branch_commit(&self, source: &SourceId, result: &'static str) {
        self.branch_commits.get_or_create(&Result { source: source.to_string(), result }).inc();
    }

    pub fn webhook(&self, accepted: bool) {
        let result = if accepted { "accepted" } else { "refused" };
        self.webhooks.get_or_create(&Webhook { result }).inc();
    }

    /// As a scraper reads them.
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
    use crate::core::name::{ClusterName, WorkKey, WorkName};
    use crate::core::plan::{Reason, Step};

    #[test]
    fn what_guards_hold_is_counted_and_no_longer_once_it_is_let_go() {
        let metrics = Metrics::default();
        let source = SourceId::parse("fleet").unwrap();
        let key = WorkKey {
            cluster: ClusterName::parse("edge-1").unwrap(),
            work: WorkName::parse("web").unwrap(),
        };
        let planned = |reason: Reason| {
            let step = Step { key: key.clone(), path: None, effect: None, reason };
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
    fn who_stands_by_tells_nothing_that_the_leader_tells() {
        let metrics = Metrics::default();
        let source = SourceId::parse("fleet").unwrap();
        metrics.leads(&source, true);
        metrics.fetched(&source, true);
        metrics.planned(&source, &Plan::default());
        metrics.verified(&source, true);
        metrics.commit(&source, 1_700_000_000);
        metrics.synced(&source, 1_700_000_000);
        metrics.leads(&source, false);
        metrics.stands_by(&source);
        let left = metrics.encode();
        let mut names: Vec<&str> = left
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once('{').map(|(name, _)| name))
            .collect();
        names.sort_unstable();
        let known = ["fetches_total", "last_fetch_timestamp_seconds", "leads", "plans_total"];
        assert_eq!(names, known.map(|name| format!("gitwork_{name}")), "{left}");
    }
}
