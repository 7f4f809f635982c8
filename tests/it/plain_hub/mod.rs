//! docs/plain-hub.md on real API servers without OCM: everything of `deploy/` is installed, two
//! agents connect, works arrive in three ways, and all of it is removed again.

mod install;
mod inventory;

use std::process::Output;

use gitwork_api::work::{AppliedManifestWork, ManifestWork};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::admission::fixture::{Kind, Objects, config_map as config_map_value, with};
use crate::cli::{code, err, gitwork, out, write};
use crate::controller::fixture::{Fixture, template, until_value};
use crate::deploy::objects;
use crate::harness::{apply, delete_all, eventually};
use crate::hub_program::DEADLINE;
use crate::sync::fixture::{config_map, works};
use install::{ConnectedCluster, PlainHub, client_of, disconnect, rights, until_granted};

/// The rights of users: docs/rbac.md has the commands for operators, and says what `create work`
/// and `delete work` need.
const BINDINGS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: gitwork-operators, namespace: gitwork}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: gitwork-operator}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: sre}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: gitwork-operators}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gitwork-operator}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: sre}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: create-work}
rules:
  - apiGroups: [work.open-cluster-management.io]
    resources: [manifestworks]
    verbs: [get, create, patch, delete]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: create-work}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: create-work}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: developers}]
"#;

const GROUP: &str = "selector: {labelSelector: {matchLabels: {tier: store}}}\n";

#[tokio::test(flavor = "multi_thread")]
async fn hub_without_ocm_delivers_in_three_ways_and_leaves_nothing_behind() {
    let hub = PlainHub::install().await;
    let mut clusters = Vec::new();
    for name in ["edge-1", "edge-2"] {
        clusters.push(ConnectedCluster::connect(&hub.cluster, name).await);
    }
    let fleet = Fleet::new(&hub, &clusters).await;
    fleet.deliver_group().await;
    let set = fleet.deliver_set().await;
    fleet.deliver_work().await;
    fleet.invalid_works_are_denied().await;

    fleet.remove_set(&set).await;
    fleet.remove_work().await;
    fleet.remove_group().await;
    fleet.until_no_work_is_left().await;
    hub.assert_nothing_was_forbidden();
    for cluster in &clusters {
        cluster.assert_nothing_was_forbidden().await;
    }

    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": set.namespace}});
    delete_all(hub.cluster.client(), &[namespace]).await.unwrap();
    delete_all(hub.cluster.client(), &bindings()).await.unwrap();
    hub.uninstall().await;
    for cluster in clusters {
        let name = cluster.name.clone();
        cluster.uninstall().await;
        disconnect(&hub.cluster, &name).await;
    }
    hub.remove_crds().await;
}

fn bindings() -> Vec<Value> {
    let documents = serde_yaml::Deserializer::from_str(BINDINGS);
    documents.map(|one| serde::Deserialize::deserialize(one).unwrap()).collect()
}

/// The hub, its clusters and its users.
struct Fleet<'a> {
    hub: &'a PlainHub,
    clusters: &'a [ConnectedCluster],
}

impl<'a> Fleet<'a> {
    /// Binds the users' roles, and waits until they count.
    async fn new(hub: &'a PlainHub, clusters: &'a [ConnectedCluster]) -> Self {
        apply(hub.cluster.client(), BINDINGS).await.unwrap();
        for (user, group, roles) in [
            ("ann", "sre", rights(&objects("deploy/gitwork.yaml"), "gitwork-operator")),
            ("bob", "developers", rights(&bindings(), "create-work")),
        ] {
            let kubeconfig = hub.cluster.kubeconfig_of(user, group);
            until_granted(&client_of(&kubeconfig).await, "gitwork", &roles).await;
            write(hub.folder.path(), user, &kubeconfig);
        }
        Self { hub, clusters }
    }

    /// Runs `gitwork` as a user, which succeeds.
    fn run(&self, user: &str, arguments: &[&str]) -> String {
        let output = self.output(user, arguments);
        assert_eq!(code(&output), Some(0), "{arguments:?}: {}", err(&output));
        out(&output)
    }

    fn output(&self, user: &str, arguments: &[&str]) -> Output {
        let folder = self.hub.folder.path();
        let mut command = gitwork(arguments);
        command.args(["--kubeconfig", user]).current_dir(folder).output().unwrap()
    }

    async fn until_everywhere(&self, name: &str, value: Option<&str>) {
        for cluster in self.clusters {
            until_value(&cluster.cluster, name, value).await;
        }
    }

    /// Waits until the agents report that the work of this name is applied and available.
    async fn until_available_everywhere(&self, name: &str) {
        for cluster in self.clusters {
            let api = works(self.hub.cluster.client(), &cluster.name);
            let probe = || async {
                let work = api.get(name).await.map_err(|error| error.to_string())?;
                let status = work.status.clone().unwrap_or_default();
                let is_true = |kind: &str| {
                    status.conditions.iter().any(|one| {
                        one.type_ == kind
                            && one.status == "True"
                            && one.observed_generation == work.metadata.generation
                    })
                };
                let is_done = is_true("Applied") && is_true("Available");
                if is_done { Ok(()) } else { Err(format!("{:?}", status.conditions)) }
            };
            let what = format!("{}/{name} to be available", cluster.name);
            eventually(&what, DEADLINE, probe).await.unwrap();
        }
    }

    /// `gitwork status` of the source, as an operator sees it.
    fn status(&self) -> Value {
        let text = self.run("ann", &["status", "--source-id", "fleet", "-o", "json"]);
        serde_json::from_str(&text).unwrap()
    }

    async fn deliver_group(&self) {
        let manifest = config_map("shop", "group");
        let group = ("groups/stores/group.yaml", Some(GROUP));
        let work = ("groups/stores/shop/cm.yaml", Some(manifest.as_str()));
        self.hub.repo.commit("main", &[group, work]);
        self.run("ann", &["reconcile", "--source-id", "fleet"]);
        self.until_everywhere("shop", Some("group")).await;
        self.until_available_everywhere("shop").await;
        let status = self.status();
        let states: Vec<Value> = status["works"]
            .as_array()
            .unwrap()
            .iter()
            .map(|work| json!([work["cluster"], work["work"], work["state"]]))
            .collect();
        let expected = [["edge-1", "shop", "available"], ["edge-2", "shop", "available"]];
        assert_eq!(json!(states), json!(expected));
    }

    async fn deliver_set(&self) -> Fixture<'a> {
        let set = Fixture {
            hub: &self.hub.cluster,
            namespace: self.hub.cluster.namespace("sets").await,
            clusters: self.clusters.iter().map(|cluster| cluster.name.clone()).collect(),
            name: "web".to_owned(),
        };
        set.select("all", &[0, 1]).await;
        set.create(&json!({"type": "All"}), &template("set")).await;
        self.until_everywhere("web", Some("set")).await;
        set.until_condition("PlacementVerified", "True AsExpected").await;
        set.until_condition("PlacementRolledOut", "True Complete: 2 of 2").await;
        set.until_condition("ManifestworkApplied", "True AsExpected").await;
        let summary = set.status().await["summary"].clone();
        for count in ["total", "desiredTotal", "updated", "applied", "available"] {
            assert_eq!(summary[count], 2, "{count} of {summary}");
        }
        set
    }

    async fn deliver_work(&self) {
        write(self.hub.folder.path(), "tools.yaml", &config_map("tools", "command"));
        let command = ["create", "work", "tools", "-f", "tools.yaml", "--clusters"];
        let created = self.run("bob", &[&command[..], &["edge-1,edge-2"]].concat());
        assert_eq!(created, "created edge-1/tools\ncreated edge-2/tools\n");
        self.until_everywhere("tools", Some("command")).await;
        self.until_available_everywhere("tools").await;
        let table = self.run("ann", &["get", "works", "tools", "-o", "json"]);
        let table: Value = serde_json::from_str(&table).unwrap();
        let row = |cluster: &str| {
            json!({"cluster": cluster, "work": "tools", "owner": "gitwork create work",
                "manifests": 1, "applied": "True", "available": "True"})
        };
        assert_eq!(table["works"], json!([row("edge-1"), row("edge-2")]));
    }

    /// By the webhooks of `deploy/admission.yaml`, for works and sets.
    async fn invalid_works_are_denied(&self) {
        let hub = &self.hub.cluster;
        let one = config_map_value("one");
        let duplicate =
            "duplicate manifest for resource default/one with resource type v1.ConfigMap";
        for (kind, webhook) in
            [(Kind::Work, "manifestworks"), (Kind::Set, "manifestworkreplicasets")]
        {
            let objects = Objects::new(hub.client(), kind, "edge-1");
            for (spec, message) in [
                (with(&[]), "manifests should not be empty"),
                (with(&[one.clone(), one.clone()]), duplicate),
            ] {
                let denied = objects.create("bad", &spec).await.unwrap_err();
                let by = format!(
                    "admission webhook \"{webhook}.admission.gitwork.dev\" denied the request"
                );
                assert!(denied.contains(&by) && denied.contains(message), "{denied}");
                assert!(objects.api.get_opt("bad").await.unwrap().is_none());
            }
        }
    }

    async fn remove_set(&self, set: &Fixture<'_>) {
        set.sets().delete("web", &DeleteParams::default()).await.unwrap();
        set.until_gone().await;
        self.until_everywhere("web", None).await;
    }

    async fn remove_work(&self) {
        let command = ["delete", "work", "tools", "--clusters", "edge-1,edge-2"];
        assert_eq!(self.run("bob", &command), "deleted edge-1/tools\ndeleted edge-2/tools\n");
        self.until_everywhere("tools", None).await;
    }

    /// It has every work of the source: the deletion waits for an approval.
    async fn remove_group(&self) {
        self.hub.repo.commit("main", &[("groups", None)]);
        self.run("ann", &["reconcile", "--source-id", "fleet"]);
        let probe = || async {
            let status = self.status();
            let hash = status["sources"][0]["holds"][0]["hash"].as_str();
            hash.map(str::to_owned).ok_or_else(|| status.to_string())
        };
        let hash = eventually("the deletions to be held", DEADLINE, probe).await.unwrap();
        self.until_everywhere("shop", Some("group")).await;
        let source = ["--repo", &self.hub.url(), "--source-id", "fleet", "--cache", "ann-cache"];
        self.run("ann", &[&["approve", hash.as_str()][..], &source].concat());
        self.until_everywhere("shop", None).await;
    }

    /// Neither on the hub nor on a cluster.
    async fn until_no_work_is_left(&self) {
        let works: Api<ManifestWork> = Api::all(self.hub.cluster.client());
        let none = || async { assert_none(&works).await };
        eventually("no ManifestWork to be left", DEADLINE, none).await.unwrap();
        for cluster in self.clusters {
            let applied: Api<AppliedManifestWork> = Api::all(cluster.cluster.client());
            let none = || async { assert_none(&applied).await };
            eventually("no AppliedManifestWork to be left", DEADLINE, none).await.unwrap();
        }
    }
}

/// The error names what is left, with its finalizers.
async fn assert_none<K>(api: &Api<K>) -> Result<(), String>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let left = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
    let names = left.iter().map(|one| {
        let place = one.namespace().unwrap_or_default();
        format!("{place}/{} {:?}", one.name_any(), one.finalizers())
    });
    let names: Vec<String> = names.collect();
    if names.is_empty() { Ok(()) } else { Err(names.join(", ")) }
}
