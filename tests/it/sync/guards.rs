//! Rewinds, suspensions, adoption and a restored hub on a real API server, each with the rights
//! that `deploy/` grants.

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use gitwork_api::work::ManifestWork;
use gitwork_core::config::RewindPolicy;
use gitwork_core::config::commit_status::StatusBranchConfig;
use gitwork_core::config::tenancy::TenantRule;
use gitwork_core::model::name::{CommitId, SourceId};
use gitwork_core::plan::{Guard, Hold, Plan, Reason};
use gitwork_daemon::engine::EngineOptions;
use gitwork_daemon::metrics::Metrics;
use gitwork_daemon::reporters::Reporting;
use gitwork_git::{Auth, Reference};
use gitwork_hub::{Hub, KubeHub};
use gitwork_runtime::clock::WallClock;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::budget::{gitwork, text};
use super::fixture::{Running, Sync, config_map, value_of};
use super::status_reporting::summary;
use crate::deploy;
use crate::harness::eventually;

async fn hub() -> Arc<KubeHub> {
    Arc::new(KubeHub::new(Client::try_from(deploy::installed().await).unwrap()))
}

fn options(sync: &Sync, rewind: RewindPolicy) -> EngineOptions {
    let mut options = sync.options();
    options.guards.rewind = rewind;
    options
}

/// One pass of a new process on a new machine.
async fn pass(sync: &Sync, hub: &Arc<KubeHub>, rewind: RewindPolicy) -> Plan {
    let engine = sync.engine_with(hub.clone(), sync.source(), options(sync, rewind));
    engine.once().await.unwrap().0
}

fn web(sync: &Sync, value: &str) -> CommitId {
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", value)))])
}

#[track_caller]
pub fn only_hold(sync: &Sync, plan: &Plan, guard: Guard) -> Hold {
    let holds = plan.holds(&sync.id);
    assert_eq!(holds.iter().map(|hold| hold.guard).collect::<Vec<_>>(), [guard], "{plan:?}");
    holds.into_iter().next().unwrap()
}

fn leases(sync: &Sync) -> Api<Lease> {
    Api::namespaced(sync.hub.client(), "gitwork")
}

fn record_name(sync: &Sync) -> String {
    format!("gitwork-source-{}", sync.id)
}

/// What a backup of the hub has of a source: its work, and its record.
pub struct Backup {
    web: ManifestWork,
    record: BTreeMap<String, String>,
}

impl Backup {
    pub async fn of(sync: &Sync, mut web: ManifestWork) -> Self {
        web.metadata.resource_version = None;
        web.metadata.uid = None;
        let record = leases(sync).get(&record_name(sync)).await.unwrap();
        Self { web, record: record.annotations().clone() }
    }

    /// Answers the work's new uid.
    pub async fn put_back(&self, sync: &Sync) -> Option<String> {
        sync.works(0).create(&PostParams::default(), &self.web).await.unwrap();
        let patch = Patch::Merge(json!({"metadata": {"annotations": self.record}}));
        let name = record_name(sync);
        leases(sync).patch(&name, &PatchParams::default(), &patch).await.unwrap();
        sync.until_there(0, "web").await.uid()
    }
}

/// A command that needs no repository.
fn say(sync: &Sync, command: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gitwork"))
        .args(command)
        .args(["--source-id", sync.id.as_str()])
        .arg("--kubeconfig")
        .arg(sync.hub.kubeconfig_path())
        .output()
        .unwrap()
}

#[track_caller]
pub fn done(output: &Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn rewind_is_held_until_approved_also_after_losing_the_mirror() {
    let sync = Sync::new(1).await;
    let hub = hub().await;
    let hold = RewindPolicy::Hold;
    let first = web(&sync, "one");
    assert!(pass(&sync, &hub, hold).await.is_settled());
    let second = web(&sync, "two");
    assert!(pass(&sync, &hub, hold).await.is_settled());

    // An older commit, then a branch that forks from it: the remote has the newest one no more.
    sync.repo.set_branch("main", first);
    let older = only_hold(&sync, &pass(&sync, &hub, hold).await, Guard::Rewind);
    web(&sync, "three");
    let forked = only_hold(&sync, &pass(&sync, &hub, hold).await, Guard::Rewind);
    assert_ne!(older.approval.hash(), forked.approval.hash());
    assert!(forked.reason.contains(&second.short()), "{}", forked.reason);
    let plan = gitwork(&sync, &["plan", "--rewind", "hold", "-o", "json"]);
    assert!(text(&plan.stdout).contains(&forked.approval.hash().to_string()));
    sync.until_value(0, "web", "two").await;

    // The older commit's approval does not let the fork through.
    let wrong = gitwork(&sync, &["approve", &older.approval.hash().to_string()]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains(&forked.approval.hash().to_string()));
    done(&gitwork(&sync, &["approve", &forked.approval.hash().to_string()]));
    assert!(pass(&sync, &hub, hold).await.is_settled());
    sync.until_value(0, "web", "three").await;
    // Left behind once and for all: later commits build on the new one.
    web(&sync, "four");
    assert!(pass(&sync, &hub, hold).await.is_settled());

    // Approved in Git: a commit on top of the one that is held.
    sync.repo.set_branch("main", first);
    web(&sync, "five");
    let plan = pass(&sync, &hub, hold).await;
    let hash = only_hold(&sync, &plan, Guard::Rewind).approval.hash().to_string();
    let approval = gitwork(&sync, &["approve", &hash, "--print"]);
    done(&approval);
    sync.repo.commit("main", &[(&format!("approvals/{hash}"), Some(&text(&approval.stdout)))]);
    assert!(pass(&sync, &hub, hold).await.is_settled());
    sync.until_value(0, "web", "five").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn force_pushed_branch_is_followed_with_a_warning() {
    let sync = Sync::new(1).await;
    let hub = hub().await;
    let first = web(&sync, "one");
    let warn = options(&sync, RewindPolicy::Warn);
    let running = Running::of(sync.engine_with(hub.clone(), sync.source(), warn));
    sync.until_value(0, "web", "one").await;
    let second = web(&sync, "two");
    running.hint();
    sync.until_value(0, "web", "two").await;
    sync.repo.set_branch("main", first);
    let third = web(&sync, "three");
    running.hint();
    sync.until_value(0, "web", "three").await;
    running.stop().await;
    // It is left behind for good: another process need not ask.
    let record = hub.record(&sync.id).await.unwrap().unwrap().record;
    assert_eq!((record.commit, record.abandoned), (Some(third), [second].into()));
    assert!(pass(&sync, &hub, RewindPolicy::Hold).await.is_settled());
}

#[tokio::test(flavor = "multi_thread")]
async fn looser_budget_and_removal_in_one_fetch_use_the_earlier_budget() {
    let sync = Sync::new(1).await;
    let hub = hub().await;
    sync.repo.commit("main", &[("gitwork.yaml", Some("budgets: {works: 0, percent: 0}\n"))]);
    web(&sync, "one");
    sync.commit(&[(0, "db/cm.yaml", Some(&config_map("db", "one")))]);
    assert!(pass(&sync, &hub, RewindPolicy::Warn).await.is_settled());
    sync.repo.commit("main", &[("gitwork.yaml", Some("budgets: {works: 9}\n"))]);
    sync.commit(&[(0, "web", None)]);
    let plan = pass(&sync, &hub, RewindPolicy::Warn).await;
    assert_eq!(plan.held_deletions().map(|held| held.works.len()), Some(1));
    // A commit that brings it back leaves nothing held, and its budget counts from then on.
    web(&sync, "one");
    assert!(pass(&sync, &hub, RewindPolicy::Warn).await.is_settled());
    sync.commit(&[(0, "web", None)]);
    assert!(pass(&sync, &hub, RewindPolicy::Warn).await.is_settled());
    sync.until_gone(0, "web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_works_stay_until_resumed_and_sync_can_be_requested() {
    let sync = Sync::new(2).await;
    let hub = hub().await;
    let commit = |value: &str| {
        let (a, b) = (config_map("web", value), config_map("db", value));
        sync.commit(&[
            (0, "web/cm.yaml", Some(&a)),
            (0, "db/cm.yaml", Some(&b)),
            (1, "web/cm.yaml", Some(&a)),
        ]);
    };
    commit("one");
    let running = sync.start_with(hub.clone());
    // `suspend` asks the hub for them.
    sync.until_value(0, "web", "one").await;
    sync.until_value(1, "web", "one").await;
    let of_work = format!("{}/web", sync.clusters[0]);
    done(&say(&sync, &["suspend", &of_work, "--reason", "a broken node"]));
    done(&say(&sync, &["suspend", &sync.clusters[1]]));
    for (wrong, near) in [(format!("{of_work}s"), "web"), ("edge-none".to_owned(), "")] {
        let refused = say(&sync, &["suspend", &wrong]);
        assert_eq!(refused.status.code(), Some(2), "{wrong}: {}", text(&refused.stderr));
        let message = text(&refused.stderr);
        assert!(message.contains("matches") && message.contains(near), "{message}");
    }
    done(&say(&sync, &["suspend", "edge-none", "--new"]));
    done(&say(&sync, &["resume", "edge-none"]));
    let wrong = text(&say(&sync, &["resume", "edge-none"]).stderr);
    let others = format!("suspended there: {}, {of_work}", sync.clusters[1]);
    assert!(wrong.contains("is not suspended on the hub") && wrong.contains(&others), "{wrong}");
    let plan = pass(&sync, &hub, RewindPolicy::Warn).await;
    assert_eq!(plan.held_by(Guard::Suspension), 2);
    let reported = plan.steps.iter().map(|step| step.reason.to_string()).collect::<Vec<_>>();
    assert!(reported.iter().any(|line| line.contains("a broken node")), "{reported:?}");

    // Only the command makes the daemon fetch this commit.
    commit("two");
    done(&say(&sync, &["reconcile"]));
    sync.until_value(0, "db", "two").await;
    // The next commit's write shows that the pass of this one has ended.
    commit("three");
    running.hint();
    sync.until_value(0, "db", "three").await;
    for cluster in [0, 1] {
        let web = sync.works(cluster).get("web").await.unwrap();
        assert_eq!(value_of(&web).as_deref(), Some("one"), "{cluster}");
    }
    // Nor is anything deleted there.
    sync.repo.commit("main", &[(&format!("clusters/{}", sync.clusters[1]), None)]);
    let plan = pass(&sync, &hub, RewindPolicy::Warn).await;
    assert!(plan.is_empty(), "{:?}", plan.counts());
    commit("two");
    done(&say(&sync, &["resume", &of_work]));
    done(&say(&sync, &["resume", &sync.clusters[1]]));
    done(&say(&sync, &["reconcile"]));
    sync.until_value(0, "web", "two").await;
    sync.until_value(1, "web", "two").await;
    running.stop().await;
    let again = say(&sync, &["resume", &of_work]);
    let message = text(&again.stderr);
    assert_eq!(again.status.code(), Some(1), "{message}");
    assert!(message.contains("nothing of the source is suspended there"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_moves_between_sources_without_deletion() {
    let sync = Sync::new(1).await;
    let hub = hub().await;
    web(&sync, "one");
    assert!(pass(&sync, &hub, RewindPolicy::Warn).await.is_settled());
    let uid = sync.until_there(0, "web").await.uid();

    // Another source has the same work in another branch.
    let heir = SourceId::parse(&format!("heir-{}", sync.clusters[0])).unwrap();
    sync.repo.commit("heir", &[(&sync.path(0, "web/cm.yaml"), Some(&config_map("web", "two")))]);
    let heirs_pass = || async {
        let cache = tempfile::tempdir_in(sync.folder.path()).unwrap().keep();
        let source = sync.source_in(cache, &heir, Reference::Branch("heir".into()), Auth::None);
        sync.engine(hub.clone(), source).once().await.unwrap().0
    };
    let plan = heirs_pass().await;
    assert!(
        matches!(plan.steps.first().unwrap().reason, Reason::Conflict { .. }),
        "{:?}",
        plan.steps
    );
    let adopt = |more: &[&str]| {
        let key = format!("{}/web", sync.clusters[0]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_gitwork"));
        command.args(["adopt", &key, "--branch", "heir", "--source-id", heir.as_str()]);
        command.args(["--repo", &sync.server.url("fleet.git")]).args(more);
        command.arg("--cache").arg(sync.folder.path().join("cli-cache"));
        command.arg("--kubeconfig").arg(sync.hub.kubeconfig_path()).output().unwrap()
    };
    let shown = adopt(&[]);
    done(&shown);
    let diff = text(&shown.stdout);
    assert!(diff.contains("ConfigMap default/web") && diff.contains("two"), "{diff}");
    assert!(matches!(heirs_pass().await.steps.first().unwrap().reason, Reason::Conflict { .. }));
    done(&adopt(&["--yes"]));
    assert!(heirs_pass().await.is_settled());
    sync.until_value(0, "web", "two").await;
    assert_eq!(adopt(&["--yes"]).status.code(), Some(1), "it is the heir's already");

    // The first source still has it in Git: two instances, one name, and neither touches the
    // other's.
    let plan = pass(&sync, &hub, RewindPolicy::Warn).await;
    assert!(
        matches!(plan.steps.first().unwrap().reason, Reason::Conflict { .. }) && plan.is_empty()
    );
    // Once Git drops it there, nothing is left to delete.
    sync.repo.commit("main", &[(&sync.path(0, "db/cm.yaml"), Some(&config_map("db", "one")))]);
    sync.commit(&[(0, "web", None)]);
    assert!(pass(&sync, &hub, RewindPolicy::Warn).await.is_settled());
    assert_eq!(sync.until_value(0, "web", "two").await.uid(), uid);
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_hub_holds_deletions_and_rewinds_until_confirmed() {
    let sync = Sync::new(1).await;
    let hub = hub().await;
    let cache = sync.folder.path().join("machine");
    let machine = || async {
        let branch = Reference::Branch("main".into());
        let source = sync.source_in(cache.clone(), &sync.id, branch, Auth::None);
        sync.engine(hub.clone(), source).once().await.unwrap().0
    };
    web(&sync, "one");
    sync.commit(&[(0, "db/cm.yaml", Some(&config_map("db", "one")))]);
    assert!(machine().await.is_settled());
    let backup = Backup::of(&sync, sync.until_there(0, "web").await).await;
    sync.commit(&[(0, "web", None), (0, "db/cm.yaml", Some(&config_map("db", "two")))]);
    assert!(machine().await.is_settled());
    sync.until_gone(0, "web").await;

    // The backup is put back: the work is there again, and the record is an older one.
    let uid = backup.put_back(&sync).await;
    sync.commit(&[(0, "db/cm.yaml", Some(&config_map("db", "three")))]);
    machine().await;
    let plan = machine().await;
    let hold = only_hold(&sync, &plan, Guard::Restore);
    sync.until_value(0, "db", "three").await;
    assert_eq!(
        sync.until_there(0, "web").await.uid(),
        uid,
        "changes go on, and nothing is deleted"
    );
    // It is known on the hub by now, so that a machine that has seen nothing holds it, too.
    let plan = pass(&sync, &hub, RewindPolicy::Warn).await;
    assert_eq!(only_hold(&sync, &plan, Guard::Restore).approval, hold.approval);

    done(&gitwork(&sync, &["approve", &hold.approval.hash().to_string()]));
    assert!(machine().await.is_settled());
    sync.until_gone(0, "web").await;
    assert!(!hub.record(&sync.id).await.unwrap().unwrap().record.restored);
    // A hub that never knew the source is a new one, and not an older state of this one.
    sync.works(0).delete("db", &DeleteParams::default()).await.unwrap();
    leases(&sync).delete(&record_name(&sync), &DeleteParams::default()).await.unwrap();
    assert!(machine().await.is_settled());
}

#[tokio::test(flavor = "multi_thread")]
async fn status_branch_reveals_a_restored_hub_to_a_new_machine() {
    let sync = Sync::new(1).await;
    let hub = hub().await;
    web(&sync, "one");
    sync.commit(&[(0, "db/cm.yaml", Some(&config_map("db", "one")))]);
    let (_reached, reach) = watch::channel(Arc::default());
    let (running, feed, config) = sync.start_publishing(reach);
    let reported = StatusBranchConfig { interval_seconds: 1, ..Default::default() };
    let reporting = Reporting { status_branch: Some(reported), ..Reporting::default() };
    let (stop, stopped) = watch::channel(false);
    let (mut reporters, metrics) = (JoinSet::new(), Arc::new(Metrics::default()));
    let prepared = reporting.prepare(&config, &metrics, &WallClock::system()).unwrap();
    prepared.start(&feed, &stopped, &mut reporters);
    sync.until_value(0, "db", "one").await;
    let backup = Backup::of(&sync, sync.until_value(0, "web", "one").await).await;

    sync.commit(&[(0, "web", None), (0, "db/cm.yaml", Some(&config_map("db", "two")))]);
    running.hint();
    sync.until_gone(0, "web").await;
    let record_generation = hub.record(&sync.id).await.unwrap().unwrap().record.record_generation;
    eventually("the status branch to tell of it", Duration::from_secs(300), || async {
        let reported = summary(&sync)?.record_generation;
        let is_current = reported == record_generation;
        is_current.then_some(()).ok_or_else(|| format!("{reported} of {record_generation}"))
    })
    .await
    .unwrap();
    running.stop().await;
    stop.send_replace(true);
    while reporters.join_next().await.is_some() {}

    // The hub is restored, and the machine is lost, too.
    let uid = backup.put_back(&sync).await;
    sync.commit(&[(0, "db/cm.yaml", Some(&config_map("db", "three")))]);
    let new_machine = || async {
        let source = sync.source().with_checkpoint("gitwork-status");
        sync.engine(hub.clone(), source).once().await.unwrap().0
    };
    new_machine().await;
    let hold = only_hold(&sync, &new_machine().await, Guard::Restore);
    sync.until_value(0, "db", "three").await;
    assert_eq!(sync.until_there(0, "web").await.uid(), uid, "nothing is deleted");
    done(&gitwork(&sync, &["approve", &hold.approval.hash().to_string()]));
    assert!(new_machine().await.is_settled());
    sync.until_gone(0, "web").await;
}

/// A pod of the shipped deployment, which has the cache of no other.
async fn shipped_pod(sync: &Sync, number: usize) -> super::program::Running {
    let cache = sync.folder.path().join(format!("pod-{number}"));
    let log = sync.folder.path().join(format!("pod-{number}.log"));
    let child = Command::new(env!("CARGO_BIN_EXE_gitwork"))
        .args(["run", "--log-format=json", "--config"])
        .arg(deploy::daemon_config(sync.id.as_str(), &sync.server.url("fleet.git"), &cache))
        .arg("--kubeconfig")
        .arg(super::program::rights(sync).await)
        .env_remove("GITWORK_LOG")
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    super::program::Running(child)
}

#[tokio::test(flavor = "multi_thread")]
async fn shipped_deployment_notices_a_restored_hub_in_a_new_pod() {
    let sync = Sync::new(1).await;
    let hub = hub().await;
    web(&sync, "one");
    sync.commit(&[(0, "db/cm.yaml", Some(&config_map("db", "one")))]);
    let pod = shipped_pod(&sync, 1).await;
    sync.until_value(0, "db", "one").await;
    let backup = Backup::of(&sync, sync.until_value(0, "web", "one").await).await;
    sync.commit(&[(0, "web", None), (0, "db/cm.yaml", Some(&config_map("db", "two")))]);
    pod.signal("HUP");
    sync.until_gone(0, "web").await;
    let record_generation = hub.record(&sync.id).await.unwrap().unwrap().record.record_generation;
    eventually("the status branch to tell of it", Duration::from_secs(120), || async {
        let reported = summary(&sync)?.record_generation;
        let is_current = reported == record_generation;
        is_current.then_some(()).ok_or_else(|| format!("{reported} of {record_generation}"))
    })
    .await
    .unwrap();
    drop(pod);

    let uid = backup.put_back(&sync).await;
    sync.commit(&[(0, "db/cm.yaml", Some(&config_map("db", "three")))]);
    let _pod = shipped_pod(&sync, 2).await;
    sync.until_value(0, "db", "three").await;
    assert!(hub.record(&sync.id).await.unwrap().unwrap().record.restored);
    assert_eq!(sync.until_there(0, "web").await.uid(), uid, "nothing is deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_cannot_open_its_own_window_and_an_approved_fix_passes() {
    let sync = Sync::new(1).await;
    let hub = hub().await;
    let pass = || pass(&sync, &hub, RewindPolicy::Warn);
    web(&sync, "one");
    sync.commit(&[(0, "db/cm.yaml", Some(&config_map("db", "one")))]);
    assert!(pass().await.is_settled());
    let closed = "windows: {timeZone: Europe/Berlin, deny: [{}]}\n";
    sync.repo.commit("main", &[("gitwork.yaml", Some(closed))]);
    assert!(pass().await.is_settled());

    let path = sync.path(0, "web/cm.yaml");
    let fix = config_map("web", "fix");
    sync.repo.commit("main", &[("gitwork.yaml", None), (&path, Some(&fix))]);
    let edited = json!({"spec": {"workload": {"manifests": []}}});
    sync.edit(0, "db", edited).await;
    pass().await;
    let plan = pass().await;
    let hold = only_hold(&sync, &plan, Guard::Window);
    assert_eq!(hold.works, 1, "an edit is put back");
    sync.until_value(0, "db", "one").await;
    sync.until_value(0, "web", "one").await;
    done(&gitwork(&sync, &["approve", &hold.approval.hash().to_string()]));
    assert!(pass().await.is_settled());
    sync.until_value(0, "web", "fix").await;
    // With nothing held, the commit's own windows count: there are none.
    web(&sync, "two");
    assert!(pass().await.is_settled());
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_outside_its_policy_changes_nothing_in_the_namespace() {
    let mut sync = Sync::new(1).await;
    let hub = hub().await;
    let rule = TenantRule { namespaces: Some(vec!["default".into()]), ..TenantRule::default() };
    sync.tenancy = vec![rule].into();
    web(&sync, "one");
    assert!(pass(&sync, &hub, RewindPolicy::Warn).await.is_settled());
    let stolen = config_map("web", "two").replace("namespace: default", "namespace: kube-system");
    let db = config_map("db", "one");
    sync.commit(&[(0, "web/cm.yaml", Some(&stolen)), (0, "db/cm.yaml", Some(&db))]);
    let engine = sync.engine(hub.clone(), sync.source());
    let (_, desired) = engine.once().await.unwrap();
    let found = &desired.diagnostics[0];
    assert_eq!(
        (found.code.id(), found.location.file.as_str()),
        ("GW501", sync.path(0, "web/cm.yaml").as_str())
    );
    sync.until_value(0, "db", "one").await;
    sync.until_value(0, "web", "one").await;
}

/// What the namespace controller does at the end of a namespace's life.
async fn finish_namespace(sync: &Sync, name: &str) {
    let body = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
            "spec": {"finalizers": []},
    });
    let request = http::Request::put(format!("/api/v1/namespaces/{name}/finalize"))
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(sync.hub.client());
    // A hub with the namespace controller has done it already, or does.
    let _answer = sync.hub.client().request_text(request).await;
    eventually("the namespace to be gone", Duration::from_secs(300), || async {
        match namespaces.get_opt(name).await.map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(_) => Err("it is there".into()),
        }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn recreated_cluster_namespace_is_filled_and_blocks_no_other_cluster() {
    let sync = Sync::new(2).await;
    let hub = hub().await;
    let commit = |value: &str, more: bool| {
        let text = config_map("web", value);
        let more = more.then_some(text.as_str());
        sync.commit(&[
            (0, "web/cm.yaml", Some(&text)),
            (1, "web/cm.yaml", Some(&text)),
            (
                0,
                "more/cm.yaml",
                more.map(|_| "apiVersion: v1\nkind: Namespace\nmetadata: {name: more}\n"),
            ),
        ]);
    };
    commit("one", false);
    let running = sync.start_with(hub.clone());
    for cluster in 0..2 {
        sync.until_value(cluster, "web", "one").await;
    }
    let namespaces: Api<Namespace> = Api::all(sync.hub.client());
    namespaces.delete(&sync.clusters[0], &DeleteParams::default()).await.unwrap();
    commit("two", true);
    running.hint();
    // The other cluster continues; a terminating namespace gets no works.
    sync.until_value(1, "web", "two").await;
    assert!(sync.works(0).get_opt("more").await.unwrap().is_none());
    let gone = sync.works(0).delete("web", &DeleteParams::default()).await;
    drop(gone);
    finish_namespace(&sync, &sync.clusters[0]).await;
    sync.hub.create_namespace(&sync.clusters[0]).await;
    sync.until_value(0, "web", "two").await;
    sync.until_there(0, "more").await;
    sync.until_value(1, "web", "two").await;
    running.stop().await;
}
