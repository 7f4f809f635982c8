//! Commits become works: created, changed, left alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gitwork_core::model::work::{
    ANNOTATION_COMMIT, ANNOTATION_PATH, LABEL_MANAGED_BY, LABEL_SOURCE,
};
use gitwork_daemon::engine::EngineOptions;
use gitwork_hub::{KubeHub, client, limits};
use kube::ResourceExt;
use serde_json::json;

use super::fixture::{Running, Sync, annotation, config_map};
use crate::harness::faults::Faults;
use crate::harness::requests::tally;

#[tokio::test(flavor = "multi_thread")]
async fn commit_creates_works_and_the_next_changes_only_its_own() {
    let sync = Sync::new(2).await;
    let first = sync.commit(&[
        (0, "web/cm.yaml", Some(&config_map("web", "one"))),
        (0, "db/cm.yaml", Some(&config_map("db", "one"))),
        (1, "web/cm.yaml", Some(&config_map("web", "one"))),
    ]);
    let running = sync.start();
    let web = sync.until_value(0, "web", "one").await;
    assert_eq!(web.labels().get(LABEL_MANAGED_BY).map(String::as_str), Some("gitwork"));
    assert_eq!(web.labels().get(LABEL_SOURCE).map(String::as_str), Some(sync.id.as_str()));
    assert_eq!(annotation(&web, ANNOTATION_PATH), Some(sync.path(0, "web").as_str()));
    assert_eq!(annotation(&web, ANNOTATION_COMMIT), Some(first.to_string().as_str()));
    let db = sync.until_value(0, "db", "one").await;
    let other = sync.until_value(1, "web", "one").await;

    let second = sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "two")))]);
    running.hint();
    let web = sync.until_value(0, "web", "two").await;
    assert_eq!(annotation(&web, ANNOTATION_COMMIT), Some(second.to_string().as_str()));
    // The other works were not written.
    for (cluster, before) in [(0, db), (1, other)] {
        let now = sync.until_there(cluster, &before.name_any()).await;
        assert_eq!(now.resource_version(), before.resource_version());
        assert_eq!(annotation(&now, ANNOTATION_COMMIT), Some(first.to_string().as_str()));
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_sync_alone_opens_connections_ahead() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    for connections in [limits::HUB_IN_FLIGHT, 0] {
        let faults = Faults::none();
        let client = client::client_with(sync.hub.config(), &faults).unwrap();
        let engine = sync.engine(Arc::new(KubeHub::new(client)), sync.source());
        assert!(engine.once().await.unwrap().0.is_settled());
        assert_eq!(faults.count(|seen| seen.path == "/version"), connections);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_without_a_hint_is_found_by_the_next_fetch() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let options = EngineOptions { interval: Duration::from_millis(200), ..sync.options() };
    let hub = Arc::new(KubeHub::new(sync.hub.client()));
    let running = Running::of(sync.engine_with(hub, sync.source(), options));
    sync.until_value(0, "web", "one").await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "two")))]);
    sync.until_value(0, "web", "two").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_writes_nothing() {
    let sync = Sync::new(1).await;
    let text: Vec<(String, String)> = (0..20)
        .map(|i| (format!("work-{i}/cm.yaml"), config_map(&format!("cm-{i}"), &i.to_string())))
        .collect();
    let files: Vec<_> =
        text.iter().map(|(path, text)| (0, path.as_str(), Some(text.as_str()))).collect();
    sync.commit(&files);
    let running = sync.start();
    for i in 0..20 {
        sync.until_there(0, &format!("work-{i}")).await;
    }
    running.stop().await;

    // A new process: nothing of the first one is left but Git and the hub.
    let mut requests = sync.hub.requests();
    requests.take();
    let engine = sync.engine(Arc::new(KubeHub::new(sync.hub.client())), sync.source());
    let (plan, _) = engine.once().await.unwrap();
    assert!(plan.is_settled(), "{:?}", plan.counts());
    let made = requests.take();
    let ours = made.iter().filter(|request| request.namespace == sync.clusters[0]);
    assert_eq!(tally(ours.filter(|request| request.is_write())), BTreeMap::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_work_keeps_its_last_state_while_others_sync() {
    let sync = Sync::new(1).await;
    sync.commit(&[
        (0, "web/cm.yaml", Some(&config_map("web", "one"))),
        (0, "db/cm.yaml", Some(&config_map("db", "one"))),
    ]);
    let running = sync.start();
    let web = sync.until_value(0, "web", "one").await;
    sync.until_value(0, "db", "one").await;

    sync.commit(&[
        (0, "web/cm.yaml", Some("kind: ConfigMap\n  broken: [")),
        (0, "db/cm.yaml", Some(&config_map("db", "two"))),
    ]);
    running.hint();
    sync.until_value(0, "db", "two").await;
    // The next commit's write shows that the pass of the broken one has ended.
    sync.commit(&[(0, "db/cm.yaml", Some(&config_map("db", "three")))]);
    running.hint();
    sync.until_value(0, "db", "three").await;
    let kept = sync.works(0).get("web").await.unwrap();
    assert_eq!(kept.resource_version(), web.resource_version());

    // The work is synced again once its manifest is fixed.
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "three")))]);
    running.hint();
    sync.until_value(0, "web", "three").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_work_is_not_written_and_blocks_nothing() {
    let sync = Sync::new(1).await;
    let large = config_map("large", &"x".repeat(510 * 1024));
    sync.commit(&[
        (0, "large/cm.yaml", Some(&large)),
        (0, "web/cm.yaml", Some(&config_map("web", "one"))),
    ]);
    let engine = sync.engine(Arc::new(KubeHub::new(sync.hub.client())), sync.source());
    let (_, desired) = engine.once().await.unwrap();
    sync.until_value(0, "web", "one").await;
    assert!(sync.works(0).get_opt("large").await.unwrap().is_none(), "the pass has ended");
    let found: Vec<&str> = desired.diagnostics.iter().map(|found| found.code.id()).collect();
    assert_eq!(found, ["GW407"]);
    let reported = &desired.diagnostics[0];
    assert!(reported.message.contains("the hub takes at most 512000"), "{}", reported.message);
    assert!(reported.related[0].1.contains("configmaps/large"), "{:?}", reported.related);
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_removed_from_git_disappear_and_foreign_fields_stay() {
    let sync = Sync::new(1).await;
    let with = "labels: {team: shop, tier: web}\nannotations: {note: hello}\n";
    sync.commit(&[
        (0, "web/cm.yaml", Some(&config_map("web", "one"))),
        (0, "web/work.yaml", Some(with)),
    ]);
    let running = sync.start();
    sync.until_value(0, "web", "one").await;
    let foreign = json!({ "metadata": { "labels": { "other": "tool" }, "annotations": {
        "other": "note" } } });
    sync.edit(0, "web", foreign).await;

    sync.commit(&[(0, "web/work.yaml", Some("labels: {team: shop}\n"))]);
    running.hint();
    let web = sync
        .until(0, "web", |work| {
            let work = work.ok_or("it is not there")?;
            if work.labels().contains_key("tier") { Err("tier is there".into()) } else { Ok(work) }
        })
        .await;
    assert_eq!(web.labels().get("team").map(String::as_str), Some("shop"));
    assert_eq!(web.labels().get("other").map(String::as_str), Some("tool"));
    assert_eq!(annotation(&web, "other"), Some("note"));
    assert_eq!(annotation(&web, "note"), None);
    running.stop().await;
}
