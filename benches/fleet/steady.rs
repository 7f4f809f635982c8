//! A daemon with many works that have a status: what it holds, and what a start, a commit, an event
//! and a pass without news cost.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::first_sync::sync_once;
use super::harness::git_server::{GitServer, Repo};
use super::harness::requests::{Request, Requests};
use super::harness::resources::cpu_of;
use super::harness::{Cluster, eventually, tally};
use super::program::{Gitwork, command};
use super::repository::Layout;
use super::{CONCURRENCY, DEADLINE, Works, count, works, works_in};

const SOURCE: &str = "bench";
/// The work that commits change, counted from the end.
const CHANGED: usize = 79;
const COMMITS: u32 = 10;
const EVENTS: u32 = 100;
/// Between two events, so that each one is an event of its own.
const BETWEEN: Duration = Duration::from_millis(100);

/// Prints the figures of a daemon with so many works. The first sync is made by a daemon, too, or
/// by `run --once`, which is compared with a bare client.
pub async fn steady(hub: &Cluster, folder: &Path, layout: Layout, by_daemon: bool) {
    layout.create_namespaces(hub).await;
    let server = GitServer::http(folder).start();
    let repo = layout.repository(folder, "steady.git", "");
    if by_daemon {
        let gitwork = start(hub, (&server, &repo), layout, "first sync").await;
        pauses(&gitwork, layout.works);
        gitwork.stop();
    } else {
        sync_once(hub, (&server, &repo), SOURCE, layout).await;
    }
    assert_eq!(count(hub, &format!("gitwork.dev/source={SOURCE}")).await, layout.works);
    report_all(hub, layout).await;

    // The first start makes a new status branch.
    start(hub, (&server, &repo), layout, "start").await.stop();
    let gitwork = start(hub, (&server, &repo), layout, "restart").await;
    pass_without_news(hub, &gitwork, layout.works).await;
    change_one_work(hub, &gitwork, &repo, layout).await;
    events(hub, &gitwork, layout).await;
    memory(&gitwork, layout.works, "after commits and events");
    restart_hub(hub, &gitwork, layout.works).await;
    memory(&gitwork, layout.works, "after a restart of the API server");
    pauses(&gitwork, layout.works);
    drop(gitwork);
    views(hub, layout.works);
    plan_without_hub(&repo, layout.works);
}

/// The agents of all clusters report each work as applied and available, with a value of each
/// object.
async fn report_all(hub: &Cluster, layout: Layout) {
    let (client, start) = (works(hub), Instant::now());
    stream::iter(0..layout.works)
        .map(|work| report(&client, layout, work, "True"))
        .buffer_unordered(CONCURRENCY)
        .for_each(|()| async {})
        .await;
    println!("| statuses of {} works written | {:.0?} |", layout.works, start.elapsed());
}

/// The agent of a cluster reports a work.
async fn report(client: &Works, layout: Layout, work: usize, available: &str) {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "Bench", "message": "All are there",
            "observedGeneration": 1, "lastTransitionTime": now})
    };
    let both = [condition("Applied", "True"), condition("Available", available)];
    let object = |part: usize| {
        json!({
            "resourceMeta": {
                "ordinal": part, "group": "", "version": "v1", "kind": "ConfigMap",
                "resource": "configmaps", "name": format!("{}-{part}", layout.name(work)),
                "namespace": "default",
            },
            "conditions": both,
            "statusFeedback": {"values": [{
                "name": "part", "fieldValue": {"type": "String", "string": part.to_string()},
            }]},
        })
    };
    let objects: Vec<Value> = (0..3).map(object).collect();
    let status = json!({"conditions": both, "resourceStatus": {"manifests": objects}});
    let patch = Patch::Merge(json!({"status": status}));
    let api = works_in(client, &layout.namespace(work));
    api.patch_status(&layout.name(work), &PatchParams::default(), &patch).await.unwrap();
}

/// Starts a daemon with the mirror of the first sync on a hub that is at rest, and waits until it
/// knows that everything is in step.
async fn start(
    hub: &Cluster,
    (server, repo): (&GitServer, &Repo),
    layout: Layout,
    what: &str,
) -> Gitwork {
    let Layout { works, .. } = layout;
    at_rest(hub).await;
    let mut requests = hub.requests();
    let start = Instant::now();
    let mut command = command(hub, server, repo, (SOURCE, "  statusBranch: {}\n"));
    command.args(["--page-bind", "127.0.0.1:0"]);
    let gitwork = Gitwork::daemon(command);
    eventually("all works in step", DEADLINE, || async {
        let kept = gitwork.metric("gitwork_works", &["action=\"keep\""]);
        if kept == Some(works as f64) { Ok(()) } else { Err(format!("{kept:?}")) }
    })
    .await
    .unwrap();
    let in_step = start.elapsed();
    gitwork.idle().await;
    println!(
        "| {what} of a daemon with {works} works | in step after {:.1} s; at rest after {:.1} s \
         and {:.1} s of CPU; writes of works: {} |",
        in_step.as_secs_f64(),
        (start.elapsed() - Duration::from_secs(2)).as_secs_f64(),
        gitwork.cpu().as_secs_f64(),
        of_gitwork(&mut requests)
            .iter()
            .filter(|one| one.is_write() && one.resource.starts_with("manifestworks"))
            .count()
    );
    memory(&gitwork, works, &format!("after the {what}"));
    gitwork
}

/// Waits until the API server has done what many writes leave behind, such as garbage collection.
async fn at_rest(hub: &Cluster) {
    let cpu = || cpu_of(hub.pid()).unwrap();
    let deadline = Instant::now() + DEADLINE;
    loop {
        let before = cpu();
        tokio::time::sleep(Duration::from_secs(2)).await;
        if cpu() - before < Duration::from_millis(200) {
            return;
        }
        assert!(Instant::now() < deadline, "the API server does not come to rest");
    }
}

fn memory(gitwork: &Gitwork, works: usize, when: &str) {
    let (now, most) = gitwork.memory();
    println!("| memory with {works} works {when} | {now} MiB RSS, {most} MiB at most |");
}

/// The requests of gitwork since the last call, but for leader election, which depends on the
/// clock.
fn of_gitwork(requests: &mut Requests) -> Vec<Request> {
    let mut made = requests.take();
    made.retain(|request| {
        request.user_agent.starts_with("gitwork") && !request.name.starts_with("gitwork-leader-")
    });
    made
}

async fn pass_without_news(hub: &Cluster, gitwork: &Gitwork, works: usize) {
    let mut requests = hub.requests();
    let cpu = gitwork.cpu();
    gitwork.signal("HUP");
    gitwork.idle().await;
    let made = of_gitwork(&mut requests);
    println!(
        "| a pass where nothing changed, {works} works | {:?}, {} ms of CPU |",
        tally(made.iter().filter(|request| request.verb != "watch")),
        (gitwork.cpu() - cpu).as_millis()
    );
}

/// Measures commits that each change one of the works.
async fn change_one_work(hub: &Cluster, gitwork: &Gitwork, repo: &Repo, layout: Layout) {
    let changed = layout.works - CHANGED;
    let api = works_in(&works(hub), &layout.namespace(changed));
    let mut latencies = Vec::new();
    let cpu = gitwork.cpu();
    let mut requests = hub.requests();
    for round in 0..COMMITS {
        let text = format!("change-{round}");
        repo.commit("main", &[(&layout.path(changed), Some(&layout.file(changed, &text)))]);
        let start = Instant::now();
        gitwork.signal("HUP");
        eventually("the change on the hub", DEADLINE, || async {
            let work = api.get(&layout.name(changed)).await.map_err(|error| error.to_string())?;
            let there = work.data.pointer("/spec/workload/manifests/0/data/filler");
            let there = there.and_then(Value::as_str).is_some_and(|filler| filler.contains(&text));
            if there { Ok(()) } else { Err("not yet".into()) }
        })
        .await
        .unwrap();
        latencies.push(start.elapsed());
    }
    gitwork.idle().await;
    let made = of_gitwork(&mut requests);
    let writes = made.iter().filter(|request| request.is_write()).count();
    latencies.sort();
    println!(
        "| 1 of {} works changed, {COMMITS} commits | {writes} writes of {:?}; commit to hub {} ms \
         in the middle, {} ms at most; {} ms of CPU a commit |",
        layout.works,
        tally(&made),
        latencies[latencies.len() / 2].as_millis(),
        latencies[latencies.len() - 1].as_millis(),
        (gitwork.cpu() - cpu).as_millis() / u128::from(COMMITS)
    );
}

/// Measures events of agents: one work after the other becomes unavailable.
async fn events(hub: &Cluster, gitwork: &Gitwork, layout: Layout) {
    let (client, cpu) = (works(hub), gitwork.cpu());
    let mut clock = tokio::time::interval(BETWEEN);
    for event in 0..EVENTS {
        clock.tick().await;
        report(&client, layout, event as usize * 7 % layout.works, "False").await;
    }
    let progressing = || gitwork.metric("gitwork_work_states", &["state=\"progressing\""]);
    eventually("all events in the status", DEADLINE, || async {
        let found = progressing();
        if found == Some(f64::from(EVENTS)) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await
    .unwrap();
    gitwork.idle().await;
    println!(
        "| {EVENTS} events of agents in {:?}, {} works, with the status branch | {:.1} ms of CPU \
         an event |",
        BETWEEN * EVENTS,
        layout.works,
        (gitwork.cpu() - cpu).as_secs_f64() * 1e3 / f64::from(EVENTS)
    );
}

/// Measures what a restart of the API server costs. It has no changes from before in its memory, so
/// each watch begins with a list of all works.
async fn restart_hub(hub: &Cluster, gitwork: &Gitwork, works: usize) {
    let (mut requests, cpu, mut made) = (hub.requests(), gitwork.cpu(), Vec::new());
    hub.restart().await.unwrap();
    let ready = Instant::now();
    eventually("a list and then a watch of the works", DEADLINE, || {
        made.extend(of_gitwork(&mut requests));
        let last = |verb: &str| {
            made.iter().rposition(|one| one.verb == verb && one.resource == "manifestworks")
        };
        let is_watched = last("list").is_some_and(|list| last("watch") > Some(list));
        let found = if is_watched { Ok(()) } else { Err(format!("{:?}", tally(&made))) };
        async { found }
    })
    .await
    .unwrap();
    let watched = ready.elapsed();
    gitwork.idle().await;
    made.extend(of_gitwork(&mut requests));
    let of_works = |one: &&Request| one.resource.starts_with("manifestworks");
    println!(
        "| the API server restarts, {works} works | {:?}; the list is read {:.1} s after the \
         server is ready; {:.1} s of CPU |",
        tally(made.iter().filter(of_works)),
        watched.as_secs_f64(),
        (gitwork.cpu() - cpu).as_secs_f64()
    );
}

/// Prints how often the engine was busy for more than 50 ms, since the start.
fn pauses(gitwork: &Gitwork, works: usize) {
    let of = |part: &str| gitwork.metric(&format!("gitwork_engine_pause_seconds_{part}"), &[]);
    println!(
        "| steps of the engine of more than 50 ms, {works} works, since the start | {} of {:.2} s \
         in all |",
        of("count").unwrap_or_default(),
        of("sum").unwrap_or_default()
    );
}

/// Prints how long the commands take that show every work.
fn views(hub: &Cluster, works: usize) {
    let command = |view: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gitwork"));
        command.args([view, "--source-id", SOURCE, "--kubeconfig"]).arg(hub.kubeconfig_path());
        command
    };
    for view in ["status", "tree"] {
        let start = Instant::now();
        let mut child = command(view).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The head of the table comes with the first works.
        assert!(lines.next().is_some_and(|line| line.is_ok()), "`{view}` has ended");
        let first = start.elapsed().as_secs_f64();
        let lines = 1 + lines.count();
        let all = start.elapsed().as_secs_f64();
        assert!(child.wait().unwrap().success());
        println!(
            "| `{view}` of {works} works | first {first:.2} s, all {all:.1} s; {lines} lines |"
        );
    }
    let start = Instant::now();
    let mut view = command("status").arg("--watch").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(view.stdout.take().unwrap()).lines();
    assert!(lines.next().is_some_and(|line| line.is_ok()), "`status --watch` has ended");
    let first = start.elapsed().as_secs_f64();
    // One line for each work, and nothing ends the command but a signal.
    let shown = 1 + lines.take(works - 1).count();
    assert_eq!(shown, works, "`status --watch` has ended");
    let all = start.elapsed().as_secs_f64();
    println!(
        "| `status --watch` of {works} works in a pipe | first {first:.2} s, all {all:.1} s |"
    );
    view.kill().unwrap();
    view.wait().unwrap();
    first_works_on_a_terminal(hub, works);
}

/// Prints how long it takes until `status --watch` shows the first works on a terminal.
fn first_works_on_a_terminal(hub: &Cluster, works: usize) {
    let view = format!(
        "stty cols 120 rows 40; exec {} status --watch --source-id {SOURCE} --kubeconfig {}",
        env!("CARGO_BIN_EXE_gitwork"),
        hub.kubeconfig_path().display()
    );
    let start = Instant::now();
    let mut terminal = Command::new("script")
        .args(["-qefc", &view, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(terminal.stdout.take().unwrap()).lines();
    // The head of the table comes with the first works.
    assert!(lines.any(|line| line.unwrap().contains("CLUSTER")), "the view has ended");
    let took = start.elapsed().as_secs_f64();
    println!("| first works of `status --watch` of {works} works on a terminal | {took:.2} s |");
    terminal.kill().unwrap();
    terminal.wait().unwrap();
}

fn plan_without_hub(repo: &Repo, works: usize) {
    let mut times = Vec::new();
    for _ in 0..3 {
        let start = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_gitwork"))
            .args(["plan", "--branch", "main", "--base", "main~1", "-o", "json", "--repo"])
            .arg(repo.path())
            .arg("--cache")
            .arg(repo.path().with_extension("cache"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let review: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(review["counts"]["worksChanged"], 1, "{review}");
        times.push(start.elapsed());
    }
    times.sort();
    println!(
        "| `plan` between two commits of {works} works, no hub | {} ms |",
        times[1].as_millis()
    );
}
