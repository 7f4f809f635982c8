//! Tests of the planner and of the whole program on a simulated fleet: a hub in memory, its agents,
//! other clients and faults, all from a seed.

use futures::future::BoxFuture;
use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use gitwork_core::plan::observed::Observed;
use gitwork_core::plan::{self, LastKnownStates, Plan, PlanInputs, PlanPolicy, lint};
use gitwork_core::render::desired::Desired;
use gitwork_hub::Hub;
use serde_json::Value;

use crate::contract::{self, Fixture};

mod agents;
mod budget;
mod budget_rule;
mod cluster;
pub mod fleet;
mod git_work;
mod guards;
pub mod hub;
mod incarnations;
mod move_rule;
mod moves;
mod patch;
mod properties;
pub mod random;
mod refactoring;
mod stories;
mod world;

use hub::SimulatedHub;

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

struct InMemory(SimulatedHub);

impl Fixture for InMemory {
    fn hub(&self) -> &dyn Hub {
        &self.0
    }
    fn cluster(&self) -> ClusterName {
        ClusterName::parse("edge-1").unwrap()
    }
    fn create(&self, work: Value) -> BoxFuture<'_, Value> {
        Box::pin(async move { self.0.user_creates(work).unwrap() })
    }
    fn patch<'a>(&'a self, key: &'a WorkKey, patch: Value) -> BoxFuture<'a, Value> {
        Box::pin(async move {
            self.0.user_patches(key, &patch).unwrap().as_deref().cloned().unwrap_or_default()
        })
    }
    fn patch_status<'a>(&'a self, key: &'a WorkKey, patch: Value) -> BoxFuture<'a, Value> {
        Box::pin(async move {
            self.0.patch_status(key, &patch).unwrap().as_deref().cloned().unwrap_or_default()
        })
    }
    fn delete<'a>(&'a self, key: &'a WorkKey) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.0.user_deletes(key).unwrap() })
    }
    fn read<'a>(&'a self, key: &'a WorkKey) -> BoxFuture<'a, Option<Value>> {
        Box::pin(async move { self.0.objects().remove(key) })
    }
}

#[tokio::test]
async fn simulated_hub_keeps_contract() {
    contract::all(&InMemory(SimulatedHub::new(&["edge-1"], 0))).await;
}
