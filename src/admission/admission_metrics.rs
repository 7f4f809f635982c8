//! The metrics of the webhooks.

use std::sync::atomic::AtomicI64;
use std::time::Duration;

use gitwork_admission_rules::AccessAnswer;
use gitwork_admission_rules::reviewed_kind::ReviewedKind;
use gitwork_runtime::probes::metrics_text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Upper ends of the buckets, in seconds.
const BUCKETS: [f64; 8] = [0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 5.0, 10.0];

/// The metrics, with bounded labels.
pub(crate) struct AdmissionMetrics {
    registry: Registry,
    reviews: Family<[(&'static str, &'static str); 2], Counter>,
    failed: Family<[(&'static str, u16); 1], Counter>,
    seconds: Histogram,
    access_reviews: Family<[(&'static str, &'static str); 1], Counter>,
    connections: Gauge<i64, AtomicI64>,
    expires: Gauge<i64, AtomicI64>,
    upkeep_failures: Counter,
}

impl Default for AdmissionMetrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("gitwork_admission");
        let reviews = Family::default();
        let failed = Family::default();
        let seconds = Histogram::new(BUCKETS);
        let access_reviews = Family::default();
        let (connections, expires) = (Gauge::default(), Gauge::default());
        let upkeep_failures = Counter::default();
        let help = "Reviews by resource and verdict: allowed, denied, unanswered";
        registry.register("reviews", help, reviews.clone());
        let help = "Requests without a review, by HTTP status";
        registry.register("failed_requests", help, failed.clone());
        let help = "Time from the head of a request to its answer";
        registry.register_with_unit("request_duration", help, Unit::Seconds, seconds.clone());
        let help = "SubjectAccessReviews by answer: allowed, denied, unknown";
        registry.register("access_reviews", help, access_reviews.clone());
        registry.register("connections", "Connections to the webhooks", connections.clone());
        let help = "Unix time at which the self-made serving certificate ends; 0 if mounted";
        registry.register("certificate_expiry_timestamp_seconds", help, expires.clone());
        let help = "Failed looks at the certificates";
        registry.register("certificate_failures", help, upkeep_failures.clone());
        Self {
            registry,
            reviews,
            failed,
            seconds,
            access_reviews,
            connections,
            expires,
            upkeep_failures,
        }
    }
}

impl AdmissionMetrics {
    /// Counts a review.
    pub fn review(&self, kind: ReviewedKind, verdict: &'static str) {
        let labels = [("resource", kind.resource()), ("verdict", verdict)];
        self.reviews.get_or_create(&labels).inc();
    }

    /// Counts a request that is no review.
    pub fn failed(&self, status: u16) {
        self.failed.get_or_create(&[("status", status)]).inc();
    }

    /// Counts the time of a request.
    pub fn took(&self, time: Duration) {
        self.seconds.observe(time.as_secs_f64());
    }

    /// Counts a question.
    pub fn access_review(&self, answer: &AccessAnswer) {
        let answer = match answer {
            AccessAnswer::Allowed => "allowed",
            AccessAnswer::Denied(_) => "denied",
            AccessAnswer::Unknown(_) => "unknown",
        };
        self.access_reviews.get_or_create(&[("answer", answer)]).inc();
    }

    /// Counts a connection until the result is dropped.
    pub fn connection(&self) -> OpenConnection {
        self.connections.inc();
        OpenConnection(self.connections.clone())
    }

    /// Sets the end of the serving certificate, in seconds since 1970.
    pub fn set_expiry(&self, seconds: i64) {
        self.expires.set(seconds);
    }

    /// Counts a failed look at the certificates.
    pub fn upkeep_failed(&self) {
        self.upkeep_failures.inc();
    }

    /// The text for a scrape.
    pub fn encode(&self) -> String {
        metrics_text(&self.registry)
    }
}

/// A connection that is counted.
pub(crate) struct OpenConnection(Gauge<i64, AtomicI64>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}
