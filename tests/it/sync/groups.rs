//! Groups on a real hub: the daemon follows labels, claims and Placements with the rights of
//! `deploy/`.

use std::process::Command;

use gitwork_api::cluster::ManagedCluster;
use gitwork_core::model::facts::Facts;
use gitwork_core::model::name::ClusterName;
use gitwork_core::model::work::LABEL_SOURCE;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::fixture::{Sync, config_map, value_of};
use super::program::{Running, gitwork, rights};
use crate::harness::placements::Placements;

const DECISION: &str = "batch-decision-1";

/// A source with a group, whose clusters are on the hub.
pub struct Fleet {
    pub sync: Sync,
    placements: Placements,
}

impl Fleet {
    /// Clusters without labels.
    pub async fn new(clusters: usize) -> Self {
        let fleet = Self::without_clusters(clusters).await;
        for name in &fleet.sync.clusters {
            let cluster = ManagedCluster::new(name, Default::default());
            fleet.clusters().create(&PostParams::default(), &cluster).await.unwrap();
        }
        fleet
    }

    /// Namespaces without ManagedClusters.
    pub async fn without_clusters(namespaces: usize) -> Self {
        let sync = Sync::new(namespaces).await;
        let namespace = sync.hub.namespace("placements").await;
        let placements = Placements { client: sync.hub.client(), namespace };
        Self { sync, placements }
    }

    fn clusters(&self) -> Api<ManagedCluster> {
        Api::all(self.sync.hub.client())
    }

    /// Changes labels of a cluster; null removes one.
    pub async fn label(&self, cluster: usize, labels: Value) {
        let patch = json!({"metadata": {"labels": labels}});
        let (params, name) = (PatchParams::default(), &self.sync.clusters[cluster]);
        self.clusters().patch(name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    /// Changes the status of a cluster.
    pub async fn patch_cluster_status(&self, cluster: usize, status: Value) {
        let (params, name) = (PatchParams::default(), &self.sync.clusters[cluster]);
        self.clusters().patch_status(name, &params, &Patch::Merge(status)).await.unwrap();
    }

    /// Commits files of the group `edge`, with this condition.
    pub fn commit(&self, condition: &str, files: &[(&str, &str)]) {
        let group = format!("{condition}\ndefaults: {{substitute: true}}\n");
        let mut all = vec![("groups/edge/group.yaml".to_owned(), group)];
        all.extend(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())));
        let all: Vec<(&str, Option<&str>)> =
            all.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))).collect();
        self.sync.repo.commit("main", &all);
    }

    /// Starts the daemon, and waits until it has planned the commit that it starts with.
    pub async fn start(&self, marker: &str) -> Running {
        let path = self.sync.path(0, "marker/cm.yaml");
        let text = config_map("marker", marker);
        self.sync.repo.commit("main", &[(path.as_str(), Some(text.as_str()))]);
        let kubeconfig = rights(&self.sync).await;
        let mut command = gitwork(&self.sync, &kubeconfig);
        let running = Running(command.args(["--placement-grace", "2"]).spawn().unwrap());
        self.sync.until_value(0, "marker", marker).await;
        running
    }

    /// Has the daemon read Git, and waits until it has planned what it read, with the facts that it
    /// has seen until then.
    async fn until_planned(&self, running: &Running, marker: &str) {
        let path = self.sync.path(0, "marker/cm.yaml");
        let text = config_map("marker", marker);
        self.sync.repo.commit("main", &[(path.as_str(), Some(text.as_str()))]);
        running.signal("HUP");
        self.sync.until_value(0, "marker", marker).await;
    }

    /// The first clusters are in the only PlacementDecision of the Placement `batch`.
    async fn decide(&self, clusters: usize) {
        let clusters = self.sync.clusters[..clusters].iter().map(String::as_str);
        self.placements.decide(DECISION, clusters).await;
    }

    /// The status of the Placement.
    async fn count(&self, clusters: usize) {
        self.placements.report("batch", &[("", &[DECISION.to_owned()], clusters)]).await;
    }

    pub async fn is_there(&self, cluster: usize, work: &str) -> bool {
        self.sync.works(cluster).get_opt(work).await.unwrap().is_some()
    }
}

const BY_LABEL: &str = "selector: {labelSelector: {matchLabels: {tier: NAME}}}";

#[tokio::test(flavor = "multi_thread")]
async fn clusters_join_and_leave_a_group_by_their_labels_without_a_commit() {
    let fleet = Fleet::new(3).await;
    let tier = fleet.sync.id.as_str();
    fleet.label(0, json!({"tier": tier, "city": "Bonn"})).await;
    fleet.label(1, json!({"tier": tier, "city": "Ulm"})).await;
    let manifest = config_map("web", "${cluster.labels['city']}");
    fleet.commit(&BY_LABEL.replace("NAME", tier), &[("groups/edge/web/cm.yaml", &manifest)]);
    let running = fleet.start("started").await;
    fleet.sync.until_value(0, "web", "Bonn").await;
    fleet.sync.until_value(1, "web", "Ulm").await;
    assert!(!fleet.is_there(2, "web").await);
    fleet.label(2, json!({"tier": tier, "city": "Kiel"})).await;
    fleet.sync.until_value(2, "web", "Kiel").await;
    let before = fleet.sync.until_there(0, "web").await.metadata.generation;
    fleet.label(1, json!({"city": "Trier"})).await;
    fleet.sync.until_value(1, "web", "Trier").await;
    assert_eq!(fleet.sync.until_there(0, "web").await.metadata.generation, before);
    fleet.label(0, json!({"tier": null})).await;
    fleet.sync.until_gone(0, "web").await;
    // A new process has no facts at first, and removes nothing for that.
    drop(running);
    let _running = fleet.start("restarted").await;
    assert_eq!(value_of(&fleet.sync.until_there(2, "web").await).as_deref(), Some("Kiel"));
    fleet.label(0, json!({"tier": tier})).await;
    fleet.sync.until_value(0, "web", "Bonn").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_leave_a_placement_only_after_its_decisions_have_agreed() {
    let fleet = Fleet::new(3).await;
    let manifest = config_map("web", "one");
    let condition =
        format!("placement: {{namespace: {}, name: batch}}", fleet.placements.namespace);
    fleet.commit(&condition, &[("groups/edge/web/cm.yaml", &manifest)]);
    // Without the Placement, nobody is a member.
    let running = fleet.start("no placement").await;
    assert!(!fleet.is_there(0, "web").await);
    fleet.placements.create("batch", &[("", &[DECISION.to_owned()])]).await;
    fleet.decide(3).await;
    fleet.count(3).await;
    for cluster in 0..3 {
        fleet.sync.until_value(cluster, "web", "one").await;
    }
    // The PlacementDecision has lost a cluster, and the status still counts it.
    fleet.decide(2).await;
    fleet.until_planned(&running, "inconsistent").await;
    assert!(fleet.is_there(2, "web").await);
    // It flaps.
    fleet.decide(3).await;
    fleet.until_planned(&running, "back").await;
    assert!(fleet.is_there(2, "web").await);
    // OCM's placement controller drops the cluster because it is unreachable.
    let available = |status: &str| {
        json!({"status": {"conditions": [{
            "type": "ManagedClusterConditionAvailable", "status": status, "reason": "Lease",
            "message": "", "lastTransitionTime": "2026-11-25T10:00:00Z",
        }]}})
    };
    fleet.patch_cluster_status(2, available("Unknown")).await;
    fleet.decide(2).await;
    fleet.count(2).await;
    // One that is reachable leaves meanwhile, after the grace period.
    fleet.decide(1).await;
    fleet.count(1).await;
    fleet.sync.until_gone(1, "web").await;
    fleet.until_planned(&running, "unreachable").await;
    assert!(fleet.is_there(2, "web").await, "it was not removed by intent");
    fleet.decide(2).await;
    fleet.count(2).await;
    fleet.sync.until_value(1, "web", "one").await;
    fleet.patch_cluster_status(2, available("True")).await;
    fleet.sync.until_gone(2, "web").await;
    // Who deletes a Placement deletes no work.
    let placements = fleet.placements.placements();
    placements.delete("batch", &DeleteParams::default()).await.unwrap();
    fleet.until_planned(&running, "deleted").await;
    assert!(fleet.is_there(0, "web").await && fleet.is_there(1, "web").await);
}

/// The commit that gives a group's work another name says what becomes of the one that there was.
#[tokio::test(flavor = "multi_thread")]
async fn work_of_a_group_that_gets_another_name_has_its_present_options() {
    let fleet = Fleet::new(2).await;
    let condition = format!("clusters: {}", json!(fleet.sync.clusters));
    let manifest = "groups/edge/web/cm.yaml";
    fleet.commit(&condition, &[(manifest, &config_map("web", "one"))]);
    let running = fleet.start("started").await;
    fleet.sync.until_value(1, "web", "one").await;
    let work_file = ("groups/edge/web/work.yaml", "name: site\nprune: false\n");
    fleet.commit(&condition, &[(manifest, &config_map("other", "two")), work_file]);
    running.signal("HUP");
    fleet.sync.until_value(1, "site", "two").await;
    for cluster in 0..2 {
        fleet
            .sync
            .until(cluster, "web", |work| {
                let labels = work.ok_or("it is gone")?.metadata.labels.unwrap_or_default();
                if labels.contains_key(LABEL_SOURCE) { Err("not released".into()) } else { Ok(()) }
            })
            .await;
    }
}

/// OCM deletes the works of a ManagedCluster that is being deleted, and waits until all are gone. A
/// work that is created again would keep the cluster on the hub.
#[tokio::test(flavor = "multi_thread")]
async fn cluster_that_is_being_deleted_loses_its_works_and_gets_no_new_ones() {
    let fleet = Fleet::new(2).await;
    let patch = |finalizers: Value| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let (name, params) = (&fleet.sync.clusters[1], PatchParams::default());
    fleet.clusters().patch(name, &params, &patch(json!(["example.com/wait"]))).await.unwrap();
    let manifest = config_map("web", "one");
    let condition = format!("clusters: {}", json!(fleet.sync.clusters));
    fleet.commit(&condition, &[("groups/edge/web/cm.yaml", &manifest)]);
    let running = fleet.start("started").await;
    fleet.sync.until_value(1, "web", "one").await;
    fleet.clusters().delete(name, &DeleteParams::default()).await.unwrap();
    fleet.sync.until_gone(1, "web").await;
    fleet.commit(&condition, &[("groups/edge/more/cm.yaml", &config_map("more", "one"))]);
    fleet.until_planned(&running, "another work").await;
    fleet.sync.until_value(0, "more", "one").await;
    assert!(!fleet.is_there(1, "web").await && !fleet.is_there(1, "more").await);
    fleet.clusters().patch(name, &params, &patch(Value::Null)).await.unwrap();
}

/// `gitwork facts` prints what `run --once` and `plan --facts` find.
#[tokio::test(flavor = "multi_thread")]
async fn facts_of_the_hub_are_printed_and_used_by_a_single_sync() {
    let fleet = Fleet::new(2).await;
    let tier = fleet.sync.id.as_str();
    fleet.label(1, json!({"tier": tier, "city": "Ulm"})).await;
    let status = json!({"status": {
        "version": {"kubernetes": "v1.31.2"},
        "clusterClaims": [{"name": "region", "value": "eu"}],
        "conditions": [],
    }});
    let name = &fleet.sync.clusters[1];
    fleet.patch_cluster_status(1, status).await;
    let manifest = config_map("web", "${cluster.labels['city']} ${cluster.claims['region']}");
    fleet.commit(&BY_LABEL.replace("NAME", tier), &[("groups/edge/web/cm.yaml", &manifest)]);
    let kubeconfig = rights(&fleet.sync).await;
    let mut facts = Command::new(env!("CARGO_BIN_EXE_gitwork"));
    let printed = facts.arg("facts").arg("--kubeconfig").arg(&kubeconfig).output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let facts = Facts::read(&printed.stdout).unwrap();
    let known = &facts.managed_clusters[&ClusterName::parse(name).unwrap()];
    assert_eq!((known.labels["city"].as_str(), known.claims["region"].as_str()), ("Ulm", "eu"));
    assert_eq!(known.version.as_deref(), Some("v1.31.2"));
    assert!(facts.hub_version.is_some_and(|version| version.starts_with('v')));
    let mut plan = Command::new(env!("CARGO_BIN_EXE_gitwork"));
    plan.args(["plan", "--branch", "main", "--repo", &fleet.sync.server.url("fleet.git")]);
    plan.args(["--source-id", fleet.sync.id.as_str(), "--kubeconfig"]).arg(&kubeconfig);
    let cache = fleet.sync.folder.path().join("plan-cache");
    let planned = plan.arg("--cache").arg(cache).output().unwrap();
    let planned = String::from_utf8(planned.stdout).unwrap();
    assert!(planned.contains(&format!("create            {name}/web")), "{planned}");
    let once = gitwork(&fleet.sync, &kubeconfig).arg("--once").output().unwrap();
    assert!(once.status.success(), "{}", String::from_utf8_lossy(&once.stderr));
    let work = fleet.sync.until_there(1, "web").await;
    assert_eq!(value_of(&work).as_deref(), Some("Ulm eu"));
    assert!(!fleet.is_there(0, "web").await);
}
