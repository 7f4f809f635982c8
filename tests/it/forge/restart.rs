//! Commit statuses over a restart of the daemon: what it left pending does not stay pending.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::{Value, json};

use super::daemon::Daemon;
use super::server::Forge;
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

/// A source whose commits get statuses.
struct Reported {
    sync: Sync,
    forge: Forge,
    config: Value,
    rights: PathBuf,
}

impl Reported {
    async fn new() -> Self {
        let sync = Sync::new(1).await;
        let forge = Forge::start().await;
        let (config, rights) = (config(&sync, &forge), rights(&sync).await);
        Self { sync, forge, config, rights }
    }

    fn commit(&self, value: &str) -> String {
        let manifest = config_map("web", value);
        self.sync.commit(&[(0, "web/cm.yaml", Some(&manifest))]).to_string()
    }

    /// A daemon with an empty cache.
    fn start(&self, name: &str) -> Daemon {
        Daemon::start_as(&self.sync, name, &self.rights, &self.config)
    }

    /// Waits until the forge has been sent this state of the commit.
    async fn until_state(&self, commit: &str, state: &str) -> Value {
        let what = format!("the status {state} of {commit}");
        eventually(&what, Duration::from_secs(300), || async {
            let of_commit = self.last_status(commit);
            let is_it = of_commit.as_ref().is_some_and(|body| body["state"] == state);
            of_commit.filter(|_| is_it).ok_or_else(|| format!("{:?}", self.forge.seen()))
        })
        .await
        .unwrap()
    }

    /// What the forge was sent last of this commit.
    fn last_status(&self, commit: &str) -> Option<Value> {
        let seen = self.forge.seen();
        seen.iter().rfind(|seen| seen.path.ends_with(commit)).map(|seen| seen.body.clone())
    }

    async fn until_superseded(&self, commit: &str, by: &str) {
        let status = self.until_state(commit, "warning").await;
        assert_eq!(status["description"], format!("superseded by {}", &by[..8]));
        assert_eq!(status["context"], "gitwork");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_of_a_commit_overtaken_while_the_daemon_was_down_is_closed() {
    let reported = Reported::new().await;
    let one = reported.commit("one");
    let daemon = reported.start("first");
    reported.until_state(&one, "pending").await;
    until_open(&reported.sync, std::slice::from_ref(&one)).await;
    assert_eq!(daemon.terminate().await, Some(0));

    // On another machine, with an empty cache.
    let two = reported.commit("two");
    let daemon = reported.start("second");
    reported.until_superseded(&one, &two).await;

    // A commit that is applied everywhere is not open: the next process leaves it as it is.
    reported.sync.agent_takes(0, "web").await;
    reported.sync.agent_applies(0, "web").await;
    reported.until_state(&two, "success").await;
    until_open(&reported.sync, &[]).await;
    assert_eq!(daemon.terminate().await, Some(0));
    let three = reported.commit("three");
    let daemon = reported.start("third");
    until_open(&reported.sync, std::slice::from_ref(&three)).await;
    assert_eq!(reported.last_status(&two).unwrap()["state"], "success");
    assert_eq!(daemon.terminate().await, Some(0));
}

/// The forge has the status, and the process that wrote it does not learn that.
#[tokio::test(flavor = "multi_thread")]
async fn pending_status_is_noted_on_the_hub_before_the_forge_gets_it() {
    let reported = Reported::new().await;
    let one = reported.commit("one");
    reported.forge.be_silent(true);
    let daemon = reported.start("first");
    reported.until_state(&one, "pending").await;
    // Dropping it kills it.
    drop(daemon);
    assert_eq!(open(&reported.sync).await, std::slice::from_ref(&one));

    reported.forge.be_silent(false);
    let two = reported.commit("two");
    let daemon = reported.start("second");
    reported.until_superseded(&one, &two).await;
    assert_eq!(daemon.terminate().await, Some(0));
}
