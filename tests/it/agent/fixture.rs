//! One agent between a hub and a managed cluster, mostly the shared ones, with namespaces of its
//! own on both.

use std::sync::Arc;
use std::time::Duration;

use gitwork_agent::metrics::AgentMetrics;
use gitwork_agent::{Agent, AgentSettings};
use gitwork_hub::client::client_with;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::faults::Faults;
use crate::harness::{Cluster, ControlPlane, eventually};

/// Far beyond what anything here takes on an idle machine.
pub const DEADLINE: Duration = Duration::from_secs(300);

pub struct Fixture<'a> {
    pub hub: Client,
    pub cluster: Client,
    /// The cluster's namespace on the hub.
    pub cluster_name: String,
    /// A namespace on the cluster.
    pub namespace: String,
    pub settings: AgentSettings,
    pub managed: &'a Cluster,
    /// What befalls the agent's requests.
    pub faults: Faults,
    /// Of the agent that runs, or that ran last.
    pub metrics: Arc<AgentMetrics>,
    hub_cluster: &'a Cluster,
    agent: Option<JoinHandle<()>>,
}

impl Drop for Fixture<'_> {
    fn drop(&mut self) {
        if let Some(agent) = &self.agent {
            agent.abort();
        }
    }
}

impl Fixture<'static> {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut AgentSettings)) -> Self {
        let plane = ControlPlane::shared().await;
        Fixture::between(plane.hub().await, plane.managed().await, change).await
    }
}

impl<'a> Fixture<'a> {
    pub async fn between(
        hub: &'a Cluster,
        managed: &'a Cluster,
        change: impl FnOnce(&mut AgentSettings),
    ) -> Self {
        let cluster_name = hub.namespace("edge").await;
        // The hash names the hub: one of its own keeps tests apart.
        let mut settings =
            AgentSettings::new(&cluster_name, &format!("{}/{cluster_name}", hub.url()));
        change(&mut settings);
        let mut fixture = Self {
            hub: hub.client(),
            cluster: managed.client(),
            namespace: managed.namespace("apps").await,
            cluster_name,
            settings,
            managed,
            faults: Faults::none(),
            metrics: Arc::default(),
            hub_cluster: hub,
            agent: None,
        };
        fixture.run();
        fixture
    }

    /// Starts the agent, or one that takes the place of a killed one.
    pub fn run(&mut self) {
        let client = |cluster: &Cluster| client_with(cluster.config(), &self.faults).unwrap();
        let (hub, cluster) = (client(self.hub_cluster), client(self.managed));
        self.metrics = Arc::default();
        let (settings, metrics) = (self.settings.clone(), self.metrics.clone());
        let agent = Agent::new(settings, (hub, None), (cluster, None), metrics);
        self.agent = Some(tokio::spawn(agent.run(std::future::pending())));
    }

    /// Ends the agent wherever it is. After this it writes nothing.
    pub async fn kill(&mut self) {
        self.end_agent().await;
        self.agent = None;
    }

    /// The same through a shared reference.
    pub async fn end_agent(&self) {
        let Some(agent) = &self.agent else { return };
        agent.abort();
        while !agent.is_finished() {
            tokio::task::yield_now().await;
        }
    }

    /// A second agent of the same cluster, not running, whose requests nothing befalls.
    pub fn successor(&self) -> Self {
        Self {
            hub: self.hub.clone(),
            cluster: self.cluster.clone(),
            cluster_name: self.cluster_name.clone(),
            namespace: self.namespace.clone(),
            settings: self.settings.clone(),
            managed: self.managed,
            faults: Faults::none(),
            metrics: Arc::default(),
            hub_cluster: self.hub_cluster,
            agent: None,
        }
    }

    pub fn works(&self) -> Api<DynamicObject> {
        Api::namespaced_with(
            self.hub.clone(),
            &self.cluster_name,
            &kind("work.open-cluster-management.io/v1", "ManifestWork"),
        )
    }

    pub fn applied(&self) -> Api<DynamicObject> {
        Api::all_with(
            self.cluster.clone(),
            &kind("work.open-cluster-management.io/v1", "AppliedManifestWork"),
        )
    }

    pub fn applied_name(&self, work: &str) -> String {
        format!("{}-{work}", self.settings.hub_hash)
    }

    pub fn objects(&self, api_version: &str, kind_name: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.cluster.clone(), &self.namespace, &kind(api_version, kind_name))
    }

    pub fn config_maps(&self) -> Api<DynamicObject> {
        self.objects("v1", "ConfigMap")
    }

    pub fn config_map(&self, name: &str, value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.namespace}, "data": {"key": value}})
    }

    pub async fn create(&self, name: &str, manifests: Vec<Value>, rest: Value) {
        let mut spec = json!({"workload": {"manifests": manifests}});
        spec.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap());
        let mut work =
            DynamicObject::new(name, &kind("work.open-cluster-management.io/v1", "ManifestWork"));
        work.data = json!({"spec": spec});
        self.works().create(&PostParams::default(), &work).await.unwrap();
    }

    pub async fn patch_spec(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.works().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn delete(&self, name: &str) {
        self.works().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits for something of a work.
    pub async fn work<T>(&self, name: &str, what: &str, look: impl Fn(&Value) -> Option<T>) -> T {
        let works = self.works();
        eventually(what, DEADLINE, || async {
            let work = works.get(name).await.map_err(|error| error.to_string())?;
            let value = serde_json::to_value(&work).unwrap();
            look(&value).ok_or_else(|| value["status"].to_string())
        })
        .await
        .unwrap()
    }

    /// Waits until the work's condition has a status for the present generation.
    pub async fn condition(&self, name: &str, kind: &str, status: &str) -> Value {
        self.work(name, &format!("{kind}={status} of {name}"), |work| {
            let condition = condition_of(&work["status"]["conditions"], kind)?;
            let is_current = condition["observedGeneration"] == work["metadata"]["generation"];
            (is_current && condition["status"] == status).then(|| work.clone())
        })
        .await
    }

    /// Waits until a work's only or first manifest has a condition.
    pub async fn manifest_condition(
        &self,
        name: &str,
        ordinal: usize,
        kind: &str,
        status: &str,
    ) -> Value {
        self.work(name, &format!("{kind}={status} of manifest {ordinal}"), |work| {
            let manifest = &work["status"]["resourceStatus"]["manifests"][ordinal];
            let condition = condition_of(&manifest["conditions"], kind)?;
            (condition["status"] == status).then(|| condition.clone())
        })
        .await
    }

    /// Waits until a ConfigMap has a value.
    pub async fn value(&self, name: &str, value: &str) {
        let maps = self.config_maps();
        eventually(&format!("{name} to have {value}"), DEADLINE, || async {
            let map = maps.get(name).await.map_err(|error| error.to_string())?;
            if map.data["data"]["key"] == value { Ok(()) } else { Err(map.data.to_string()) }
        })
        .await
        .unwrap();
    }

    pub async fn is_gone(&self, api: &Api<DynamicObject>, name: &str) {
        eventually(&format!("{name} to go"), DEADLINE, || async {
            match api.get_opt(name).await.map_err(|error| error.to_string())? {
                None => Ok(()),
                Some(object) => Err(format!("{:?}", object.metadata.finalizers)),
            }
        })
        .await
        .unwrap();
    }

    /// What the AppliedManifestWork records: resource and name.
    pub async fn recorded(&self, work: &str) -> Vec<String> {
        let Some(applied) = self.applied().get_opt(&self.applied_name(work)).await.unwrap() else {
            return vec!["no AppliedManifestWork".into()];
        };
        let list =
            applied.data["status"]["appliedResources"].as_array().cloned().unwrap_or_default();
        list.iter()
            .map(|one| {
                assert_ne!(one["uid"], Value::Null, "{one}");
                format!("{}/{}", one["resource"].as_str().unwrap(), one["name"].as_str().unwrap())
            })
            .collect()
    }

    pub async fn wait_recorded(&self, work: &str, expected: &[&str]) {
        eventually(&format!("{work} to record {expected:?}"), DEADLINE, || async {
            let found = self.recorded(work).await;
            if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await
        .unwrap();
    }

    pub async fn edit(&self, name: &str, patch: Value) {
        self.config_maps()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }
}

pub fn kind(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, kind))
}

pub fn condition_of<'a>(conditions: &'a Value, kind: &str) -> Option<&'a Value> {
    conditions.as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// The status without what differs from run to run.
pub fn stable(work: &Value, fixture: &Fixture<'_>) -> String {
    let text = serde_json::to_string_pretty(&work["status"]).unwrap();
    let lines: Vec<String> = text
        .lines()
        .map(|line| match line.split_once("lastTransitionTime\": ") {
            Some((before, _)) => format!("{before}lastTransitionTime\": \"<time>\","),
            None => line.replace(&fixture.namespace, "<namespace>"),
        })
        .collect();
    lines.join("\n")
}

pub fn owners(object: &DynamicObject) -> Vec<String> {
    object.owner_references().iter().map(|owner| owner.uid.clone()).collect()
}
