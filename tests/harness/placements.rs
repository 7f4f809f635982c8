//! Placements and PlacementDecisions in one namespace, as OCM's controllers write them.

use std::fmt::Debug;

use gitwork_api::placement::{
    LABEL_DECISION_GROUP_INDEX, LABEL_DECISION_GROUP_NAME, LABEL_PLACEMENT, Placement,
    PlacementDecision,
};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::apply_all;

const API: &str = "cluster.open-cluster-management.io/v1beta1";
/// OCM writes so many clusters to a PlacementDecision at most.
const DECISION_CLUSTERS: usize = 100;

pub struct Placements {
    pub client: Client,
    pub namespace: String,
}

/// A decision group: its name, its PlacementDecisions, and the number of its clusters.
pub type Group<'a> = (&'a str, &'a [String], usize);

impl Placements {
    pub fn placements(&self) -> Api<Placement> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates a Placement and its PlacementDecisions, by the names of the decision groups. Those
    /// that are there stay as they are.
    pub async fn create(&self, name: &str, groups: &[(&str, &[String])]) {
        let namespace = &self.namespace;
        let object = |kind: &str, name: &str| {
            json!({"apiVersion": API, "kind": kind, "metadata": {"namespace": namespace,
                "name": name}})
        };
        let mut all = vec![object("Placement", name)];
        all[0]["spec"] = json!({});
        for (index, (group, decisions)) in groups.iter().enumerate() {
            all.extend(decisions.iter().map(|decision| {
                let mut decision = object("PlacementDecision", decision);
                decision["metadata"]["labels"] = json!({
                    LABEL_PLACEMENT: name,
                    LABEL_DECISION_GROUP_INDEX: index.to_string(),
                    LABEL_DECISION_GROUP_NAME: group,
                });
                decision
            }));
        }
        apply_all(self.client.clone(), &all).await.unwrap();
    }

    /// Creates the Placement if it is not there, and lets it select these clusters. A later call
    /// must not need fewer PlacementDecisions.
    pub async fn select(&self, name: &str, clusters: &[&str]) {
        let chunks: Vec<&[&str]> = match clusters.is_empty() {
            true => vec![clusters],
            false => clusters.chunks(DECISION_CLUSTERS).collect(),
        };
        let decisions = (1..=chunks.len()).map(|number| format!("{name}-decision-{number}"));
        let decisions: Vec<String> = decisions.collect();
        self.create(name, &[("", &decisions)]).await;
        for (decision, chunk) in decisions.iter().zip(chunks) {
            self.decide(decision, chunk.iter().copied()).await;
        }
        self.report(name, &[("", &decisions, clusters.len())]).await;
    }

    /// These clusters are in the PlacementDecision.
    pub async fn decide<'a>(&self, decision: &str, clusters: impl IntoIterator<Item = &'a str>) {
        let decisions = clusters.into_iter().map(|name| json!({"clusterName": name, "reason": ""}));
        let status = json!({"decisions": decisions.collect::<Vec<_>>()});
        self.patch_status::<PlacementDecision>(decision, status).await;
    }

    /// The status of the Placement, which comes after the PlacementDecisions.
    pub async fn report(&self, name: &str, groups: &[Group<'_>]) {
        let listed = groups.iter().enumerate().map(|(index, (group, decisions, clusters))| {
            json!({
                "decisionGroupIndex": index, "decisionGroupName": group,
                "decisions": decisions, "clusterCount": clusters,
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
