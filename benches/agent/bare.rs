//! How fast the API servers are by themselves: a bare client sends the requests that the agent
//! sends for each work, with [`CONCURRENCY`] works under way, each with one request at a time.

use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{CLUSTER, CONCURRENCY, NAMESPACE, config_map, deployment, resource, work};

/// A client that does for works what the agent does.
pub struct BareClient {
    works: Api<DynamicObject>,
    applied: Api<DynamicObject>,
    maps: Api<DynamicObject>,
    deployments: Api<DynamicObject>,
}

impl BareClient {
    pub fn new(hub: &Client, cluster: &Client) -> Self {
        let group = "work.open-cluster-management.io";
        let of_works = resource(group, "v1", "ManifestWork");
        let of_applied = resource(group, "v1", "AppliedManifestWork");
        let in_apps = |kind| Api::namespaced_with(cluster.clone(), NAMESPACE, &kind);
        Self {
            works: Api::namespaced_with(hub.clone(), CLUSTER, &of_works),
            applied: Api::all_with(cluster.clone(), &of_applied),
            maps: in_apps(resource("", "v1", "ConfigMap")),
            deployments: in_apps(resource("apps", "v1", "Deployment")),
        }
    }

    /// How long it takes to create so many works with all that the agent writes, and to delete
    /// them.
    pub async fn measure(&self, count: usize) -> [Duration; 2] {
        let names: Vec<String> = (0..count).map(|number| format!("bare-{number:04}")).collect();
        let begun = Instant::now();
        each(&names, async |name| self.create(name).await).await;
        let created = begun.elapsed();
        each(&names, async |name| self.delete(name).await).await;
        [created, begun.elapsed() - created]
    }

    async fn create(&self, name: &str) {
        create(&self.works, &work(name)).await;
        patch(&self.works, name, finalizers(&["bench.example.com/work"])).await;
        let spec = json!({"hubHash": "bare", "agentID": "bare", "manifestWorkName": name});
        let applied = json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork",
            "metadata": {"name": name, "finalizers": ["bench.example.com/applied"]}, "spec": spec,
        });
        create(&self.applied, &read(applied)).await;
        create(&self.maps, &read(config_map(name))).await;
        create(&self.deployments, &read(deployment(name))).await;
        let of = |group: &str, resource: &str| {
            json!({"group": group, "version": "v1", "resource": resource, "namespace": NAMESPACE,
                "name": name, "uid": "5e4c6c1e-0000-4000-8000-000000000000"})
        };
        let resources = [of("", "configmaps"), of("apps", "deployments")];
        patch_status(&self.applied, name, json!({"appliedResources": resources})).await;
        let manifests = [("", "ConfigMap", "configmaps"), ("apps", "Deployment", "deployments")];
        let manifests = manifests.iter().enumerate().map(|(ordinal, (group, kind, plural))| {
            json!({
                "resourceMeta": {"ordinal": ordinal, "group": group, "version": "v1", "kind": kind,
                    "resource": plural, "namespace": NAMESPACE, "name": name},
                "conditions": conditions(), "statusFeedback": {},
            })
        });
        let manifests: Vec<Value> = manifests.collect();
        let status =
            json!({"conditions": conditions(), "resourceStatus": {"manifests": manifests}});
        patch_status(&self.works, name, status).await;
    }

    async fn delete(&self, name: &str) {
        delete(&self.works, name).await;
        patch_status(&self.works, name, json!({"conditions": conditions()})).await;
        delete(&self.applied, name).await;
        delete(&self.maps, name).await;
        delete(&self.deployments, name).await;
        patch(&self.applied, name, finalizers(&[])).await;
        patch(&self.works, name, finalizers(&[])).await;
    }
}

async fn each(names: &[String], one: impl AsyncFn(&str)) {
    let all = stream::iter(names).map(|name| one(name)).buffer_unordered(CONCURRENCY);
    all.for_each(|()| async {}).await;
}

fn read(object: Value) -> DynamicObject {
    serde_json::from_value(object).unwrap()
}

fn finalizers(names: &[&str]) -> Value {
    json!({"metadata": {"finalizers": names}})
}

/// About as long as the agent's.
fn conditions() -> Value {
    let condition = |kind: &str, message: &str| {
        json!({
            "type": kind, "status": "True", "observedGeneration": 1, "reason": "ResourceAvailable",
            "message": message, "lastTransitionTime": "2026-11-26T00:00:00Z",
        })
    };
    json!([condition("Applied", "Apply manifest complete"), condition("Available", "It exists")])
}

async fn create(api: &Api<DynamicObject>, object: &DynamicObject) {
    api.create(&PostParams::default(), object).await.unwrap();
}

async fn patch(api: &Api<DynamicObject>, name: &str, body: Value) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(body)).await.unwrap();
}

async fn patch_status(api: &Api<DynamicObject>, name: &str, status: Value) {
    let body = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &body).await.unwrap();
}

async fn delete(api: &Api<DynamicObject>, name: &str) {
    api.delete(name, &DeleteParams::default()).await.unwrap();
}
