//! Several daemons of the same sources, as processes: one leads each source, the others stand by.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use gitwork_api::work::ManifestWork;
use gitwork_hub::NAMESPACE;
use gitwork_hub::directives::object_name;
use gitwork_hub::lease::lease_name;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::forge::daemon::Daemon;
use crate::forge::server::{Forge, TOKEN};
use crate::harness::{apply, eventually};
use crate::sync::fixture::{Sync, config_map};
use crate::sync::program::rights;

const DEADLINE: Duration = Duration::from_secs(300);
const FIRST: &str = "system:serviceaccount:gitwork:gitwork";
const SECOND: &str = "system:serviceaccount:gitwork:second";

/// Another account with the same rights: the hub's audit log distinguishes the daemons by it.
const SECOND_ACCOUNT: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: second, namespace: gitwork}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: gitwork-second}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gitwork}
subjects: [{kind: ServiceAccount, name: second, namespace: gitwork}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: gitwork-second, namespace: gitwork}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: gitwork}
subjects: [{kind: ServiceAccount, name: second, namespace: gitwork}]
"#;

/// Two kubeconfigs with the rights of `deploy/`.
pub async fn accounts(sync: &Sync) -> [PathBuf; 2] {
    let first = rights(sync).await;
    apply(sync.hub.client(), SECOND_ACCOUNT).await.unwrap();
    let config = sync.hub.config_for("gitwork", "second").await;
    let client = Client::try_from(config).unwrap();
    eventually("the rights of the second account to count", DEADLINE, || async {
        let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
        leases.get_opt("none").await.map_err(|error| error.to_string())?;
        let works: Api<ManifestWork> = Api::all(client.clone());
        works.list(&ListParams::default().limit(1)).await.map_err(|error| error.to_string())
    })
    .await
    .unwrap();
    [first, sync.hub.kubeconfig_path_for("gitwork", "second").await]
}

pub fn config(sync: &Sync) -> Value {
    json!({
        "listen": "127.0.0.1:0",
        "sources": [{
            "id": sync.id.as_str(), "repo": sync.server.url("fleet.git"), "branch": "main",
            "intervalSeconds": 3600,
        }],
    })
}

pub fn leads(sync: &Sync) -> String {
    format!("gitwork_is_leader{{source=\"{}\"}}", sync.id)
}

async fn until_leads(daemon: &Daemon, sync: &Sync, expected: bool) -> String {
    let is_it = |value: f64| value == f64::from(u8::from(expected));
    daemon.until_metric(&leads(sync), is_it).await
}

/// Waits until it has read Git and the hub so often, and answers its metrics.
async fn until_fetched(daemon: &Daemon, sync: &Sync, times: f64) -> String {
    let fetches = format!("gitwork_fetches_total{{source=\"{}\",result=\"success\"}}", sync.id);
    daemon.until_metric(&fetches, |count| count >= times).await
}

async fn lease(sync: &Sync) -> Option<Lease> {
    let leases: Api<Lease> = Api::namespaced(sync.hub.client(), NAMESPACE);
    leases.get_opt(&lease_name(&sync.id)).await.unwrap()
}

async fn holder(sync: &Sync) -> String {
    let spec = lease(sync).await.and_then(|lease| lease.spec).unwrap_or_default();
    spec.holder_identity.unwrap_or_default()
}

/// Who has written to the source's works since the last call, one after the other.
macro_rules! writers {
    ($requests:expr, $sync:expr) => {{
        let written = $requests.take().into_iter().filter(|request| {
            request.is_write()
                && request.resource == "manifestworks"
                && $sync.clusters.contains(&request.namespace)
        });
        let mut users: Vec<String> = written.map(|request| request.user).collect();
        users.dedup();
        users
    }};
}

fn value(text: &str) -> [(usize, &'static str, Option<String>); 1] {
    [(0, "web/cm.yaml", Some(config_map("web", text)))]
}

fn commit(sync: &Sync, text: &str) {
    let [(cluster, path, content)] = value(text);
    sync.commit(&[(cluster, path, content.as_deref())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn standby_becomes_leader_after_the_leader_is_killed() {
    let sync = Sync::new(1).await;
    let [first_account, second_account] = accounts(&sync).await;
    let mut requests = sync.hub.requests();
    let (first_forge, second_forge) = (Forge::start().await, Forge::start().await);
    let token = sync.folder.path().join("token");
    fs::write(&token, TOKEN).unwrap();
    let reported = |forge: &Forge| {
        let mut config = config(&sync);
        config["sources"][0]["commitStatus"] = json!({
            "provider": "gitea", "repository": "acme/fleet", "tokenFile": token,
            "apiUrl": format!("http://{}", forge.address),
        });
        config
    };
    commit(&sync, "one");
    let first = Daemon::start_as(&sync, "first", &first_account, &reported(&first_forge));
    sync.until_value(0, "web", "one").await;
    until_leads(&first, &sync, true).await;
    let led_by = holder(&sync).await;
    assert!(!led_by.is_empty());
    first_forge.wait_for(1).await;

    // The second one reads all and writes nothing, and is ready.
    let second = Daemon::start_as(&sync, "second", &second_account, &reported(&second_forge));
    until_fetched(&second, &sync, 1.0).await;
    let ready = second.until_logged("another daemon is the leader of this source").await;
    assert_eq!(ready["leader"], led_by.as_str());
    let address = second.address("listening for probes").await;
    eventually("the standby to be ready", DEADLINE, || async {
        let answer = crate::sync::program::get(address, "/readyz").await;
        if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(answer) }
    })
    .await
    .unwrap();
    commit(&sync, "two");
    second.hang_up();
    until_fetched(&second, &sync, 2.0).await;
    first.hang_up();
    sync.until_value(0, "web", "two").await;
    // Only the leader reports on the source.
    let metrics = until_leads(&second, &sync, false).await;
    for name in ["hub_writes", "works{", "work_states", "commit_timestamp", "plans", "forge_writes"]
    {
        let line = format!("\ngitwork_{name}");
        assert!(!metrics.contains(&line), "{name}: {metrics}");
    }
    assert!(second_forge.seen().is_empty(), "{:?}", second_forge.seen());
    assert_eq!(writers!(requests, sync), [FIRST]);

    first.signal("KILL");
    commit(&sync, "three");
    sync.until_value(0, "web", "three").await;
    let metrics = until_leads(&second, &sync, true).await;
    assert!(!metrics.contains("result=\"failure\""), "{metrics}");
    assert_ne!(holder(&sync).await, led_by);
    assert_eq!(writers!(requests, sync), [SECOND]);
    second_forge.wait_for(1).await;
    // No write met another's: the preconditions had nothing to save.
    assert_eq!(second.logged("not done"), [] as [Value; 0]);

    // The place of one that ends is free at once.
    assert_eq!(second.terminate().await, Some(0));
    assert_eq!(holder(&sync).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_leader_writes_nothing_after_failover() {
    let sync = Sync::new(1).await;
    let [first_account, second_account] = accounts(&sync).await;
    let mut requests = sync.hub.requests();
    commit(&sync, "one");
    let first = Daemon::start_as(&sync, "first", &first_account, &config(&sync));
    sync.until_value(0, "web", "one").await;
    let second = Daemon::start_as(&sync, "second", &second_account, &config(&sync));
    second.until_logged("another daemon is the leader of this source").await;
    first.signal("STOP");
    commit(&sync, "two");
    let made = sync.until_value(0, "web", "two").await;
    assert_eq!(writers!(requests, sync), [FIRST, SECOND]);

    // It wakes with the commit before in mind, and to the news that the hub has something else.
    first.signal("CONT");
    until_leads(&first, &sync, false).await;
    first.hang_up();
    until_fetched(&first, &sync, 2.0).await;
    let there = sync.until_value(0, "web", "two").await;
    assert_eq!(there.metadata.resource_version, made.metadata.resource_version);
    assert_eq!(writers!(requests, sync), [] as [&str; 0]);

    // And it leads again, once the other ends.
    assert_eq!(second.terminate().await, Some(0));
    commit(&sync, "three");
    first.hang_up();
    sync.until_value(0, "web", "three").await;
    assert_eq!(writers!(requests, sync), [FIRST]);
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_on_a_standby_makes_the_leader_fetch() {
    let sync = Sync::new(1).await;
    let [first_account, second_account] = accounts(&sync).await;
    commit(&sync, "one");
    let first = Daemon::start_as(&sync, "first", &first_account, &config(&sync));
    sync.until_value(0, "web", "one").await;
    let secret = sync.folder.path().join("secret");
    fs::write(&secret, "of the webhook").unwrap();
    let mut hooked = config(&sync);
    hooked["webhook"] = json!({ "listen": "127.0.0.1:0", "secretFile": secret });
    let second = Daemon::start_as(&sync, "second", &second_account, &hooked);
    second.until_logged("another daemon is the leader of this source").await;
    let address = second.address("listening for webhooks").await;
    commit(&sync, "two");
    let answer = tokio::task::spawn_blocking(move || {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let head = "POST /hook HTTP/1.1\r\nhost: h\r\nx-gitlab-token: of the \
            webhook\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    assert!(answer.await.unwrap().starts_with("HTTP/1.1 202"));
    // The interval is an hour.
    sync.until_value(0, "web", "two").await;
    until_leads(&first, &sync, true).await;
    until_leads(&second, &sync, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_daemon_with_the_same_mirror_leads_again_at_once() {
    let sync = Sync::new(1).await;
    let [account, _] = accounts(&sync).await;
    commit(&sync, "one");
    let killed = Daemon::start_as(&sync, "first", &account, &config(&sync));
    sync.until_value(0, "web", "one").await;
    let before = lease(&sync).await.unwrap().spec.unwrap();
    drop(killed);
    commit(&sync, "two");
    let again = Daemon::start_as(&sync, "first", &account, &config(&sync));
    sync.until_value(0, "web", "two").await;
    let after = lease(&sync).await.unwrap().spec.unwrap();
    assert_eq!(after.holder_identity, before.holder_identity);
    assert_eq!(after.lease_transitions, before.lease_transitions, "it never had to be taken");
    assert_eq!(again.logged("another daemon is the leader"), [] as [Value; 0]);
}

/// A daemon that reads another repository under the same source id writes nothing. It does not keep
/// the right one from leading either.
#[tokio::test(flavor = "multi_thread")]
async fn daemon_of_the_recorded_repository_takes_the_lead_from_another() {
    let sync = Sync::new(1).await;
    let [first_account, second_account] = accounts(&sync).await;
    commit(&sync, "one");
    let right = Daemon::start_as(&sync, "first", &first_account, &config(&sync));
    sync.until_value(0, "web", "one").await;
    drop(right);

    let mut elsewhere = config(&sync);
    let repository = sync.folder.path().join("fleet.git");
    elsewhere["sources"][0]["repo"] = format!("file://{}", repository.display()).into();
    let wrong = Daemon::start_as(&sync, "second", &second_account, &elsewhere);
    until_leads(&wrong, &sync, true).await;
    let held = format!("gitwork_held_works{{source=\"{}\",guard=\"origin\"}}", sync.id);
    commit(&sync, "two");
    wrong.hang_up();
    wrong.until_metric(&held, |works| works > 0.0).await;

    let mut requests = sync.hub.requests();
    let right = Daemon::start_as(&sync, "first", &first_account, &config(&sync));
    until_leads(&right, &sync, true).await;
    sync.until_value(0, "web", "two").await;
    until_leads(&wrong, &sync, false).await;
    let users = writers!(requests, sync);
    assert_eq!(users, [FIRST]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_source_has_one_leader_and_fails_over() {
    let mut syncs = Vec::new();
    for _ in 0..4 {
        syncs.push(Sync::new(1).await);
    }
    let [first_account, second_account] = accounts(&syncs[0]).await;
    let mut config = config(&syncs[0]);
    let sources = syncs.iter().map(|sync| self::config(sync)["sources"][0].clone());
    config["sources"] = sources.collect();
    for sync in &syncs {
        commit(sync, "one");
    }
    let first = Daemon::start_as(&syncs[0], "first", &first_account, &config);
    let second = Daemon::start_as(&syncs[0], "second", &second_account, &config);
    for sync in &syncs {
        sync.until_value(0, "web", "one").await;
        let (one, other) = (leads(sync), leads(sync));
        eventually("just one of them to lead", DEADLINE, || async {
            let (one, other) = (first.metric(&one).await, second.metric(&other).await);
            let led = (one == Some(1.0)) ^ (other == Some(1.0));
            if led { Ok(()) } else { Err(format!("{}: {one:?} {other:?}", sync.id)) }
        })
        .await
        .unwrap();
    }
    first.signal("KILL");
    for sync in &syncs {
        commit(sync, "two");
    }
    // Those that it led before it fetches now, the others when it begins to lead them.
    second.hang_up();
    for sync in &syncs {
        until_leads(&second, sync, true).await;
        sync.until_value(0, "web", "two").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_lease_namespace_is_logged_once_and_retried_slowly() {
    let sync = Sync::new(1).await;
    let kubeconfig = sync.hub.folder().join(format!("{}.kubeconfig", sync.id));
    fs::write(&kubeconfig, sync.hub.kubeconfig()).unwrap();
    let home = format!("home-of-{}", sync.id);
    let mut config = config(&sync);
    config["namespace"] = home.clone().into();
    let mut requests = sync.hub.requests();
    // Each commit has the rules of the next one changed, which the record is written for.
    let budget = |works: usize| format!("budgets: {{works: {works}}}\n");
    commit(&sync, "0");
    let daemon = Daemon::start_as(&sync, "daemon", &kubeconfig, &config);
    sync.until_value(0, "web", "0").await;
    for round in 1..=20 {
        sync.repo.commit("main", &[("gitwork.yaml", Some(&budget(20 + round)))]);
        commit(&sync, &round.to_string());
        daemon.hang_up();
        sync.until_value(0, "web", &round.to_string()).await;
    }
    assert_eq!(daemon.logged("no leader election for this source").len(), 1);
    let without_record = daemon.logged("the source has no record on the hub");
    assert_eq!(without_record.len(), 1);
    let why = without_record[0]["error"].as_str().unwrap();
    assert!(why.contains(&home) && why.contains("create it"), "{why}");
    let tried = requests.take().into_iter().filter(|request| {
        let is_made = request.verb == "create" && request.resource == "leases";
        // The Lease also reports held changes, with a rate limit of its own.
        is_made && request.namespace == home && !request.name.starts_with("gitwork-report-")
    });
    // Two Leases, each tried at once and then with exponential backoff.
    let tried = tried.count();
    assert!((2..20).contains(&tried), "{tried}");

    sync.hub.create_namespace(&home).await;
    daemon.until_logged("leader election works again").await;
    let leases: Api<Lease> = Api::namespaced(sync.hub.client(), &home);
    let led = leases.get(&lease_name(&sync.id)).await.unwrap();
    assert!(!led.spec.unwrap().holder_identity.unwrap().is_empty());
    let mut round = 100;
    eventually("the record to be kept", DEADLINE, || {
        round += 1;
        sync.repo.commit("main", &[("gitwork.yaml", Some(&budget(round)))]);
        daemon.hang_up();
        let (leases, name) = (leases.clone(), object_name(&sync.id));
        async move {
            let found = leases.get_opt(&name).await.unwrap();
            let annotations = found.map(|lease| lease.annotations().clone()).unwrap_or_default();
            annotations
                .contains_key("gitwork.dev/record")
                .then_some(())
                .ok_or_else(|| "none".into())
        }
    })
    .await
    .unwrap();
    // The log has it a moment after the hub.
    daemon.until_logged("the source's record is on the hub again").await;
    assert_eq!(daemon.logged("the source's record is on the hub again").len(), 1);
}
