//! The faults, one after the other, in an order that the seed decides.

use std::process::Output;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::sleep;

use crate::git::Key;
use crate::git_server;
use crate::harness::{Cluster, eventually};
use crate::programs::{Program, signal};
use crate::world::{MANAGED, NAMESPACE, SOURCE, World};

/// The timeout of every wait while all programs compete for the machine.
pub const DEADLINE: Duration = Duration::from_secs(300);
/// The part of the run in which programs are killed and stopped. After it each lives to the end, so
/// that slow growth shows.
const RESTARTS: f64 = 0.4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    HubKilled,
    HubStalled,
    HubCut,
    ClusterKilled,
    ClusterCut,
    GitRefuses,
    GitStalls,
    GitStallsPacks,
    Hangup,
    EditedOnHub,
    DeletedOnHub,
    EditedOnCluster,
    DeletedOnCluster,
    ForcedPush,
    ClusterDropped,
    DropTakenBack,
    DaemonKilled,
    DaemonEnded,
    MirrorLost,
    AgentKilled,
    AgentEnded,
}

use Fault::*;

const WHOLE_RUN: [Fault; 16] = [
    HubKilled,
    HubStalled,
    HubCut,
    ClusterKilled,
    ClusterCut,
    GitRefuses,
    GitStalls,
    GitStallsPacks,
    Hangup,
    EditedOnHub,
    DeletedOnHub,
    EditedOnCluster,
    DeletedOnCluster,
    ForcedPush,
    ClusterDropped,
    DropTakenBack,
];
const AT_FIRST: [Fault; 5] = [DaemonKilled, DaemonEnded, MirrorLost, AgentKilled, AgentEnded];

/// Makes faults until `length` has passed, every kind once before any kind again.
pub async fn faults(world: &World, seed: u64, length: Duration) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut deck: Vec<Fault> = Vec::new();
    while world.begun.elapsed() < length {
        let restarts = world.seconds() < length.as_secs_f64() * RESTARTS;
        if deck.is_empty() {
            deck.extend(WHOLE_RUN);
            deck.extend(AT_FIRST);
            random.shuffle(&mut deck);
        }
        let Some(fault) = deck.pop() else { continue };
        if AT_FIRST.contains(&fault) && !restarts {
            continue;
        }
        sleep(Duration::from_millis(random.u64(3_000..14_000))).await;
        let lasts = Duration::from_millis(random.u64(2_000..15_000));
        make(world, fault, lasts).await.with_context(|| format!("{fault:?}"))?;
    }
    Ok(())
}

async fn make(world: &World, fault: Fault, lasts: Duration) -> Result<()> {
    let seconds = lasts.as_secs_f64();
    let record = |text: String| world.record("fault", &text);
    match fault {
        HubKilled => {
            record(format!("the hub's API server is killed, for {seconds:.0} s"));
            away(&world.hub, lasts).await?;
        }
        ClusterKilled => {
            record(format!("the API server of {} is killed, for {seconds:.0} s", MANAGED[1]));
            away(&world.managed[1].cluster, lasts).await?;
        }
        HubStalled => {
            record(format!("the hub's API server does not answer for {seconds:.0} s"));
            let server = world.hub.pid();
            signal(server, "STOP");
            sleep(lasts).await;
            signal(server, "CONT");
        }
        HubCut => record(format!("{} connections to the hub are cut", world.hub_gate.cut())),
        ClusterCut => {
            let cut: Vec<usize> = world.managed.iter().map(|managed| managed.gate.cut()).collect();
            record(format!("{cut:?} connections to the clusters are cut"));
        }
        GitRefuses => {
            record(format!("the Git server answers 503 for {seconds:.0} s"));
            git_fault(world, git_server::Fault::Status(503), lasts).await;
        }
        GitStalls => {
            record(format!("the Git server does not answer for {:.0} s", 2.0 * seconds));
            git_fault(world, git_server::Fault::Stall, 2 * lasts).await;
        }
        GitStallsPacks => {
            record(format!("the Git server sends no packs for {seconds:.0} s"));
            git_fault(world, git_server::Fault::StallPack, lasts).await;
        }
        Hangup => {
            record("the daemon gets SIGHUP".to_owned());
            world.daemon.signal("HUP");
        }
        EditedOnHub | DeletedOnHub => drift_on_hub(world, fault == DeletedOnHub).await?,
        EditedOnCluster | DeletedOnCluster => {
            drift_on_cluster(world, fault == DeletedOnCluster).await?;
        }
        ForcedPush => forced_push(world).await?,
        ClusterDropped => cluster_dropped(world).await?,
        DropTakenBack => drop_taken_back(world, lasts).await?,
        DaemonKilled => killed(world, &world.daemon).await,
        DaemonEnded => ended(world, &world.daemon).await?,
        MirrorLost => {
            world.record("restart", "gitwork is killed and loses its mirrors");
            world.daemon.kill();
            std::fs::remove_dir_all(&world.cache)?;
            world.daemon.start();
        }
        // The other one lives through the whole run.
        AgentKilled => killed(world, &world.agents[0]).await,
        AgentEnded => ended(world, &world.agents[0]).await?,
    }
    Ok(())
}

async fn away(cluster: &Cluster, lasts: Duration) -> Result<()> {
    cluster.kill();
    sleep(lasts).await;
    cluster.restart().await
}

async fn git_fault(world: &World, fault: git_server::Fault, lasts: Duration) {
    world.server.set_fault(fault);
    sleep(lasts).await;
    world.server.set_fault(git_server::Fault::None);
}

async fn killed(world: &World, program: &Program) {
    world.record("restart", &format!("{} is killed", program.name));
    program.kill();
    sleep(Duration::from_secs(1)).await;
    program.start();
}

async fn ended(world: &World, program: &Program) -> Result<()> {
    let took = program.end().await?;
    let text = format!("{} was asked to end, which took {:.1} s", program.name, took.as_secs_f64());
    world.record("restart", &text);
    program.start();
    Ok(())
}

/// A work that both Git and the hub have.
fn some_work(world: &World) -> Key {
    world.git().choose()
}

async fn drift_on_hub(world: &World, delete: bool) -> Result<()> {
    let (cluster, work) = some_work(world);
    let works = world.works(Some(&cluster));
    let done = if delete {
        works.delete(&work, &DeleteParams::default()).await.map(drop)
    } else {
        let edit = json!({ "spec": { "deleteOption": { "propagationPolicy": "Orphan" } } });
        works.patch(&work, &PatchParams::default(), &Patch::Merge(edit)).await.map(drop)
    };
    let did = if delete { "deletes" } else { "edits" };
    world.record("fault", &format!("a user {did} {cluster}/{work} on the hub{}", outcome(done)?));
    Ok(())
}

async fn drift_on_cluster(world: &World, delete: bool) -> Result<()> {
    let chosen = std::iter::repeat_with(|| some_work(world)).find(|key| MANAGED.contains(&&*key.0));
    let Some((name, work)) = chosen else { bail!("no work is on a managed cluster") };
    let place = MANAGED.iter().position(|managed| **managed == name).unwrap_or_default();
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(world.managed[place].cluster.client(), NAMESPACE);
    let done = if delete {
        maps.delete(&work, &DeleteParams::default()).await.map(drop)
    } else {
        let edit = json!({ "data": { "revision": "drift" } });
        maps.patch(&work, &PatchParams::default(), &Patch::Merge(edit)).await.map(drop)
    };
    let did = if delete { "deletes" } else { "edits" };
    world.record("fault", &format!("a user {did} {work} on {name}{}", outcome(done)?));
    Ok(())
}

/// A work that does not exist cannot drift.
fn outcome(done: kube::Result<()>) -> Result<&'static str> {
    match done {
        Ok(()) => Ok(""),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(", which is not there"),
        Err(error) => Err(error.into()),
    }
}

/// Fixes what pushes have broken, and waits until the hub matches Git. A work that Git drops beside
/// one that cannot be read stays: its objects may have moved there.
async fn fixed_on_hub(world: &World) -> Result<()> {
    let what = world.git().fix_all();
    world.record("push", &what);
    world.hint();
    settled_on_hub(world).await
}

/// Waits until the hub matches Git.
pub async fn settled_on_hub(world: &World) -> Result<()> {
    eventually("the hub to match Git", DEADLINE, || async {
        sleep(Duration::from_millis(250)).await;
        let behind = world.behind_on_hub();
        if behind.is_empty() { Ok(()) } else { Err(some(&behind)) }
    })
    .await
}

/// The first elements of a set, and its size.
pub fn some(keys: &std::collections::BTreeSet<Key>) -> String {
    let first: Vec<String> =
        keys.iter().take(3).map(|(cluster, work)| format!("{cluster}/{work}")).collect();
    format!("{} works are not: {} …", keys.len(), first.join(", "))
}

/// Rewrites the branch, which is held until it is approved.
async fn forced_push(world: &World) -> Result<()> {
    let _paused = world.pause().await;
    // A rewind of commits that were never applied is none.
    fixed_on_hub(world).await?;
    let what = world.git().rewind();
    world.record("fault", &format!("a push by force: {what}"));
    world.hint();
    let approved = approve(world).await?;
    world.record("approve", &format!("{approved} approvals"));
    Ok(())
}

/// Removes a whole cluster, which is held until it is approved.
async fn cluster_dropped(world: &World) -> Result<()> {
    let paused = world.pause().await;
    fixed_on_hub(world).await?;
    let cluster = world.git().drop_cluster();
    drop(paused);
    world.record("fault", &format!("a push removes all works of {cluster}"));
    world.hint();
    let approved = approve(world).await?;
    ensure!(approved > 0, "the removal of {cluster} was not held");
    world.record("approve", &format!("{approved} approvals"));
    world.git().refill(&cluster);
    world.hint();
    Ok(())
}

async fn drop_taken_back(world: &World, lasts: Duration) -> Result<()> {
    let _paused = world.pause().await;
    fixed_on_hub(world).await?;
    let cluster = world.git().drop_cluster();
    world.record("fault", &format!("a push removes all works of {cluster}, and is reverted"));
    world.hint();
    sleep(lasts).await;
    world.git().revert();
    world.hint();
    Ok(())
}

/// Approves held changes until none is held and the hub matches Git. Returns the number of
/// approvals.
async fn approve(world: &World) -> Result<usize> {
    let mut approved = 0;
    let begun = std::time::Instant::now();
    loop {
        ensure!(begun.elapsed() < DEADLINE, "still held: {}", some(&world.behind_on_hub()));
        let plan = gitwork(world, &["plan", "--rewind", "hold", "-o", "json"]).await?;
        let plan: Value = serde_json::from_slice(&plan.stdout)
            .with_context(|| String::from_utf8_lossy(&plan.stderr).into_owned())?;
        let holds = plan["holds"].as_array().cloned().unwrap_or_default();
        for hold in &holds {
            let guard = hold["guard"].as_str().unwrap_or_default();
            ensure!(matches!(guard, "budget" | "rewind"), "no guard should hold: {hold}");
            world.git().approved();
            let hash = hold["hash"].as_str().context("a hold without a hash")?;
            // The next attempt finds it again if the plan has changed meanwhile.
            let done = gitwork(world, &["approve", hash]).await?;
            approved += usize::from(done.status.success());
        }
        if holds.is_empty() && world.behind_on_hub().is_empty() && world.git().held.is_empty() {
            return Ok(approved);
        }
        if holds.is_empty() && approved == 0 && world.behind_on_hub().is_empty() {
            // No applied commit is left out: it went through.
            world.git().approved();
        }
        sleep(Duration::from_secs(2)).await;
    }
}

async fn gitwork(world: &World, command: &[&str]) -> Result<Output> {
    let output = Command::new(world.daemon.binary())
        .args(command)
        .args(["--repo", &world.server.url("fleet.git"), "--branch", "main"])
        .args(["--source-id", SOURCE, "--cache"])
        .arg(world.folder.join("operator"))
        .arg("--kubeconfig")
        .arg(world.hub.kubeconfig_path())
        .output();
    Ok(output.await?)
}
