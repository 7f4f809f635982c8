//! The required end of a run, after all faults have stopped.

use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::faults::{DEADLINE, settled_on_hub, some};
use crate::harness::eventually;
use crate::samples;
use crate::world::{MANAGED, World};

/// After everything matches Git, nothing may be written for this long.
const QUIET: Duration = Duration::from_secs(15);
/// Works of another owner, one with an agent and one without.
const FOREIGN: [&str; 2] = [MANAGED[0], "away-00"];

pub async fn make_foreign_works(world: &World) -> Result<()> {
    for cluster in FOREIGN {
        let work: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": { "name": "foreign", "labels": { "team": "another-owner" } },
            "spec": { "workload": { "manifests": [] } },
        }))?;
        world.works(Some(cluster)).create(&PostParams::default(), &work).await?;
    }
    Ok(())
}

/// Waits until the hub, the clusters and the status branch match Git. Then nothing may be written,
/// and all programs end.
pub async fn settle(world: &World) -> Result<()> {
    let begun = Instant::now();
    let what = world.git().fix_all();
    world.record("push", &what);
    world.hint();
    settled_on_hub(world).await?;
    world.record("settled", &format!("the hub, after {:.1} s", begun.elapsed().as_secs_f64()));
    eventually("the clusters to match Git", DEADLINE, || async {
        sleep(Duration::from_millis(250)).await;
        let behind = world.behind_on_clusters();
        if behind.is_empty() { Ok(()) } else { Err(some(&behind)) }
    })
    .await?;
    world.record("settled", &format!("the clusters, after {:.1} s", begun.elapsed().as_secs_f64()));
    let tip = world.git().tip().to_string();
    eventually("the status branch to have the last commit", DEADLINE, || async {
        sleep(Duration::from_secs(1)).await;
        let status = status(world).map_err(|error| format!("{error:#}"))?;
        if status["commit"] == *tip { Ok(()) } else { Err(format!("it has {}", status["commit"])) }
    })
    .await?;
    let text = format!("the status branch, after {:.1} s", begun.elapsed().as_secs_f64());
    world.record("settled", &text);
    quiet(world).await?;
    for cluster in FOREIGN {
        let work = world.works(Some(cluster)).get("foreign").await?;
        let labels = work.metadata.labels.unwrap_or_default();
        let is_untouched = work.metadata.generation == Some(1) && labels.len() == 1;
        ensure!(is_untouched, "the work of another owner in {cluster} was changed");
    }
    for program in world.programs() {
        let took = program.end().await?;
        world.record("end", &format!("{} after {:.1} s", program.name, took.as_secs_f64()));
    }
    Ok(())
}

/// Waits until the daemon has written nothing for a while.
async fn quiet(world: &World) -> Result<()> {
    let counted = || world.daemon_writes.load(Ordering::Relaxed);
    let deadline = Instant::now() + DEADLINE;
    let mut last = (counted(), Instant::now());
    while last.1.elapsed() < QUIET {
        ensure!(Instant::now() < deadline, "gitwork goes on writing, and nothing is to be done");
        sleep(Duration::from_millis(500)).await;
        if counted() != last.0 {
            last = (counted(), Instant::now());
        }
    }
    Ok(())
}

/// `summary.json` of the status branch.
fn status(world: &World) -> Result<Value> {
    let git = world.git();
    let branch = git.repo().git2().find_reference("refs/heads/gitwork-status")?;
    let tree = branch.peel_to_tree()?;
    let entry = tree.get_name("summary.json").context("it has no summary.json")?;
    let blob = entry.to_object(git.repo().git2())?.peel_to_blob()?;
    Ok(serde_json::from_slice(blob.content())?)
}

/// The size of a fresh clone of the branch on disk.
pub fn clone_bytes(world: &World) -> u64 {
    let clone = world.folder.join("fresh.git");
    let done = Command::new("git")
        .args(["clone", "--quiet", "--bare", "--single-branch", "--branch", "main"])
        .arg(world.server.url("fleet.git"))
        .arg(&clone)
        .status();
    assert!(done.unwrap().success(), "git clone");
    samples::folder(&world.folder, "fresh.git").bytes
}
