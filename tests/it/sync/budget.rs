//! The deletion budget on a real API server: held, approved on the hub or in Git, and through.

use std::process::{Command, Output};
use std::sync::Arc;

use gitwork_core::model::name::{CommitId, SourceId};
use gitwork_core::model::work::ANNOTATION_CREATED_DURING_HOLD;
use gitwork_hub::KubeHub;
use gitwork_report::outputs::OutputKind;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::fixture::{Running, Sync, config_map, value_of};
use crate::deploy;
use crate::output_schemas::assert_documented;

fn name(number: usize) -> String {
    format!("work-{number:02}")
}

/// One commit that removes works and changes or adds one.
fn remove(sync: &Sync, numbers: std::ops::Range<usize>, kept: &str, value: &str) -> CommitId {
    let names: Vec<String> = numbers.map(name).collect();
    let (file, text) = (format!("{kept}/cm.yaml"), config_map(kept, value));
    let mut files: Vec<(usize, &str, Option<&str>)> =
        names.iter().map(|name| (0, name.as_str(), None)).collect();
    files.push((0, &file, Some(&text)));
    sync.commit(&files)
}

pub fn gitwork(sync: &Sync, command: &[&str]) -> Output {
    gitwork_of(sync, &sync.id, "main", command)
}

/// A command about one source of the repository.
pub fn gitwork_of(sync: &Sync, id: &SourceId, branch: &str, command: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gitwork"))
        .args(command)
        .args(["--repo", &sync.server.url("fleet.git"), "--branch", branch])
        .args(["--source-id", id.as_str()])
        .arg("--cache")
        .arg(sync.folder.path().join("cli-cache"))
        .arg("--kubeconfig")
        .arg(sync.hub.kubeconfig_path())
        .output()
        .unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The held deletions that `gitwork plan` prints: their hash and their number.
pub fn held(sync: &Sync) -> (String, u64) {
    let plan = gitwork(sync, &["plan", "-o", "json"]);
    let plan: Value =
        serde_json::from_slice(&plan.stdout).unwrap_or_else(|_| panic!("{}", text(&plan.stderr)));
    assert_documented(OutputKind::Plan, &plan, "plan");
    let held = &plan["held"];
    (held["hash"].as_str().unwrap().to_owned(), held["works"].as_u64().unwrap())
}

async fn deleting_or_gone(sync: &Sync, numbers: std::ops::Range<usize>) -> usize {
    let works = sync.works(0).list(&ListParams::default()).await.unwrap().items;
    let there = |number: usize| {
        works.iter().any(|work| {
            work.metadata.name.as_deref() == Some(&name(number))
                && work.metadata.deletion_timestamp.is_none()
        })
    };
    numbers.filter(|number| !there(*number)).count()
}

/// One commit with the works 0 to 13.
fn commit_fourteen_works(sync: &Sync) {
    let all: Vec<String> = (0..14).map(|number| format!("{}/cm.yaml", name(number))).collect();
    let text_of = config_map("any", "one");
    let distinct: Vec<String> = (0..14).map(|n| text_of.replace("any", &name(n))).collect();
    let files: Vec<(usize, &str, Option<&str>)> = all
        .iter()
        .zip(&distinct)
        .map(|(file, text)| (0, file.as_str(), Some(text.as_str())))
        .collect();
    sync.commit(&files);
}

/// An approval of something else is refused. The one of the plan's hash lets exactly the held
/// deletions of the works 0 to 10 through, and the hub keeps it.
async fn approve_on_the_hub(sync: &Sync) {
    let (hash, works) = held(sync);
    assert_eq!(works, 11);
    let wrong = gitwork(sync, &["approve", &"0".repeat(64)]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains(&hash), "{}", text(&wrong.stderr));
    let printed = text(&gitwork(sync, &["approve", &hash, "--print"]).stdout);
    assert_eq!(printed.lines().count(), 11);
    assert_eq!(deleting_or_gone(sync, 0..14).await, 0);
    let approved = gitwork(sync, &["approve", &hash]);
    assert!(approved.status.success(), "{}", text(&approved.stderr));
    for number in 0..11 {
        sync.until_gone(0, &name(number)).await;
    }
    assert_eq!(deleting_or_gone(sync, 11..14).await, 0);
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(sync.hub.client(), "gitwork");
    let stored = maps.get(&format!("gitwork-source-{}", sync.id)).await.unwrap();
    let entry = &stored.data.unwrap()[&hash];
    assert!(entry.starts_with("# approved by ") && entry.ends_with(&printed), "{entry}");
}

/// The held deletions of the works 11 to 13 and of the marker are approved by a file in Git.
async fn approve_in_git(sync: &Sync, running: &Running) {
    let (hash, works) = held(sync);
    assert_eq!(works, 4);
    assert_eq!(deleting_or_gone(sync, 11..14).await, 0, "held after the edit");
    let printed = text(&gitwork(sync, &["approve", &hash, "--print"]).stdout);
    sync.repo.commit("main", &[(&format!("approvals/{hash}"), Some(&printed))]);
    running.hint();
    for number in 11..14 {
        sync.until_gone(0, &name(number)).await;
    }
    sync.until_gone(0, "marker").await;
    sync.until(0, "moved", |work| {
        let marked = work.ok_or("it is gone")?.metadata.annotations.unwrap_or_default();
        if marked.contains_key("gitwork.dev/created-during-hold") {
            Err("marked".into())
        } else {
            Ok(())
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_over_budget_wait_for_approval_on_hub_or_in_git() {
    let sync = Sync::new(1).await;
    // With the rights that `deploy/` grants, which must do for reading approvals.
    let client = Client::try_from(deploy::installed().await).unwrap();
    let start = || -> Running { sync.start_with(Arc::new(KubeHub::new(client.clone()))) };
    commit_fourteen_works(&sync);
    let running = start();
    for number in 0..14 {
        sync.until_there(0, &name(number)).await;
    }

    // Eleven of fourteen go, one changes: the change is applied, the deletions are held, also after
    // a restart.
    remove(&sync, 0..11, &name(13), "two");
    running.hint();
    sync.until_value(0, &name(13), "two").await;
    running.stop().await;
    let running = start();
    sync.commit(&[(0, "marker/cm.yaml", Some(&config_map("marker", "one")))]);
    running.hint();
    sync.until_there(0, "marker").await;
    assert_eq!(deleting_or_gone(&sync, 0..14).await, 0);

    approve_on_the_hub(&sync).await;

    // Every work that the source had goes, another comes: held, and approved in Git this time.
    sync.commit(&[(0, "marker", None)]);
    remove(&sync, 11..14, "moved", "one");
    running.hint();
    let moved = sync.until_there(0, "moved").await;
    assert_eq!(value_of(&moved).as_deref(), Some("one"));
    assert_eq!(deleting_or_gone(&sync, 11..14).await, 0);
    // Removing the marker does not make the work count as kept.
    assert!(moved.annotations().contains_key(ANNOTATION_CREATED_DURING_HOLD));
    let unmarked =
        json!({ "metadata": { "annotations": { ANNOTATION_CREATED_DURING_HOLD: null } } });
    sync.edit(0, "moved", unmarked).await;
    approve_in_git(&sync, &running).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_that_loosens_the_budget_is_judged_by_the_previous_budget() {
    let sync = Sync::new(1).await;
    let maps: Vec<(String, String)> =
        (0..3).map(|n| (format!("{}/cm.yaml", name(n)), config_map(&name(n), "one"))).collect();
    let files: Vec<(usize, &str, Option<&str>)> =
        maps.iter().map(|(file, text)| (0, file.as_str(), Some(text.as_str()))).collect();
    sync.repo.commit("main", &[("gitwork.yaml", Some("budgets: {works: 0, percent: 0}\n"))]);
    sync.commit(&files);
    let pass = || async {
        let hub = Arc::new(KubeHub::new(sync.hub.client()));
        sync.engine(hub, sync.source()).once().await.unwrap().0
    };
    assert!(pass().await.is_settled());
    let loose = "budgets: {works: 9}\n";
    sync.repo.commit("main", &[("gitwork.yaml", Some(loose)), (&sync.path(0, &name(0)), None)]);
    let plan = pass().await;
    assert_eq!(plan.held_deletions().map(|held| held.works.len()), Some(1), "{:?}", plan.counts());
    assert_eq!(deleting_or_gone(&sync, 0..3).await, 0);

    // What a later commit removes is judged by it.
    let web = maps[0].1.as_str();
    sync.commit(&[(0, "work-00/cm.yaml", Some(web))]);
    assert!(pass().await.is_settled());
    sync.commit(&[(0, &name(1), None)]);
    assert!(pass().await.is_settled());
    sync.until_gone(0, &name(1)).await;
}

/// A budget for the clusters of a pattern counts their deletions only, and holds no change.
#[tokio::test(flavor = "multi_thread")]
async fn budget_of_a_cluster_counts_its_own_deletions_only() {
    deploy::installed().await;
    let sync = Sync::new(2).await;
    let (_, number) = sync.clusters[0].rsplit_once('-').unwrap();
    let rule = format!("budgets:\n  clusters:\n  - {{clusters: [\"*-{number}\"], works: 1}}\n");
    sync.repo.commit("main", &[("gitwork.yaml", Some(&rule))]);
    let maps: Vec<(String, String)> =
        (0..5).map(|n| (format!("{}/cm.yaml", name(n)), config_map(&name(n), "one"))).collect();
    let of_cluster = |cluster| maps.iter().map(move |(f, t)| (cluster, f.as_str(), Some(&**t)));
    sync.commit(&of_cluster(0).chain(of_cluster(1)).collect::<Vec<_>>());
    let pass = || async {
        let hub = Arc::new(KubeHub::new(sync.hub.client()));
        sync.engine(hub, sync.source()).once().await.unwrap().0
    };
    assert!(pass().await.is_settled());

    // One work is within the budget. It does not bound the other cluster.
    sync.commit(&[(0, &name(0), None), (1, &name(0), None), (1, &name(1), None)]);
    assert!(pass().await.is_settled());
    for (cluster, work) in [(0, 0), (1, 0), (1, 1)] {
        sync.until_gone(cluster, &name(work)).await;
    }

    // Two are over it. They are held. The changes of both clusters arrive, and the other cluster
    // loses what Git dropped there.
    let (first, second) = (name(1), name(2));
    let (file, changed) = (format!("{}/cm.yaml", name(4)), config_map(&name(4), "two"));
    let change = |cluster| (cluster, file.as_str(), Some(changed.as_str()));
    let elsewhere = (1, second.as_str(), None);
    sync.commit(&[(0, &first, None), (0, &second, None), elsewhere, change(0), change(1)]);
    let held_now = pass().await.held_deletions().unwrap();
    let clusters: Vec<&str> = held_now.works.iter().map(|one| one.key.cluster.as_str()).collect();
    assert_eq!(clusters, [sync.clusters[0].as_str(); 2]);
    assert!(held_now.excess.to_string().contains(&format!("*-{number}")), "{}", held_now.excess);
    for cluster in [0, 1] {
        sync.until_value(cluster, &name(4), "two").await;
    }
    assert_eq!(deleting_or_gone(&sync, 1..5).await, 0);
    sync.until_gone(1, &second).await;

    // An approval lets exactly those through.
    let (hash, works) = held(&sync);
    assert_eq!(works, 2);
    let approved = gitwork(&sync, &["approve", &hash]);
    assert!(approved.status.success(), "{}", text(&approved.stderr));
    assert!(pass().await.is_settled());
    for work in [&first, &second] {
        sync.until_gone(0, work).await;
    }
    assert_eq!(deleting_or_gone(&sync, 3..5).await, 0);
}
