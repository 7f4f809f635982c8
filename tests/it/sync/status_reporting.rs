//! From a push to its status on the commit and in the status branch, with a real hub and a real Git
//! server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gitwork_core::config::commit_status::{Provider, StatusBranchConfig};
use gitwork_core::model::name::ClusterName;
use gitwork_daemon::metrics::Metrics;
use gitwork_daemon::reporters::Reporting;
use gitwork_report::status_branch::StatusSummary;
use gitwork_runtime::clock::WallClock;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::fixture::{Sync, config_map};
use crate::forge::server::{Forge, config};
use crate::harness::eventually;

/// The summary in the status branch.
pub fn summary(sync: &Sync) -> Result<StatusSummary, String> {
    let git = git2::Repository::open(sync.repo.path()).unwrap();
    let tip = git.revparse_single("refs/heads/gitwork-status:summary.json");
    let blob = tip.map_err(|error| error.to_string())?.into_blob().unwrap();
    serde_json::from_slice(blob.content()).map_err(|error| error.to_string())
}

async fn until_summary(sync: &Sync, line: &str) {
    let probe = || async {
        let summary = summary(sync)?;
        if summary.summary == line { Ok(()) } else { Err(summary.summary) }
    };
    eventually("the summary", Duration::from_secs(300), probe).await.unwrap();
}

/// Waits until the newest commit status is this one, and answers how many there were.
async fn until_status(forge: &Forge, state: &str, description: &str) -> usize {
    let probe = || async {
        let seen = forge.seen();
        let last = seen.last().ok_or("there is none")?;
        if last.body["state"] == state && last.body["description"] == description {
            Ok(seen.len())
        } else {
            Err(last.body.to_string())
        }
    };
    eventually("the commit status", Duration::from_secs(300), probe).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn push_is_reported_from_pending_to_final_state() {
    let sync = Sync::new(2).await;
    let forge = Forge::start().await;
    let (reached, reach) = watch::channel(Arc::new(BTreeSet::new()));
    let commit = sync.commit(&[
        (0, "web/a.yaml", Some(&config_map("a", "1"))),
        (1, "web/a.yaml", Some(&config_map("a", "1"))),
    ]);
    let (running, feed, source) = sync.start_publishing(reach);
    let url = format!("http://{}", forge.address);
    let reporting = Reporting {
        commit_status: Some(config(&sync.folder, Provider::Gitea, &url, &json!({})).0),
        status_branch: Some(StatusBranchConfig { interval_seconds: 1, ..Default::default() }),
    };
    let (stop, stopped) = watch::channel(false);
    let mut reporters = JoinSet::new();
    let metrics = Arc::new(Metrics::default());
    let prepared = reporting.prepare(&source, &metrics, &WallClock::system()).unwrap();
    prepared.start(&feed, &stopped, &mut reporters);

    until_status(&forge, "pending", "0/2 clusters applied, 2 pending").await;
    assert!(forge.seen()[0].path.ends_with(&commit.to_string()));
    until_summary(&sync, "0/2 clusters applied, 2 pending").await;

    for cluster in 0..2 {
        sync.agent_takes(cluster, "web").await;
        sync.agent_applies(cluster, "web").await;
    }
    until_status(&forge, "success", "2/2 clusters applied").await;
    until_summary(&sync, "2/2 clusters applied").await;

    // A failing work is named in both.
    let generation = sync.until_there(1, "web").await.metadata.generation;
    let failed = json!({ "status": { "conditions": [{
        "type": "Applied", "status": "False", "observedGeneration": generation,
            "reason": "AppliedManifestWorkFailed",
        "message": "no such namespace", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] } });
    let params = PatchParams::default();
    sync.works(1).patch_status("web", &params, &Patch::Merge(failed)).await.unwrap();
    let line = format!("1/2 clusters applied, 1 failed: {}", sync.clusters[1]);
    until_status(&forge, "failure", &line).await;
    until_summary(&sync, &line).await;
    let problem = summary(&sync).unwrap().problems.remove(0);
    assert_eq!(problem.message.as_deref(), Some("no such namespace"));

    // A cluster that the hub has lost touch with fails nothing.
    let lost = ClusterName::parse(&sync.clusters[1]).unwrap();
    reached.send_replace(Arc::new(BTreeSet::from([lost])));
    let line = format!("1/2 clusters applied, 1 unreachable: {}", sync.clusters[1]);
    let statuses = until_status(&forge, "success", &line).await;
    assert!(statuses <= 8, "written on change only: {statuses}");

    // The daemon's own pushes to the repository change nothing for it.
    running.hint();
    until_summary(&sync, &line).await;
    running.stop().await;
    stop.send_replace(true);
    while reporters.join_next().await.is_some() {}
}
