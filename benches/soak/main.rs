//! An hour of pushes, faults and restarts on the real control plane. The real programs run between
//! a real hub, managed clusters and a Git server. Nothing may be lost, everything matches Git at
//! the end, and memory, open files and the mirror stay flat. `docs/soak.md` has the method and the
//! results.
//!
//! `cargo bench --bench soak -- --minutes 60`
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking and prints its results"
)]

mod faults;
mod gate;
mod git;
mod plot;
mod programs;
mod report;
mod samples;
mod settle;
mod world;

#[path = "../../tests/harness/mod.rs"]
mod harness;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Result;
use clap::Parser as _;
use tokio::time::{MissedTickBehavior, interval, sleep};

use harness::{git_server, resources};
use report::{Bounds, Row, Sample};
use world::World;

const EVERY: Duration = Duration::from_secs(5);
const WORKS: usize = 1_000;

/// MiB that an agent may take, and what each of its works may add.
const AGENT_MIB: (f64, f64) = (60.0, 0.06);

/// What the programs may take with so many works in all. An agent has those of one cluster.
fn bounds(works: usize) -> Bounds {
    let more = works.saturating_sub(WORKS) as f64;
    let agent = AGENT_MIB.0 + AGENT_MIB.1 * more / world::CLUSTERS as f64;
    Bounds {
        rss_mib: [150.0 + more / 100.0, agent, agent],
        rss_growth: (0.1, 4.0),
        handles_growth: 10.0,
        // The old mirror exists until the new one is complete.
        packs: 2.0 * gitwork_git::limits::MIRROR_PACKS_MAX as f64,
        mirror: (3.0, 16.0),
        metrics: 32_768.0,
    }
}

#[derive(clap::Parser)]
struct Args {
    /// How long pushes and faults go on
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// How many works the clusters have together
    #[arg(long, default_value_t = WORKS)]
    works: usize,
    /// Seed of pushes and faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for samples, report, plots and logs; it is emptied first
    #[arg(long, default_value = "target/soak")]
    out: PathBuf,
    /// Folder with `gitwork` and `gitwork-agent` (default: those that cargo has built)
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    /// The daemon and the agent.
    fn binaries(&self) -> [PathBuf; 2] {
        match &self.programs {
            Some(folder) => ["gitwork", "gitwork-agent"].map(|name| folder.join(name)),
            None => {
                let gitwork = env!("CARGO_BIN_EXE_gitwork");
                [gitwork.into(), harness::agent_program(gitwork).into()]
            }
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let folder = std::path::absolute(&args.out).unwrap();
    let _none_yet = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("git")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let samples = Mutex::new(Vec::new());
    let (result, world) = runtime.block_on(async {
        let world = World::start(&folder, &args.binaries(), (args.works, args.seed)).await;
        let result = tokio::select! {
            result = soak(&world, &args) => result,
            never = sample(&world, &samples) => never,
            died = supervise(&world) => died,
        };
        (result, world)
    });
    let samples = samples.into_inner().unwrap();
    let kept = write_report(&world, &samples, &folder, &bounds(args.works));
    match result {
        Ok(()) if kept => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            println!("FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn soak(world: &World, args: &Args) -> Result<()> {
    let length = Duration::from_secs_f64(args.minutes * 60.0);
    settle::make_foreign_works(world).await?;
    world.programs().for_each(programs::Program::start);
    faults::settled_on_hub(world).await?;
    world.record("settled", "all works are on the hub");
    let pushes = pushes(world, args.seed, length);
    let faults = faults::faults(world, args.seed, length);
    tokio::try_join!(pushes, faults)?;
    settle::settle(world).await
}

async fn pushes(world: &World, seed: u64, length: Duration) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    while world.begun.elapsed() < length {
        sleep(Duration::from_millis(random.u64(2_000..8_000))).await;
        let _no_pause = world.pause().await;
        let what = world.git().push();
        world.record("push", &what);
        // Some webhooks are lost, so that the timer triggers the next fetch.
        if random.u8(..4) > 0 {
            world.hint();
        }
    }
    Ok(())
}

/// Restarts a program that has ended by itself, as a kubelet does. A crash is a failure.
async fn supervise(world: &World) -> Result<()> {
    loop {
        sleep(Duration::from_millis(500)).await;
        for program in world.programs() {
            let Some(status) = program.died() else { continue };
            world.record("restart", &format!("{} has ended by itself: {status}", program.name));
            if status.code() != Some(1) {
                anyhow::bail!("{} ended with {status}", program.name);
            }
            sleep(Duration::from_secs(1)).await;
            program.start();
        }
    }
}

async fn sample(world: &World, samples: &Mutex<Vec<Sample>>) -> Result<()> {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let metrics = world.metrics;
        let text = move || resources::metrics(metrics, Duration::from_secs(2));
        let text = tokio::task::spawn_blocking(text).await?;
        let (daemon_writes, agent_writes) = world.writes();
        let (pushes, works) = {
            let git = world.git();
            (git.pushes, git.wanted.works.len())
        };
        let sample = Sample {
            seconds: world.seconds(),
            pushes,
            works,
            behind_hub: world.behind_on_hub().len(),
            behind_clusters: world.behind_on_clusters().len(),
            daemon_writes,
            agent_writes,
            metrics_bytes: text.map_or(0, |text| text.len() as u64),
            mirror: samples::folder(&world.cache, ".git"),
            status: samples::folder(&world.cache, "-status"),
            programs: world
                .programs()
                .map(|program| program.process().and_then(|(id, life)| samples::usage(id, life)))
                .collect(),
        };
        let mut samples = samples.lock().unwrap();
        samples.push(sample);
        std::fs::write(world.folder.join("samples.csv"), report::csv(&samples, &names(world)))?;
    }
}

fn names(world: &World) -> Vec<String> {
    world.programs().map(|program| program.name.clone()).collect()
}

/// Writes and prints the report. Returns whether all bounds hold.
fn write_report(world: &World, samples: &[Sample], folder: &Path, bounds: &Bounds) -> bool {
    let (names, events) = (names(world), world.events());
    let clone = settle::clone_bytes(world);
    let count = |kind: &str| events.iter().filter(|event| event.kind == kind).count();
    let of_run = report::of_run(samples, &names, clone, bounds);
    let of_processes = report::of_processes(samples, &names, bounds);
    let seconds = samples.last().map_or(0.0, |sample| sample.seconds);
    let writes: usize = samples.iter().map(|sample| sample.daemon_writes).sum();
    let text = format!(
        "{:.1} minutes, {} commits, {} other faults, {} restarts, {writes} writes of works by \
         gitwork; a fresh clone has {:.1} MiB\n\n\
         The whole run:\n\n{}\nProcesses that lived for {} minutes and more, without their first \
         two:\n\n{}",
        seconds / 60.0,
        world.git().pushes,
        count("fault"),
        count("restart"),
        clone as f64 / report::MIB,
        report::markdown(&of_run),
        report::LONG_LIFE / 60.0,
        report::markdown(&of_processes)
    );
    println!("\n{text}");
    let done: String = events.iter().map(ToString::to_string).collect();
    std::fs::write(folder.join("events.txt"), done).unwrap();
    std::fs::write(folder.join("report.md"), text).unwrap();
    std::fs::write(folder.join("soak.svg"), plot::svg(samples, &events, &names)).unwrap();
    let kept = |rows: &[Row]| rows.iter().all(|row| row.bound.as_ref().is_none_or(|bound| bound.1));
    kept(&of_run) && kept(&of_processes)
}
