//! Values of Secrets and of credentials are in nothing that gitwork tells: each of its outputs is
//! looked through, on a real hub, with what succeeds, what the hub refuses and what cannot be read.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::budget::gitwork;
use super::fixture::{Sync, config_map};
use super::program::get;
use crate::forge::daemon::Daemon;
use crate::forge::server::{Forge, TOKEN};
use crate::git_server::Access;
use crate::harness::eventually;

/// A machine may be busy with other tests.
const DEADLINE: Duration = Duration::from_secs(300);

/// No other text of a run holds these letters.
const CANARY: &str = "c4n4ry-finch";

fn secret(name: &str, fields: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: default}}\n{fields}\n"
    )
}

/// A Secret that has a field twice.
fn twice(plain: &str) -> String {
    secret("a", &format!("stringData: {{a: {plain}}}\nstringData: {{a: {plain}}}"))
}

/// Secrets of every kind, of which some cannot be applied or read.
fn files(turn: usize) -> Vec<(usize, &'static str, String)> {
    let (plain, coded) = (format!("{CANARY}-{turn}"), STANDARD.encode(format!("{CANARY}-{turn}")));
    vec![
        (
            0,
            "web/fine.yaml",
            secret("fine", &format!("data: {{password: {coded}}}\nstringData: {{user: {plain}}}")),
        ),
        (0, "web/map.yaml", config_map("map", &turn.to_string())),
        (0, "refused/a.yaml", secret("a", &format!("stringData: {{password: {plain}}}"))),
        (0, "refused/work.yaml", format!("labels: {{team: {:?}}}\n", "x".repeat(64))),
        (0, "twice/a.yaml", twice(&plain)),
        (0, "broken/a.yaml", secret("a", &format!("stringData: {{a: [{plain}\n b"))),
        (0, "field/a.yaml", secret("a", &format!("stringDat: {{a: {plain}}}"))),
        (0, "list/a.yaml", secret("a", &format!("data: [{plain}]"))),
        (0, "alias/a.yaml", secret("a", &format!("x: &a {plain}\nstringData: {{a: *a, b: *c}}"))),
        (0, "anchor/a.yaml", twice(&plain).replace("kind: Secret", "kind: &k Secret")),
        (0, "tag/a.yaml", twice(&plain).replace("kind: Secret", "kind: !!str Secret")),
        (0, "cluster.yaml", format!("values: {{PASSWORD: {plain}}}\n")),
        (0, "values/a.yaml", secret("values", "stringData: {password: \"${PASSWORD}\"}")),
        (0, "values/work.yaml", "substitute: true\n".to_owned()),
        (0, "unknown/a.yaml", secret("a", &format!("stringData: {{a: \"${{{plain}}}\"}}"))),
        (0, "unknown/work.yaml", "substitute: true\n".to_owned()),
    ]
}

fn commit(sync: &Sync, turn: usize) {
    let files = files(turn);
    let files: Vec<(usize, &str, Option<&str>)> =
        files.iter().map(|(cluster, file, text)| (*cluster, *file, Some(text.as_str()))).collect();
    sync.commit(&files);
}

/// What may stand nowhere.
fn canaries(sync: &Sync) -> Vec<String> {
    let token = std::fs::read_to_string(sync.hub.kubeconfig_path()).unwrap();
    let keys = token.lines().filter_map(|line| line.trim().strip_prefix("token: "));
    let keys = keys.map(|key| key.trim_matches(['"', '\'']).to_owned());
    let whole = [STANDARD.encode(CANARY), STANDARD.encode(format!("{CANARY}-1"))];
    // The end of a Base64 text depends on what follows.
    let coded = whole.into_iter().map(|text| text.get(..14).unwrap().to_owned());
    keys.chain(coded)
        .chain([CANARY.to_owned(), TOKEN.to_owned(), "git-canary".to_owned()])
        .collect()
}

/// All files below a folder, as text.
fn all_of(folder: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.push_str(&all_of(&path));
        } else {
            all.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
        }
    }
    all
}

/// Every file of the status branch.
fn status_branch(sync: &Sync) -> Result<String, String> {
    let git = git2::Repository::open(sync.repo.path()).unwrap();
    let tip = git.revparse_single("refs/heads/gitwork-status").map_err(|why| why.to_string())?;
    let mut all = String::new();
    let tree = tip.peel_to_tree().unwrap();
    tree.walk(git2::TreeWalkMode::PreOrder, |_, entry| {
        if let Ok(object) = entry.to_object(&git)
            && let Some(blob) = object.as_blob()
        {
            all.push_str(&String::from_utf8_lossy(blob.content()));
        }
        0
    })
    .unwrap();
    Ok(all)
}

/// Waits until the status branch has the work in this state.
async fn until_reported(sync: &Sync, state: &str) {
    let path = format!("clusters/{}/web.yaml", sync.clusters[0]);
    let state = format!("state: {state}\n");
    eventually("the state of web on the status branch", DEADLINE, || async {
        let git = git2::Repository::open(sync.repo.path()).unwrap();
        let file = git.revparse_single(&format!("refs/heads/gitwork-status:{path}"));
        let file = file.map_err(|why| why.to_string())?;
        let text = String::from_utf8_lossy(file.as_blob().unwrap().content()).into_owned();
        if text.contains(&state) { Ok(()) } else { Err(text) }
    })
    .await
    .unwrap();
}

/// What an agent would say of a Secret, with its value in every text and among the feedback.
async fn agent_blabs(sync: &Sync) {
    let generation = sync.until_there(0, "web").await.metadata.generation;
    let condition = json!({
        "type": "Applied", "status": "False", "observedGeneration": generation, "reason": "Because",
        "message": format!("invalid value: {CANARY:?}"),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let mut whole = condition.clone();
    whole["message"] = "not all manifests are applied".into();
    let status = json!({ "status": {
        "conditions": [whole],
        "resourceStatus": { "manifests": [{
            "resourceMeta": {
                "ordinal": 0, "kind": "Secret", "resource": "secrets", "version": "v1",
                    "namespace": "default",
                "name": "fine",
            },
            "conditions": [condition],
            "statusFeedback": { "values": [
                { "name": "value", "fieldValue": { "type": "String", "string": CANARY } },
            ] },
        }] },
    } });
    let params = PatchParams::default();
    sync.works(0).patch_status("web", &params, &Patch::Merge(status)).await.unwrap();
}

/// The first message of the page's stream: the whole state.
async fn first_event(page: SocketAddr) -> String {
    let read = move || {
        let mut stream = TcpStream::connect(page).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "event: whole"));
        lines.next().unwrap()
    };
    tokio::task::spawn_blocking(read).await.unwrap()
}

/// What the commands say.
fn commands(sync: &Sync, base: &str) -> Vec<Output> {
    let cluster = sync.clusters[0].as_str();
    let (web, object) = (format!("{cluster}/web"), format!("{cluster}/web/secret/default/fine"));
    let refused = format!("{cluster}/refused");
    let (values, unknown) = (format!("{cluster}/values"), format!("{cluster}/unknown"));
    let of_values = format!("{values}/secret/default/values");
    let mut reported = Vec::new();
    for arguments in [
        vec!["validate"],
        vec!["validate", "-o", "json"],
        vec!["validate", "-o", "sarif"],
        vec!["plan"],
        vec!["plan", "-o", "markdown"],
        vec!["plan", "-o", "json"],
        vec!["plan", "--base", base, "--head", "main"],
        vec!["plan", "--base", base, "--head", "main", "-o", "markdown"],
        vec!["plan", "--base", base, "--head", "main", "-o", "json"],
        vec!["explain", &web],
        vec!["explain", &object],
        vec!["explain", &object, "-o", "json"],
        vec!["explain", &refused, "-o", "yaml"],
        vec!["explain", &values],
        vec!["explain", &values, "-o", "json"],
        vec!["explain", &of_values],
        vec!["explain", &unknown],
        vec!["adopt", &refused],
        vec!["approve", &"0".repeat(64)],
    ] {
        let needs_hub = arguments[0] != "validate";
        let token = sync.folder.path().join("git-token").display().to_string();
        let all = [&arguments[..], &["--token-file", &token]].concat();
        let output = if needs_hub {
            gitwork(sync, &all)
        } else {
            let mut command = crate::cli::gitwork(&all);
            command.args(["--repo", &sync.server.url("fleet.git"), "--branch", "main", "--cache"]);
            command.arg(sync.folder.path().join("cli-cache")).output().unwrap()
        };
        reported.push((
            format!("{arguments:?}"),
            super::budget::text(&[output.stdout, output.stderr].concat()),
        ));
    }
    for arguments in [
        &["status"][..],
        &["status", "-o", "wide"],
        &["status", "-o", "json"],
        &["tree"],
        &["tree", "-o", "wide"],
        &["tree", "-o", "yaml"],
    ] {
        let output = crate::status_views::view(sync, arguments).output().unwrap();
        reported.push((
            format!("{arguments:?}"),
            super::budget::text(&[output.stdout, output.stderr].concat()),
        ));
    }
    reported
}

fn config(sync: &Sync, forge: &Forge, git_token: &Path, forge_token: &Path) -> Value {
    json!({
        "listen": "127.0.0.1:0", "page": { "bind": "127.0.0.1:0" },
        "sources": [{
            "id": sync.id.as_str(), "repo": sync.server.url("fleet.git"), "branch": "main",
            "intervalSeconds": 3600, "credentials": { "tokenFile": git_token },
            "commitStatus": {
                "provider": "gitea", "repository": "acme/fleet",
                "apiUrl": format!("http://{}", forge.address), "tokenFile": forge_token,
            },
            "statusBranch": { "intervalSeconds": 1 },
        }],
    })
}

/// Waits until the hub has the password of the second commit.
async fn until_second_password(sync: &Sync) {
    let keys = json!({ "password": STANDARD.encode(format!("{CANARY}-2")) });
    sync.until(0, "web", |work| {
        let work = serde_json::to_value(work.ok_or("it is gone")?).unwrap();
        let there = work["spec"]["workload"]["manifests"].to_string();
        if there.contains(keys["password"].as_str().unwrap()) { Ok(()) } else { Err(there) }
    })
    .await;
}

/// Waits until the Events report the agent's failure.
async fn until_events(sync: &Sync) -> Vec<Event> {
    let events: Api<Event> = Api::namespaced(sync.hub.client(), &sync.clusters[0]);
    let events = eventually("an Event", DEADLINE, || async {
        let all = events.list(&ListParams::default()).await.map_err(|why| why.to_string())?;
        if all.items.is_empty() { Err("there is none") } else { Ok(all.items) }
            .map_err(str::to_owned)
    });
    events.await.unwrap()
}

type Output = (String, String);

/// What gitwork has written to the status branch and to the hub. Once every output reports the
/// agent's failure, all outputs are complete.
async fn outputs_of_hub(sync: &Sync, forge: &Forge) -> Vec<Output> {
    let branch = eventually("the status branch", DEADLINE, || async {
        let all = status_branch(sync)?;
        if all.contains("Secret default/fine") { Ok(all) } else { Err(all) }
    });
    let branch = branch.await.unwrap();
    eventually("the commit status", DEADLINE, || async {
        let all: Vec<String> = forge.seen().iter().map(|one| one.body.to_string()).collect();
        if all.iter().any(|one| one.contains("failed")) { Ok(()) } else { Err(all.join("\n")) }
    })
    .await
    .unwrap();
    let events = until_events(sync).await;
    let leases: Api<Lease> = Api::namespaced(sync.hub.client(), "gitwork");
    let ours = ListParams::default().labels(&format!("gitwork.dev/source={}", sync.id));
    let reported = eventually("the report on the hub", DEADLINE, || async {
        let all = leases.list(&ours).await.map_err(|why| why.to_string())?;
        let all = serde_json::to_string(&all.items).unwrap();
        if all.contains("refused") { Ok(all) } else { Err(all) }
    });
    let reported = reported.await.unwrap();
    let record: Lease = leases.get(&format!("gitwork-source-{}", sync.id)).await.unwrap();
    vec![
        ("status branch".to_owned(), branch),
        ("Events".to_owned(), serde_json::to_string(&events).unwrap()),
        ("reported on the hub".to_owned(), reported),
        ("record".to_owned(), serde_json::to_string(&record).unwrap()),
    ]
}

/// What a daemon serves, and its log.
async fn outputs_of_daemon(sync: &Sync, daemon: &Daemon) -> Vec<Output> {
    let metrics = get(daemon.address("listening for probes").await, "/metrics").await;
    let page = daemon.address("the status page").await;
    let detail = format!("/api/works/{}/{}/web", sync.id, sync.clusters[0]);
    vec![
        ("metrics".to_owned(), metrics),
        ("page".to_owned(), first_event(page).await),
        ("page's detail".to_owned(), get(page, detail.leak()).await),
        ("log".to_owned(), daemon.log().iter().map(Value::to_string).collect()),
    ]
}

/// No output is empty or has a canary.
fn assert_no_canary(sync: &Sync, outputs: &[Output]) {
    let canaries = canaries(sync);
    assert!(canaries.len() > 4, "{}", canaries.len());
    for (name, text) in outputs {
        assert!(!text.trim().is_empty(), "{name} says nothing");
        let found = canaries.iter().find(|canary| text.contains(canary.as_str()));
        assert!(found.is_none(), "{name} has {found:?}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_values_appear_in_no_output() {
    let sync = Sync::new(1).await;
    let forge = Forge::start().await;
    let folder = sync.folder.path();
    let (git_token, forge_token) = (folder.join("git-token"), folder.join("forge-token"));
    std::fs::write(&git_token, "git-canary\n").unwrap();
    std::fs::write(&forge_token, format!("{TOKEN}\n")).unwrap();
    sync.server.set_access(Access::Authorization("Bearer git-canary".into()));
    commit(&sync, 1);
    let base = sync.repo.tip("main").unwrap().to_string();
    let config = config(&sync, &forge, &git_token, &forge_token);
    let daemon = Daemon::start(&sync, &config).await;
    sync.until_there(0, "web").await;
    agent_blabs(&sync).await;
    until_reported(&sync, "failed").await;
    commit(&sync, 2);
    daemon.hang_up();
    until_second_password(&sync).await;
    // Only what changes before the daemon's eyes is worth an Event.
    until_reported(&sync, "pending").await;
    agent_blabs(&sync).await;
    let mut outputs = outputs_of_hub(&sync, &forge).await;
    outputs.extend(outputs_of_daemon(&sync, &daemon).await);
    for seen in forge.seen() {
        // The token is in the header that is there for it.
        outputs.push(("commit status".to_owned(), format!("{} {}", seen.path, seen.body)));
    }
    outputs.extend(commands(&sync, &base));
    assert_no_canary(&sync, &outputs);
    // The search would find them: the outputs name changed fields by key only.
    let plan = outputs.iter().find(|(name, _)| name.contains("\"--head\", \"main\"]")).unwrap();
    for words in ["data.password", "stringData.user", "data.value: \"1\" -> \"2\""] {
        assert!(plan.1.contains(words), "{words}: {}", plan.1);
    }
    // Nor are the daemon's own files anything else than a mirror of the repository.
    let cache = folder.join("daemon-cache");
    let kept = all_of(&cache);
    for token in ["git-canary", TOKEN] {
        assert!(!kept.contains(token), "a token is in {}", cache.display());
    }
}
