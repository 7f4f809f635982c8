//! Faults between the daemon and the hub, and unusual changes of Git references.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use gitwork_daemon::engine::Engine;
use gitwork_daemon::metrics::Metrics;
use gitwork_git::{Auth, Reference};
use gitwork_hub::{KubeHub, client};
use gitwork_source::verification::Verification;
use gitwork_source::{Source, SourceReadError};
use kube::ResourceExt;
use serde_json::json;

use super::fixture::{Running, Sync, config_map, works};
use crate::git_server::Access;
use crate::harness::faults::{Fault, Faults, Seen};
use crate::harness::{ClusterOptions, ControlPlane, crds, eventually};

const DEADLINE: Duration = Duration::from_secs(30);

fn faulty(sync: &Sync, faults: &Faults) -> Arc<KubeHub> {
    Arc::new(KubeHub::new(client::client_with(sync.hub.config(), faults).unwrap()))
}

fn is_write(seen: &Seen) -> bool {
    seen.method != http::Method::GET
}

/// Commits `value` to all ten works, or takes the odd ones away.
fn commit(sync: &Sync, value: &str, with_odd: bool) {
    let texts: Vec<String> = (0..10).map(|i| config_map(&format!("cm-{i}"), value)).collect();
    let files: Vec<(String, Option<&str>)> = (0..10)
        .map(|i| {
            let text = &texts[i];
            if i % 2 == 1 && !with_odd {
                (format!("work-{i}"), None)
            } else {
                (format!("work-{i}/cm.yaml"), Some(text.as_str()))
            }
        })
        .collect();
    let files: Vec<_> = files.iter().map(|(path, text)| (0, path.as_str(), *text)).collect();
    sync.commit(&files);
}

async fn until_all(sync: &Sync, value: &str, with_odd: bool) {
    for i in 0..10 {
        let name = format!("work-{i}");
        if i % 2 == 0 || with_odd {
            sync.until_value(0, &name, value).await;
        } else {
            sync.until_gone(0, &name).await;
        }
    }
}

/// Creates, changes, drift and deletions come to the right end under each kind of fault.
async fn survives(fault: Fault) {
    let sync = Sync::new(1).await;
    let faults = Faults::none();
    faults.seed(7, 25, &[fault]);
    commit(&sync, "one", true);
    let running = sync.start_with(faulty(&sync, &faults));
    until_all(&sync, "one", true).await;
    commit(&sync, "two", true);
    running.hint();
    until_all(&sync, "two", true).await;
    sync.delete(0, "work-4").await;
    commit(&sync, "three", false);
    running.hint();
    until_all(&sync, "three", false).await;
    assert!(faults.count(|seen| seen.fault.is_some()) > 0, "faults were met");
    running.stop().await;

    // What came of it is exactly what an undisturbed run leaves: nothing is left to do.
    let hub = Arc::new(KubeHub::new(sync.hub.client()));
    let (plan, _) = sync.engine(hub, sync.source()).once().await.unwrap();
    assert!(plan.is_settled() && plan.is_empty(), "{:?}", plan.counts());
}

#[tokio::test(flavor = "multi_thread")]
async fn sync_survives_lost_requests() {
    survives(Fault::LoseRequest).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sync_survives_lost_responses() {
    survives(Fault::LoseAnswer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sync_survives_conflicts() {
    survives(Fault::Answer { code: 409, retry_after_seconds: None }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sync_survives_throttling() {
    survives(Fault::Answer { code: 429, retry_after_seconds: Some(1) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sync_survives_server_errors() {
    survives(Fault::Answer { code: 500, retry_after_seconds: None }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_or_expired_watches_miss_no_drift() {
    let sync = Sync::new(1).await;
    let faults = Faults::none();
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let running = sync.start_with(faulty(&sync, &faults));
    sync.until_value(0, "web", "one").await;
    for round in 0..3 {
        // The renewed watch answers 410 Gone, so that the engine has to list again.
        faults.next(1, Fault::Forgotten, Seen::is_watch_of_works);
        faults.cut_watches();
        let edited = json!({ "metadata": { "annotations": {
            "gitwork.dev/path": format!("edit-{round}") } } });
        sync.edit(0, "web", edited).await;
        let path = sync.path(0, "web");
        sync.until(0, "web", |work| {
            let work = work.ok_or("it is not there")?;
            let there = work.annotations().get("gitwork.dev/path").cloned();
            if there.as_ref() == Some(&path) { Ok(()) } else { Err(format!("{there:?}")) }
        })
        .await;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_cluster_does_not_delay_others() {
    let sync = Sync::new(2).await;
    let faults = Faults::none();
    let bad = format!("/namespaces/{}/", sync.clusters[0]);
    faults.next(usize::MAX, Fault::Stall, move |seen| is_write(seen) && seen.path.contains(&bad));
    let files: Vec<(usize, String, String)> = (0..2)
        .flat_map(|cluster| {
            (0..20).map(move |i| {
                let text = config_map(&format!("cm-{i}"), "one");
                (cluster, format!("work-{i}/cm.yaml"), text)
            })
        })
        .collect();
    let files: Vec<_> = files
        .iter()
        .map(|(cluster, path, text)| (*cluster, path.as_str(), Some(text.as_str())))
        .collect();
    sync.commit(&files);
    let running = sync.start_with(faulty(&sync, &faults));
    for i in 0..20 {
        sync.until_value(1, &format!("work-{i}"), "one").await;
    }
    faults.stop();
    for i in 0..20 {
        sync.until_value(0, &format!("work-{i}"), "one").await;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_cluster_namespace_is_reported_and_retried() {
    let mut sync = Sync::new(1).await;
    let missing = format!("{}-late", sync.clusters[0]);
    sync.clusters.push(missing.clone());
    sync.commit(&[
        (0, "web/cm.yaml", Some(&config_map("web", "one"))),
        (1, "web/cm.yaml", Some(&config_map("web", "one"))),
    ]);
    let running = sync.start();
    sync.until_value(0, "web", "one").await;
    // The next commit's write shows that the pass of the first one has ended.
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "two")))]);
    running.hint();
    sync.until_value(0, "web", "two").await;
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> =
        kube::Api::all(sync.hub.client());
    assert!(namespaces.get_opt(&missing).await.unwrap().is_none(), "it is not made by gitwork");
    sync.hub.create_namespace(&missing).await;
    sync.until_value(1, "web", "one").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_unreachable_at_start_is_retried() {
    let plane = ControlPlane::shared().await;
    let hub = plane.start("away", ClusterOptions { crds: crds::hub(), ..Default::default() }).await;
    let sync = Sync::new(1).await;
    hub.create_namespace(&sync.clusters[0]).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    hub.kill();
    let running = sync.start_with(Arc::new(KubeHub::new(hub.client())));
    hub.restart().await.unwrap();
    let api = works(hub.client(), &sync.clusters[0]);
    eventually("the work on the hub that came back", Duration::from_secs(300), || async {
        let found = api.get_opt("web").await.map_err(|error| error.to_string())?;
        found.ok_or_else(|| "it is not there".into())
    })
    .await
    .unwrap();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_git_credentials_change_nothing_and_new_ones_are_read() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    // base64 of `deploy:first` and `deploy:second`.
    let access = |word: &str| Access::Authorization(format!("Basic {word}"));
    sync.server.set_access(access("ZGVwbG95OmZpcnN0"));
    let password_file = sync.folder.path().join("password");
    std::fs::write(&password_file, "first\n").unwrap();
    let auth = Auth::Basic { username: "deploy".into(), password_file: password_file.clone() };
    let mut source = sync.source_of(Reference::Head, auth);
    let cancel = Arc::new(AtomicBool::new(false));
    source.read(&cancel).unwrap();

    sync.server.set_access(access("ZGVwbG95OnNlY29uZA=="));
    let next = sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "two")))]);
    let refused = source.read(&cancel).unwrap_err();
    assert!(matches!(refused, SourceReadError::Fetch(_)), "{refused:?}");
    let reported = refused.to_string();
    assert!(!reported.contains("first") && !reported.contains("second"), "{reported}");

    std::fs::write(&password_file, "second\n").unwrap();
    assert_eq!(source.read(&cancel).unwrap().desired.commit, Some(next));
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_branch_deletes_nothing() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let mut source = sync.source();
    let cancel = Arc::new(AtomicBool::new(false));
    source.read(&cancel).unwrap();
    sync.repo.commit("other", &[("README.md", Some("x"))]);
    sync.repo.set_head("other");
    sync.repo.delete_branch("main");
    let error = source.read(&cancel).unwrap_err();
    assert!(error.to_string().contains("main"), "{error}");
}

/// Writes of works in the metrics, with any result.
fn counted(metrics: &Metrics) -> usize {
    let text = metrics.encode();
    let lines = text.lines().filter(|line| line.starts_with("gitwork_hub_writes_total{"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn superseded_writes_are_not_counted() {
    let sync = Sync::new(1).await;
    let faults = Faults::none();
    let is_work = |seen: &Seen| is_write(seen) && seen.path.contains("/manifestworks");
    faults.next(usize::MAX, Fault::Stall, is_work);
    commit(&sync, "one", true);
    let metrics = Arc::new(Metrics::default());
    let mut options = sync.options();
    options.execute.per_cluster = 1;
    let hub = faulty(&sync, &faults);
    let running = Running::of(Engine::new(hub, sync.source(), options, Arc::clone(&metrics)));
    eventually("a write to be under way", Duration::from_secs(300), || async {
        if faults.count(is_work) > 0 { Ok(()) } else { Err("there is none".into()) }
    })
    .await
    .unwrap();
    let before = metrics.encode();
    let of_commit = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("gitwork_commit_timestamp_seconds{"));
        line.map(str::to_owned)
    };
    commit(&sync, "two", true);
    running.hint();
    eventually("the second commit to be read", Duration::from_secs(300), || async {
        let now = of_commit(&metrics.encode());
        if now == of_commit(&before) { Err(format!("{now:?}")) } else { Ok(()) }
    })
    .await
    .unwrap();
    faults.stop();
    until_all(&sync, "two", true).await;
    running.stop().await;
    let (counted, sent) = (counted(&metrics), faults.count(is_work));
    assert!((10..=sent).contains(&counted), "{counted} writes are counted, {sent} were sent");
}

/// Has the first list wait for a message.
fn delay_first_list(faults: &Faults) -> mpsc::Sender<()> {
    let was_listed = AtomicBool::new(false);
    let (sender, wait) = mpsc::channel();
    faults.next(1, Fault::Stall, move |seen| {
        if seen.is_list() && !was_listed.swap(true, Ordering::Relaxed) {
            tokio::task::block_in_place(|| wait.recv_timeout(DEADLINE).unwrap());
        }
        false
    });
    sender
}

/// A source that has to know from the hub which commit was verified.
fn verifying(sync: &Sync) -> Source {
    sync.source().with_verification(Verification::without_operator()).unwrap()
}

/// Waits until a pack was sent, after so many requests of Git.
async fn until_fetched(sync: &Sync, before: usize) {
    eventually("a fetch", DEADLINE, || async {
        let all = sync.server.requests();
        let is_pack = |line: &String| line.contains("/git-upload-pack");
        all[before..].iter().any(is_pack).then_some(()).ok_or(all.join("\n"))
    })
    .await
    .unwrap();
}

/// A daemon fetches and renders while it reads the hub, and a webhook comes in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hint_during_the_first_list_is_served_by_another_fetch() {
    let sync = Sync::new(1).await;
    let web = |value| sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", value)))]);
    web("one");
    let faults = Faults::none();
    let go_on = delay_first_list(&faults);
    let running = Running::of(sync.engine(faulty(&sync, &faults), verifying(&sync)));
    until_fetched(&sync, 0).await;
    web("two");
    running.hint();
    go_on.send(()).unwrap();
    sync.until_value(0, "web", "two").await;
    let is_work = |seen: &Seen| is_write(seen) && seen.path.contains("/manifestworks");
    assert_eq!(faults.count(is_work), 1, "the first commit was only rendered");
    running.stop().await;
}

/// `run --once` fetches while it reads the hub: another gitwork applies a newer commit in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_applied_after_the_fetch_is_no_rewind() {
    let sync = Sync::new(1).await;
    let plain = Arc::new(KubeHub::new(sync.hub.client()));
    let web = |value| sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", value)))]);
    web("one");
    sync.engine(plain.clone(), sync.source()).once().await.unwrap();

    // Its first list waits until the other one is done.
    let faults = Faults::none();
    let overtaken = delay_first_list(&faults);
    let before = sync.server.requests().len();
    let once = tokio::spawn(sync.engine(faulty(&sync, &faults), verifying(&sync)).once());
    until_fetched(&sync, before).await;
    web("two");
    let (plan, _) = sync.engine(plain, sync.source()).once().await.unwrap();
    assert!(plan.is_settled(), "{plan:?}");
    overtaken.send(()).unwrap();

    let (plan, _) = once.await.unwrap().unwrap();
    assert!(plan.is_settled(), "{plan:?}");
    sync.until_value(0, "web", "two").await;
}
