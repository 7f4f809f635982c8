//! Tests of the planner and of the whole program on a simulated fleet: a hub in memory, its agents,
//! other clients and faults, all from a seed. It is a crate of its own because it is compiled with
//! optimisation: a seed takes a third less time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "a test, which fails by panicking"
)]

use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use gitwork_core::plan::observed::Observed;
use gitwork_core::plan::{self, LastKnownStates, Plan, PlanInputs, PlanPolicy, lint};
use gitwork_core::render::desired::Desired;

mod agents;
#[cfg(test)]
mod budget;
mod budget_rule;
mod cluster;
mod commits;
pub mod contract;
pub mod fleet;
mod git_work;
#[cfg(test)]
mod guards;
pub mod hub;
mod incarnations;
pub mod memory_repository;
#[cfg(test)]
mod move_rule;
mod moves;
mod patch;
#[cfg(test)]
mod properties;
pub mod random;
mod refactoring;
#[cfg(test)]
mod simulated_hub_contract;
#[cfg(test)]
mod stories;
pub mod week;
mod world;

/// A plan, checked by the lint.
fn checked_plan(
    desired: &Desired,
    observed: &Observed,
    last_known: &LastKnownStates,
    policy: &PlanPolicy,
) -> Plan {
    let planned = plan::plan(desired, observed, last_known, policy);
    let violations = lint::check(&planned, PlanInputs { desired, observed, last_known, policy });
    assert_eq!(violations, [], "{planned:?}");
    planned
}

/// The key of a work from its two names.
pub fn key(cluster: &str, work: &str) -> WorkKey {
    let cluster = ClusterName::parse(cluster).unwrap();
    WorkKey { cluster, work: WorkName::parse(work).unwrap() }
}
