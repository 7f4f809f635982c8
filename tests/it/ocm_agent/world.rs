//! A hub and a managed cluster, with namespaces of its own on both, and the double between them.

use std::time::Duration;

use gitwork_agent_core::identity::hub_hash;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::harness;
use crate::ocm_agent_double::{OcmAgent, OrderChooser};

pub struct World {
    hub: Client,
    cluster: Client,
    /// The cluster's namespace on the hub.
    pub cluster_name: String,
    /// A namespace on the cluster.
    pub namespace: String,
    pub agent: OcmAgent,
    pub order: OrderChooser,
}

/// Runs a scenario in the plainest order and in some random ones.
pub async fn in_each_order(scenario: impl AsyncFn(World)) {
    for order in [OrderChooser::explicit([]), OrderChooser::seeded(0), OrderChooser::seeded(1)] {
        let world = World::start(order).await;
        let (applied, prefix) = (world.applied_works(), world.agent.applied_name(""));
        scenario(world).await;
        delete_applied_works(&applied, &prefix).await;
    }
}

/// Deletes what the agent of a world has left: each double lists it at each step.
async fn delete_applied_works(applied: &Api<DynamicObject>, prefix: &str) {
    let left = applied.list_metadata(&ListParams::default()).await.unwrap();
    for one in left.items.iter().filter(|one| one.name_any().starts_with(prefix)) {
        applied.delete(&one.name_any(), &DeleteParams::default()).await.unwrap();
        if !one.finalizers().is_empty() {
            let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let params = PatchParams::default();
            applied.patch_metadata(&one.name_any(), &params, &patch).await.unwrap();
        }
    }
}

impl World {
    pub async fn start(order: OrderChooser) -> Self {
        let (hub, managed) = (harness::hub().await, harness::managed_by_ocm().await);
        let cluster_name = hub.namespace("ocm").await;
        let namespace = managed.namespace("ocm-apps").await;
        // The hash names the hub: one of its own keeps tests apart.
        let hash = hub_hash(&format!("{}/{cluster_name}", hub.url()));
        let (hub, cluster) = (hub.client(), managed.client());
        let agent = OcmAgent::new(hub.clone(), cluster.clone(), &cluster_name, &hash);
        Self { hub, cluster, cluster_name, namespace, agent, order }
    }

    pub async fn settle(&mut self) {
        self.agent.settle(&mut self.order).await;
    }

    /// Lets every timer of a regular pass elapse, and settles.
    pub async fn resync(&mut self) {
        self.agent.pass_time(Duration::from_mins(6));
        self.settle().await;
    }

    /// Takes steps until the work is applied at its generation.
    pub async fn until_applied(&mut self, work: &str) {
        let works = self.works();
        let what = format!("{work} to be applied");
        let probe = async || is_applied(&works.get(work).await.unwrap()).then_some(());
        self.agent.step_until(&mut self.order, &what, probe).await;
    }

    pub fn works(&self) -> Api<DynamicObject> {
        let kind = kind("work.open-cluster-management.io/v1", "ManifestWork");
        Api::namespaced_with(self.hub.clone(), &self.cluster_name, &kind)
    }

    pub fn config_maps(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.cluster.clone(), &self.namespace, &kind("v1", "ConfigMap"))
    }

    pub fn config_map(&self, name: &str, value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.namespace}, "data": {"key": value}})
    }

    /// The fields of a spec that give all ConfigMaps one update strategy.
    pub fn strategy(&self, strategy: &str) -> Value {
        json!({"manifestConfigs": [{"updateStrategy": {"type": strategy},
            "resourceIdentifier": {"group": "", "resource": "configmaps", "name": "*",
                "namespace": self.namespace}}]})
    }

    /// The fields of a spec that orphan one ConfigMap.
    pub fn orphaning(&self, name: &str) -> Value {
        json!({"deleteOption": {"propagationPolicy": "SelectivelyOrphan",
            "selectivelyOrphans": {"orphaningRules": [{"group": "", "resource": "configmaps",
                "namespace": self.namespace, "name": name}]}}})
    }

    pub async fn create(&self, name: &str, manifests: Vec<Value>, rest: Value) {
        let mut spec = rest;
        spec["workload"] = json!({"manifests": manifests});
        let mut work =
            DynamicObject::new(name, &kind("work.open-cluster-management.io/v1", "ManifestWork"));
        work.data = json!({"spec": spec});
        self.works().create(&PostParams::default(), &work).await.unwrap();
    }

    pub async fn patch_spec(&self, work: &str, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.works().patch(work, &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn write_manifests(&self, work: &str, manifests: Vec<Value>) {
        self.patch_spec(work, json!({"workload": {"manifests": manifests}})).await;
    }

    pub async fn delete(&self, work: &str) {
        self.works().delete(work, &DeleteParams::default()).await.unwrap();
    }

    pub async fn remove_finalizers(&self, work: &str) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        self.works().patch(work, &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn work_opt(&self, name: &str) -> Option<Value> {
        let work = self.works().get_opt(name).await.unwrap();
        work.map(|work| serde_json::to_value(work).unwrap())
    }

    pub async fn work(&self, name: &str) -> Value {
        self.work_opt(name).await.unwrap()
    }

    pub async fn is_applied(&self, work: &str) -> bool {
        is_applied(&self.works().get(work).await.unwrap())
    }

    pub fn applied_works(&self) -> Api<DynamicObject> {
        let kind = kind("work.open-cluster-management.io/v1", "AppliedManifestWork");
        Api::all_with(self.cluster.clone(), &kind)
    }

    pub async fn applied(&self, work: &str) -> Option<Value> {
        let name = self.agent.applied_name(work);
        let found = self.applied_works().get_opt(&name).await.unwrap();
        found.map(|applied| serde_json::to_value(applied).unwrap())
    }

    /// Resource and name of each entry of `status.appliedResources`.
    pub async fn recorded(&self, work: &str) -> Vec<String> {
        let applied = self.applied(work).await.unwrap();
        let entries = applied["status"]["appliedResources"].as_array().cloned();
        let name = |entry: Value| {
            assert!(entry["uid"].is_string(), "{entry}");
            format!("{}/{}", entry["resource"].as_str().unwrap(), entry["name"].as_str().unwrap())
        };
        entries.unwrap_or_default().into_iter().map(name).collect()
    }

    /// A ConfigMap.
    pub async fn live(&self, name: &str) -> Option<Value> {
        let live = self.config_maps().get_opt(name).await.unwrap();
        live.map(|live| serde_json::to_value(live).unwrap())
    }

    pub async fn uid(&self, name: &str) -> String {
        self.config_maps().get(name).await.unwrap().uid().unwrap()
    }

    pub async fn value(&self, name: &str) -> String {
        let live = self.live(name).await.unwrap();
        live["data"]["key"].as_str().unwrap().to_owned()
    }

    /// The works that own a ConfigMap, and the names of other owners, sorted.
    pub async fn owners(&self, name: &str) -> Vec<String> {
        let live = self.config_maps().get(name).await.unwrap();
        let prefix = self.agent.applied_name("");
        let owners = live.owner_references().iter();
        let short = |name: &str| name.strip_prefix(&prefix).unwrap_or(name).to_owned();
        let mut names: Vec<String> = owners.map(|owner| short(&owner.name)).collect();
        names.sort();
        names
    }

    pub async fn edit(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.config_maps().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }
}

fn kind(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// The condition of a type; null if there is none.
pub fn condition_of<'a>(conditions: &'a Value, kind: &str) -> &'a Value {
    let all = conditions.as_array().into_iter().flatten();
    all.into_iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// Whether the hub shows a work as applied at its generation.
pub fn is_applied(work: &DynamicObject) -> bool {
    let condition = condition_of(&work.data["status"]["conditions"], "Applied");
    condition["status"] == "True"
        && condition["observedGeneration"].as_i64() == work.metadata.generation
}
