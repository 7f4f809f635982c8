//! Measures gitwork against a real kube-apiserver. It prints ratios and counts of one run, because
//! machines are noisy. `docs/benchmarks.md` has the results and the method.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking and prints its results"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use gitwork_api::cluster::ManagedCluster;
use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use gitwork_git::status_branch::{Published, StatusBranch};
use gitwork_git::{Auth, Remote};
use gitwork_report::status::State;
use gitwork_report::status::source::SourceStatus;
use gitwork_report::status::view::StatusView;
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};

#[path = "fleet/controller.rs"]
mod controller;
#[path = "../tests/harness/mod.rs"]
mod harness;

use harness::git_server::{GitServer, Repo};
use harness::source_status::{source_status, work_state};
use harness::{Cluster, ClusterOptions, ControlPlane, crds, eventually, tally};

/// Concurrent requests, as many as gitwork sends.
const CONCURRENCY: usize = 32;
const CLUSTERS: usize = 100;
const MANY: usize = 10_000;
const FIRST: usize = 2_000;
const SOURCE: &str = "bench";
const DEADLINE: Duration = Duration::from_secs(600);

/// The parts of the benchmark. Without names on the command line all of them run. `steady` includes
/// `plan`, which reads the same repository.
const PARTS: [&str; 5] = ["first-sync", "steady", "group", "controller", "status-branch"];

fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    for name in &named {
        assert!(PARTS.contains(&name.as_str()), "there is no {name:?}: choose of {PARTS:?}");
    }
    let wants = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    let folder = tempfile::tempdir().unwrap();
    println!("| what | measured |\n|---|---|");
    if PARTS.iter().any(|part| *part != "status-branch" && wants(part)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let plane = ControlPlane::boot().await.unwrap();
            let hub = hub(&plane).await;
            if wants("first-sync") {
                first_sync(&hub, folder.path()).await;
            }
            if wants("steady") {
                steady(&hub, folder.path()).await;
                plan_without_hub(folder.path());
            }
            if wants("group") {
                group(&hub, folder.path()).await;
            }
            if wants("controller") {
                controller::controller(&hub).await;
            }
        });
    }
    if wants("status-branch") {
        status_branch(folder.path());
    }
}

async fn hub(plane: &ControlPlane) -> Cluster {
    let options = ClusterOptions { crds: crds::hub(), ..Default::default() };
    let hub = plane.start("bench", options).await;
    for cluster in 0..CLUSTERS {
        hub.create_namespace(&namespace(cluster)).await;
    }
    // The namespace of gitwork's own objects, as in deploy/gitwork.yaml.
    hub.create_namespace(gitwork_hub::NAMESPACE).await;
    hub
}

/// Publications of one changed work each.
const PUBLICATIONS: i64 = 50;

/// Processor time of a process so far.
fn cpu_of(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    // The unit is a hundredth of a second.
    Duration::from_millis(ticks * 10)
}

/// Processor time of this process so far.
fn own_cpu() -> Duration {
    cpu_of(std::process::id())
}

/// The status of 1,000 clusters x 10 works, all available.
fn many_available_works() -> SourceStatus {
    let condition = json!({
        "type": "Available", "status": "True", "reason": "ResourcesAvailable",
        "observedGeneration": 1, "message": "All resources are available",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({ "conditions": [condition] });
    let work = work_state(State::Available, StatusView::of(&status, 1, 3));
    let keys = (0..10_000).map(|number| WorkKey {
        cluster: ClusterName::parse(&format!("edge-{:03}", number / 10)).unwrap(),
        work: WorkName::parse(&format!("work-{}", number % 10)).unwrap(),
    });
    source_status("bench", keys.map(|key| (key, work.clone())))
}

/// Measures a push to the status branch of 1,000 clusters x 10 works after one work has changed.
fn status_branch(folder: &Path) {
    let mut now = many_available_works();
    let repo = Repo::create(&folder.join("status.git"));
    let remote = Remote {
        url: repo.file_url(),
        auth: Auth::None,
        ca_bundle: None,
        client_certificate: None,
        proxy: None,
    };
    let mut branch = StatusBranch::open(&folder.join("status"), remote, "gitwork-status").unwrap();
    let cancel = Arc::new(AtomicBool::new(false));
    let mut publish = |status: &Arc<SourceStatus>, at: i64| {
        let published = branch.publish(status, at, &cancel).unwrap();
        assert!(matches!(published, Published::Pushed { .. }), "{published:?}");
    };
    let first = Arc::new(now.clone());
    let before = own_cpu();
    publish(&first, 0);
    let cpu = own_cpu() - before;
    println!("| status branch of 1,000 clusters x 10 works, first push: CPU | {cpu:?} |");
    let keys: Vec<WorkKey> = now.works.keys().cloned().collect();
    let changed = (1..=PUBLICATIONS).map(|round| {
        now.works.get_mut(&keys[round as usize * 191 % keys.len()]).unwrap().state = State::Failed;
        (Arc::new(now.clone()), round)
    });
    let changed: Vec<(Arc<SourceStatus>, i64)> = changed.collect();
    let before = own_cpu();
    changed.iter().for_each(|(status, round)| publish(status, *round));
    let each = (own_cpu() - before) / PUBLICATIONS as u32;
    println!(
        "| one changed work of them, {PUBLICATIONS} times: CPU each, with the push to a local \
         repository | {each:?} |"
    );
}

fn namespace(cluster: usize) -> String {
    format!("bench-{cluster:03}")
}

/// Three manifests, 2 KiB in all.
fn manifests(work: usize, text: &str) -> Vec<Value> {
    let filler = format!("{work:06}{text}").repeat(60);
    let filler: String = filler.chars().take(480).collect();
    (0..3)
        .map(|part| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": format!("work-{work:05}-{part}"), "namespace": "default" },
                "data": { "filler": filler, "part": part.to_string() },
            })
        })
        .collect()
}

fn path(work: usize) -> String {
    format!("clusters/{}/work-{work:05}/manifests.yaml", namespace(work % CLUSTERS))
}

fn file(work: usize, text: &str) -> String {
    manifests(work, text).iter().map(|manifest| format!("---\n{manifest}\n")).collect()
}

fn repository(folder: &Path, name: &str, works: usize) -> Repo {
    let repo = Repo::create(&folder.join(name));
    let files: Vec<(String, String)> =
        (0..works).map(|work| (path(work), file(work, "first"))).collect();
    let files: Vec<(&str, Option<&str>)> =
        files.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))).collect();
    repo.commit("main", &files);
    repo
}

/// The program in the state that users run it: optimised.
struct Gitwork(Child);

impl Drop for Gitwork {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn command(hub: &Cluster, server: &GitServer, repo: &Repo, source: &str) -> Command {
    let name = repo.path().file_name().unwrap().to_str().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gitwork"));
    command
        .args(["run", "--branch", "main", "--source-id", source, "--repo"])
        .arg(server.url(name))
        .arg("--cache")
        .arg(repo.path().with_extension("cache"))
        .arg("--kubeconfig")
        .arg(hub.kubeconfig_path())
        .env("GITWORK_LOG", "error")
        .stderr(Stdio::inherit());
    command
}

impl Gitwork {
    /// Processor time so far.
    fn cpu(&self) -> Duration {
        cpu_of(self.0.id())
    }

    /// MiB in memory: now, and at most so far.
    fn memory(&self) -> (u64, u64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let of = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
        };
        (of("VmRSS:"), of("VmHWM:"))
    }

    fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }
}

fn works(hub: &Cluster) -> (kube::Client, ApiResource) {
    let resource = ApiResource {
        group: "work.open-cluster-management.io".into(),
        version: "v1".into(),
        api_version: "work.open-cluster-management.io/v1".into(),
        kind: "ManifestWork".into(),
        plural: "manifestworks".into(),
    };
    (hub.client(), resource)
}

/// Creates works of the same size as gitwork's with a bare client; works a second.
async fn bare(hub: &Cluster, round: usize) -> f64 {
    let (client, resource) = works(hub);
    let start = Instant::now();
    stream::iter(0..FIRST)
        .map(|work| {
            let api: Api<DynamicObject> =
                Api::namespaced_with(client.clone(), &namespace(work % CLUSTERS), &resource);
            let object: DynamicObject = serde_json::from_value(json!({
                "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
                "metadata": {
                    "name": format!("bare-{round}-{work:05}"), "labels": { "bench": "bare" },
                },
                "spec": { "workload": { "manifests": manifests(work, "first") } },
            }))
            .unwrap();
            async move { api.create(&PostParams::default(), &object).await.unwrap() }
        })
        .buffer_unordered(CONCURRENCY)
        .for_each(|_| async {})
        .await;
    FIRST as f64 / start.elapsed().as_secs_f64()
}

async fn first_sync(hub: &Cluster, folder: &Path) {
    let server = GitServer::http(folder).start();
    let mut ratios = Vec::new();
    for round in 0..3 {
        let source = format!("first-{round}");
        // Names of its own for each round.
        let repo = repository(folder, &format!("{source}.git"), 0);
        let files: Vec<(String, String)> = (0..FIRST)
            .map(|work| {
                let path = path(work).replace("/work-", &format!("/{source}-"));
                (path, file(work, "first"))
            })
            .collect();
        let files: Vec<(&str, Option<&str>)> =
            files.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))).collect();
        repo.commit("main", &files);
        let before = bare(hub, 2 * round).await;
        let log = folder.join(format!("{source}.log"));
        let start = Instant::now();
        let status = command(hub, &server, &repo, &source)
            .args(["--once", "--log-format", "json"])
            .env("GITWORK_LOG", "info,gitwork_daemon::engine::log=debug")
            .stderr(std::fs::File::create(&log).unwrap())
            .status()
            .unwrap();
        let synced = FIRST as f64 / start.elapsed().as_secs_f64();
        assert!(status.success());
        let written = FIRST as f64 / writing(&log).as_secs_f64();
        let after = bare(hub, 2 * round + 1).await;
        let reference = f64::midpoint(before, after);
        println!(
            "| first sync of {FIRST} works (round {round}) | writes {written:.0}/s; from start to \
             end, fetch included, {synced:.0}/s; bare client {before:.0}/s before and \
             {after:.0}/s after: ratios {:.2} and {:.2} |",
            written / reference,
            synced / reference
        );
        ratios.push(written / reference);
    }
    ratios.sort_by(f64::total_cmp);
    println!("| first sync of {FIRST} works, median ratio to the bare client | {:.2} |", ratios[1]);
}

async fn steady(hub: &Cluster, folder: &Path) {
    let server = GitServer::http(folder).start();
    let repo = repository(folder, "steady.git", MANY);
    let first = command(hub, &server, &repo, SOURCE).arg("--once").status().unwrap();
    assert!(first.success());
    assert_eq!(count(hub, &format!("gitwork.dev/source={SOURCE}")).await, MANY);

    let child = command(hub, &server, &repo, SOURCE)
        .args(["--interval", "86400", "--listen", "127.0.0.1:0"])
        .spawn()
        .unwrap();
    let gitwork = Gitwork(child);
    idle(&gitwork).await;
    let (now, most) = gitwork.memory();
    println!("| memory with {MANY} works after a restart | {now} MiB RSS, {most} MiB at most |");

    let mut requests = hub.requests();
    requests.take();
    let cpu = gitwork.cpu();
    gitwork.signal("HUP");
    idle(&gitwork).await;
    let made = requests.take();
    let made = made.iter().filter(|request| {
        // Leader election depends on the clock.
        request.user_agent.starts_with("gitwork") && !request.name.starts_with("gitwork-leader-")
    });
    println!(
        "| a pass where nothing changed, {MANY} works | {:?}, {} ms of CPU |",
        tally(made.filter(|request| request.verb != "watch")),
        (gitwork.cpu() - cpu).as_millis()
    );
    change_one_work(hub, &gitwork, &repo).await;
    let (now, most) = gitwork.memory();
    println!("| memory with {MANY} works after that | {now} MiB RSS, {most} MiB at most |");
}

const MEMBERS: usize = 1_000;
const GROUP_SOURCE: &str = "group";

/// Creates ManagedClusters with a label of a dozen values.
async fn managed_clusters(hub: &Cluster) {
    let clusters: Api<ManagedCluster> = Api::all(hub.client());
    stream::iter(0..MEMBERS)
        .map(|number| {
            let clusters = clusters.clone();
            async move {
                let name = format!("member-{number:04}");
                hub.create_namespace(&name).await;
                let mut cluster = ManagedCluster::new(&name, Default::default());
                let labels = [("tier", "store".to_owned()), ("city", format!("c{}", number % 12))];
                let labels = labels.map(|(name, value)| (name.to_owned(), value));
                cluster.metadata.labels = Some(labels.into());
                clusters.create(&PostParams::default(), &cluster).await.unwrap();
            }
        })
        .buffer_unordered(CONCURRENCY)
        .for_each(|()| async {})
        .await;
}

/// Measures the memory of a daemon with a group of 1,000 clusters and 10 works.
async fn group(hub: &Cluster, folder: &Path) {
    managed_clusters(hub).await;
    let server = GitServer::http(folder).start();
    let repo = repository(folder, "group.git", 0);
    let group = "selector: {labelSelector: {matchLabels: {tier: store}}}\n\
                 defaults: {substitute: true}\n";
    let mut files = vec![("groups/stores/group.yaml".to_owned(), group.to_owned())];
    for work in 0..10 {
        let text = format!(
            "{}---\n{}\n",
            file(work, "first"),
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": format!("place-{work}"), "namespace": "default" },
                "data": { "place": "${cluster.name} in ${cluster.labels['city']}" },
            })
        );
        files.push((format!("groups/stores/work-{work}/manifests.yaml"), text));
    }
    let files: Vec<(&str, Option<&str>)> =
        files.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))).collect();
    repo.commit("main", &files);
    let start = Instant::now();
    let first = command(hub, &server, &repo, GROUP_SOURCE).arg("--once").status().unwrap();
    assert!(first.success());
    println!("| first sync of {MEMBERS} clusters x 10 works | {:.0?} |", start.elapsed());
    let child = command(hub, &server, &repo, GROUP_SOURCE)
        .args(["--interval", "86400", "--listen", "127.0.0.1:0"])
        .spawn()
        .unwrap();
    let gitwork = Gitwork(child);
    idle(&gitwork).await;
    let (now, most) = gitwork.memory();
    println!(
        "| memory with a group of {MEMBERS} clusters x 10 works after a restart | {now} MiB RSS, \
         {most} MiB at most |"
    );
}

/// Measures commits that each change one of many works.
async fn change_one_work(hub: &Cluster, gitwork: &Gitwork, repo: &Repo) {
    let (client, resource) = works(hub);
    let api: Api<DynamicObject> =
        Api::namespaced_with(client, &namespace(4_321 % CLUSTERS), &resource);
    let mut latencies = Vec::new();
    let cpu = gitwork.cpu();
    let rounds = 10;
    let mut requests = hub.requests();
    requests.take();
    for round in 0..rounds {
        let text = format!("change-{round}");
        repo.commit("main", &[(&path(4_321), Some(&file(4_321, &text)))]);
        let start = Instant::now();
        gitwork.signal("HUP");
        eventually("the change on the hub", DEADLINE, || async {
            let work = api.get("work-04321").await.map_err(|error| error.to_string())?;
            let there = work.data.pointer("/spec/workload/manifests/0/data/filler");
            let there = there.and_then(Value::as_str).is_some_and(|filler| filler.contains(&text));
            if there { Ok(()) } else { Err("not yet".into()) }
        })
        .await
        .unwrap();
        latencies.push(start.elapsed());
    }
    idle(gitwork).await;
    let made = requests.take();
    let made = made.iter().filter(|request| {
        // Leader election depends on the clock.
        request.user_agent.starts_with("gitwork") && !request.name.starts_with("gitwork-leader-")
    });
    let kinds = tally(made.clone());
    let writes = made.filter(|request| request.is_write()).count();
    latencies.sort();
    println!(
        "| 1 of {MANY} works changed, {rounds} commits | {writes} writes of {kinds:?}; commit to \
         hub {} ms in the middle, {} ms at most; {} ms of CPU a commit |",
        latencies[latencies.len() / 2].as_millis(),
        latencies[latencies.len() - 1].as_millis(),
        (gitwork.cpu() - cpu).as_millis() / rounds
    );
}

/// From the moment that gitwork knows what was last changed by which commit to its last write, by
/// its own log.
fn writing(log: &Path) -> Duration {
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let at = |line: &Value| line["timestamp"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let is = |message: &'static str| move |line: &&Value| line["message"] == message;
    let read = lines.iter().find(is("read")).unwrap();
    let first = lines.iter().find(is("done")).unwrap();
    let last = lines.iter().rfind(is("done")).unwrap();
    println!("| | read to first write: {} ms |", at(first).duration_since(at(read)).as_millis());
    Duration::try_from(at(last).duration_since(at(first))).unwrap()
}

/// The number of works that a selector selects.
async fn count(hub: &Cluster, selector: &str) -> usize {
    // A list with a selector does not tell how many are left, so it is read to its end.
    let (client, resource) = works(hub);
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let mut params = ListParams::default().labels(selector).limit(500);
    let mut found = 0;
    loop {
        let page = api.list_metadata(&params).await.unwrap();
        found += page.items.len();
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => params.continue_token = Some(next),
            _ => return found,
        }
    }
}

/// Waits until the program has used no processor for a second.
async fn idle(gitwork: &Gitwork) {
    let mut last = (gitwork.cpu(), Instant::now());
    let deadline = Instant::now() + DEADLINE;
    // At least a second passes before an idle program counts as idle: a signal needs a moment to be
    // seen.
    while last.1.elapsed() < Duration::from_secs(2) {
        assert!(Instant::now() < deadline, "gitwork does not come to rest");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = gitwork.cpu();
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
}

fn plan_without_hub(folder: &Path) {
    let repo = folder.join("steady.git");
    let mut times = Vec::new();
    for _ in 0..3 {
        let start = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_gitwork"))
            .args(["plan", "--branch", "main", "--base", "main~1", "-o", "json", "--repo"])
            .arg(&repo)
            .arg("--cache")
            .arg(folder.join("steady.cache"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let review: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(review["counts"]["worksChanged"], 1, "{review}");
        times.push(start.elapsed());
    }
    times.sort();
    println!(
        "| `plan` between two commits of {MANY} works, no hub | {} ms |",
        times[1].as_millis()
    );
}
