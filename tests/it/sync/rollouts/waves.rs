//! Three clusters, one in each wave: approvals, failures and restarts. The test plays the agents.

use std::time::Duration;

use gitwork_core::plan::rollouts::GroupRecord;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::super::fixture::{Running, Sync, config_map, value_of};
use super::super::guards::done;
use super::super::held_changes::config;
use super::stage::{approve_in_git, content, source_record};
use crate::cli::{code, err, out};
use crate::deploy;
use crate::forge::daemon::Daemon;
use crate::harness::eventually;
use crate::status_views::view;

const DEADLINE: Duration = Duration::from_secs(120);

/// The agent of a cluster reports this of the work's generation.
async fn report(sync: &Sync, cluster: usize, applied: &str) {
    let generation = sync.until_there(cluster, "web").await.metadata.generation;
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "observedGeneration": generation, "reason": "X",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let conditions = [condition("Applied", applied), condition("Available", "True")];
    let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
    sync.works(cluster).patch_status("web", &PatchParams::default(), &patch).await.unwrap();
}

/// Waits until the engine has planned with all that the hub says now: an edit of the work `marker`
/// is put back.
async fn until_planned(sync: &Sync) {
    sync.edit(0, "marker", json!({"spec": {"workload": {"manifests": []}}})).await;
    sync.until_value(0, "marker", "marker").await;
}

/// The values of `web` on all clusters; none where it is not there.
async fn values(sync: &Sync) -> Vec<Option<String>> {
    let mut all = Vec::new();
    for cluster in 0..sync.clusters.len() {
        let work = sync.works(cluster).get_opt("web").await.unwrap();
        all.push(work.as_ref().and_then(value_of));
    }
    all
}

/// Commits this version of the group's only work.
fn commit(sync: &Sync, version: &str) {
    commit_with(sync, version, ("hold", "2s"));
}

fn commit_with(sync: &Sync, version: &str, (on_failure, deadline): (&str, &str)) {
    let [first, second, third] = &sync.clusters[..] else { panic!("three clusters") };
    let group = format!(
        "clusters: [{first}, {second}, {third}]\nrollout:\n  progressDeadline: {deadline}\n  \
         onFailure: {on_failure}\n  waves:\n  - {{name: lab, clusters: [{first}]}}\n  - {{name: \
         town, clusters: [{second}], approval: required}}\n"
    );
    let marker = (sync.path(0, "marker/cm.yaml"), config_map("marker", "marker"));
    let web = config_map("web", version);
    let files = [
        ("groups/edge/group.yaml", Some(group.as_str())),
        ("groups/edge/web/cm.yaml", Some(web.as_str())),
        (marker.0.as_str(), Some(marker.1.as_str())),
    ];
    sync.repo.commit("main", &files);
}

/// Approves the wave `town` of the content that the first cluster has, in Git.
async fn approve(sync: &Sync) {
    approve_in_git(sync, content(sync, 0, "web").await, "edge", "town");
}

async fn record(sync: &Sync) -> Option<GroupRecord> {
    source_record(sync).await.rollouts.into_values().next()
}

/// The first content is on all clusters.
async fn roll_out(sync: &Sync) -> Running {
    commit(sync, "one");
    let running = sync.start();
    sync.until_value(0, "web", "one").await;
    sync.until_there(0, "marker").await;
    until_planned(sync).await;
    assert_eq!(values(sync).await, [Some("one".into()), None, None]);
    report(sync, 0, "True").await;
    until_planned(sync).await;
    assert_eq!(values(sync).await[1], None, "nobody has approved it");
    // What has begun and ended is known after a restart.
    running.stop().await;
    let running = sync.start();
    until_planned(sync).await;
    assert_eq!(values(sync).await[1], None);
    approve(sync).await;
    running.hint();
    sync.until_value(1, "web", "one").await;
    until_planned(sync).await;
    assert_eq!(values(sync).await[2], None);
    report(sync, 1, "True").await;
    sync.until_value(2, "web", "one").await;
    report(sync, 2, "True").await;
    running
}

#[tokio::test(flavor = "multi_thread")]
async fn waves_wait_for_each_other_and_a_failure_stops_them_over_a_restart() {
    // Its namespace has the record.
    deploy::installed().await;
    let sync = Sync::new(3).await;
    let running = roll_out(&sync).await;
    commit(&sync, "two");
    running.hint();
    sync.until_value(0, "web", "two").await;
    report(&sync, 0, "False").await;
    eventually("the content is rejected", DEADLINE, || async {
        match record(&sync).await.and_then(|record| record.rejected) {
            Some(rejected) if rejected.clusters.len() == 1 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
    running.stop().await;
    report(&sync, 0, "True").await;
    approve(&sync).await;
    let running = sync.start();
    until_planned(&sync).await;
    let one = Some("one".to_owned());
    assert_eq!(values(&sync).await, [Some("two".into()), one.clone(), one.clone()]);
    // The fix goes out at once, by the same waves.
    commit(&sync, "three");
    running.hint();
    sync.until_value(0, "web", "three").await;
    report(&sync, 0, "True").await;
    until_planned(&sync).await;
    assert_eq!(values(&sync).await[1], one);
    approve(&sync).await;
    running.hint();
    sync.until_value(1, "web", "three").await;
    report(&sync, 1, "True").await;
    sync.until_value(2, "web", "three").await;
    running.stop().await;
}

/// Waits until `gitwork rollout status` has this line about the group.
async fn until_shown(sync: &Sync, line: &str) -> Value {
    until_shown_with(sync, line, |_| true).await
}

/// As [`until_shown`], and the report is as `is_it` wants it.
async fn until_shown_with(sync: &Sync, line: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    eventually(line, DEADLINE, || async {
        let table = view(sync, &["rollout", "status", "edge"]).output().unwrap();
        if !out(&table).contains(line) {
            return Err(out(&table) + &err(&table));
        }
        let output = view(sync, &["rollout", "status", "-o", "json"]).output().unwrap();
        assert_eq!(code(&output), Some(0), "{}", err(&output));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        if is_it(&value[0]) { Ok(value[0].clone()) } else { Err(value.to_string()) }
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn rollout_status_shows_the_waves_and_what_lets_them_go_on() {
    let sync = Sync::new(3).await;
    commit_with(&sync, "one", ("hold", "10m"));
    let daemon = Daemon::start(&sync, &config(&sync, &json!({}))).await;
    sync.until_value(0, "web", "one").await;
    let is_progressing = |value: &Value| value["waves"][0]["progressing"] == 1;
    let line = "group edge: wave 1/3 lab, 0/3 clusters";
    let begun = until_shown_with(&sync, line, is_progressing).await;
    assert_eq!(begun["source"], sync.id.as_str());
    report(&sync, 0, "True").await;
    let held = until_shown(&sync, "waits for wave town of group edge, which nobody has").await;
    assert_eq!((&held["wave"], &held["held"]), (&json!("town"), &json!(true)), "{held}");
    let shown = view(&sync, &["rollout", "status", "--exit-code"]).output().unwrap();
    assert_eq!(code(&shown), Some(4), "{}", err(&shown));
    let status = view(&sync, &["status"]).output().unwrap();
    let hash = held["approval"].as_str().unwrap();
    for shown in [out(&shown), out(&status)] {
        assert!(shown.contains(&format!("`gitwork approve {hash}` lets it go on")), "{shown}");
    }
    assert!(out(&shown).contains(">   town   1"), "{}", out(&shown));
    let unknown = view(&sync, &["rollout", "status", "egde"]).output().unwrap();
    assert_eq!(code(&unknown), Some(1));
    assert!(err(&unknown).contains("did you mean \"edge\"?"), "{}", err(&unknown));
    done(&super::super::budget::gitwork(&sync, &["approve", hash]));
    sync.until_value(1, "web", "one").await;
    report(&sync, 1, "True").await;
    sync.until_value(2, "web", "one").await;
    report(&sync, 2, "True").await;
    let ended = until_shown(&sync, "group edge: 3/3 clusters: the rollout has ended").await;
    assert_eq!(ended.get("wave"), None, "{ended}");
    drop(daemon);
}

/// The record has what `is_it` wants.
async fn until_recorded(sync: &Sync, what: &str, is_it: impl Fn(&GroupRecord) -> bool) {
    eventually(what, DEADLINE, || async {
        match record(sync).await {
            Some(record) if is_it(&record) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_return_to_the_last_good_content_and_operators_steer_rollouts() {
    let sync = Sync::new(3).await;
    let ask =
        |command: &[&str]| super::super::budget::gitwork(&sync, &[&["rollout"], command].concat());
    commit_with(&sync, "one", ("return", "15s"));
    let daemon = Daemon::start(&sync, &config(&sync, &json!({"intervalSeconds": 1}))).await;
    sync.until_value(0, "web", "one").await;
    report(&sync, 0, "True").await;
    until_shown(&sync, "waits for wave town of group edge, which nobody has").await;
    done(&ask(&["approve", "edge"]));
    sync.until_value(1, "web", "one").await;
    report(&sync, 1, "True").await;
    sync.until_value(2, "web", "one").await;
    report(&sync, 2, "True").await;
    until_recorded(&sync, "it is good", |one| one.last_good == Some(one.content)).await;
    assert_eq!(code(&ask(&["pause", "edge"])), Some(1), "it has ended");
    sync.agent_takes(0, "web").await;

    let more = config_map("more", "more");
    sync.repo.commit("main", &[("groups/edge/web/more.yaml", Some(more.as_str()))]);
    commit_with(&sync, "two", ("return", "15s"));
    sync.until_value(0, "web", "two").await;
    report(&sync, 0, "False").await;
    let back = sync.until_value(0, "web", "one").await;
    let names = |work: &Value| -> Vec<Value> {
        let manifests = work["spec"]["workload"]["manifests"].as_array().unwrap();
        manifests.iter().map(|one| one["metadata"]["name"].clone()).collect()
    };
    assert_eq!(names(&json!(back)), ["web", "more"], "a return deletes nothing");
    until_shown(&sync, "was stopped: in wave lab, it failed on").await;
    // What a waiting cluster has is put back.
    let edit = json!({"spec": {"workload": {"manifests": [serde_yaml::from_str::<Value>(
        &config_map("web", "edited"),
    ).unwrap()]}}});
    sync.edit(2, "web", edit).await;
    sync.until_value(2, "web", "one").await;

    done(&ask(&["resume", "edge"]));
    sync.until_value(0, "web", "two").await;
    report(&sync, 0, "True").await;
    done(&ask(&["pause", "edge"]));
    done(&ask(&["approve", "edge", "--wave", "town"]));
    until_shown(&sync, "whose rollout is paused").await;
    done(&ask(&["resume", "edge"]));
    sync.until_value(1, "web", "two").await;
    done(&ask(&["abort", "edge"]));
    until_shown(&sync, "an operator has stopped the rollout of group edge").await;
    report(&sync, 1, "True").await;
    done(&ask(&["return", "edge"]));
    sync.until_value(0, "web", "one").await;
    sync.until_value(1, "web", "one").await;
    let again = ask(&["abort", "edge"]);
    assert!(err(&again).contains("is stopped already"), "{}", err(&again));
    drop(daemon);
}
