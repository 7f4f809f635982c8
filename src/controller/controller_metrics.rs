//! The metrics of the controller.

use std::sync::atomic::AtomicI64;

use gitwork_runtime::probes::metrics_text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

type Labels = [(&'static str, &'static str); 2];

/// The metrics, with bounded labels.
pub(crate) struct ControllerMetrics {
    registry: Registry,
    is_leader: Gauge<i64, AtomicI64>,
    replica_sets: Gauge<i64, AtomicI64>,
    works: Gauge<i64, AtomicI64>,
    requests: Family<Labels, Counter>,
}

impl Default for ControllerMetrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("gitwork_controller");
        let is_leader = Gauge::default();
        let replica_sets = Gauge::default();
        let works = Gauge::default();
        let requests = Family::default();
        registry.register("is_leader", "1 while this replica leads", is_leader.clone());
        registry.register("replica_sets", "ManifestWorkReplicaSets", replica_sets.clone());
        registry.register("works", "ManifestWorks of replica sets", works.clone());
        registry.register("requests", "Requests to the hub by operation", requests.clone());
        Self { registry, is_leader, replica_sets, works, requests }
    }
}

impl ControllerMetrics {
    /// Counts a request.
    pub fn request(&self, operation: &'static str, is_ok: bool) {
        let result = if is_ok { "success" } else { "error" };
        let labels = [("operation", operation), ("result", result)];
        self.requests.get_or_create(&labels).inc();
    }

    /// Sets whether this replica leads.
    pub fn set_leading(&self, leads: bool) {
        self.is_leader.set(i64::from(leads));
    }

    /// Sets the numbers of objects.
    pub fn set_counts(&self, replica_sets: usize, works: usize) {
        let count = |number| i64::try_from(number).unwrap_or(i64::MAX);
        self.replica_sets.set(count(replica_sets));
        self.works.set(count(works));
    }

    /// The text for a scrape.
    pub fn encode(&self) -> String {
        metrics_text(&self.registry)
    }
}
