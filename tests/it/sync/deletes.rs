//! What Git drops, and how it goes.

use gitwork::core::work::LABEL_SOURCE;
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

async fn until_deleting(sync: &Sync) -> gitwork::api::work::ManifestWork {
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
async fn each_delete_option_is_on_the_hub_when_the_work_is_deleted() {
    let selective = "deleteOption:\n  propagationPolicy: SelectivelyOrphan\n  selectivelyOrphans:\n    orphaningRules:\n    - {resource: configmaps, namespace: default, name: web}\n";
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
async fn a_delete_option_set_before_the_removal_is_seen_by_the_agent_before_the_deletion() {
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
async fn a_default_set_in_the_commit_that_removes_a_work_is_its_last_word() {
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
async fn prune_off_lets_go_of_the_work_and_deletes_nothing() {
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
async fn an_empty_or_vanished_clusters_folder_deletes_nothing() {
    let sync = Sync::new(1).await;
    let running = applied(&sync, None).await;
    let cluster = format!("clusters/{}", sync.clusters[0]);
    for gone in [cluster.as_str(), "clusters"] {
        sync.repo.commit("main", &[(gone, None), ("README.md", Some(gone))]);
        let hub = std::sync::Arc::new(gitwork::hub::KubeHub::new(sync.hub.client()));
        let (plan, _) = sync.engine(hub, sync.source()).once().await.unwrap();
        assert!(!plan.is_settled());
        assert!(plan.is_empty(), "{:?}", plan.counts());
        let told: Vec<&str> = plan.steps.iter().map(|step| step.reason.code()).collect();
        assert!(told.iter().all(|code| matches!(*code, "HeldByBudget" | "Frozen")), "{told:?}");
    }
    for name in ["web", "stays"] {
        let work = sync.until_there(0, name).await;
        assert!(work.metadata.deletion_timestamp.is_none(), "{name}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_everything_goes_through_where_it_is_allowed() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let running = sync.start();
    sync.until_there(0, "web").await;
    running.stop().await;
    sync.repo.commit(
        "main",
        &[(&sync.path(0, "web"), None), (&sync.path(0, "cluster.yaml"), Some("{}\n"))],
    );
    let hub = std::sync::Arc::new(gitwork::hub::KubeHub::new(sync.hub.client()));
    let mut options = sync.options();
    options.guards.policy.allow_delete_all = true;
    let (plan, _) = sync.engine_with(hub, sync.source(), options).once().await.unwrap();
    assert!(plan.is_settled(), "{:?}", plan.counts());
    sync.until_gone(0, "web").await;
}
