//! Changes by other clients on the hub: edits, deletions, taken names.

use gitwork_api::work::ManifestWork;
use gitwork_core::model::work::{ANNOTATION_ADOPT, ANNOTATION_COMMIT, LABEL_SOURCE};
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::json;

use super::fixture::{Sync, annotation, config_map, value_of};

#[tokio::test(flavor = "multi_thread")]
async fn edit_on_the_hub_is_reverted_and_keeps_the_commit() {
    let sync = Sync::new(1).await;
    let first = sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let running = sync.start();
    sync.until_value(0, "web", "one").await;
    let manifest = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "web", "namespace": "default" }, "data": { "value": "edited" } });
    let edited =
        sync.edit(0, "web", json!({ "spec": { "workload": { "manifests": [manifest] } } })).await;
    assert_eq!(value_of(&edited).as_deref(), Some("edited"));
    let web = sync.until_value(0, "web", "one").await;
    assert_eq!(annotation(&web, ANNOTATION_COMMIT), Some(first.to_string().as_str()));

    // An edit of one of gitwork's annotations is reverted, too.
    sync.edit(
        0,
        "web",
        json!({ "metadata": { "annotations": { "gitwork.dev/path": "elsewhere" } } }),
    )
    .await;
    let path = sync.path(0, "web");
    sync.until(0, "web", |work| {
        let work = work.ok_or("it is not there")?;
        if annotation(&work, "gitwork.dev/path") == Some(&path) {
            Ok(())
        } else {
            Err("edited".into())
        }
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_on_the_hub_is_reverted() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let running = sync.start();
    let uid = sync.until_value(0, "web", "one").await.uid();
    sync.delete(0, "web").await;
    sync.until(0, "web", |work| {
        let work = work.ok_or("it is not there")?;
        if work.uid() == uid { Err("it is the old one".into()) } else { Ok(()) }
    })
    .await;
    running.stop().await;
}

async fn foreign(sync: &Sync, name: &str) -> ManifestWork {
    let work: ManifestWork = serde_json::from_value(json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": { "name": name, "namespace": sync.clusters[0] },
        "spec": { "workload": { "manifests": [{ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "web", "namespace": "default" }, "data": {
                "value": "theirs" } }] } },
    }))
    .unwrap();
    sync.works(0).create(&PostParams::default(), &work).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_work_is_untouched_until_its_owner_consents() {
    let sync = Sync::new(1).await;
    let theirs = foreign(&sync, "web").await;
    sync.commit(&[
        (0, "web/cm.yaml", Some(&config_map("web", "ours"))),
        (0, "db/cm.yaml", Some(&config_map("db", "ours"))),
    ]);
    let hub = std::sync::Arc::new(gitwork_hub::KubeHub::new(sync.hub.client()));
    let (plan, _) = sync.engine(hub.clone(), sync.source()).once().await.unwrap();
    let reported: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    assert!(reported.iter().any(|step| step.contains("the name is taken")), "{reported:?}");
    assert!(!plan.is_settled());
    sync.until_value(0, "db", "ours").await;
    let web = sync.until_there(0, "web").await;
    assert_eq!(web.resource_version(), theirs.resource_version(), "not touched");

    // Another source's consent is no consent for this one.
    let consent = |to: &str| json!({ "metadata": { "annotations": { ANNOTATION_ADOPT: to } } });
    sync.edit(0, "web", consent("somebody-else")).await;
    sync.engine(hub.clone(), sync.source()).once().await.unwrap();
    assert_eq!(value_of(&sync.until_there(0, "web").await).as_deref(), Some("theirs"));

    sync.edit(0, "web", consent(sync.id.as_str())).await;
    let (plan, _) = sync.engine(hub, sync.source()).once().await.unwrap();
    assert!(plan.is_settled(), "{:?}", plan.counts());
    let web = sync.until_value(0, "web", "ours").await;
    assert_eq!(web.uid(), theirs.uid(), "taken over, not replaced");
    assert_eq!(web.labels().get(LABEL_SOURCE).map(String::as_str), Some(sync.id.as_str()));
    assert_eq!(annotation(&web, ANNOTATION_ADOPT), None, "the consent is used up");
}

#[tokio::test(flavor = "multi_thread")]
async fn unowned_works_are_never_touched() {
    let sync = Sync::new(1).await;
    let theirs = foreign(&sync, "not-ours").await;
    sync.commit(&[
        (0, "web/cm.yaml", Some(&config_map("web", "one"))),
        (0, "stays/cm.yaml", Some(&config_map("stays", "one"))),
    ]);
    let running = sync.start();
    sync.until_value(0, "web", "one").await;
    sync.commit(&[(0, "web", None), (0, "db/cm.yaml", Some(&config_map("db", "one")))]);
    running.hint();
    sync.until_gone(0, "web").await;
    let there = sync.until_there(0, "not-ours").await;
    assert_eq!(there.resource_version(), theirs.resource_version());
    running.stop().await;
}
