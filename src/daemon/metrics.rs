//! Metrics in the OpenMetrics text format. Labels are bounded: sources, and words of a fixed list.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::core::desired::Desired;
use crate::core::name::SourceId;
use crate::core::plan::{Action, Guard, Plan};

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
        let fetches = Family::default();
        registry.register("fetches", "Fetches of a source, by result", fetches.clone());
        let last_fetch = Family::default();
        let help = "When the source was last fetched, in seconds since 1970";
        registry.register("last_fetch_timestamp_seconds", help, last_fetch.clone());
        let works = Family::default();
        registry.register("works", "Works by what the last plan does with them", works.clone());
        let errors = Family::default();
        registry.register("source_errors", "Errors in the source's files", errors.clone());
        let writes = Family::default();
        registry.register("hub_writes", "Writes to the hub, by effect and result", writes.clone());
        let plans = Family::default();
        registry.register("plans", "Plans made for a source", plans.clone());
        let held_deletes = Family::default();
        let help = "Deletions over the budget that wait for approval";
        registry.register("held_deletes", help, held_deletes.clone());
        let held_works = Family::default();
        let help = "Works that the last plan holds, by the guard that does";
        registry.register("held_works", help, held_works.clone());
        Self {
            registry,
            fetches,
            last_fetch,
            works,
            errors,
            writes,
            plans,
            held_deletes,
            held_works,
        }
    }
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

    pub fn wrote(&self, source: &SourceId, effect: &'static str, succeeded: bool) {
        let source = source.to_string();
        self.writes.get_or_create(&Write { source, effect, result: word(succeeded) }).inc();
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
}
