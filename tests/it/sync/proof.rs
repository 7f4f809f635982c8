//! What proves that a commit was verified or applied: the source's record, which only gitwork
//! writes. What a managed cluster's agent writes on its works proves nothing, and neither does a
//! history that has nothing in common with the verified one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use gitwork_api::work::ManifestWork;
use gitwork_core::config::RewindPolicy;
use gitwork_core::model::name::CommitId;
use gitwork_core::plan::{Guard, Reason};
use gitwork_hub::{Hub as _, KubeHub, client};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::fixture::{Sync, config_map, works};
use super::guards::only_hold;
use super::signatures::{DEADLINE, Guarded, names, ssh};
use crate::git_server::signing::SshKey;
use crate::harness::eventually;
use crate::harness::requests::Request;

/// A source whose operator trusts Ann's key, and the key.
async fn trusting_ann(clusters: usize, policy: Value) -> (Guarded, SshKey) {
    let guarded = Guarded::new(clusters, policy).await;
    let ann = ssh();
    guarded.allow(&ann.line("ann", ""), "");
    (guarded, ann)
}

/// A source where Ann has to sign every commit.
async fn signed_by_ann(clusters: usize) -> (Guarded, SshKey) {
    trusting_ann(clusters, json!({ "verify": "commits" })).await
}

/// The same, with `one` on each cluster. Gives the commit that is verified and applied.
async fn with_verified_commit(clusters: usize) -> (Guarded, SshKey, CommitId) {
    let (guarded, ann) = signed_by_ann(clusters).await;
    let commits = (0..clusters).map(|cluster| guarded.set_by(cluster, "one", &ann));
    let last = commits.last().unwrap();
    guarded.pass().await.unwrap();
    for cluster in 0..clusters {
        guarded.has(cluster, "one").await;
    }
    (guarded, ann, last)
}

/// The Leases with the records of sources, and the name of this source's.
fn record_lease(guarded: &Guarded) -> (Api<Lease>, String) {
    let leases = Api::namespaced(guarded.sync.hub.client(), "gitwork");
    (leases, format!("gitwork-source-{}", guarded.sync.id))
}

/// The works of a cluster, with exactly the rights of its agent.
async fn works_of_agent(sync: &Sync, cluster: usize) -> Api<ManifestWork> {
    let name = &sync.clusters[cluster];
    let kubeconfig = sync.hub.accept_as_file(name).await;
    let config = client::config(Some(&kubeconfig), None).await.unwrap();
    works(client::client(config).unwrap(), name)
}

/// An agent writes the id of a commit on a work.
async fn agent_names_commit(sync: &Sync, cluster: usize, commit: &str) {
    let works = works_of_agent(sync, cluster).await;
    let annotations = json!({ "gitwork.dev/commit": commit });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    works.patch("web", &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn annotation_of_an_agent_verifies_no_commit_for_an_empty_cache() {
    let (guarded, _ann, _) = with_verified_commit(2).await;
    let unsigned = guarded.set(1, "evil");
    agent_names_commit(&guarded.sync, 0, &unsigned.to_string()).await;
    names(&guarded.pass_elsewhere().await, &[&unsigned.to_string(), "no signature"]);
    guarded.has(1, "one").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn annotation_of_an_agent_does_not_hold_the_fleet() {
    let sync = Sync::new(2).await;
    let set = |value: &str| {
        let text = config_map("web", value);
        let of = |cluster: usize| (cluster, "web/cm.yaml", Some(text.as_str()));
        sync.commit(&[of(0), of(1)]);
    };
    let pass = || async {
        let mut options = sync.options();
        options.guards.rewind = RewindPolicy::Hold;
        let hub = Arc::new(KubeHub::new(sync.hub.client()));
        sync.engine_with(hub, sync.source(), options).once().await.unwrap().0
    };
    set("one");
    assert!(pass().await.is_settled());
    agent_names_commit(&sync, 0, &"ab".repeat(20)).await;
    set("two");
    let plan = pass().await;
    assert!(plan.is_settled(), "{plan:?}");
    sync.until_value(1, "web", "two").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_of_an_agent_delete_and_hold_nothing() {
    let sync = Sync::new(2).await;
    let [web, stays] = ["web", "stays"].map(|name| config_map(name, "one"));
    sync.commit(&[(1, "web/cm.yaml", Some(&web)), (1, "stays/cm.yaml", Some(&stays))]);
    let pass = || async {
        let hub = Arc::new(KubeHub::new(sync.hub.client()));
        sync.engine(hub, sync.source()).once().await.unwrap().0
    };
    assert!(pass().await.is_settled());
    // More works of an add-on than the budget lets one plan delete.
    let of_agent = works_of_agent(&sync, 0).await;
    let path = format!("clusters/{}/web", sync.clusters[1]);
    let patch = Patch::Merge(json!({ "metadata": {
        "labels": { "gitwork.dev/source": sync.id.as_str() },
        "annotations": { "gitwork.dev/path": path },
    } }));
    for number in 0..12 {
        let name = format!("addon-{number}");
        let manifest = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": "default" },
        });
        let addon: ManifestWork = serde_json::from_value(json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": { "name": name },
            "spec": { "workload": { "manifests": [manifest] } },
        }))
        .unwrap();
        sync.works(0).create(&PostParams::default(), &addon).await.unwrap();
        of_agent.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    }
    sync.commit(&[(1, "web", None)]);
    let plan = pass().await;
    let held = plan.steps.iter().filter(|step| step.reason == Reason::NeverInGit);
    assert_eq!((held.count(), plan.held_deletions()), (12, None), "{plan:?}");
    sync.until_gone(1, "web").await;
    let there = sync.works(0).list(&ListParams::default()).await.unwrap().items;
    assert!(
        there.len() == 12 && there.iter().all(|one| one.metadata.deletion_timestamp.is_none()),
        "{there:?}"
    );
}

/// Replaces the branch by one commit without a parent, which nobody signed.
fn orphan(guarded: &Guarded, value: &str) -> CommitId {
    let file = guarded.sync.path(0, "web/cm.yaml");
    guarded.sync.repo.commit_on("main", &[], &[(&file, Some(&config_map("web", value)))])
}

const RULES: &str = "signers: {paths: [{paths: [clusters], required: 1}]}\n";

#[tokio::test(flavor = "multi_thread")]
async fn unrelated_history_is_refused_with_an_empty_cache() {
    let by_operator = json!({ "paths": [{ "paths": ["clusters"], "required": 1 }] });
    for (policy, file) in [(by_operator, "# nothing\n"), (json!({}), RULES)] {
        let (guarded, ann) = trusting_ann(1, policy).await;
        guarded.sync.repo.commit("main", &[("gitwork.yaml", Some(file))]);
        let verified = guarded.set_by(0, "one", &ann);
        guarded.pass_elsewhere().await.unwrap();
        guarded.has(0, "one").await;
        let commit = orphan(&guarded, "evil");
        let all = [commit.to_string(), verified.to_string(), "gitwork trust".to_owned()];
        names(&guarded.pass_elsewhere().await, &all.each_ref().map(String::as_str));
        guarded.has(0, "one").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_for_paths_judge_all_files_of_the_first_commit() {
    let policy = json!({ "paths": [{ "paths": ["clusters"], "required": 1 }] });
    let (guarded, ann) = trusting_ann(1, policy).await;
    guarded.set(0, "evil");
    guarded.sync.repo.commit("main", &[("README.md", Some("hello\n"))]);
    let file = guarded.sync.path(0, "web/cm.yaml");
    names(&guarded.pass_elsewhere().await, &[&file, "0 of 1 persons"]);
    assert!(guarded.sync.works(0).get_opt("web").await.unwrap().is_none());
    // An empty commit signs everything below it.
    guarded.sync.repo.commit("main", &[]);
    guarded.sync.repo.sign("main", &ann);
    guarded.pass_elsewhere().await.unwrap();
    guarded.has(0, "evil").await;
}

/// The packs of each repository of the mirror. Each fetch adds one.
fn packs(folder: &Path) -> BTreeMap<PathBuf, usize> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut packs(&path));
        } else if path.extension().is_some_and(|extension| extension == "pack") {
            *found.entry(folder.to_owned()).or_default() += 1;
        }
    }
    found
}

fn is_full(cache: &Path) -> bool {
    packs(cache).values().any(|packs| *packs > PACKS_MAX)
}

/// Whether the mirror has another repository than before.
fn is_rebuilt(cache: &Path, before: &BTreeMap<PathBuf, usize>) -> bool {
    packs(cache).keys().any(|folder| !before.contains_key(folder))
}

/// A mirror with more packs is rebuilt by the next fetch, without commits that the remote does not
/// have.
const PACKS_MAX: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn unrelated_history_is_refused_when_the_mirror_is_rebuilt() {
    let (guarded, ann) = trusting_ann(1, json!({})).await;
    guarded.sync.repo.commit("main", &[("gitwork.yaml", Some(RULES))]);
    guarded.set_by(0, "0", &ann);
    let engine = guarded.engine(&guarded.cache, Arc::default());
    let error = engine.source_error();
    let (hint, hints) = mpsc::channel(1);
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(engine.run(hints, stopped));
    guarded.has(0, "0").await;
    let mut last = 0;
    while !is_full(&guarded.cache) {
        last += 1;
        guarded.set_by(0, &last.to_string(), &ann);
        hint.send(()).await.unwrap();
        guarded.has(0, &last.to_string()).await;
    }
    let before = packs(&guarded.cache);
    let commit = orphan(&guarded, "evil");
    hint.send(()).await.unwrap();
    let refused = || async {
        let shown = error.borrow().clone().unwrap_or_default();
        if shown.contains(&commit.to_string()) { Ok(()) } else { Err(shown) }
    };
    eventually("the refusal", DEADLINE, refused).await.unwrap();
    assert!(is_rebuilt(&guarded.cache, &before));
    guarded.has(0, &last.to_string()).await;
    stop.send_replace(true);
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unrelated_history_is_refused_when_the_mirror_is_rebuilt_after_restarts() {
    let (guarded, ann) = trusting_ann(1, json!({})).await;
    guarded.sync.repo.commit("main", &[("gitwork.yaml", Some(RULES))]);
    let mut last = 0;
    while !is_full(&guarded.cache) {
        last += 1;
        guarded.set_by(0, &last.to_string(), &ann);
        guarded.pass().await.unwrap();
    }
    let before = packs(&guarded.cache);
    let commit = orphan(&guarded, "evil");
    for _ in 0..2 {
        names(&guarded.pass().await, &[&commit.to_string()]);
    }
    assert!(is_rebuilt(&guarded.cache, &before));
    guarded.has(0, &last.to_string()).await;
}

/// Runs `gitwork trust` as an operator.
fn trust(guarded: &Guarded, commit: CommitId) {
    let output = Command::new(env!("CARGO_BIN_EXE_gitwork"))
        .args(["trust", &commit.to_string(), "--source-id", guarded.sync.id.as_str()])
        .arg("--kubeconfig")
        .arg(guarded.sync.hub.kubeconfig_path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_begins_with_a_trusted_commit_and_later_ones_are_verified() {
    let (guarded, ann, _) = with_verified_commit(1).await;
    // The record is lost: works prove nothing, although all is as it was.
    let (leases, name) = record_lease(&guarded);
    leases.delete(&name, &DeleteParams::default()).await.unwrap();
    let second = guarded.set_by(0, "two", &ann);
    let held = guarded.pass_elsewhere().await;
    names(&held, &["no record of its last verified commit", &format!("gitwork trust {second}")]);
    guarded.has(0, "one").await;
    trust(&guarded, second);
    guarded.pass_elsewhere().await.unwrap();
    guarded.has(0, "two").await;
    let unsigned = guarded.set(0, "evil");
    names(&guarded.pass_elsewhere().await, &[&unsigned.to_string(), "no signature"]);

    // A rewritten history begins with the commit that an operator trusts, and is still a rewind.
    let rewritten = orphan(&guarded, "three");
    names(&guarded.pass_elsewhere().await, &[&rewritten.to_string(), "does not build on"]);
    trust(&guarded, rewritten);
    guarded.pass_elsewhere().await.unwrap();
    guarded.has(0, "two").await;
}

/// Somebody damages the record: it is no proof, and it is not replaced.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_signed_is_applied_while_the_record_cannot_be_understood() {
    let (guarded, ann, _) = with_verified_commit(1).await;
    let (leases, name) = record_lease(&guarded);
    let damaged = json!({ "metadata": { "annotations": { "gitwork.dev/record": "{" } } });
    let patch = Patch::Merge(damaged);
    leases.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    let second = guarded.set_by(0, "two", &ann);
    let damage = format!("the record in the Lease gitwork/{name} cannot be used");
    let advice = "delete that Lease to start over";
    for held in [guarded.pass().await, guarded.pass_elsewhere().await] {
        names(&held, &[&damage, "not of the form that this version writes", advice]);
    }
    guarded.has(0, "one").await;
    let record = leases.get(&name).await.unwrap();
    assert_eq!(record.metadata.annotations.unwrap()["gitwork.dev/record"], "{");
    // The advice leads on: nothing is verified without a record until an operator begins.
    leases.delete(&name, &DeleteParams::default()).await.unwrap();
    names(&guarded.pass_elsewhere().await, &[&format!("gitwork trust {second}")]);
    guarded.has(0, "one").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_signed_is_applied_while_the_record_cannot_be_written() {
    let (guarded, ann) = signed_by_ann(1).await;
    guarded.set_by(0, "one", &ann);
    let hub = KubeHub::new(guarded.sync.hub.client()).in_namespace("gitwork-is-not-installed");
    let cache = tempfile::tempdir_in(guarded.sync.folder.path()).unwrap();
    let source = guarded.source(cache.path());
    let engine = guarded.sync.engine(Arc::new(hub), source);
    assert!(!engine.once().await.unwrap().0.is_settled());
    assert!(guarded.sync.works(0).get_opt("web").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_costs_one_write_after_one_of_the_record_and_no_commit_costs_none() {
    let (guarded, ann, _) = with_verified_commit(1).await;
    let hub = KubeHub::new(guarded.sync.hub.client());
    let generation = || async {
        let record = hub.record(&guarded.sync.id).await.unwrap().unwrap().record;
        (record.record_generation, record.verified, record.commit)
    };
    let version = || async { guarded.sync.until_there(0, "web").await.metadata.resource_version };
    let (before, second) = (generation().await.0, guarded.set_by(0, "two", &ann));
    let mut requests = guarded.sync.hub.requests();
    guarded.pass().await.unwrap();
    let cluster = guarded.sync.clusters[0].as_str();
    let is_write = |request: &Request| !["get", "list", "watch"].contains(&request.verb.as_str());
    let is_of_work = |request: &Request| {
        request.resource == "manifestworks" && request.namespace == cluster && is_write(request)
    };
    assert_eq!(requests.take().into_iter().filter(is_of_work).count(), 1);
    assert_eq!(generation().await, (before + 1, Some(second), Some(second)));
    let written = version().await;
    for _ in 0..2 {
        guarded.pass_elsewhere().await.unwrap();
    }
    assert_eq!((generation().await.0, version().await), (before + 1, written));
}

#[tokio::test(flavor = "multi_thread")]
async fn return_to_an_older_signed_commit_is_a_held_rewind_and_frees_no_policy() {
    let (guarded, ann, first) = with_verified_commit(1).await;
    let second = guarded.set_by(0, "two", &ann);
    guarded.pass().await.unwrap();

    guarded.sync.repo.set_branch("main", first);
    let engine = guarded.engine(&guarded.cache, Arc::default());
    let (plan, desired) = engine.once().await.unwrap();
    assert_eq!(desired.commit, Some(first));
    let hold = only_hold(&guarded.sync, &plan, Guard::Rewind);
    assert!(hold.reason.contains(&second.short()), "{}", hold.reason);
    guarded.has(0, "two").await;

    let unsigned = guarded.set(0, "evil");
    names(&guarded.pass().await, &[&unsigned.to_string(), "no signature"]);
    names(&guarded.pass_elsewhere().await, &[&unsigned.to_string(), &second.to_string()]);
    guarded.has(0, "two").await;
}
