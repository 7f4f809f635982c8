//! The whole of gitwork in a simulated world: the engine's real loop, renderer, planner and executor on virtual time,
//! with Git, the hub, the agents, the network, other users and operators acting as a seed says. What must hold is
//! checked at every write, and once all faults have stopped the world has to come to rest as Git wants it.

use std::sync::atomic::{AtomicU64, Ordering};

mod act;
pub mod bugs;
mod check;
mod git;
mod line;
mod neighbour;
mod process;
mod rest;
mod run;
pub mod seeds;
#[cfg(test)]
mod tests;
mod wall;

use bugs::Bug;
use check::Checker;
pub use run::World;

/// How a seed failed.
#[derive(Debug, Clone)]
pub struct Failure {
    pub seed: u64,
    pub why: String,
    /// What happened, the last of it last; empty where it was not asked for.
    pub trace: Vec<String>,
}

/// What one seed came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub writes: usize,
    pub virtual_seconds: u64,
}

/// Runs one seed. The same seed always does the same.
pub fn run(seed: u64, bug: Option<Bug>, traced: bool) -> Result<Tally, Failure> {
    let (tally, checker) = lived(seed, bug, traced);
    match checker.violation() {
        None => Ok(tally),
        Some(why) => Err(Failure { seed, why, trace: checker.take_trace() }),
    }
}

fn lived(seed: u64, bug: Option<Bug>, traced: bool) -> (Tally, Checker) {
    // The engine's own dice: the spread of its timers.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut world = World::new(seed, bug, traced);
        let checker = world.checker.clone();
        (world.live().await, checker)
    })
}

/// Runs many seeds on all processors; gives all that failed, in order, up to a handful.
pub fn run_all(from: u64, count: u64, bug: Option<Bug>) -> (Vec<Failure>, Tally) {
    let next = AtomicU64::new(from);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<(Vec<Failure>, Tally)> = std::thread::scope(|scope| {
        let running: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| work(&next, from + count, bug))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for (failed, part) in results {
        tally.writes += part.writes;
        tally.virtual_seconds += part.virtual_seconds;
        failures.extend(failed);
    }
    failures.sort_by_key(|failure| failure.seed);
    (failures, tally)
}

/// More failures than these say nothing new.
const FAILURES_MAX: usize = 5;

fn work(next: &AtomicU64, end: u64, bug: Option<Bug>) -> (Vec<Failure>, Tally) {
    let (mut failures, mut tally) = (Vec::new(), Tally::default());
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end || failures.len() >= FAILURES_MAX {
            return (failures, tally);
        }
        match run(seed, bug, false) {
            Ok(one) => {
                tally.writes += one.writes;
                tally.virtual_seconds += one.virtual_seconds;
            }
            Err(failure) => failures.push(failure),
        }
    }
}

/// The first seed from `from` on that fails with the bug, and how many it took; `None` where none of `most` does.
pub fn seeds_to_find(bug: Bug, from: u64, most: u64) -> Option<(u64, Failure)> {
    (from..from + most).find_map(|seed| {
        run(seed, Some(bug), false).err().map(|failure| (seed - from + 1, failure))
    })
}

/// All that happens in one seed.
pub fn trace(seed: u64) -> Vec<String> {
    lived(seed, None, true).1.take_trace()
}

/// A failure as people read it, with the end of its trace.
pub fn tell(failure: &Failure) -> String {
    let again = run(failure.seed, None, true).err();
    let trace = again.map_or_else(Vec::new, |again| again.trace);
    let last: Vec<&str> = trace.iter().rev().take(60).rev().map(String::as_str).collect();
    format!(
        "seed {} failed: {}\n{}\nreplay it: GITWORK_SEED={} cargo test --test it fleet::; once it is mended, add it to \
         tests/simulation/fleet/seeds.rs",
        failure.seed,
        failure.why,
        last.join("\n"),
        failure.seed
    )
}
