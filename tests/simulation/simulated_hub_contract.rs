//! The simulated hub keeps the contract of a hub.

use futures::future::BoxFuture;
use gitwork_core::model::name::{ClusterName, WorkKey};
use gitwork_hub::Hub;
use serde_json::Value;

use crate::contract::{self, Fixture};
use crate::hub::SimulatedHub;

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
