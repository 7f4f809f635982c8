//! The first sync, relative to a bare client that sends the same kind of request.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use super::harness::Cluster;
use super::harness::git_server::{GitServer, Repo};
use super::harness::resources::cpu_of;
use super::program::command;
use super::repository::Layout;
use super::{CONCURRENCY, works, works_in};

/// The bare client needs no more works to show its rate.
const BARE_MAX: usize = 10_000;

/// Measures the first sync of works with names of their own, up to three times.
pub async fn first_sync(hub: &Cluster, folder: &Path, layout: Layout) {
    layout.create_namespaces(hub).await;
    let server = GitServer::http(folder).start();
    let rounds = if layout.works > BARE_MAX { 1 } else { 3 };
    let mut ratios = Vec::new();
    for round in 0..rounds {
        let source = format!("first-{round}");
        let repo = layout.repository(folder, &format!("{source}.git"), &format!("{source}-"));
        ratios.push(sync_once(hub, (&server, &repo), &source, layout).await);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "| first sync of {} works, median ratio of the writes to the bare client | {:.2} |",
        layout.works,
        ratios[rounds / 2]
    );
}

/// Syncs a repository once, with the bare client before and after it. Returns the rate of the
/// writes relative to the bare client.
pub async fn sync_once(
    hub: &Cluster,
    (server, repo): (&GitServer, &Repo),
    source: &str,
    layout: Layout,
) -> f64 {
    let before = bare(hub, &format!("{source}-before"), layout).await;
    let log = repo.path().with_extension("log");
    let (start, begun) = (Instant::now(), Timestamp::now());
    let mut gitwork = command(hub, server, repo, (source, ""))
        .args(["--once", "--log-format", "json"])
        .env("GITWORK_LOG", "info,gitwork_daemon::engine::log=debug")
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let used = watch_cpu(gitwork.id());
    let status = gitwork.wait().unwrap();
    let took = start.elapsed().as_secs_f64();
    assert!(status.success(), "{status}, and it says at last: {}", last_lines(&log));
    let used = used.join().unwrap().as_secs_f64() * 1e6 / layout.works as f64;
    let [reading, planned, writing] = phases(&log, begun);
    let rest = took - reading - planned - writing;
    let [synced, written] = [took, writing].map(|seconds| layout.works as f64 / seconds);
    let after = bare(hub, &format!("{source}-after"), layout).await;
    let reference = f64::midpoint(before, after);
    println!(
        "| first sync of {} works to {} clusters ({source}) | {took:.1} s: {reading:.1} s to \
         fetch and render, {planned:.2} s from there to the first write, {writing:.1} s to the \
         last one, {rest:.1} s to the end, {used:.0} µs of CPU a work; writes {written:.0}/s; from \
         start to end {synced:.0}/s; bare client {before:.0}/s before and {after:.0}/s after: \
         ratios {:.2} and {:.2} |",
        layout.works,
        layout.clusters,
        written / reference,
        synced / reference
    );
    written / reference
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

/// Creates works with a bare client; works a second. They have labels and annotations as gitwork's
/// have, which cost the API server a fourteenth.
async fn bare(hub: &Cluster, prefix: &str, layout: Layout) -> f64 {
    let count = layout.works.min(BARE_MAX);
    let client = works(hub);
    let start = Instant::now();
    stream::iter(0..count)
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
    count as f64 / start.elapsed().as_secs_f64()
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// Seconds from the start until gitwork has read the repository, from there to its first write, and
/// from there to its last write, by its own log.
fn phases(log: &Path, start: Timestamp) -> [f64; 3] {
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let at = |line: &Value| line["timestamp"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let is = |message: &'static str| move |line: &&Value| line["message"] == message;
    let read = lines.iter().find(is("read")).unwrap();
    let first = lines.iter().find(is("done")).unwrap();
    let last = lines.iter().rfind(is("done")).unwrap();
    let times = [start, at(read), at(first), at(last)];
    let since = |index: usize| times[index + 1].duration_since(times[index]).as_secs_f64();
    [since(0), since(1), since(2)]
}
