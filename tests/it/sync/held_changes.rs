//! Held changes in `status`, `tree` and `plan`: the program with the RBAC of `deploy/`, a real Git
//! server, a real hub.

use std::path::Path;
use std::time::Duration;

use gitwork_core::model::name::CommitId;
use gitwork_report::outputs::OutputKind;
use serde_json::{Value, json};

use super::budget::{gitwork, text};
use super::fixture::{Sync, config_map, works};
use super::guards::{Backup, done};
use crate::cli::{code, err, out};
use crate::forge::daemon::Daemon;
use crate::forge::server::Forge;
use crate::git_server::signing::SshKey;
use crate::harness::eventually;
use crate::output_schemas::assert_documented;
use crate::status_views::{Following, view};

/// A machine may be busy with other tests.
const DEADLINE: Duration = Duration::from_secs(300);

/// The configuration of a daemon for the source, with more fields of the source.
pub fn config(sync: &Sync, more: &Value) -> Value {
    let mut source = json!({
        "id": sync.id.as_str(), "repo": sync.server.url("fleet.git"), "branch": "main",
        "intervalSeconds": 3600,
    });
    source.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "listen": "127.0.0.1:0", "sources": [source] })
}

/// Waits until `gitwork status -o json` is as `is_it` wants it, and answers it.
async fn until_status(sync: &Sync, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    eventually(what, DEADLINE, || async {
        let output = view(sync, &["status", "-o", "json"]).output().unwrap();
        assert_eq!(code(&output), Some(0), "{}", err(&output));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_documented(OutputKind::Status, &value, "status");
        if is_it(&value) { Ok(value) } else { Err(value.to_string()) }
    })
    .await
    .unwrap()
}

/// The command that approves this hash.
fn approve_command(sync: &Sync, hash: &str) -> String {
    format!("gitwork approve {hash} --repo {} --branch main", sync.server.url("fleet.git"))
}

fn work<'a>(status: &'a Value, cluster: &str, name: &str) -> &'a Value {
    let all = status["works"].as_array().unwrap();
    let found = all.iter().find(|one| one["cluster"] == cluster && one["work"] == name);
    found.unwrap_or(&Value::Null)
}

/// A daemon that reports commit statuses to this forge.
async fn start_with_forge(sync: &Sync, forge: &Forge) -> Daemon {
    let token = sync.folder.path().join("token");
    std::fs::write(&token, "t\n").unwrap();
    let printed = json!({ "commitStatus": {
        "provider": "gitea", "repository": "acme/fleet",
        "apiUrl": format!("http://{}", forge.address), "tokenFile": token,
    } });
    Daemon::start(sync, &config(sync, &printed)).await
}

/// Both works of the first cluster go. On the second one, a work is suspended, and a name is taken.
async fn commit_held_changes(sync: &Sync) {
    let foreign = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": { "name": "taken" }, "spec": { "workload": { "manifests": [] } },
    });
    let api = works(sync.hub.client(), &sync.clusters[1]);
    api.create(&Default::default(), &serde_json::from_value(foreign).unwrap()).await.unwrap();
    sync.commit(&[
        (0, "web", None),
        (0, "db", None),
        (1, "web/cm.yaml", Some(&config_map("web", "two"))),
        (1, "web/work.yaml", Some("suspend: true\n")),
        (1, "taken/cm.yaml", Some(&config_map("taken", "one"))),
    ]);
}

/// The JSON of `status` has the hold of the budget, and the state of each work.
fn assert_states(sync: &Sync, status: &Value) {
    let (held, other) = (sync.clusters[0].as_str(), sync.clusters[1].as_str());
    let source = &status["sources"][0];
    assert_eq!(
        (&source["source"], &source["holds"][0]["guard"]),
        (&json!(sync.id.as_str()), &json!("budget"))
    );
    for name in ["web", "db"] {
        let work = work(status, held, name);
        assert_eq!(
            (&work["state"], &work["reason"]),
            (&json!("held"), &json!("HeldByBudget")),
            "{work}"
        );
    }
    let suspended = work(status, other, "web");
    assert_eq!(
        (&suspended["state"], &suspended["reason"]),
        (&json!("suspended"), &json!("Suspended"))
    );
    let taken = work(status, other, "taken");
    assert_eq!((&taken["state"], &taken["manifests"]), (&json!("failed"), &json!(0)), "{taken}");
}

/// `status` and `tree` show the held works with the command that approves them, `plan` its hash.
fn assert_hold_is_shown(sync: &Sync, hash: &str) {
    let command = approve_command(sync, hash);
    for arguments in [&["status"][..], &["status", "-o", "wide"], &["tree", "--exit-code"]] {
        let output = view(sync, arguments).output().unwrap();
        let wanted = if arguments.contains(&"--exit-code") { 4 } else { 0 };
        assert_eq!(code(&output), Some(wanted), "{}", err(&output));
        let shown = out(&output);
        for words in
            [&command, "2 works held (budget)", "no work that the source has on the cluster"]
        {
            assert!(shown.contains(words), "{words}: {shown}");
        }
    }
    let only = view(sync, &["status", "--state", "held", "-o", "json"]).output().unwrap();
    let only: Value = serde_json::from_slice(&only.stdout).unwrap();
    assert_eq!(only["works"].as_array().unwrap().len(), 2, "{only}");
    let plan = gitwork(sync, &["plan", "--exit-code"]);
    assert_eq!(plan.status.code(), Some(4), "{}", text(&plan.stderr));
    assert!(text(&plan.stdout).contains(hash), "{}", text(&plan.stdout));
}

/// The metrics count the held works, and the commit status has the held cluster.
async fn until_hold_is_reported(sync: &Sync, daemon: &Daemon, forge: &Forge) {
    let series = format!("gitwork_held_works{{source=\"{}\",guard=\"budget\"}}", sync.id);
    daemon.until_metric(&series, |works| works == 2.0).await;
    eventually("the hold in the commit status", DEADLINE, || async {
        // The status of the older commit is closed at any time.
        let seen = forge.seen();
        let descriptions = seen.iter().map(|one| one.body["description"].to_string());
        let mut newest = descriptions.filter(|one| !one.contains("superseded"));
        let last = newest.next_back().ok_or("there is none")?;
        if last.contains("1 held") { Ok(()) } else { Err(last) }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn status_shows_held_changes_with_the_approving_command() {
    let sync = Sync::new(2).await;
    let (held, other) = (sync.clusters[0].as_str(), sync.clusters[1].as_str());
    sync.commit(&[
        (0, "web/cm.yaml", Some(&config_map("web", "one"))),
        (0, "db/cm.yaml", Some(&config_map("db", "one"))),
        (1, "web/cm.yaml", Some(&config_map("web", "one"))),
    ]);
    let forge = Forge::start().await;
    let daemon = start_with_forge(&sync, &forge).await;
    sync.until_value(0, "web", "one").await;
    sync.until_value(1, "web", "one").await;
    let free = view(&sync, &["status", "--exit-code"]).output().unwrap();
    assert_eq!(code(&free), Some(0), "{}", out(&free));
    let following = Following::start(view(&sync, &["status", "--watch"]));
    following.until(&format!("{other}/web pending"));

    commit_held_changes(&sync).await;
    daemon.hang_up();
    let status = until_status(&sync, "the hold", |status| {
        let hold = &status["sources"][0]["holds"][0];
        // Before the next plan, it is the API server that rejected the name.
        hold["works"] == 2 && work(status, other, "taken")["reason"] == "Conflict"
    })
    .await;
    assert_states(&sync, &status);
    following.until(&format!("{held}/db pending -> held"));
    let hash = status["sources"][0]["holds"][0]["hash"].as_str().unwrap();
    assert_hold_is_shown(&sync, hash);
    until_hold_is_reported(&sync, &daemon, &forge).await;

    done(&gitwork(&sync, &["approve", hash]));
    sync.until_gone(0, "web").await;
    sync.until_gone(0, "db").await;
    let status = until_status(&sync, "the end of the hold", |status| {
        status["sources"][0]["holds"].is_null() && work(status, held, "web").is_null()
    })
    .await;
    assert_eq!(work(&status, other, "web")["state"], "suspended");
    // The report and the work are separate watches: either may end the hold first.
    let released = following.until(&format!("{held}/db held -> "));
    if !released.contains("held -> gone") {
        assert!(released.contains("held -> pending"), "{released}");
        following.until(&format!("{held}/db pending -> gone"));
    }
    assert_eq!(code(&following.interrupt()), Some(0));
}

/// What is planned against the hub with these keys.
fn planned(sync: &Sync, keys: &str, more: &[&str]) -> std::process::Output {
    let all = [&["plan", "--allowed-signers", keys, "--verify", "commits"], more].concat();
    gitwork(sync, &all)
}

/// `gitwork run` that accepts commits signed with these keys.
async fn run_verifying(sync: &Sync, keys: &Path) -> super::program::Running {
    let log = sync.folder.path().join("run.log");
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_gitwork"))
        .args(["run", "--repo", &sync.server.url("fleet.git"), "--branch", "main"])
        .args(["--interval", "1", "--source-id", sync.id.as_str()])
        .args(["--verify", "commits", "--allowed-signers"])
        .arg(keys)
        .arg("--cache")
        .arg(sync.folder.path().join("run-cache"))
        .arg("--kubeconfig")
        .arg(super::program::rights(sync).await)
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    super::program::Running(child)
}

/// `status` shows why this commit is not applied, with the fingerprint of its key.
async fn until_refusal_is_shown(sync: &Sync, commit: CommitId, fingerprint: &str) {
    let status = until_status(sync, "the refusal", |status| {
        let trouble = status["sources"][0]["trouble"].as_str();
        trouble.is_some_and(|why| why.contains(&commit.to_string()))
    })
    .await;
    let why = status["sources"][0]["trouble"].as_str().unwrap();
    for words in ["is not verified", "signers.verify: commits of the operator", fingerprint] {
        assert!(why.contains(words), "{words}: {why}");
    }
    let gate = view(sync, &["status", "--exit-code"]).output().unwrap();
    assert_eq!(code(&gate), Some(4), "{}", out(&gate));
    assert!(out(&gate).contains(fingerprint), "{}", out(&gate));
}

/// A plan with the same keys reports the same, and keeps the work.
fn assert_plan_keeps(sync: &Sync, keys: &str, fingerprint: &str) {
    let refused = planned(sync, keys, &["--exit-code"]);
    assert_eq!(refused.status.code(), Some(4), "{}", text(&refused.stderr));
    assert!(text(&refused.stdout).contains(fingerprint), "{}", text(&refused.stdout));
    assert!(text(&refused.stdout).contains("1 keep"), "{}", text(&refused.stdout));
}

/// A plan is for the last verified commit, and names the key of the newest one.
fn assert_plan_is_for_the_verified_commit(sync: &Sync, keys: &str, fingerprint: &str) {
    let plan = planned(sync, keys, &["-o", "json", "--exit-code"]);
    assert_eq!(plan.status.code(), Some(4), "{}", text(&plan.stderr));
    let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
    assert_documented(OutputKind::Plan, &plan, "plan");
    assert_eq!(plan["refused"]["key"], fingerprint, "{plan}");
    for form in ["text", "markdown"] {
        let plan = planned(sync, keys, &["-o", form]);
        let shown = text(&plan.stdout);
        assert!(shown.contains("what is planned is the last verified commit"), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unsigned_commit_is_shown_as_held_until_its_key_is_trusted() {
    let sync = Sync::new(1).await;
    let [ann, bob] = [(); 2].map(|()| SshKey::new("ed25519", None));
    let keys = sync.folder.path().join("allowed_signers");
    std::fs::write(&keys, ann.line("ann@example.com", "")).unwrap();
    let set = |value: &str, key: &SshKey| -> CommitId {
        sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", value)))]);
        sync.repo.sign("main", key)
    };
    let first = set("one", &ann);
    let _running = run_verifying(&sync, &keys).await;
    sync.until_value(0, "web", "one").await;

    let second = set("two", &bob);
    until_refusal_is_shown(&sync, second, &bob.fingerprint()).await;
    let file = keys.display().to_string();
    assert_plan_keeps(&sync, &file, &bob.fingerprint());
    let work = format!("{}/web", sync.clusters[0]);
    let explained = gitwork(&sync, &["explain", &work]);
    let explained = text(&explained.stdout) + &text(&explained.stderr);
    for part in [&second.to_string()[..8], &bob.fingerprint()] {
        assert!(explained.contains(part), "{part}: {explained}");
    }

    // A verified commit in between is what is planned for, whether or not it is applied by now.
    sync.repo.set_branch("main", first);
    set("between", &ann);
    set("three", &bob);
    assert_plan_is_for_the_verified_commit(&sync, &file, &bob.fingerprint());
    sync.until_value(0, "web", "between").await;

    // The key is added as a ConfigMap's update would: nobody restarts anything, and nothing is
    // pushed.
    let both = ann.line("ann@example.com", "") + &bob.line("bob@example.com", "");
    std::fs::write(&keys, both).unwrap();
    sync.until_value(0, "web", "three").await;
    until_status(&sync, "the end of the refusal", |status| {
        status["sources"][0]["trouble"].is_null()
    })
    .await;
    let plan = planned(&sync, &file, &["-o", "json", "--exit-code"]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_and_status_show_changes_held_by_a_window_and_its_end() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let tomorrow = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let until = tomorrow.saturating_add(jiff::Span::new().days(2)).to_string();
    let more = json!({ "windows": { "deny": [{ "until": until }] } });
    let daemon = Daemon::start(&sync, &config(&sync, &more)).await;
    let status = until_status(&sync, "the hold", |status| {
        status["sources"][0]["holds"][0]["guard"] == "window"
    })
    .await;
    let cluster = sync.clusters[0].as_str();
    let web = work(&status, cluster, "web");
    assert_eq!((&web["state"], &web["reason"]), (&json!("held"), &json!("HeldByWindow")), "{web}");
    let printed = "no window is open for changes until ";
    assert!(web["message"].as_str().unwrap().contains(printed), "{web}");
    // The same from the daemon's file, and at a time when it is over.
    let file = sync.folder.path().join("gitwork-daemon.yaml").display().to_string();
    let plan = |more: &[&str]| {
        let all = [&["plan", "--config", &file], more].concat();
        let mut command = crate::cli::gitwork(&all);
        command.arg("--kubeconfig").arg(sync.hub.kubeconfig_path()).arg("--cache");
        command.arg(sync.folder.path().join("plan-cache")).output().unwrap()
    };
    let now = plan(&["--exit-code"]);
    assert_eq!(code(&now), Some(4), "{}", err(&now));
    assert!(out(&now).contains(printed) && out(&now).contains("1 changes wait"), "{}", out(&now));
    let hash = status["sources"][0]["holds"][0]["hash"].as_str().unwrap();
    assert!(out(&now).contains(hash), "{}", out(&now));
    let later = plan(&["--exit-code", "--at", "2099-01-01T00:00:00Z"]);
    assert_eq!(code(&later), Some(3), "{}", err(&later));
    drop(daemon);
    // The report stays on the hub after the daemon has stopped.
    until_status(&sync, "the hold", |status| !status["sources"][0]["holds"].is_null()).await;
}

/// Checks the only hold in `status` and returns its hash.
async fn reported_hold(sync: &Sync, guard: &str, reason: &str) -> String {
    let status =
        until_status(sync, "the hold", |status| status["sources"][0]["holds"][0]["guard"] == guard)
            .await;
    let web = work(&status, &sync.clusters[0], "web");
    assert_eq!((&web["state"], &web["reason"]), (&json!("held"), &json!(reason)), "{web}");
    let hash = status["sources"][0]["holds"][0]["hash"].as_str().unwrap().to_owned();
    let command = approve_command(sync, &hash);
    let shown = view(sync, &["status", "--exit-code"]).output().unwrap();
    assert_eq!(code(&shown), Some(4), "{}", err(&shown));
    assert!(out(&shown).contains(&command), "{command}: {}", out(&shown));
    hash
}

#[tokio::test(flavor = "multi_thread")]
async fn status_shows_rewind_and_restored_hub_until_approved() {
    let sync = Sync::new(1).await;
    let first = sync.commit(&[
        (0, "web/cm.yaml", Some(&config_map("web", "one"))),
        (0, "db/cm.yaml", Some(&config_map("db", "one"))),
    ]);
    let config = config(&sync, &json!({ "rewind": "hold" }));
    let daemon = Daemon::start(&sync, &config).await;
    let backup = Backup::of(&sync, sync.until_value(0, "web", "one").await).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "two")))]);
    daemon.hang_up();
    sync.until_value(0, "web", "two").await;
    sync.repo.set_branch("main", first);
    daemon.hang_up();
    let hash = reported_hold(&sync, "rewind", "HeldByRewind").await;
    done(&gitwork(&sync, &["approve", &hash]));
    sync.until_value(0, "web", "one").await;

    // Git drops the work, and the hub is restored from a backup that has it.
    sync.commit(&[(0, "web", None), (0, "db/cm.yaml", Some(&config_map("db", "two")))]);
    daemon.hang_up();
    sync.until_gone(0, "web").await;
    drop(daemon);
    let uid = backup.put_back(&sync).await;
    let _daemon = Daemon::start(&sync, &config).await;
    let hash = reported_hold(&sync, "restore", "HeldByRestore").await;
    assert_eq!(sync.until_there(0, "web").await.metadata.uid, uid);
    done(&gitwork(&sync, &["approve", &hash]));
    sync.until_gone(0, "web").await;
    until_status(&sync, "the end of the hold", |status| status["sources"][0]["holds"].is_null())
        .await;
}
