//! `create work`, `get works` and `delete work` on a real hub.

use std::path::Path;
use std::process::Output;

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{code, err, gitwork, out, write};
use crate::harness::{self, Cluster, ClusterOptions, ControlPlane, apply_all, crds};
use crate::sync::fixture::config_map;

/// Clusters of one test on a hub, and the folder of its files.
struct Fixture<'a> {
    hub: &'a Cluster,
    clusters: Vec<String>,
    folder: TempDir,
}

impl Fixture<'static> {
    /// Namespaces of its own on the shared hub.
    async fn new(count: usize) -> Self {
        let hub = harness::hub().await;
        let mut clusters = Vec::new();
        for _ in 0..count {
            clusters.push(hub.namespace("create").await);
        }
        clusters.sort();
        Self { hub, clusters, folder: tempfile::tempdir().unwrap() }
    }
}

impl Fixture<'_> {
    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = gitwork(arguments);
        command.arg("--kubeconfig").arg(self.hub.kubeconfig_path());
        command.current_dir(self.path()).output().unwrap()
    }

    /// `create work web` on all clusters.
    fn create(&self, flags: &[&str]) -> Output {
        let clusters = self.clusters.join(",");
        let arguments = ["create", "work", "web", "-f", "web.yaml", "--clusters", &clusters];
        self.run(&[&arguments, flags].concat())
    }

    fn works(&self, cluster: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("work.open-cluster-management.io", "v1", "ManifestWork");
        let resource = ApiResource::from_gvk(&kind);
        Api::namespaced_with(self.hub.client(), cluster, &resource)
    }

    /// The value of the first ConfigMap of the work `web`; `None` if there is no work.
    async fn value(&self, cluster: &str) -> Option<String> {
        let work = self.works(cluster).get_opt("web").await.unwrap()?;
        let value = work.data.pointer("/spec/workload/manifests/0/data/value");
        value.and_then(Value::as_str).map(str::to_owned)
    }

    /// Makes a work `web` as another client.
    async fn make_foreign(&self, cluster: &str) -> DynamicObject {
        let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": "web"}, "data": {"value": "theirs"}});
        let work = json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": "web"}, "spec": {"workload": {"manifests": [manifest]}},
        });
        let params = PatchParams::apply("somebody");
        self.works(cluster).patch("web", &params, &Patch::Apply(work)).await.unwrap()
    }

    fn lines(&self, verb: &str) -> String {
        self.clusters.iter().map(|cluster| format!("{verb} {cluster}/web\n")).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_created_updated_and_deleted_in_the_order_of_clusters() {
    let fixture = Fixture::new(3).await;
    write(fixture.path(), "web.yaml", &config_map("web", "one"));
    for (flags, verb, values) in [
        (&["--dry-run"][..], "would create", None),
        (&[], "created", Some("one")),
        (&[], "unchanged", Some("one")),
    ] {
        let output = fixture.create(flags);
        assert_eq!(code(&output), Some(0), "{}", err(&output));
        assert_eq!(out(&output), fixture.lines(verb));
        for cluster in &fixture.clusters {
            assert_eq!(fixture.value(cluster).await.as_deref(), values, "{flags:?}");
        }
    }
    write(fixture.path(), "web.yaml", &config_map("web", "two"));
    let output = fixture.create(&["--dry-run", "--diff"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    let shown = out(&output);
    assert!(shown.starts_with(&format!("would update {}/web\n", fixture.clusters[0])), "{shown}");
    assert!(shown.contains("data.value: one -> two"), "{shown}");
    assert_eq!(fixture.value(&fixture.clusters[0]).await.as_deref(), Some("one"));
    let output = fixture.create(&[]);
    assert_eq!((code(&output), out(&output)), (Some(0), fixture.lines("updated")));
    for cluster in &fixture.clusters {
        assert_eq!(fixture.value(cluster).await.as_deref(), Some("two"));
    }
    let clusters = fixture.clusters.join(",");
    let delete = ["delete", "work", "web", "--clusters", &clusters];
    let output = fixture.run(&[&delete[..], &["--dry-run"]].concat());
    assert_eq!((code(&output), out(&output)), (Some(0), fixture.lines("would delete")));
    let output = fixture.run(&delete);
    assert_eq!((code(&output), out(&output)), (Some(0), fixture.lines("deleted")));
    for cluster in &fixture.clusters {
        assert_eq!(fixture.value(cluster).await, None);
    }
    let output = fixture.run(&delete);
    assert_eq!((code(&output), out(&output)), (Some(1), String::new()));
    assert!(err(&output).contains("web does not exist"), "{}", err(&output));
    assert!(err(&output).contains("`gitwork get works` lists"), "{}", err(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn works_of_others_are_neither_changed_nor_deleted() {
    let fixture = Fixture::new(2).await;
    write(fixture.path(), "web.yaml", &config_map("web", "ours"));
    let theirs = fixture.make_foreign(&fixture.clusters[1]).await;
    let output = fixture.create(&[]);
    assert_eq!((code(&output), out(&output)), (Some(1), String::new()));
    let conflict =
        format!("{}/web belongs to another client; nothing is written", fixture.clusters[1]);
    assert!(err(&output).contains(&conflict), "{}", err(&output));
    assert_eq!(fixture.value(&fixture.clusters[0]).await, None, "nor the other cluster");
    let first = &fixture.clusters[0];
    let create = ["create", "work", "web", "-f", "web.yaml", "--clusters", first];
    assert_eq!(code(&fixture.run(&create)), Some(0));
    let both = fixture.clusters.join(",");
    let output = fixture.run(&["delete", "work", "web", "--clusters", &both]);
    assert_eq!((code(&output), out(&output)), (Some(1), String::new()));
    assert!(err(&output).contains("nothing is deleted"), "{}", err(&output));
    assert_eq!(fixture.value(first).await.as_deref(), Some("ours"));
    let now = fixture.works(&fixture.clusters[1]).get("web").await.unwrap();
    assert_eq!(now.metadata.resource_version, theirs.metadata.resource_version);
    // A work that a source has adopted since is the source's.
    let label = json!({"metadata": {"labels": {"gitwork.dev/source": "fleet"}}});
    let params = PatchParams::default();
    fixture.works(first).patch("web", &params, &Patch::Merge(label)).await.unwrap();
    write(fixture.path(), "web.yaml", &config_map("web", "changed"));
    let output = fixture.run(&create);
    assert_eq!(code(&output), Some(1));
    assert!(err(&output).contains("belongs to the source fleet"), "{}", err(&output));
    assert_eq!(fixture.value(first).await.as_deref(), Some("ours"));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_input_is_an_error_before_anything_is_written() {
    let fixture = Fixture::new(1).await;
    let cluster = fixture.clusters[0].clone();
    let twice = format!("{}---\n{}", config_map("web", "one"), config_map("web", "two"));
    let no_namespace = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n";
    let work = "apiVersion: work.open-cluster-management.io/v1\nkind: ManifestWork\n\
                metadata: {name: web, namespace: a}\n";
    for (text, message) in [
        (twice.as_str(), "occurs twice in this work"),
        (no_namespace, "has no namespace"),
        (work, "web.yaml has a ManifestWork; `gitwork import` turns it into a folder"),
        ("# nothing\n", "the files have no object"),
        ("kind: [\n", "web.yaml:1:7"),
    ] {
        write(fixture.path(), "web.yaml", text);
        let output = fixture.create(&[]);
        assert_eq!(code(&output), Some(1), "{message}: {}", err(&output));
        assert!(err(&output).contains(message), "{message}: {}", err(&output));
    }
    assert_eq!(fixture.value(&cluster).await, None);
    write(fixture.path(), "web.yaml", &config_map("web", "one"));
    for (arguments, exit, message) in [
        (vec!["create", "work", "web", "-f", "web.yaml"], 2, "--clusters"),
        (vec!["create", "work", "Web", "-f", "web.yaml", "--clusters", "a"], 2, "the work's name"),
        (vec!["create", "work", "web", "--clusters", "a"], 2, "--filename"),
        (
            vec!["create", "work", "web", "-f", "web.yaml", "--placement", "default"],
            2,
            "--placement",
        ),
        (
            vec!["create", "work", "web", "-f", "web.yaml", "--placement", "default/nowhere"],
            1,
            "the hub has no Placement default/nowhere",
        ),
        (
            vec!["create", "work", "web", "-f", "web.yaml", "--clusters", "no-such-cluster"],
            1,
            "no-such-cluster/web",
        ),
        (vec!["delete", "work", "web"], 2, "--clusters"),
    ] {
        let output = fixture.run(&arguments);
        assert_eq!(code(&output), Some(exit), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(message), "{arguments:?}: {}", err(&output));
    }
}

/// What OCM's controllers write for a Placement that selects these clusters.
async fn select(hub: &Cluster, clusters: &[&str]) {
    let group = "cluster.open-cluster-management.io/v1beta1";
    let placement = json!({"apiVersion": group, "kind": "Placement",
        "metadata": {"namespace": "default", "name": "stores"}, "spec": {}});
    let decision = json!({"apiVersion": group, "kind": "PlacementDecision",
        "metadata": {"namespace": "default", "name": "stores-decision-1",
            "labels": {"cluster.open-cluster-management.io/placement": "stores"}}});
    apply_all(hub.client(), &[placement, decision]).await.unwrap();
    let decisions: Vec<Value> =
        clusters.iter().map(|name| json!({"clusterName": name, "reason": ""})).collect();
    let groups = json!([{"decisionGroupIndex": 0, "decisionGroupName": "",
        "decisions": ["stores-decision-1"], "clusterCount": clusters.len()}]);
    let condition = json!({"type": "PlacementSatisfied", "status": "True", "reason": "A",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    for (kind, name, status) in [
        (
            "Placement",
            "stores",
            json!({"numberOfSelectedClusters": clusters.len(), "decisionGroups": groups,
                "conditions": [condition]}),
        ),
        ("PlacementDecision", "stores-decision-1", json!({"decisions": decisions})),
    ] {
        let kind = GroupVersionKind::gvk("cluster.open-cluster-management.io", "v1beta1", kind);
        let resource = ApiResource::from_gvk(&kind);
        let api = Api::<DynamicObject>::namespaced_with(hub.client(), "default", &resource);
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_of_a_placement_reaches_new_clusters_and_those_that_have_it() {
    let plane = ControlPlane::shared().await;
    let options = ClusterOptions { crds: crds::hub(), ..ClusterOptions::default() };
    let hub = plane.start("create-placement", options).await;
    for cluster in ["edge-1", "edge-2", "edge-3"] {
        hub.create_namespace(cluster).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture { hub: &hub, clusters: Vec::new(), folder };
    let create = || {
        let placement = ["--placement", "default/stores"];
        fixture.run(&[&["create", "work", "web", "-f", "web.yaml"], &placement[..]].concat())
    };
    write(fixture.path(), "web.yaml", &config_map("web", "one"));
    select(&hub, &["edge-2", "edge-1"]).await;
    let output = create();
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    assert_eq!(out(&output), "created edge-1/web\ncreated edge-2/web\n");
    // Another client's work on a cluster that the Placement never selected.
    let theirs = fixture.make_foreign("edge-3").await;
    write(fixture.path(), "web.yaml", &config_map("web", "two"));
    select(&hub, &["edge-2"]).await;
    let output = create();
    assert_eq!((code(&output), out(&output).as_str()), (Some(0), "updated edge-2/web\n"));
    let left = "edge-1/web stays, although the Placement default/stores does not select edge-1; \
                to delete it: gitwork delete work web --clusters edge-1";
    assert!(err(&output).contains(left), "{}", err(&output));
    assert!(!err(&output).contains("edge-3"), "{}", err(&output));
    assert_eq!(fixture.value("edge-1").await.as_deref(), Some("one"));
    let now = fixture.works("edge-3").get("web").await.unwrap();
    assert_eq!(now.metadata.resource_version, theirs.metadata.resource_version);

    let table = out(&fixture.run(&["get", "works", "web"]));
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["CLUSTER", "WORK", "OWNER", "MANIFESTS", "APPLIED", "AVAILABLE"]);
    let clusters: Vec<&str> = rows[1..].iter().map(|row| row[0]).collect();
    assert_eq!(clusters, ["edge-1", "edge-2", "edge-3"]);
    let json = fixture.run(&["get", "works", "--cluster", "edge-2", "-o", "json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let expected = json!([{"cluster": "edge-2", "work": "web", "owner": "gitwork create work",
        "manifests": 1, "applied": "", "available": ""}]);
    assert_eq!(json["works"], expected);
    let none = fixture.run(&["get", "works", "wep"]);
    assert_eq!(code(&none), Some(2));
    assert!(err(&none).contains("no work matches wep; did you mean web?"), "{}", err(&none));
}
