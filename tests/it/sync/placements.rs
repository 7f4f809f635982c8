//! Placements and PlacementDecisions in a namespace of their own, as OCM's controllers write them.

use std::fmt::Debug;

use gitwork_api::placement::{LABEL_PLACEMENT, Placement, PlacementDecision};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::fixture::Sync;

pub struct Placements {
    client: Client,
    pub namespace: String,
}

impl Placements {
    pub async fn new(sync: &Sync) -> Self {
        let namespace = sync.hub.namespace("placements").await;
        Self { client: sync.hub.client(), namespace }
    }

    pub fn placements(&self) -> Api<Placement> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates a Placement and a PlacementDecision of it with each of these names.
    pub async fn create(&self, name: &str, decisions: &[String]) {
        let params = PostParams::default();
        let placement = Placement::new(name, Default::default());
        self.placements().create(&params, &placement).await.unwrap();
        let all: Api<PlacementDecision> = Api::namespaced(self.client.clone(), &self.namespace);
        for decision in decisions {
            let decision: PlacementDecision = serde_json::from_value(json!({
                "apiVersion": "cluster.open-cluster-management.io/v1beta1",
                "kind": "PlacementDecision",
                "metadata": {"name": decision, "labels": {LABEL_PLACEMENT: name}},
            }))
            .unwrap();
            all.create(&params, &decision).await.unwrap();
        }
    }

    /// These clusters are in the PlacementDecision.
    pub async fn decide<'a>(&self, decision: &str, clusters: impl IntoIterator<Item = &'a str>) {
        let decisions = clusters.into_iter().map(|name| json!({"clusterName": name, "reason": ""}));
        let status = json!({"decisions": decisions.collect::<Vec<_>>()});
        self.patch_status::<PlacementDecision>(decision, status).await;
    }

    /// The status of the Placement, which comes after the PlacementDecisions. `groups`: the name,
    /// the PlacementDecision and the number of clusters of each decision group.
    pub async fn report(&self, name: &str, groups: &[(&str, &str, usize)]) {
        let listed = groups.iter().enumerate().map(|(index, (group, decision, clusters))| {
            json!({
                "decisionGroupIndex": index, "decisionGroupName": group,
                "decisions": [decision], "clusterCount": clusters,
            })
        });
        let listed: Vec<Value> = listed.collect();
        let selected: usize = groups.iter().map(|(_, _, clusters)| clusters).sum();
        let status = json!({"numberOfSelectedClusters": selected, "decisionGroups": listed});
        self.patch_status::<Placement>(name, status).await;
    }

    async fn patch_status<K>(&self, name: &str, status: Value)
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }
}
