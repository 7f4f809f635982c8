//! The first sync, relative to a bare client that sends the same kind of request.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use super::harness::git_server::{GitServer, Repo};
use super::harness::requests::Request;
use super::harness::resources::cpu_of;
use super::harness::{Cluster, ControlPlane};
use super::program::command;
use super::repository::Layout;
use super::{CONCURRENCY, works, works_in};

/// Works that the bare client writes before all rounds.
const WARM_UP: usize = 2_000;
const ROUNDS: usize = 5;
/// What gitwork logs at the end of a pass with many works.
const WROTE: &str = "wrote works; each of them is logged at debug";
/// More works take too long for several rounds, and the API server's rate changes on the way.
const ROUNDS_UP_TO: usize = 10_000;

/// Measures the first sync of works with names of their own: once with many works, otherwise
/// several times, as one round is short.
pub async fn first_sync(hub: &Cluster, folder: &Path, layout: Layout) {
    layout.create_namespaces(hub).await;
    let server = GitServer::http(folder).start();
    // An API server that has just started is slower.
    bare(hub, "warm-up", Layout { works: WARM_UP, ..layout }).await;
    let rounds = if layout.works > ROUNDS_UP_TO { 1 } else { ROUNDS };
    let mut ratios = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        let source = format!("first-{round}");
        let repo = layout.repository(folder, &format!("{source}.git"), &format!("{source}-"));
        let [writes, all] = sync_once(hub, (&server, &repo), &source, layout).await;
        ratios[0].push(writes);
        ratios[1].push(all);
    }
    let [writes, all] = ratios.map(|mut ratios| {
        ratios.sort_by(f64::total_cmp);
        ratios[rounds / 2]
    });
    println!(
        "| first sync of {} works, median of {rounds} relative to the bare client | writes \
         {writes:.2}, from start to end {all:.2} |",
        layout.works,
    );
}

/// Syncs a repository once, with the bare client before and after it. Returns the rates relative to
/// the bare client: of the writes, and from start to end.
pub async fn sync_once(
    hub: &Cluster,
    (server, repo): (&GitServer, &Repo),
    source: &str,
    layout: Layout,
) -> [f64; 2] {
    let before = reference(hub, &format!("{source}-before"), layout).await;
    let log = repo.path().with_extension("log");
    let mut requests = hub.requests();
    let (start, begun) = (Instant::now(), Timestamp::now());
    let mut gitwork = command(hub, server, repo, (source, ""))
        .args(["--once", "--log-format", "json"])
        .env("GITWORK_LOG", "info")
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let used = watch_cpu(gitwork.id());
    let status = gitwork.wait().unwrap();
    let took = start.elapsed().as_secs_f64();
    assert!(status.success(), "{status}, and it says at last: {}", last_lines(&log));
    let used = used.join().unwrap().as_secs_f64() * 1e6 / layout.works as f64;
    let is_write = |one: &Request| one.verb == "create" && one.resource == "manifestworks";
    let first = requests.take().into_iter().find(is_write).unwrap();
    let [reading, planned, writing] = phases(&log, begun, first.at);
    let rest = took - reading - planned - writing;
    let [synced, written] = [took, writing].map(|seconds| layout.works as f64 / seconds);
    let after = reference(hub, &format!("{source}-after"), layout).await;
    let reference = f64::midpoint(before, after);
    println!(
        "| first sync of {} works to {} clusters ({source}) | {took:.2} s: {reading:.2} s to \
         fetch and render, {planned:.2} s from there to the first write, {writing:.1} s to the \
         last one, {rest:.2} s to the end, {used:.0} µs of CPU a work; writes {written:.0}/s; from \
         start to end {synced:.0}/s; bare client {before:.0}/s before and {after:.0}/s after: \
         ratios {:.2} and {:.2} |",
        layout.works,
        layout.clusters,
        written / reference,
        synced / reference
    );
    [written / reference, synced / reference]
}

/// The processor time of a process, until it ends.
fn watch_cpu(process: u32) -> JoinHandle<Duration> {
    std::thread::spawn(move || {
        let mut used = Duration::ZERO;
        while let Some(now) = cpu_of(process) {
            used = now;
            std::thread::sleep(Duration::from_millis(20));
        }
        used
    })
}

/// The rate of a bare client that creates as many works: on the same hub, or with many works on one
/// that has none yet, as gitwork's.
async fn reference(hub: &Cluster, prefix: &str, layout: Layout) -> f64 {
    if layout.works <= ROUNDS_UP_TO {
        return bare(hub, prefix, layout).await;
    }
    let plane = ControlPlane::boot().await.unwrap();
    let fresh = super::hub(&plane).await;
    layout.create_namespaces(&fresh).await;
    bare(&fresh, prefix, layout).await
}

/// Creates works with a bare client; works a second. They have labels and annotations as gitwork's
/// have, which cost the API server a fourteenth.
async fn bare(hub: &Cluster, prefix: &str, layout: Layout) -> f64 {
    let client = works(hub);
    let start = Instant::now();
    stream::iter(0..layout.works)
        .map(|work| {
            let api = works_in(&client, &layout.namespace(work));
            let object: DynamicObject = serde_json::from_value(json!({
                "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
                "metadata": {
                    "name": format!("{prefix}-{work:06}"),
                    "labels": { "app.kubernetes.io/managed-by": "bare", "bench": "bare" },
                    "annotations": {
                        "gitwork.dev/commit": "0".repeat(40),
                        "gitwork.dev/content-hash": "0".repeat(64),
                        "gitwork.dev/path": layout.path(work),
                    },
                },
                "spec": { "workload": { "manifests": layout.manifests(work, "first") } },
            }))
            .unwrap();
            async move { api.create(&PostParams::default(), &object).await.unwrap() }
        })
        .buffer_unordered(CONCURRENCY)
        .for_each(|_| async {})
        .await;
    layout.works as f64 / start.elapsed().as_secs_f64()
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// Seconds from the start until gitwork has read the repository, from there to its first write, and
/// from there until it has written all works, by its own log.
fn phases(log: &Path, start: Timestamp, first_write: Timestamp) -> [f64; 3] {
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let at = |message: &str| -> Timestamp {
        let line = lines.iter().find(|line| line["message"] == message).unwrap();
        line["timestamp"].as_str().unwrap().parse().unwrap()
    };
    let times = [start, at("read"), first_write, at(WROTE)];
    let since = |index: usize| times[index + 1].duration_since(times[index]).as_secs_f64();
    [since(0), since(1), since(2)]
}
