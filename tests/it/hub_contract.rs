//! The contract of a hub, on a real kube-apiserver.

use futures::future::{BoxFuture, FutureExt};
use gitwork_core::model::name::{ClusterName, WorkKey};
use gitwork_hub::{Hub, KubeHub, client};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use crate::contract::{self, Fixture};
use crate::{deploy, harness};

/// A real hub as gitwork's ServiceAccount sees it, and its admin, with one cluster namespace.
struct RealHub {
    hub: KubeHub,
    client: kube::Client,
    cluster: ClusterName,
}

impl RealHub {
    fn works(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("work.open-cluster-management.io", "v1", "ManifestWork");
        let resource = ApiResource::from_gvk(&kind);
        Api::namespaced_with(self.client.clone(), self.cluster.as_str(), &resource)
    }
}

fn raw(object: DynamicObject) -> Value {
    serde_json::to_value(object).unwrap()
}

impl Fixture for RealHub {
    fn hub(&self) -> &dyn Hub {
        &self.hub
    }

    fn cluster(&self) -> ClusterName {
        self.cluster.clone()
    }

    fn create(&self, work: Value) -> BoxFuture<'_, Value> {
        async move {
            let work: DynamicObject = serde_json::from_value(work).unwrap();
            raw(self.works().create(&PostParams::default(), &work).await.unwrap())
        }
        .boxed()
    }

    fn patch<'a>(&'a self, key: &'a WorkKey, patch: Value) -> BoxFuture<'a, Value> {
        async move {
            let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
            raw(self.works().patch(key.work.as_str(), &params, &patch).await.unwrap())
        }
        .boxed()
    }

    fn patch_status<'a>(&'a self, key: &'a WorkKey, patch: Value) -> BoxFuture<'a, Value> {
        async move {
            let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
            raw(self.works().patch_status(key.work.as_str(), &params, &patch).await.unwrap())
        }
        .boxed()
    }

    fn delete<'a>(&'a self, key: &'a WorkKey) -> BoxFuture<'a, ()> {
        async move {
            self.works().delete(key.work.as_str(), &DeleteParams::default()).await.unwrap();
        }
        .boxed()
    }

    fn read<'a>(&'a self, key: &'a WorkKey) -> BoxFuture<'a, Option<Value>> {
        async move { self.works().get_opt(key.work.as_str()).await.unwrap().map(raw) }.boxed()
    }
}

/// With the rights of `deploy/gitwork.yaml`: no more are needed.
#[tokio::test]
async fn real_hub_keeps_the_contract() {
    let cluster = harness::hub().await;
    let hub = KubeHub::new(client::client(deploy::installed().await).unwrap());
    let name = ClusterName::parse(&cluster.namespace("contract").await).unwrap();
    contract::all(&RealHub { hub, client: cluster.client(), cluster: name }).await;
}
