//! Another client that keeps changing works: it is detected, named, and the work is backed off.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gitwork_core::config::RewindPolicy;
use gitwork_core::model::name::WorkKey;
use gitwork_daemon::engine::Engine;
use gitwork_daemon::metrics::Metrics;
use gitwork_daemon::transitions::TransitionReporter;
use gitwork_forge::reporter::StatusFeed;
use gitwork_git::{Auth, Reference};
use gitwork_hub::KubeHub;
use gitwork_report::status::State;
use gitwork_report::status::source::{SourceStatus, WorkState};
use gitwork_runtime::clock::WallClock;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::sync::watch;

use super::events::until_event;
use super::fixture::{Running, Sync, config_map};
use crate::cli::gitwork;
use crate::harness::eventually;

const CONFLICTING_MANAGER: &str = "argocd-controller";

/// Somebody's edit of a work, under this field manager.
async fn edit_as(sync: &Sync, manager: &str, value: &str) {
    let manifest = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "web", "namespace": "default" }, "data": { "value": value } });
    let patch = json!({ "spec": { "workload": { "manifests": [manifest] } } });
    let params = PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() };
    sync.works(0).patch("web", &params, &Patch::Merge(patch)).await.unwrap();
}

fn backed_off(status: &SourceStatus) -> Option<(&WorkKey, &WorkState)> {
    status.works.iter().find(|(_, work)| work.code == Some("BackedOff"))
}

/// Waits until the source's status reports a contention.
async fn until_backed_off(feed: &mut StatusFeed) -> Arc<SourceStatus> {
    let is_reported = |status: &Option<Arc<SourceStatus>>| {
        status.as_ref().is_some_and(|status| backed_off(status).is_some())
    };
    let reported = tokio::time::timeout(Duration::from_secs(120), feed.wait_for(is_reported)).await;
    reported.expect("the contention is reported").unwrap().clone().unwrap()
}

/// `plan` and `explain` name the other client, too.
async fn assert_commands_name_the_manager(sync: &Sync) {
    sync.hub.accept(&sync.clusters[0]).await;
    edit_as(sync, CONFLICTING_MANAGER, "theirs at last").await;
    let key = format!("{}/web", sync.clusters[0]);
    for command in [["plan", "-o", "json"].as_slice(), &["explain", &key]] {
        let reported = gitwork(command)
            .args(["--repo", &sync.server.url("fleet.git"), "--source-id", sync.id.as_str()])
            .args(["--branch", "main", "--cache"])
            .arg(sync.folder.path().join("cli-cache"))
            .arg("--kubeconfig")
            .arg(sync.hub.kubeconfig_path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&reported.stdout).replace('\\', "");
        let named = "edited on the hub by the field manager \"argocd-controller\" \
            (spec.workload.manifests)";
        assert!(text.contains(named), "{text}{}", String::from_utf8_lossy(&reported.stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicting_manager_is_named_and_the_work_is_backed_off() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let metrics = Arc::new(Metrics::default());
    let hub = Arc::new(KubeHub::new(sync.hub.client()));
    let mut engine = Engine::new(hub, sync.source(), sync.options(), metrics.clone());
    let (_reached, reach) = watch::channel(Arc::new(BTreeSet::new()));
    let mut feed = engine.publish_status(reach);
    let (stop, stopped) = watch::channel(false);
    let events = KubeHub::new(sync.hub.client()).events();
    let reporter = TransitionReporter::new(events, "gitwork-0".into(), WallClock::system());
    let reporter = tokio::spawn(reporter.run(feed.clone(), stopped));
    let running = Running::of(engine);
    sync.until_value(0, "web", "one").await;
    let number = |works| format!("gitwork_backed_off_works{{source=\"{}\"}} {works}\n", sync.id);
    for round in 0..4 {
        edit_as(&sync, CONFLICTING_MANAGER, &format!("theirs {round}")).await;
        sync.until_value(0, "web", "one").await;
    }
    let before = feed.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(backed_off(&before).is_none(), "four edits may be made by hand: {before:?}");

    edit_as(&sync, CONFLICTING_MANAGER, "theirs again").await;
    sync.until_value(0, "web", "one").await;
    let status = until_backed_off(&mut feed).await;
    let (_, web) = backed_off(&status).unwrap();
    let reported = web.message().unwrap();
    assert!(
        reported.starts_with(
            "the field manager \"argocd-controller\" (spec.workload.manifests) keeps undoing"
        ),
        "{reported}"
    );
    assert_eq!(web.state, State::Degraded);
    let line = status.line(200);
    assert!(line.ends_with(&format!("1 degraded: {}", sync.clusters[0])), "{line}");
    assert!(metrics.encode().contains(&number(1)), "{}", metrics.encode());
    let event = until_event(&sync, 0, "web", "Warning BackedOff").await;
    assert!(event.contains(CONFLICTING_MANAGER), "{event}");

    // It is put back still, and what Git changes goes out.
    edit_as(&sync, CONFLICTING_MANAGER, "theirs once more").await;
    sync.until_value(0, "web", "one").await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "two")))]);
    running.hint();
    sync.until_value(0, "web", "two").await;
    running.stop().await;
    stop.send_replace(true);
    reporter.await.unwrap();

    assert_commands_name_the_manager(&sync).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicate_source_id_is_detected_and_reported() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    sync.repo.commit("other", &[(&sync.path(0, "web/cm.yaml"), Some(&config_map("web", "two")))]);
    let hub = Arc::new(KubeHub::new(sync.hub.client()));
    let start = |branch: &str| {
        let source = sync.source_of(Reference::Branch(branch.into()), Auth::None);
        let (reached, reach) = watch::channel(Arc::new(BTreeSet::new()));
        let mut options = sync.options();
        // With `hold`, the second one would be held, as its branch does not build on the first.
        options.guards.rewind = RewindPolicy::Warn;
        let mut engine = sync.engine_with(hub.clone(), source, options);
        let feed = engine.publish_status(reach);
        (Running::of(engine), feed, reached)
    };
    let (one, mut feed, _reached) = start("main");
    sync.until_value(0, "web", "one").await;
    let (two, mut other_feed, _other_reached) = start("other");
    let status = tokio::select! {
        status = until_backed_off(&mut feed) => status,
        status = until_backed_off(&mut other_feed) => status,
    };
    let reported = backed_off(&status).unwrap().1.message().unwrap();
    assert!(
        reported.starts_with("another gitwork with this source id keeps undoing"),
        "{reported}"
    );
    one.stop().await;
    two.stop().await;
}

/// A cluster that is detached: OCM's garbage collection deletes the works in its namespace, and
/// lets the ManagedCluster go once it sees none.
#[tokio::test(flavor = "multi_thread")]
async fn cluster_can_detach_while_git_has_its_works() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let (_reached, reach) = watch::channel(Arc::new(BTreeSet::new()));
    let (running, mut feed, _) = sync.start_publishing(reach);
    let mut uid = sync.until_value(0, "web", "one").await.uid();
    for _ in 0..5 {
        sync.delete(0, "web").await;
        uid = sync
            .until(0, "web", |work| {
                let there = work.ok_or("it is not there")?.uid();
                if there == uid { Err("it is the old one".into()) } else { Ok(there) }
            })
            .await;
    }
    let status = until_backed_off(&mut feed).await;
    let reported = backed_off(&status).unwrap().1.message().unwrap();
    assert!(
        reported.starts_with("a client that deletes it keeps undoing gitwork's writes"),
        "{reported}"
    );
    let works = sync.works(0);
    eventually("the garbage collection to see no work", Duration::from_secs(300), || async {
        drop(works.delete("web", &DeleteParams::default()).await);
        match works.get_opt("web").await.map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(_) => Err("it is there".to_owned()),
        }
    })
    .await
    .unwrap();
    running.stop().await;
}
