//! Two repositories on one hub: the second changes nothing of the first, unless an operator wants
//! it. Both are folders, in which the program runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use gitwork_api::work::ManifestWork;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{code, err, git, gitwork, out, write};
use crate::deploy;
use crate::harness::{self, Cluster, ClusterOptions, ControlPlane, crds};
use crate::sync::fixture::config_map;

/// A repository without a remote, with one commit. `works`: as `CLUSTER/WORK`.
fn repository(works: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for work in works {
        let name = work.split_once('/').unwrap().1;
        let file = format!("clusters/{work}/cm.yaml");
        write(folder.path(), &file, &config_map(name, "one"));
    }
    git(folder.path(), &["init", "-q", "-b", "main"]);
    git(folder.path(), &["add", "."]);
    git(folder.path(), &["commit", "-q", "-m", "first"]);
    folder
}

/// Runs the program in a folder, against a hub.
pub fn run(hub: &Cluster, folder: &TempDir, arguments: &[&str]) -> Output {
    let mut command = gitwork(arguments);
    command.current_dir(folder.path()).arg("--kubeconfig").arg(hub.kubeconfig_path());
    command.env_remove("GITWORK_LOG").output().unwrap()
}

/// The uid of each work in a namespace.
async fn uids(client: Client, namespace: &str) -> BTreeMap<String, String> {
    let works: Api<ManifestWork> = Api::namespaced(client, namespace);
    let list = works.list(&ListParams::default()).await.unwrap();
    list.items.iter().map(|work| (work.name_any(), work.uid().unwrap())).collect()
}

/// The origin in the source's record.
async fn recorded_origin(client: Client, source: &str) -> String {
    let leases: Api<Lease> = Api::namespaced(client, "gitwork");
    let lease = leases.get(&format!("gitwork-source-{source}")).await.unwrap();
    let record: Value = serde_json::from_str(&lease.annotations()["gitwork.dev/record"]).unwrap();
    record["origin"].as_str().unwrap().to_owned()
}

/// The origin of a repository without a remote.
fn origin(folder: &TempDir) -> String {
    format!("{} (path /)", folder.path().canonicalize().unwrap().display())
}

/// The only change that a plan holds: its guard and its hash.
fn hold(plan: &Output) -> (String, String) {
    let plan: Value = serde_json::from_slice(&plan.stdout).unwrap_or_else(|_| panic!("{plan:?}"));
    let holds = plan["holds"].as_array().unwrap_or_else(|| panic!("{plan}"));
    assert_eq!(holds.len(), 1, "{plan}");
    let text = |field: &str| holds[0][field].as_str().unwrap().to_owned();
    (text("guard"), text("hash"))
}

const ONCE: [&str; 4] = ["run", "--once", "--source-id", "fleet"];
const PLAN: [&str; 3] = ["plan", "-o", "json"];

/// The source `fleet` belongs to `a`: nothing that runs in `b` changes it.
fn assert_held(hub: &Cluster, a: &TempDir, b: &TempDir) -> String {
    let refused = run(hub, b, &ONCE);
    assert_eq!(code(&refused), Some(1), "{}", err(&refused));
    let (from, to) = (origin(a), origin(b));
    // Without an id, a command takes that of the only source on the hub.
    for arguments in [&["plan"][..], &["plan", "--source-id", "fleet"]] {
        let plan = out(&run(hub, b, arguments));
        let reason = format!("fleet on this hub belongs to {from}, and this gitwork reads {to}");
        assert!(plan.contains(&reason) && plan.contains("--source-id"), "{plan}");
    }
    let (guard, hash) = hold(&run(hub, b, &PLAN));
    assert_eq!(guard, "origin");
    hash
}

#[tokio::test(flavor = "multi_thread")]
async fn second_repository_changes_nothing_until_an_operator_approves() {
    let plane = ControlPlane::shared().await;
    let options = ClusterOptions { crds: crds::hub(), ..ClusterOptions::default() };
    let hub = plane.start("two-repositories", options).await;
    for namespace in ["gitwork", "edge-1"] {
        hub.create_namespace(namespace).await;
    }
    let of_hub = || uids(hub.client(), "edge-1");
    let a = repository(&["edge-1/web", "edge-1/db"]);
    let b = repository(&["edge-1/shop"]);
    for folder in [&a, &b] {
        let refused = run(&hub, folder, &["run", "--once"]);
        assert_eq!(code(&refused), Some(2), "{}", err(&refused));
        assert!(err(&refused).contains("--source-id"), "{}", err(&refused));
    }
    assert!(of_hub().await.is_empty());
    assert_eq!(code(&run(&hub, &a, &ONCE)), Some(0));
    assert_eq!(recorded_origin(hub.client(), "fleet").await, origin(&a));
    let works = of_hub().await;
    assert_eq!(works.len(), 2, "{works:?}");

    let hash = assert_held(&hub, &a, &b);
    // The other repository cannot approve itself.
    let printed = run(&hub, &b, &["approve", &hash, "--print"]);
    assert_eq!(code(&printed), Some(2), "{}", err(&printed));
    let text = format!("origin fleet\nfrom {}\nto {}\n", origin(&a), origin(&b));
    write(b.path(), &format!("approvals/{hash}"), &text);
    assert_eq!(assert_held(&hub, &a, &b), hash);
    // Without an id, nothing is written, whatever the hub has.
    for write in [&["adopt", "edge-1/shop", "--yes"][..], &["approve", &hash]] {
        let refused = run(&hub, &b, write);
        let text = err(&refused);
        assert!(code(&refused) == Some(2) && text.contains("--source-id fleet"), "{text}");
    }
    let adopted = run(&hub, &b, &["adopt", "edge-1/shop", "--yes", "--source-id", "fleet"]);
    assert!(code(&adopted) == Some(1) && err(&adopted).contains(&hash), "{}", err(&adopted));
    assert_eq!(of_hub().await, works);
    assert_eq!(recorded_origin(hub.client(), "fleet").await, origin(&a));

    let approved = run(&hub, &b, &["approve", &hash, "--source-id", "fleet"]);
    assert_eq!((code(&approved), out(&approved)), (Some(0), text), "{}", err(&approved));
    assert_eq!(code(&run(&hub, &b, &ONCE)), Some(1), "the budget holds the deletions");
    assert_eq!(recorded_origin(hub.client(), "fleet").await, origin(&b));
    let all = of_hub().await;
    assert!(all.len() == 3 && works.iter().all(|(name, uid)| all[name] == *uid), "{all:?}");
    assert_eq!(hold(&run(&hub, &b, &PLAN)).0, "budget");

    // The way back needs another approval, and ends the first one.
    let hash = assert_held(&hub, &b, &a);
    let approved = run(&hub, &a, &["approve", &hash, "--source-id", "fleet"]);
    assert_eq!(code(&approved), Some(0), "{}", err(&approved));
    run(&hub, &a, &ONCE);
    assert_eq!(recorded_origin(hub.client(), "fleet").await, origin(&a));
    assert_held(&hub, &a, &b);
    // The first repository does not have the other's work, and its budget allows one deletion.
    assert_eq!(of_hub().await, works);
}

#[tokio::test(flavor = "multi_thread")]
async fn repositories_with_ids_of_their_own_live_side_by_side() {
    deploy::installed().await;
    let hub = harness::hub().await;
    let namespace = hub.namespace("two").await;
    let a = repository(&[&format!("{namespace}/web")]);
    let b = repository(&[&format!("{namespace}/shop")]);
    let ids = ["a", "b"].map(|name| format!("{name}-{namespace}"));
    let mut works = BTreeMap::new();
    for _ in 0..2 {
        for (folder, id) in [&a, &b].into_iter().zip(&ids) {
            let done = run(hub, folder, &["run", "--once", "--source-id", id]);
            assert_eq!(code(&done), Some(0), "{}", err(&done));
            assert_eq!(recorded_origin(hub.client(), id).await, origin(folder));
        }
        let there = uids(hub.client(), &namespace).await;
        assert!(there.len() == 2 && (works.is_empty() || works == there), "{there:?}");
        works = there;
    }
}

/// The default id of the source in a folder, as `gitwork run` names it.
fn default_id(folder: &Path, arguments: &[&str]) -> String {
    let all = [&["run", "--once"], arguments].concat();
    let refused = gitwork(&all).current_dir(folder).output().unwrap();
    assert_eq!(code(&refused), Some(2), "{}", err(&refused));
    err(&refused).trim().rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn clones_of_a_repository_have_one_id_and_other_folders_another() {
    let top = tempfile::tempdir().unwrap();
    let first = repository(&["edge-1/web"]);
    git(top.path(), &["clone", "-q", "--bare", &first.path().display().to_string(), "a.git"]);
    git(top.path().join("a.git").as_path(), &["remote", "remove", "origin"]);
    let clones = ["one", "two"].map(|name| {
        git(top.path(), &["clone", "-q", "a.git", name]);
        top.path().join(name)
    });
    let [one, two] = &clones;
    let of_clone = default_id(one, &[]);
    assert!(of_clone.starts_with("a-"), "{of_clone}");
    assert_eq!(of_clone, default_id(two, &[]));
    assert_eq!(of_clone, default_id(top.path(), &["--repo", "two"]));
    assert_eq!(of_clone, default_id(top.path(), &["--repo", "a.git"]));
    // In a folder below it, too, unless it is named: then it is another source.
    assert_eq!(of_clone, default_id(&one.join("clusters"), &[]));
    let below = default_id(top.path(), &["--repo", "one/clusters"]);
    assert_ne!(below, of_clone);
    assert_eq!(below, default_id(two, &["--path", "clusters"]));
    for (clone, url) in clones.iter().zip(["git@h.example:a/b.git", "https://h.example/a/b"]) {
        git(clone, &["remote", "set-url", "origin", url]);
    }
    let of_url = default_id(one, &[]);
    assert!(of_url.starts_with("b-"), "{of_url}");
    assert_eq!(of_url, default_id(two, &[]));
    // With several remotes, `origin` counts; no remote of another name does.
    git(two, &["remote", "add", "fork", "https://h.example/c/b"]);
    assert_eq!(of_url, default_id(two, &[]));
    git(two, &["remote", "remove", "origin"]);
    assert_ne!(of_url, default_id(two, &[]));

    let [c, d] = ["c/fleet", "d/fleet"].map(|name| top.path().join(name));
    for folder in [&c, &d] {
        write(folder, "clusters/edge-1/web/cm.yaml", &config_map("web", "one"));
    }
    assert_ne!(default_id(&c, &[]), default_id(&d, &[]));
    assert_eq!(default_id(&c, &[]), default_id(top.path(), &["--repo", "c/../c/fleet"]));
}

#[test]
fn file_of_the_daemon_needs_an_id_for_a_folder() {
    let folder = repository(&["edge-1/web"]);
    write(folder.path(), "daemon.yaml", "sources: [{id: fleet, repo: .}, {repo: .}]\n");
    let refused = gitwork(&["run", "--once", "--config", "daemon.yaml"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(code(&refused), Some(1), "{}", err(&refused));
    assert!(err(&refused).contains("sources[1].id: is missing"), "{}", err(&refused));
}
