//! Groups with `deliver: ManifestWorkReplicaSet`: the daemon, the controller and two agents, each
//! daemon with the rights of `deploy/gitwork.yaml`.

use std::path::PathBuf;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use gitwork_core::model::name::CommitId;

use super::fixture::{Controller, DEADLINE, Fixture, OWNER, managed, new_hub};
use crate::agent::fixture::Fixture as AgentFixture;
use crate::deploy::read;
use crate::git_server::{GitServer, Repo};
use crate::harness::{Cluster, apply, apply_all, eventually};
use crate::hub_program::HubProgram;

fn deployment(image: &str) -> String {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
        },
    })
    .to_string()
}

/// The daemon's part of the world.
struct Source {
    id: &'static str,
    repo: Repo,
    server: GitServer,
    folder: TempDir,
    kubeconfig: PathBuf,
    namespace: String,
}

impl Source {
    async fn new(hub: &Cluster, id: &'static str, namespace: &str) -> Self {
        apply(hub.client(), &read("deploy/gitwork.yaml")).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let repo = Repo::create(&folder.path().join("fleet.git"));
        let server = GitServer::http(folder.path()).start();
        let kubeconfig = hub.kubeconfig_path_for("gitwork", "gitwork").await;
        Self { id, repo, server, folder, kubeconfig, namespace: namespace.to_owned() }
    }

    fn daemon(&self) -> HubProgram {
        let (url, cache) = (self.server.url("fleet.git"), self.folder.path().join("cache"));
        let cache = cache.display().to_string();
        let arguments = ["run", "--repo", &url, "--source-id", self.id, "--cache", &cache];
        let flags = ["--interval", "1", "--placement-grace", "1"];
        HubProgram::start(&arguments, &self.kubeconfig, &flags)
    }

    /// Returns the commit's id.
    fn commit_group(&self, deliver: &str, image: &str) -> CommitId {
        let group = format!("placement: {{name: all, namespace: {}}}\n{deliver}\n", self.namespace);
        let (group, web) = (Some(group.as_str()), deployment(image));
        let files = [("groups/g/group.yaml", group), ("groups/g/web/web.json", Some(web.as_str()))];
        self.repo.commit("main", &files)
    }

    /// Another group wants a set with the name of the foreign one.
    fn commit_foreign_name(&self) {
        let group = format!("placement: {{name: none, namespace: {}}}\n{SET}\n", self.namespace);
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: default, name: other}\n";
        let files = [("groups/h/group.yaml", group.as_str()), ("groups/h/foreign/x.yaml", map)];
        self.repo.commit("main", &files.map(|(path, text)| (path, Some(text))));
    }
}

async fn web(cluster: &Cluster) -> Option<Deployment> {
    let all: Api<Deployment> = Api::namespaced(cluster.client(), "default");
    all.get_opt("web").await.unwrap()
}

/// The uid of the Deployment on each cluster, once it has this image everywhere.
async fn until_image(clusters: &[Cluster], image: &str) -> Vec<String> {
    let mut uids = Vec::new();
    for cluster in clusters {
        let probe = || async {
            let found = web(cluster).await.ok_or("there is none")?;
            let containers =
                found.spec.and_then(|spec| spec.template.spec).map(|pod| pod.containers);
            let has = containers.iter().flatten().any(|one| one.image.as_deref() == Some(image));
            if has { Ok(found.metadata.uid.unwrap()) } else { Err(format!("{containers:?}")) }
        };
        let what = format!("the Deployment on {} to have {image}", cluster.name());
        uids.push(eventually(&what, DEADLINE, probe).await.unwrap());
    }
    uids
}

/// Waits until each cluster has as many works of its own, and of the set.
async fn until_works(fixture: &Fixture<'_>, own: usize, of_set: usize, log: &HubProgram) {
    for cluster in &fixture.clusters {
        let probe = || async {
            let all = fixture.works(cluster).list(&ListParams::default()).await.unwrap().items;
            let is_of_set = |labels: Option<&std::collections::BTreeMap<String, String>>| {
                labels.is_some_and(|labels| labels.contains_key(OWNER))
            };
            let count = all.iter().filter(|one| is_of_set(one.metadata.labels.as_ref())).count();
            let found = (all.len() - count, count);
            if found == (own, of_set) { Ok(()) } else { Err(format!("{found:?}\n{}", log.log())) }
        };
        let what = format!("{own} works and {of_set} of the set on {cluster}");
        eventually(&what, DEADLINE, probe).await.unwrap();
    }
}

const SET: &str = "deliver: ManifestWorkReplicaSet";

#[tokio::test(flavor = "multi_thread")]
async fn group_is_switched_to_a_set_and_back_and_its_objects_stay() {
    let (hub, kubeconfig) = new_hub().await;
    let clusters = [managed("one").await, managed("two").await];
    let first = AgentFixture::between(&hub, &clusters[0], |_| {}).await;
    let second = AgentFixture::between(&hub, &clusters[1], |_| {}).await;
    let _controller = Controller::start(&kubeconfig, &[]);
    let fixture = Fixture::of_agents(&hub, &[&first, &second]).await;
    let known = fixture.clusters.iter().map(|name| {
        json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": name}, "spec": {"hubAcceptsClient": true}})
    });
    apply_all(hub.client(), &known.collect::<Vec<Value>>()).await.unwrap();
    let foreign = foreign_set(&fixture).await;

    let source = Source::new(&hub, "fleet", &fixture.namespace).await;
    source.commit_group("", "web:1");
    let daemon = source.daemon();
    let uids = until_image(&clusters, "web:1").await;
    until_works(&fixture, 1, 0, &daemon).await;

    // A daemon that starts in the middle goes on.
    source.commit_group(SET, "web:2");
    drop(daemon);
    let daemon = source.daemon();
    until_works(&fixture, 0, 1, &daemon).await;
    assert_eq!(until_image(&clusters, "web:2").await, uids);
    fixture.until_condition("PlacementRolledOut", "True Complete: 2 of 2").await;

    source.commit_foreign_name();
    source.commit_group(SET, "web:3");
    assert_eq!(until_image(&clusters, "web:3").await, uids);
    let edit = json!({"spec": {"cascadeDeletionPolicy": "Foreground"}});
    fixture.patch(edit).await;
    let put_back = || async {
        let set = fixture.sets().get("web").await.unwrap();
        let policy = &set.data["spec"]["cascadeDeletionPolicy"];
        if policy == "Background" { Ok(()) } else { Err(policy.to_string()) }
    };
    eventually("the set to be put back", DEADLINE, put_back).await.unwrap();

    source.commit_group("", "web:4");
    until_works(&fixture, 1, 0, &daemon).await;
    fixture.until_gone().await;
    assert_eq!(until_image(&clusters, "web:4").await, uids);
    let left = fixture.sets().get("foreign").await.unwrap();
    assert_eq!((left.metadata.uid, left.data["spec"].clone()), foreign);
    assert!(!daemon.log().contains("the plan breaks a rule"), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sources_with_one_set_name_leave_the_set_to_the_first() {
    let (hub, kubeconfig) = new_hub().await;
    let clusters = [managed("shared").await];
    let agent = AgentFixture::between(&hub, &clusters[0], |_| {}).await;
    let _controller = Controller::start(&kubeconfig, &[]);
    let fixture = Fixture::of_agents(&hub, &[&agent]).await;
    let first = Source::new(&hub, "first", &fixture.namespace).await;
    let second = Source::new(&hub, "second", &fixture.namespace).await;
    let keep = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: default, name: keep}\n";
    first.repo.commit("main", &[("groups/g/keep/x.yaml", Some(keep))]);
    first.commit_group(SET, "web:1");
    let first_daemon = first.daemon();
    let uids = until_image(&clusters, "web:1").await;

    second.commit_group(SET, "web:2");
    let second_daemon = second.daemon();
    second_daemon.until_logged("taken by a ManifestWorkReplicaSet").await;
    let changed = second.commit_group(SET, "web:3");
    second_daemon.until_logged(&changed.to_string()).await;
    assert_eq!(until_image(&clusters, "web:1").await, uids);
    until_works(&fixture, 0, 2, &second_daemon).await;

    // Its owner deletes it, so that the name is free.
    first.repo.commit("main", &[("groups/g/web/web.json", None)]);
    let others = until_image(&clusters, "web:3").await;
    assert_ne!(others, uids);
    until_works(&fixture, 0, 2, &first_daemon).await;
    for daemon in [first_daemon, second_daemon] {
        assert!(!daemon.log().contains("the plan breaks a rule"), "{}", daemon.log());
    }
}

/// A set of another source. It selects no cluster.
async fn foreign_set(fixture: &Fixture<'_>) -> (Option<String>, Value) {
    fixture.select("none", &[]).await;
    let set = json!({
        "apiVersion": "work.open-cluster-management.io/v1alpha1",
        "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": "foreign", "annotations": {"gitwork.dev/source": "other"}},
        "spec": {
            "placementRefs": [{"name": "none"}],
            "manifestWorkTemplate": super::template("foreign"),
        },
    });
    let set = serde_json::from_value(set).unwrap();
    let made = fixture.sets().create(&PostParams::default(), &set).await.unwrap();
    // What a user may add is no part of the comparison.
    let mark = Patch::Merge(json!({"metadata": {"labels": {"team": "other"}}}));
    fixture.sets().patch("foreign", &PatchParams::default(), &mark).await.unwrap();
    (made.metadata.uid, made.data["spec"].clone())
}
