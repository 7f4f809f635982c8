//! The families of metrics, with their labels.

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use gitwork_core::model::name::SourceId;
use gitwork_core::plan::rollout_progress::WaveProgress;
use gitwork_core::plan::{Action, Guard};
use gitwork_report::status::State;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfSource {
    pub(super) source: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResultLabels {
    pub(super) source: String,
    pub(super) result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Write {
    pub(super) source: String,
    pub(super) effect: &'static str,
    pub(super) result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Planned {
    pub(super) source: String,
    pub(super) action: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct HeldWorks {
    pub(super) source: String,
    pub(super) guard: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Webhook {
    pub(super) result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfStage {
    pub(super) source: String,
    pub(super) stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfState {
    pub(super) source: String,
    pub(super) state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct HubRequest {
    pub(super) verb: &'static str,
    pub(super) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ForgeWrite {
    pub(super) source: String,
    pub(super) provider: &'static str,
    pub(super) outcome: &'static str,
}

/// What every daemon reports of a source, also as a standby: reads of Git, leadership, webhooks.
#[derive(Debug)]
pub(super) struct SourceMetrics {
    pub(super) fetches: Family<ResultLabels, Counter>,
    pub(super) last_fetch: Family<OfSource, Gauge>,
    pub(super) leads: Family<OfSource, Gauge>,
    pub(super) webhooks: Family<Webhook, Counter>,
}

impl SourceMetrics {
    pub(super) fn new(of: &mut Registry) -> Self {
        Self {
            fetches: family(of, "fetches", "Fetches of a source, by result"),
            last_fetch: family(
                of,
                "last_fetch_timestamp_seconds",
                "When the source was last fetched, in seconds since 1970",
            ),
            leads: family(
                of,
                "is_leader",
                "1 while this daemon is the leader of the source, 0 while it is a standby",
            ),
            webhooks: family(of, "webhooks", "Webhooks of forges, by result"),
        }
    }
}

/// Gauges that only the leader of a source reports: on a standby they would become stale.
#[derive(Debug)]
pub(super) struct LeaderMetrics {
    pub(super) errors: Family<OfSource, Gauge>,
    pub(super) commit: Family<OfSource, Gauge>,
    pub(super) unverified: Family<OfSource, Gauge>,
    pub(super) works: Family<Planned, Gauge>,
    pub(super) held_deletes: Family<OfSource, Gauge>,
    pub(super) held_works: Family<HeldWorks, Gauge>,
    pub(super) backed_off: Family<OfSource, Gauge>,
    pub(super) states: Family<OfState, Gauge>,
    pub(super) rollout_clusters: Family<OfState, Gauge>,
    pub(super) synced_commit: Family<OfSource, Gauge>,
}

impl LeaderMetrics {
    pub(super) fn new(of: &mut Registry) -> Self {
        Self {
            errors: family(of, "source_errors", "Errors in the source's files"),
            commit: family(
                of,
                "commit_timestamp_seconds",
                "Time of the commit that was read, in seconds since 1970",
            ),
            unverified: family(
                of,
                "unverified_commit",
                "1 while the newest commit fails its verification",
            ),
            works: family(of, "works", "Works by their action in the last plan"),
            held_deletes: family(
                of,
                "held_deletes",
                "Deletions over the budget that wait for approval",
            ),
            held_works: family(of, "held_works", "Works that the last plan holds, by guard"),
            backed_off: family(
                of,
                "backed_off_works",
                "Works that another client keeps changing and that are backed off",
            ),
            states: family(of, "work_states", "Works by state"),
            rollout_clusters: family(
                of,
                "rollout_clusters",
                "Clusters of groups with a rollout, by how far they have come",
            ),
            synced_commit: family(
                of,
                "synced_commit_timestamp_seconds",
                "Time of the last commit that the hub has completely, in seconds since 1970",
            ),
        }
    }

    /// Removes all series of a source. The pattern names every field, so that no new family can be
    /// forgotten.
    pub(super) fn remove(&self, source: &SourceId) {
        let Self {
            errors,
            commit,
            unverified,
            works,
            held_deletes,
            held_works,
            backed_off,
            states,
            rollout_clusters,
            synced_commit,
        } = self;
        let source = || source.to_string();
        for family in [errors, commit, unverified, held_deletes, backed_off, synced_commit] {
            family.remove(&OfSource { source: source() });
        }
        for action in Action::ALL {
            works.remove(&Planned { source: source(), action: action.as_str() });
        }
        for guard in Guard::ALL {
            held_works.remove(&HeldWorks { source: source(), guard: guard.as_str() });
        }
        for state in State::ALL {
            states.remove(&OfState { source: source(), state: state.as_str() });
        }
        for (state, _) in WaveProgress::default().by_state() {
            rollout_clusters.remove(&OfState { source: source(), state });
        }
    }
}

/// Passes: plans, their durations, and writes to the hub, the forge and the status branch.
#[derive(Debug)]
pub(super) struct PassMetrics {
    pub(super) plans: Family<OfSource, Counter>,
    pub(super) durations: Family<OfStage, Histogram, fn() -> Histogram>,
    pub(super) pauses: Family<OfSource, Histogram, fn() -> Histogram>,
    pub(super) writes: Family<Write, Counter>,
    pub(super) hub_requests: Family<HubRequest, Counter>,
    pub(super) forge_writes: Family<ForgeWrite, Counter>,
    pub(super) branch_commits: Family<ResultLabels, Counter>,
}

impl PassMetrics {
    pub(super) fn new(of: &mut Registry) -> Self {
        Self {
            plans: family(of, "plans", "Plans made for a source"),
            durations: stage_durations(of),
            pauses: engine_pauses(of),
            writes: family(of, "hub_writes", "Writes to the hub, by effect and result"),
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
        }
    }
}

/// Buckets from the plan of a small fleet to the writes of a large one: 1 ms to 4 minutes.
fn durations() -> Histogram {
    Histogram::new([0.001, 0.004, 0.016, 0.06, 0.25, 1.0, 4.0, 15.0, 60.0, 240.0])
}

fn stage_durations(registry: &mut Registry) -> Family<OfStage, Histogram, fn() -> Histogram> {
    let family: Family<OfStage, Histogram, fn() -> Histogram> =
        Family::new_with_constructor(durations);
    let help = "Duration of each stage of a sync, in seconds";
    registry.register("sync_duration_seconds", help, family.clone());
    family
}

fn engine_pauses(registry: &mut Registry) -> Family<OfSource, Histogram, fn() -> Histogram> {
    let family: Family<OfSource, Histogram, fn() -> Histogram> =
        Family::new_with_constructor(|| Histogram::new([0.1, 0.25, 1.0, 4.0, 15.0]));
    let help = "Steps of an engine of more than 50 ms, in seconds: events wait for their end";
    registry.register("engine_pause_seconds", help, family.clone());
    family
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
