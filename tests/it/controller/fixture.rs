//! A hub with the controller, and the Placements, sets and reports of one test.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::agent::fixture::Fixture as AgentFixture;
use crate::deploy::read;
use crate::harness::placements::Placements;
use crate::harness::{Cluster, ClusterOptions, ControlPlane, apply, crds, eventually};
pub use crate::hub_program::DEADLINE;
use crate::hub_program::HubProgram;

const WORK: &str = "work.open-cluster-management.io";
pub const OWNER: &str = "work.open-cluster-management.io/manifestworkreplicaset";

/// A running controller.
pub struct Controller(HubProgram);

impl Deref for Controller {
    type Target = HubProgram;

    fn deref(&self) -> &HubProgram {
        &self.0
    }
}

impl Controller {
    /// Starts one with these flags.
    pub fn start(kubeconfig: &Path, flags: &[&str]) -> Self {
        let arguments = ["controller", "--placement-grace", "1"];
        Self(HubProgram::start(&arguments, kubeconfig, flags))
    }
}

/// A hub without OCM, with the rights of `deploy/controller.yaml`.
pub async fn new_hub() -> (Cluster, PathBuf) {
    let options = ClusterOptions { crds: crds::hub(), ..ClusterOptions::default() };
    let hub = ControlPlane::shared().await.start("controller-hub", options).await;
    apply(hub.client(), &read("deploy/controller.yaml")).await.unwrap();
    let kubeconfig = hub.kubeconfig_path_for("gitwork", "gitwork-controller").await;
    (hub, kubeconfig)
}

/// The hub and controller that most tests share.
pub async fn shared() -> &'static (Cluster, Controller) {
    static SHARED: OnceCell<(Cluster, Controller)> = OnceCell::const_new();
    SHARED
        .get_or_init(|| async {
            let (hub, kubeconfig) = new_hub().await;
            let controller = Controller::start(&kubeconfig, &["--listen", "127.0.0.1:0"]);
            controller.until_logged("read the hub").await;
            (hub, controller)
        })
        .await
}

/// A managed cluster.
pub async fn managed(name: &str) -> Cluster {
    let options = ClusterOptions { crds: crds::managed(), ..ClusterOptions::default() };
    ControlPlane::shared().await.start(name, options).await
}

/// The set `web` of one test, its namespace and its clusters.
pub struct Fixture<'a> {
    pub hub: &'a Cluster,
    pub namespace: String,
    pub clusters: Vec<String>,
    pub name: String,
}

pub fn template(value: &str) -> Value {
    json!({"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "web"}, "data": {"value": value}}]}})
}

/// A template whose works report the condition Progressing.
pub fn template_with_rules(value: &str) -> Value {
    let mut template = template(value);
    template["manifestConfigs"] = json!([{
        "resourceIdentifier":
            {"group": "", "resource": "configmaps", "namespace": "default", "name": "web"},
        "conditionRules": [{"type": "CEL", "condition": "Progressing",
            "celExpressions": ["false"]}],
    }]);
    template
}

impl<'a> Fixture<'a> {
    /// With so many clusters, and a Placement `all` that selects them.
    pub async fn new(hub: &'a Cluster, count: usize) -> Self {
        let namespace = hub.namespace("sets").await;
        let mut clusters = Vec::new();
        for _ in 0..count {
            clusters.push(hub.namespace("cluster").await);
        }
        clusters.sort();
        let fixture = Self { hub, namespace, clusters, name: "web".to_owned() };
        let all: Vec<usize> = (0..count).collect();
        fixture.select("all", &all).await;
        fixture
    }

    /// With the clusters of agents, and a Placement `all` that selects them.
    pub async fn of_agents(hub: &'a Cluster, agents: &[&AgentFixture<'_>]) -> Self {
        let clusters: Vec<String> = agents.iter().map(|one| one.cluster_name.clone()).collect();
        let namespace = hub.namespace("sets").await;
        let fixture = Self { hub, namespace, clusters, name: "web".to_owned() };
        fixture.select("all", &(0..agents.len()).collect::<Vec<_>>()).await;
        fixture
    }

    fn api(&self, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(WORK, version, kind);
        Api::namespaced_with(self.hub.client(), namespace, &ApiResource::from_gvk(&kind))
    }

    pub fn sets(&self) -> Api<DynamicObject> {
        self.api("v1alpha1", "ManifestWorkReplicaSet", &self.namespace)
    }

    pub fn works(&self, cluster: &str) -> Api<DynamicObject> {
        self.api("v1", "ManifestWork", cluster)
    }

    /// A Placement selects these clusters. A later call must not need fewer PlacementDecisions.
    pub async fn select(&self, placement: &str, clusters: &[usize]) {
        let namespace = self.namespace.clone();
        let placements = Placements { client: self.hub.client(), namespace };
        let names = clusters.iter().map(|index| self.clusters[*index].as_str());
        placements.select(placement, &names.collect::<Vec<_>>()).await;
    }

    /// Creates the set, with one reference and this strategy.
    pub async fn create(&self, strategy: &Value, template: &Value) {
        let references = json!([{"name": "all", "rolloutStrategy": strategy}]);
        self.create_spec(json!({"placementRefs": references, "manifestWorkTemplate": template}))
            .await;
    }

    pub async fn create_spec(&self, spec: Value) {
        let set = json!({
            "apiVersion": format!("{WORK}/v1alpha1"), "kind": "ManifestWorkReplicaSet",
            "metadata": {"name": self.name, "labels": {"team": "shop"}}, "spec": spec,
        });
        let set: DynamicObject = serde_json::from_value(set).unwrap();
        self.sets().create(&PostParams::default(), &set).await.unwrap();
    }

    pub async fn patch(&self, patch: Value) {
        let params = PatchParams::default();
        self.sets().patch(&self.name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn set_template(&self, template: &Value) {
        // The list of manifests is replaced as a whole.
        self.patch(json!({"spec": {"manifestWorkTemplate": template}})).await;
    }

    /// The work of a cluster; `None` if there is none.
    pub async fn work(&self, index: usize) -> Option<DynamicObject> {
        let owner = ListParams::default().labels(OWNER);
        let mut found = self.works(&self.clusters[index]).list(&owner).await.unwrap().items;
        assert!(found.len() <= 1, "{found:?}");
        found.pop()
    }

    /// The value in the work of each cluster; `-` without a work.
    pub async fn values(&self) -> String {
        let mut values = Vec::new();
        for index in 0..self.clusters.len() {
            let work = self.work(index).await;
            let value = work.as_ref().and_then(|work| {
                work.data.pointer("/spec/workload/manifests/0/data/value")?.as_str()
            });
            values.push(value.unwrap_or("-").to_owned());
        }
        values.join(" ")
    }

    pub async fn until_values(&self, expected: &str) {
        let what = format!("the values {expected:?}");
        let probe = || async {
            let values = self.values().await;
            if values == expected { Ok(()) } else { Err(format!("{values}; {}", self.log().await)) }
        };
        eventually(&what, DEADLINE, probe).await.unwrap();
    }

    /// The agents of these clusters report the conditions, as `Applied=True`, now.
    pub async fn report(&self, indexes: &[usize], conditions: &str) {
        for index in indexes {
            let work = self.work(*index).await.unwrap();
            let read = |text: &str| {
                let (kind, status) = text.split_once('=').unwrap();
                json!({"type": kind, "status": status, "reason": "Test", "message": "",
                    "observedGeneration": work.metadata.generation,
                    "lastTransitionTime": now()})
            };
            let all: Vec<Value> = conditions.split_whitespace().map(read).collect();
            let patch = Patch::Merge(json!({"status": {"conditions": all}}));
            let name = work.metadata.name.unwrap();
            let api = self.works(&self.clusters[*index]);
            api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
        }
    }

    pub async fn succeed(&self, indexes: &[usize]) {
        let conditions = "Applied=True Available=True Progressing=False Degraded=False";
        self.report(indexes, conditions).await;
    }

    pub async fn status(&self) -> Value {
        let set = self.sets().get(&self.name).await.unwrap();
        set.data.get("status").cloned().unwrap_or_default()
    }

    /// `True AsExpected: message` of each condition about the present generation.
    pub async fn conditions(&self) -> BTreeMap<String, String> {
        let set = self.sets().get(&self.name).await.unwrap();
        let all = set.data.pointer("/status/conditions").and_then(Value::as_array).cloned();
        let is_current = |one: &Value| one["observedGeneration"] == json!(set.metadata.generation);
        let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
        let all = all.unwrap_or_default().into_iter().filter(is_current).map(|one| {
            let (status, reason) = (text(&one, "status"), text(&one, "reason"));
            (text(&one, "type"), format!("{status} {reason}: {}", text(&one, "message")))
        });
        all.collect()
    }

    pub async fn until_condition(&self, kind: &str, begin: &str) {
        let what = format!("{kind} to be {begin:?}");
        let probe = || async {
            let all = self.conditions().await;
            let found = all.get(kind).is_some_and(|found| found.starts_with(begin));
            if found { Ok(()) } else { Err(format!("{all:#?}")) }
        };
        eventually(&what, DEADLINE, probe).await.unwrap();
    }

    async fn log(&self) -> String {
        format!("{:#?}", self.conditions().await)
    }

    /// Waits until the set does not exist.
    pub async fn until_gone(&self) {
        let probe = || async {
            match self.sets().get_opt(&self.name).await.unwrap() {
                None => Ok(()),
                Some(set) => Err(format!("{:?}", set.metadata.finalizers)),
            }
        };
        eventually("the set to be gone", DEADLINE, probe).await.unwrap();
    }
}

/// The value of a ConfigMap that works put on a cluster.
async fn value(cluster: &Cluster, name: &str) -> Option<String> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let maps: Api<DynamicObject> = Api::namespaced_with(cluster.client(), "default", &kind);
    let map = maps.get_opt(name).await.unwrap()?;
    map.data.pointer("/data/value").and_then(Value::as_str).map(str::to_owned)
}

/// Waits until the ConfigMap has this value on a cluster; `None`: until it is gone.
pub async fn until_value(cluster: &Cluster, name: &str, expected: Option<&str>) {
    let probe = || async {
        let found = value(cluster, name).await;
        if found.as_deref() == expected { Ok(()) } else { Err(format!("{found:?}")) }
    };
    let what = format!("ConfigMap {name} on {} to be {expected:?}", cluster.name());
    eventually(&what, DEADLINE, probe).await.unwrap();
}

/// The time, as conditions have it.
pub fn now() -> String {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap().to_string()
}
