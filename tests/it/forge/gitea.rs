//! A real Gitea: what gitwork tells it, read back from its API and its pages, and what it tells
//! gitwork.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gitwork_core::config::commit_status::CommitStatusConfig;
use gitwork_core::model::name::RepoPath;
use gitwork_forge::{CommitStatusReporter, Contexts, ForgeClient};
use gitwork_git::{Auth, Published, Remote, StatusBranch};
use gitwork_report::forge::response::Rejection;
use gitwork_report::forge::{CommitState, CommitStatus, ForgeTarget};
use gitwork_report::status::State;
use gitwork_runtime::clock::WallClock;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::daemon::Daemon;
use super::reporting::source_status_of;
use crate::git_server::keygen;
use crate::gitea::{Gitea, GiteaRepository};
use crate::sync::fixture::{Sync, config_map};

const READ: &[&str] = &["read:repository"];
const WRITE: &[&str] = &["write:repository"];

/// A client whose API address and repository are read from the repository's URL.
fn client(repo: &GiteaRepository, token: &Path) -> ForgeClient {
    let config = json!({ "provider": "gitea", "tokenFile": token.to_str().unwrap() });
    let config: CommitStatusConfig = serde_json::from_value(config).unwrap();
    let target = ForgeTarget::of(&config, &repo.http_url()).unwrap();
    ForgeClient::new(target, &config, &RepoPath::root(), WallClock::system()).unwrap()
}

fn manifest(value: &str) -> String {
    config_map("web", value)
}

#[tokio::test(flavor = "multi_thread")]
async fn status_appears_on_the_commit_and_its_pull_request() {
    let repo = Gitea::shared().await.repository().await;
    let base = repo.push("main", &[("clusters/edge-1/web/a.yaml", Some(&manifest("1")))]);
    repo.local.set_branch("change", base);
    let commit = repo.push("change", &[("clusters/edge-1/web/a.yaml", Some(&manifest("2")))]);
    let pull = json!({ "title": "Two", "head": "change", "base": "main" });
    // Gitea processes pushes in a queue.
    let open = || async {
        let (status, answer) = repo.call(Method::POST, "/pulls", Some(pull.clone())).await;
        if status == 201 { Ok(answer) } else { Err(format!("{status}: {answer}")) }
    };
    let deadline = std::time::Duration::from_secs(120);
    let pull = crate::harness::eventually("a pull request", deadline, open).await.unwrap();

    let token = repo.token(WRITE).await;
    let (feed, fed) = watch::channel(None);
    let (stop, stopped) = watch::channel(false);
    let reporter = CommitStatusReporter::new(client(&repo, &token), Contexts::default());
    let task = tokio::spawn(reporter.run(fed, stopped));
    feed.send_replace(Some(source_status_of(commit, &[("edge-1", State::Pending)])));
    repo.until_status(commit, "gitwork", "pending", "0/1 cluster applied, 1 pending").await;
    feed.send_replace(Some(source_status_of(commit, &[("edge-1", State::Failed)])));
    let failed = "0/1 cluster applied, 1 failed: edge-1";
    repo.until_status(commit, "gitwork", "failure", failed).await;

    for page in [format!("commit/{commit}"), format!("pulls/{}", pull["number"])] {
        repo.gitea.until_page(&format!("/{}/fleet/{page}", repo.owner), failed).await;
    }

    // A newer commit comes before this one is well again; the old one stands as it was.
    feed.send_replace(Some(source_status_of(commit, &[("edge-1", State::Progressing)])));
    repo.until_status(commit, "gitwork", "pending", "0/1 cluster applied, 1 progressing").await;
    let newer = repo.push("change", &[("clusters/edge-1/web/a.yaml", Some(&manifest("3")))]);
    feed.send_replace(Some(source_status_of(newer, &[("edge-1", State::Available)])));
    repo.until_status(newer, "gitwork", "success", "1/1 cluster applied").await;
    let words = format!("superseded by {}; 0/1 cluster applied, 1 progressing", newer.short());
    repo.until_status(commit, "gitwork", "warning", &words).await;
    stop.send_replace(true);
    task.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_is_shown_as_plain_text() {
    let repo = Gitea::shared().await.repository().await;
    let commit = repo.push("main", &[("a.txt", Some("1"))]);
    let description = "<script>alert(1)</script> [x](javascript:1) \u{1b}[31m\u{202e}".to_owned();
    let status = CommitStatus { part: None, commit, state: CommitState::Failure, description };
    client(&repo, &repo.token(WRITE).await).write(&status, None).await.unwrap();
    let page = format!("/{}/fleet/commit/{commit}", repo.owner);
    let page = repo.gitea.until_page(&page, "&lt;script&gt;alert(1)&lt;/script&gt;").await;
    assert!(!page.contains("<script>alert(1)") && !page.contains('\u{1b}'), "{page}");
    assert!(!page.contains('\u{202e}'), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_forge_rejection_is_classified() {
    let repo = Gitea::shared().await.repository().await;
    let commit = repo.push("main", &[("a.txt", Some("1"))]);
    let status = |commit| CommitStatus {
        part: None,
        commit,
        state: CommitState::Pending,
        description: "0/1".to_owned(),
    };
    let read_only = repo.token(READ).await;
    let refused = client(&repo, &read_only).write(&status(commit), None).await.unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, Rejection::Blocked { .. }), "{text}");
    for words in ["(403)", "`write:repository`", "required scope"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains(fs::read_to_string(&read_only).unwrap().trim()), "{text}");
    let wrong = repo.folder().join("wrong");
    fs::write(&wrong, "0123456789012345678901234567890123456789").unwrap();
    let refused = client(&repo, &wrong).write(&status(commit), None).await.unwrap_err();
    assert!(refused.to_string().contains("(401)"), "{refused}");
    let write = repo.token(WRITE).await;
    // For an unknown commit Gitea returns 500 without a message.
    let unknown =
        client(&repo, &write).write(&status(super::server::commit(7)), None).await.unwrap_err();
    assert!(matches!(unknown, Rejection::Later { .. }), "{unknown}");
    // Another's repository: seen by everybody, written to by its owner.
    let other = repo.gitea.repository().await;
    let theirs = other.push("main", &[("a.txt", Some("1"))]);
    let refused = client(&other, &write).write(&status(theirs), None).await.unwrap_err();
    assert!(matches!(refused, Rejection::Blocked { .. }), "{refused}");
    assert!(repo.statuses(commit).await.is_empty() && other.statuses(theirs).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn status_branch_is_pushed_over_http_and_ssh() {
    let repo = Gitea::shared().await.repository().await;
    repo.push("main", &[("clusters/edge-1/web/a.yaml", Some(&manifest("1")))]);
    let key = keygen(repo.folder(), "id", "ed25519", "");
    repo.authorize(&key.with_extension("pub")).await;
    let known_hosts = repo.folder().join("known_hosts");
    fs::write(&known_hosts, repo.gitea.known_hosts()).unwrap();
    let over_http =
        Auth::Basic { username: repo.owner.clone(), password_file: repo.token(WRITE).await };
    let over_ssh = Auth::Ssh { key, passphrase_file: None, known_hosts };
    for (url, auth, state, line) in [
        (repo.http_url(), over_http, State::Pending, "0/1 cluster applied, 1 pending"),
        (repo.ssh_url(), over_ssh, State::Available, "1/1 cluster applied"),
    ] {
        let remote = Remote { url, auth, ca_bundle: None, client_certificate: None, proxy: None };
        let status = source_status_of(super::server::commit(1), &[("edge-1", state)]);
        let folder = repo.folder().join(format!("{state:?}"));
        let pushed = tokio::task::spawn_blocking(move || {
            let mut branch = StatusBranch::open(&folder, remote, "gitwork-status").unwrap();
            branch.publish(&status, 1_800_000_000, &Arc::new(AtomicBool::new(false)))
        });
        let pushed = pushed.await.unwrap().unwrap();
        assert!(matches!(pushed, Published::Pushed { .. }), "{pushed:?}");
        repo.until_summary(line).await;
    }
    let page = format!("/{}/fleet/src/branch/gitwork-status", repo.owner);
    // README.md is what Gitea shows of the branch.
    repo.gitea.until_page(&page, "1/1 cluster applied").await;
}

/// A source in Gitea with a daemon that reports to it.
fn config(sync: &Sync, repo: &GiteaRepository, token: &Path, credentials: &Value) -> Value {
    json!({
        "listen": "127.0.0.1:0",
        "sources": [{
            "id": sync.id.as_str(), "repo": repo.http_url(), "branch": "main",
            "intervalSeconds": 3600,
            "credentials": credentials,
            "commitStatus": { "provider": "gitea", "tokenFile": token.to_str().unwrap() },
            "statusBranch": { "intervalSeconds": 1 },
        }],
    })
}

fn basic(repo: &GiteaRepository, token: &Path) -> Value {
    json!({ "username": repo.owner, "passwordFile": token.to_str().unwrap() })
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_push_reaches_the_hub_and_reports_status() {
    let sync = Sync::new(1).await;
    let repo = Gitea::shared().await.repository().await;
    let file = sync.path(0, "web/a.yaml");
    repo.push("main", &[(&file, Some(&manifest("1")))]);
    let token = repo.token(WRITE).await;
    let secret = repo.folder().join("secret");
    fs::write(&secret, "of the webhook\n").unwrap();
    let mut config = config(&sync, &repo, &token, &basic(&repo, &token));
    config["webhook"] = json!({ "listen": "127.0.0.1:0", "secretFile": secret.to_str().unwrap() });
    let daemon = Daemon::start(&sync, &config).await;
    sync.until_value(0, "web", "1").await;
    let address = daemon.address("listening for webhooks").await;
    let hook = json!({
        "type": "gitea", "active": true, "events": ["push"],
        "config": {
            "url": format!("http://{address}/hook"), "content_type": "json",
                "secret": "of the webhook",
        },
    });
    let (status, answer) = repo.call(Method::POST, "/hooks", Some(hook)).await;
    assert_eq!(status, 201, "{answer}");

    // The interval is an hour: only Gitea's webhook triggers this.
    let commit = repo.push("main", &[(&file, Some(&manifest("2")))]);
    sync.until_value(0, "web", "2").await;
    repo.until_status(commit, "gitwork", "pending", "0/1 cluster applied, 1 pending").await;
    sync.agent_takes(0, "web").await;
    sync.agent_applies(0, "web").await;
    repo.until_status(commit, "gitwork", "success", "1/1 cluster applied").await;
    let summary = repo.until_summary("1/1 cluster applied").await;
    assert_eq!(summary.commit, Some(commit.to_string()));

    // Gitea also sends webhooks for the daemon's own pushes; they trigger no push.
    let tip = || async { repo.call(Method::GET, "/branches/gitwork-status", None).await.1 };
    let before = tip().await["commit"]["id"].clone();
    let heard = daemon.logged("status pushed").len() + 1;
    let accepted = r#"gitwork_webhooks_total{result="accepted"}"#;
    daemon.until_metric(accepted, |webhooks| webhooks >= heard as f64).await;
    let fetches = format!("gitwork_fetches_total{{source=\"{}\",result=\"success\"}}", sync.id);
    daemon.until_metric(&fetches, |fetches| fetches >= 2.0).await;
    assert_eq!(tip().await["commit"]["id"], before, "{:?}", daemon.logged("status pushed"));
    assert!(daemon.logged("status pushed").len() <= 6, "{:?}", daemon.logged("status pushed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_token_is_logged_once_and_sync_continues() {
    let sync = Sync::new(1).await;
    let repo = Gitea::shared().await.repository().await;
    let file = sync.path(0, "web/a.yaml");
    repo.push("main", &[(&file, Some(&manifest("1")))]);
    let token = repo.token(READ).await;
    let daemon = Daemon::start(&sync, &config(&sync, &repo, &token, &basic(&repo, &token))).await;
    sync.until_value(0, "web", "1").await;
    let status = daemon.until_logged("cannot write commit statuses").await;
    assert!(status["error"].as_str().unwrap().contains("`write:repository`"), "{status}");
    let branch = daemon.until_logged("cannot push the status").await;
    assert!(branch["error"].as_str().unwrap().contains("refused"), "{branch}");
    for value in ["2", "3"] {
        repo.push("main", &[(&file, Some(&manifest(value)))]);
        daemon.hang_up();
        sync.until_value(0, "web", value).await;
    }
    sync.agent_takes(0, "web").await;
    sync.agent_applies(0, "web").await;
    for words in ["cannot write commit statuses", "cannot push the status"] {
        assert_eq!(daemon.logged(words).len(), 1, "{:?}", daemon.logged(words));
    }
    let log: String = daemon.log().iter().map(Value::to_string).collect();
    assert!(!log.contains(fs::read_to_string(token).unwrap().trim()));
    assert_eq!(repo.file("gitwork-status", "summary.json").await, None);
}
