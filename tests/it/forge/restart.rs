//! Commit statuses over a restart of the daemon: what it left pending does not stay pending.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::{Value, json};

use super::daemon::Daemon;
use super::server::{Forge, Seen};
use crate::harness::eventually;
use crate::sync::fixture::{Sync, config_map};
use crate::sync::program::rights;

fn config(sync: &Sync, forge: &Forge) -> Value {
    let token = sync.folder.path().join("token");
    std::fs::write(&token, "t\n").unwrap();
    json!({ "listen": "127.0.0.1:0", "sources": [{
        "id": sync.id.as_str(), "repo": sync.server.url("fleet.git"), "branch": "main",
        "intervalSeconds": 3600,
        "commitStatus": {
            "provider": "gitea", "repository": "acme/fleet",
            "apiUrl": format!("http://{}", forge.address), "tokenFile": token,
        },
    }] })
}

/// The statuses that the hub has as pending, each as a commit.
async fn open(sync: &Sync) -> Vec<String> {
    let leases: Api<Lease> = Api::namespaced(sync.hub.client(), "gitwork");
    let lease = leases.get_opt(&format!("gitwork-report-{}", sync.id)).await.unwrap();
    let annotations = lease.and_then(|lease| lease.metadata.annotations).unwrap_or_default();
    let text = annotations.get("gitwork.dev/open-statuses").cloned().unwrap_or_default();
    let open: Value = serde_json::from_str(&text).unwrap_or_default();
    let open = open.as_array().into_iter().flatten();
    open.map(|one| one["commit"].as_str().unwrap().to_owned()).collect()
}

/// Waits until the hub has these statuses as pending, each as a commit.
async fn until_open(sync: &Sync, commits: &[String]) {
    eventually("the open statuses on the hub", Duration::from_secs(300), || async {
        let open = open(sync).await;
        if open == commits { Ok(()) } else { Err(format!("{open:?}")) }
    })
    .await
    .unwrap();
}

async fn until_seen(forge: &Forge, what: &str, is_it: impl Fn(&Seen) -> bool) -> Vec<Seen> {
    eventually(what, Duration::from_secs(300), || async {
        let seen = forge.seen();
        if seen.iter().any(&is_it) { Ok(seen) } else { Err(format!("{seen:?}")) }
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn status_of_a_commit_overtaken_while_the_daemon_was_down_is_closed() {
    let sync = Sync::new(1).await;
    let forge = Forge::start().await;
    let (config, rights) = (config(&sync, &forge), rights(&sync).await);
    let one = sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]).to_string();
    let daemon = Daemon::start_as(&sync, "first", &rights, &config);
    until_seen(&forge, "a pending status", |seen| {
        seen.path.ends_with(&one) && seen.body["state"] == "pending"
    })
    .await;
    until_open(&sync, std::slice::from_ref(&one)).await;
    assert_eq!(daemon.terminate().await, Some(0));

    // On another machine, with an empty cache.
    let two = sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "two")))]).to_string();
    let daemon = Daemon::start_as(&sync, "second", &rights, &config);
    let seen = until_seen(&forge, "the end of the first commit's status", |seen| {
        seen.path.ends_with(&one) && seen.body["state"] == "warning"
    })
    .await;
    let last = seen.iter().rfind(|seen| seen.path.ends_with(&one)).unwrap();
    assert_eq!(last.body["description"], format!("superseded by {}", &two[..8]));
    assert_eq!(last.body["context"], "gitwork");

    // A commit that is applied everywhere is not open: the next process leaves it as it is.
    sync.agent_takes(0, "web").await;
    sync.agent_applies(0, "web").await;
    until_seen(&forge, "the second commit's success", |seen| {
        seen.path.ends_with(&two) && seen.body["state"] == "success"
    })
    .await;
    until_open(&sync, &[]).await;
    assert_eq!(daemon.terminate().await, Some(0));
    let three = sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "three")))]).to_string();
    let daemon = Daemon::start_as(&sync, "third", &rights, &config);
    until_open(&sync, std::slice::from_ref(&three)).await;
    let seen = forge.seen();
    let last = seen.iter().rfind(|seen| seen.path.ends_with(&two)).unwrap();
    assert_eq!(last.body["state"], "success");
    assert_eq!(daemon.terminate().await, Some(0));
}

/// The forge has the status, and the process that wrote it does not learn that.
#[tokio::test(flavor = "multi_thread")]
async fn pending_status_is_noted_on_the_hub_before_the_forge_gets_it() {
    let sync = Sync::new(1).await;
    let forge = Forge::start().await;
    let (config, rights) = (config(&sync, &forge), rights(&sync).await);
    let one = sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]).to_string();
    forge.be_silent(true);
    let daemon = Daemon::start_as(&sync, "first", &rights, &config);
    until_seen(&forge, "a pending status", |seen| {
        seen.path.ends_with(&one) && seen.body["state"] == "pending"
    })
    .await;
    // Dropping it kills it.
    drop(daemon);
    assert_eq!(open(&sync).await, std::slice::from_ref(&one));

    forge.be_silent(false);
    let two = sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "two")))]).to_string();
    let daemon = Daemon::start_as(&sync, "second", &rights, &config);
    let seen = until_seen(&forge, "the end of the first commit's status", |seen| {
        seen.path.ends_with(&one) && seen.body["state"] == "warning"
    })
    .await;
    let last = seen.iter().rfind(|seen| seen.path.ends_with(&one)).unwrap();
    assert_eq!(last.body["description"], format!("superseded by {}", &two[..8]));
    assert_eq!(daemon.terminate().await, Some(0));
}
