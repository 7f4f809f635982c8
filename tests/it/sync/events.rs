//! Events on ManifestWorks, as `kubectl describe` asks for them, written with the rights of
//! `deploy/gitwork.yaml`.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use gitwork_daemon::transitions::TransitionReporter;
use gitwork_hub::KubeHub;
use gitwork_hub::client;
use gitwork_report::status::State;
use gitwork_report::status::source::SourceStatus;
use gitwork_runtime::clock::WallClock;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::fixture::{Sync, config_map};
use crate::cli::gitwork;
use crate::deploy;
use crate::harness::eventually;

/// The Events of one object, as `kubectl describe` finds them: type, reason and message.
async fn events(sync: &Sync, cluster: usize, work: &str) -> Vec<String> {
    let uid = sync.until_there(cluster, work).await.uid().unwrap();
    let api: Api<Event> = Api::namespaced(sync.hub.client(), &sync.clusters[cluster]);
    let of_object = format!("involvedObject.uid={uid},involvedObject.kind=ManifestWork");
    let found = api.list(&ListParams::default().fields(&of_object)).await.unwrap();
    let line = |event: Event| {
        assert_eq!(event.reporting_component.as_deref(), Some("gitwork.dev/gitwork"));
        let parts = [event.type_, event.reason, event.message];
        parts.map(Option::unwrap_or_default).join(" ")
    };
    found.items.into_iter().map(line).collect()
}

pub async fn until_event(sync: &Sync, cluster: usize, work: &str, start: &str) -> String {
    let what = format!("an Event {start:?}");
    eventually(&what, Duration::from_secs(300), || async {
        let all = events(sync, cluster, work).await;
        let found = all.iter().find(|line| line.starts_with(start)).cloned();
        found.ok_or_else(|| format!("{all:?}"))
    })
    .await
    .unwrap()
}

async fn agent_says(sync: &Sync, cluster: usize, work: &str, message: &str) {
    let generation = sync.until_there(cluster, work).await.metadata.generation;
    let condition = |message: &str| {
        json!({ "type": "Applied", "status": "False", "observedGeneration": generation,
            "reason": "R",
                "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    let manifest = |ordinal: u32, kind: &str, message: &str| {
        json!({ "resourceMeta": { "ordinal": ordinal, "kind": kind, "namespace": "default",
            "name": "a" },
                "conditions": [condition(message)] })
    };
    let manifests = [manifest(0, "Secret", "CANARY"), manifest(1, "ConfigMap", message)];
    let status = json!({ "status": {
        "conditions": [condition("failed")], "resourceStatus": { "manifests": manifests },
    } });
    let params = PatchParams::default();
    sync.works(cluster).patch_status(work, &params, &Patch::Merge(status)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn work_transitions_become_events() {
    let config = deploy::installed().await;
    let sync = Sync::new(2).await;
    let foreign = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": { "name": "taken" }, "spec": { "workload": { "manifests": [] } },
    });
    let params = PatchParams::apply("somebody");
    sync.works(0).patch("taken", &params, &Patch::Apply(foreign)).await.unwrap();
    sync.commit(&[(0, "web/a.yaml", Some(&config_map("a", "1")))]);
    let (_reached, reach) = watch::channel(Arc::new(BTreeSet::new()));
    let (running, feed, _) = sync.start_publishing(reach);
    // With no more rights than the daemon is given.
    let recorder = KubeHub::new(client::client(config).unwrap()).events();
    let (stop, stopped) = watch::channel(false);
    let mut known = feed.clone();
    let reporter = TransitionReporter::new(recorder, "gitwork-0".into(), WallClock::system());
    let reporter = tokio::spawn(reporter.run(feed, stopped));

    // What is so from the start is no transition.
    let is_pending = |status: &Option<Arc<SourceStatus>>| {
        status.as_ref().is_some_and(|status| {
            status.works.values().any(|work| work.state == State::Pending && work.code.is_none())
        })
    };
    known.wait_for(is_pending).await.unwrap();
    sync.agent_takes(0, "web").await;
    sync.agent_applies(0, "web").await;
    until_event(&sync, 0, "web", "Normal Applied").await;

    agent_says(&sync, 0, "web", "no such \u{1b}[2Jnamespace").await;
    let failed = until_event(&sync, 0, "web", "Warning Failed").await;
    assert!(failed.contains("Secret default/a: what was said"), "{failed}");

    sync.commit(&[
        (0, "web/a.yaml", Some("kind: [")),
        (0, "taken/a.yaml", Some(&config_map("b", "1"))),
        (1, "big/a.yaml", Some(&config_map("c", "1"))),
    ]);
    running.hint();
    let frozen = until_event(&sync, 0, "web", "Warning Frozen").await;
    assert!(frozen.contains("web/a.yaml:1"), "{frozen}");
    let taken = until_event(&sync, 0, "taken", "Warning NameConflict").await;
    assert!(taken.contains(sync.id.as_str()), "{taken}");

    // Every deletion of the source is held.
    sync.commit(&[
        (0, "web/a.yaml", None),
        (0, "taken/a.yaml", None),
        (1, "big/a.yaml", None),
        (1, "other/a.yaml", Some(&config_map("d", "1"))),
    ]);
    running.hint();
    let held = until_event(&sync, 0, "web", "Warning Held").await;
    assert!(held.contains("gitwork approve"), "{held}");

    let all = events(&sync, 0, "web").await;
    assert_eq!(all.len(), 4, "on transitions only: {all:?}");
    assert!(!all.concat().contains("CANARY") && !all.concat().contains('\u{1b}'), "{all:?}");
    running.stop().await;
    stop.send_replace(true);
    reporter.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_without_event_rights_continues() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/a.yaml", Some(&config_map("a", "1")))]);
    let (_reached, reach) = watch::channel(Arc::new(BTreeSet::new()));
    let (running, feed, _) = sync.start_publishing(reach);
    let nobody = sync.hub.config_for(&sync.clusters[0], "nobody").await;
    let (stop, stopped) = watch::channel(false);
    let recorder = KubeHub::new(client::client(nobody).unwrap()).events();
    let reporter = tokio::spawn(
        TransitionReporter::new(recorder, "gitwork-0".into(), WallClock::system())
            .run(feed, stopped),
    );
    sync.until_there(0, "web").await;
    sync.agent_takes(0, "web").await;
    sync.agent_applies(0, "web").await;
    sync.commit(&[(0, "web/a.yaml", Some(&config_map("a", "2")))]);
    running.hint();
    let work = sync.until_value(0, "web", "2").await;
    assert_eq!(work.metadata.generation, Some(2));
    assert_eq!(events(&sync, 0, "web").await, Vec::<String>::new());
    running.stop().await;
    stop.send_replace(true);
    reporter.await.unwrap();
}

/// The daemon as a program, and what it logs as JSON.
#[tokio::test(flavor = "multi_thread")]
async fn every_transition_is_logged() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/a.yaml", Some(&config_map("a", "0")))]);
    let mut daemon =
        gitwork(&["run", "--branch", "main", "--interval", "1", "--log-format", "json"])
            .args(["--repo", &sync.server.url("fleet.git"), "--source-id", sync.id.as_str()])
            .arg("--cache")
            .arg(sync.folder.path().join("log-cache"))
            .arg("--kubeconfig")
            .arg(sync.hub.kubeconfig_path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    let stderr = BufReader::new(daemon.stderr.take().unwrap());
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = stderr.lines().map_while(Result::ok);
        let values = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        for value in
            values.filter(|value| value["state"].is_string() && value["before"].is_string())
        {
            if sender.send(value).is_err() {
                return;
            }
        }
    });
    sync.until_there(0, "web").await;
    sync.agent_takes(0, "web").await;
    // Initial states are no transitions.
    let line = eventually("a transition in the log", Duration::from_secs(300), || async {
        for message in ["no such namespace", ""] {
            if message.is_empty() {
                sync.agent_applies(0, "web").await;
            } else {
                agent_says(&sync, 0, "web", message).await;
            }
            if let Ok(line) = lines.recv_timeout(Duration::from_secs(3)) {
                return Ok(line);
            }
        }
        Err("there is none".to_owned())
    })
    .await;
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let line = line.unwrap();
    assert_eq!(line["source"], sync.id.as_str());
    assert_eq!((&line["cluster"], &line["work"]), (&json!(sync.clusters[0]), &json!("web")));
    assert_eq!(line["commit"].as_str().map(str::len), Some(40), "{line}");
    let state = line["state"].as_str().unwrap();
    assert_eq!(line["message"], format!("the work is {state}"), "{line}");
    if state == "failed" {
        assert_eq!((&line["reason"], &line["level"]), (&json!("R"), &json!("WARN")));
        assert!(!line.to_string().contains("CANARY"), "{line}");
    }
}
