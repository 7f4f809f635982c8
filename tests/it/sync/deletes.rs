//! Removal of works from Git, with each delete option.

use gitwork_core::model::work::LABEL_SOURCE;
use kube::ResourceExt;

use super::fixture::{Sync, config_map, delete_option};

const ORPHAN: &str = "deleteOption: {propagationPolicy: Orphan}\n";

/// A work with this `work.yaml` that the agent has applied, beside one that stays.
async fn applied(sync: &Sync, work_yaml: Option<&str>) -> super::fixture::Running {
    sync.commit(&[
        (0, "web/cm.yaml", Some(&config_map("web", "one"))),
        (0, "web/work.yaml", work_yaml),
        (0, "stays/cm.yaml", Some(&config_map("stays", "one"))),
    ]);
    let running = sync.start();
    sync.until_there(0, "stays").await;
    sync.until_there(0, "web").await;
    sync.agent_takes(0, "web").await;
    sync.agent_applies(0, "web").await;
    running
}

async fn until_deleting(sync: &Sync) -> gitwork_api::work::ManifestWork {
    sync.until(0, "web", |work| {
        let work = work.ok_or("it is gone")?;
        if work.metadata.deletion_timestamp.is_some() {
            Ok(work)
        } else {
            Err("not deleted".into())
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_delete_option_reaches_the_hub_before_the_deletion() {
    let selective = "deleteOption:\n  propagationPolicy: SelectivelyOrphan\n  \
        selectivelyOrphans:\n    orphaningRules:\n    - {resource: configmaps, namespace: \
        default, name: web}\n";
    for (work_yaml, expected) in [
        (None, None),
        (Some("deleteOption: {propagationPolicy: Foreground}\n"), Some("Foreground")),
        (Some(ORPHAN), Some("Orphan")),
        (Some(selective), Some("SelectivelyOrphan")),
    ] {
        let sync = Sync::new(1).await;
        let running = applied(&sync, work_yaml).await;
        sync.commit(&[(0, "web", None)]);
        running.hint();
        let web = until_deleting(&sync).await;
        assert_eq!(delete_option(&web).as_deref(), expected, "{work_yaml:?}");
        sync.agent_lets_go(0, "web").await;
        sync.until_gone(0, "web").await;
        sync.until_there(0, "stays").await;
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prune_waits_for_agent_to_observe_delete_option() {
    let sync = Sync::new(1).await;
    let running = applied(&sync, None).await;
    // Two commits that the daemon sees as one: the option, then the removal.
    sync.commit(&[(0, "web/work.yaml", Some(ORPHAN))]);
    sync.commit(&[(0, "web", None)]);
    running.hint();
    let web = sync
        .until(0, "web", |work| {
            let work = work.ok_or("it is gone")?;
            if delete_option(&work).as_deref() == Some("Orphan") {
                Ok(work)
            } else {
                Err("not set".into())
            }
        })
        .await;
    assert!(
        web.metadata.deletion_timestamp.is_none(),
        "not deleted before the agent has seen the option"
    );

    // A restart in between changes nothing of it.
    running.stop().await;
    let running = sync.start();
    sync.commit(&[(0, "marker/cm.yaml", Some(&config_map("marker", "one")))]);
    running.hint();
    sync.until_there(0, "marker").await;
    let web = sync.until_there(0, "web").await;
    assert!(web.metadata.deletion_timestamp.is_none(), "still waiting for the agent");

    sync.agent_applies(0, "web").await;
    let web = until_deleting(&sync).await;
    assert_eq!(delete_option(&web).as_deref(), Some("Orphan"));
    sync.agent_lets_go(0, "web").await;
    sync.until_gone(0, "web").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn default_set_in_the_removing_commit_is_the_final_delete_option() {
    let sync = Sync::new(1).await;
    let running = applied(&sync, None).await;
    let defaults = format!("defaults:\n  {ORPHAN}");
    sync.commit(&[(0, "web", None), (0, "cluster.yaml", Some(&defaults))]);
    running.hint();
    sync.until(0, "web", |work| {
        let option = delete_option(&work.ok_or("it is gone")?);
        if option.as_deref() == Some("Orphan") { Ok(()) } else { Err("not set".into()) }
    })
    .await;
    sync.agent_applies(0, "web").await;
    until_deleting(&sync).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_prune_releases_the_work_without_deleting() {
    let sync = Sync::new(1).await;
    let running = applied(&sync, Some("prune: false\n")).await;
    sync.commit(&[(0, "web", None)]);
    running.hint();
    let web = sync
        .until(0, "web", |work| {
            let work = work.ok_or("it is gone")?;
            if work.labels().contains_key(LABEL_SOURCE) {
                Err("it is ours".into())
            } else {
                Ok(work)
            }
        })
        .await;
    assert!(web.metadata.deletion_timestamp.is_none());
    assert!(
        web.annotations().keys().all(|key| !key.starts_with("gitwork.dev/")),
        "{:?}",
        web.annotations()
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_or_missing_clusters_folder_deletes_nothing() {
    let sync = Sync::new(1).await;
    let running = applied(&sync, None).await;
    let cluster = format!("clusters/{}", sync.clusters[0]);
    for gone in [cluster.as_str(), "clusters"] {
        sync.repo.commit("main", &[(gone, None), ("README.md", Some(gone))]);
        let hub = std::sync::Arc::new(gitwork_hub::KubeHub::new(sync.hub.client()));
        let (plan, _) = sync.engine(hub, sync.source()).once().await.unwrap();
        assert!(!plan.is_settled());
        assert!(plan.is_empty(), "{:?}", plan.counts());
        let reported: Vec<&str> = plan.steps.iter().map(|step| step.reason.code()).collect();
        assert!(
            reported.iter().all(|code| matches!(*code, "HeldByBudget" | "Frozen")),
            "{reported:?}"
        );
    }
    for name in ["web", "stays"] {
        let work = sync.until_there(0, name).await;
        assert!(work.metadata.deletion_timestamp.is_none(), "{name}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_everything_works_when_allowed() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let running = sync.start();
    sync.until_there(0, "web").await;
    running.stop().await;
    sync.repo.commit(
        "main",
        &[(&sync.path(0, "web"), None), (&sync.path(0, "cluster.yaml"), Some("{}\n"))],
    );
    let hub = std::sync::Arc::new(gitwork_hub::KubeHub::new(sync.hub.client()));
    let mut options = sync.options();
    options.guards.policy.allow_delete_all = true;
    let (plan, _) = sync.engine_with(hub, sync.source(), options).once().await.unwrap();
    assert!(plan.is_settled(), "{:?}", plan.counts());
    sync.until_gone(0, "web").await;
}
