//! A hub that is restored from a backup of the middle of a rollout.

use std::collections::BTreeMap;

use gitwork_api::work::ManifestWork;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::super::budget::gitwork;
use super::super::held_changes::config;
use super::super::program::rights;
use super::super::status_reporting::summary;
use super::simulated_agents::Behavior;
use super::stage::{GROUP, Stage, source_record};
use crate::cli::err;
use crate::forge::daemon::Daemon;

/// What a backup has of the source: its works and its record.
struct Backup {
    works: Vec<ManifestWork>,
    record: BTreeMap<String, String>,
}

fn leases(stage: &Stage) -> Api<Lease> {
    Api::namespaced(stage.sync.hub.client(), "gitwork")
}

fn record_name(stage: &Stage) -> String {
    format!("gitwork-source-{}", stage.sync.id)
}

impl Backup {
    async fn of(stage: &Stage) -> Self {
        let mut works = Vec::new();
        for cluster in 0..stage.sync.clusters.len() {
            works.push(stage.sync.until_there(cluster, GROUP).await);
        }
        let record = leases(stage).get(&record_name(stage)).await.unwrap();
        Self { works, record: record.annotations().clone() }
    }

    async fn put_back(&self, stage: &Stage) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": self.record}}));
        let params = PatchParams::default();
        leases(stage).patch(&record_name(stage), &params, &patch).await.unwrap();
        for (cluster, before) in self.works.iter().enumerate() {
            let api = stage.sync.works(cluster);
            let mut work = api.get(GROUP).await.unwrap();
            work.spec = before.spec.clone();
            work.metadata.annotations = before.metadata.annotations.clone();
            api.replace(GROUP, &PostParams::default(), &work).await.unwrap();
        }
    }
}

/// The lab has a simulated cluster and a real one.
fn rollout(stage: &Stage, deadline: &str) -> String {
    let lab = stage.names([1, stage.real(0)]);
    format!(
        "{{onFailure: return, progressDeadline: {deadline}, waves: [{{name: lab, clusters: \
         {lab}}}]}}"
    )
}

/// Starts the program on a machine of this name, which has seen nothing before.
async fn start(stage: &Stage, machine: &str) -> Daemon {
    let more = json!({"intervalSeconds": 1, "statusBranch": {"intervalSeconds": 1}});
    let config = config(&stage.sync, &more);
    Daemon::start_as(&stage.sync, machine, &rights(&stage.sync).await, &config)
}

/// Waits until the status branch has the record's generation, and calls the content rejected.
async fn until_published(stage: &Stage) {
    stage
        .until("the status branch", || async {
            let summary = summary(&stage.sync)?;
            let is_rejected = summary.rollouts.iter().any(|one| one.rejected);
            let is_current =
                summary.record_generation == source_record(&stage.sync).await.record_generation;
            if is_rejected && is_current { Ok(()) } else { Err(format!("{summary:?}")) }
        })
        .await;
}

/// Approves what `gitwork rollout status` says. Later writes of the record do not change that.
async fn confirm(stage: &Stage, is_held: impl Fn(&Value) -> bool + Copy) {
    let status = stage.until_status("the approval", is_held).await;
    let approved = gitwork(&stage.sync, &["approve", status["approval"].as_str().unwrap()]);
    assert!(approved.status.success(), "{}", err(&approved));
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_hub_begins_no_wave_and_brings_no_rejected_content_back() {
    let stage = Stage::new(30).await;
    stage.simulated.set("two", Behavior::Wait);
    let daemon = start(&stage, "first").await;
    stage.roll_out_first("one", &[]).await;
    stage.commit(&rollout(&stage, "1h"), "two", &[]);
    let lab = [1, stage.real(0)];
    stage.until_only("two", lab).await;
    let backup = Backup::of(&stage).await;
    stage.commit(&rollout(&stage, "1s"), "two", &[]);
    stage.until_rejected("lab").await;
    stage.until_all("one").await;
    until_published(&stage).await;
    assert_eq!(daemon.terminate().await, Some(0));

    // By the time of the backup, the content had not failed. Now the lab would be done.
    backup.put_back(&stage).await;
    stage.simulated.set("two", Behavior::Apply);
    stage.commit(&rollout(&stage, "1h"), "two", &[]);
    let daemon = start(&stage, "second").await;
    stage.until_planned().await;
    stage.until_planned().await;
    stage.until_only("two", lab).await;
    let restored = |progress: &Value| {
        let why = progress["waitsFor"].as_str().unwrap_or_default();
        why.contains("until somebody confirms that the hub was restored")
    };
    stage.until_status("the hold", restored).await;
    for cluster in (0..stage.sync.clusters.len()).filter(|cluster| !lab.contains(cluster)) {
        stage.until_history(cluster, &["one"]).await;
    }

    // Once that is confirmed, what had been rejected leaves the lab again.
    confirm(&stage, restored).await;
    stage.until_all("one").await;
    stage.until_map(0, "till", "one").await;
    stage.until_planned().await;
    stage.until_all("one").await;
    stage.commit(&rollout(&stage, "1h"), "three", &[]);
    stage.until_good("three").await;
    for cluster in 0..stage.sync.clusters.len() {
        let wanted: &[&str] = match lab.contains(&cluster) {
            true => &["one", "two", "one", "two", "one", "three"],
            false => &["one", "three"],
        };
        stage.until_history(cluster, wanted).await;
    }
    drop(daemon);
}
