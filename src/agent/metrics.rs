//! The metrics of the agent. No label has a value that a user chooses.

use std::sync::atomic::AtomicI64;

use gitwork_runtime::probes::metrics_text;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    server: &'static str,
    verb: String,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

type Count = Gauge<i64, AtomicI64>;

/// All metrics of one agent.
pub struct AgentMetrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    passes: Family<OutcomeLabels, Counter>,
    /// Objects that were corrected after another client changed them.
    pub corrections: Counter,
    /// Corrections that were delayed because another client undoes them.
    pub drift_backoffs: Counter,
    /// Changes that no watch reported, only a full list.
    pub missed_changes: Counter,
    /// ManifestWorks of this cluster on the hub.
    pub works: Count,
    /// Tracked objects on the cluster.
    pub objects: Count,
    /// Watched kinds on the cluster, without those that are always watched.
    pub watches: Count,
}

impl AgentMetrics {
    /// All metrics at 0, with the prefix `gitwork_agent`.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("gitwork_agent");
        let requests = Family::default();
        registry.register(
            "requests",
            "Requests to API servers; code 0: no answer",
            requests.clone(),
        );
        let passes = Family::default();
        registry.register("passes", "Passes over one work", passes.clone());
        let counter = |registry: &mut Registry, name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let corrections = counter(
            &mut registry,
            "corrections",
            "Objects corrected after another client changed them",
        );
        let drift_backoffs = counter(
            &mut registry,
            "drift_backoffs",
            "Corrections delayed because another client undoes them",
        );
        let missed_changes =
            counter(&mut registry, "missed_changes", "Changes that only a full list reported");
        let gauge = |registry: &mut Registry, name: &str, help: &str| {
            let gauge = Count::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let works = gauge(&mut registry, "works", "ManifestWorks of this cluster on the hub");
        let objects =
            gauge(&mut registry, "tracked_objects", "Objects on the cluster that belong to works");
        let watches =
            gauge(&mut registry, "watched_kinds", "Kinds on the cluster that are watched");
        Self {
            registry,
            requests,
            passes,
            corrections,
            drift_backoffs,
            missed_changes,
            works,
            objects,
            watches,
        }
    }

    /// Counts a request. `server`: `hub`, `cluster` or `lease`. `verb`: the HTTP method, or
    /// `WATCH`. `code`: the HTTP status code; 0 if there was no response.
    pub fn request(&self, server: &'static str, verb: &str, code: u16) {
        self.requests.get_or_create(&RequestLabels { server, verb: verb.to_owned(), code }).inc();
    }

    /// Counts a pass. `outcome`: `settled`, `changed` or `failed`.
    pub fn pass(&self, outcome: &'static str) {
        self.passes.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// All metrics in OpenMetrics' text format.
    pub fn text(&self) -> String {
        metrics_text(&self.registry)
    }
}

impl Default for AgentMetrics {
    fn default() -> Self {
        Self::new()
    }
}
