//! The whole of gitwork in a simulated world. The engine's real loop, renderer, planner and
//! executor run in virtual time. A seed chooses the actions of Git, the hub, the agents, the
//! network, users and operators. The checker judges every write. When all faults have stopped, the
//! world must converge to the state in Git.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

mod actions;
pub mod bugs;
pub(crate) mod check;
pub(crate) mod connection;
mod convergence;
mod election;
pub(crate) mod git;
pub(crate) mod groups;
pub(crate) mod machine_clock;
pub(crate) mod process;
mod run;
mod scenario;
mod second_source;
pub mod seeds;
#[cfg(test)]
mod tests;

use bugs::Bug;
use check::Checker;
pub use run::World;
use scenario::{Step, StepKind};

/// The failure of a seed.
#[derive(Debug, Clone)]
pub struct Failure {
    pub seed: u64,
    pub why: String,
    /// The events, oldest first; empty if no trace was requested.
    pub trace: Vec<String>,
    /// The steps up to the failure.
    scenario: Vec<Step>,
}

impl Failure {
    /// The number of actions up to the failure.
    pub fn actions(&self) -> usize {
        self.scenario.iter().filter(|step| step.kind == StepKind::Act).count()
    }
}

/// The totals of successful seeds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    pub writes: usize,
    pub virtual_seconds: u64,
}

/// Runs one seed. The same seed always does the same.
pub fn run(seed: u64, bug: Option<Bug>, traced: bool) -> Result<Totals, Failure> {
    run_scenario(seed, bug, traced, scenario::whole())
}

/// Runs the world of a seed with another scenario.
fn run_scenario(
    seed: u64,
    bug: Option<Bug>,
    traced: bool,
    mut scenario: Vec<Step>,
) -> Result<Totals, Failure> {
    let run = AssertUnwindSafe(|| run_world(seed, bug, traced, &mut scenario));
    let (why, trace) = match catch_unwind(run) {
        Ok((totals, checker)) => match checker.violation() {
            None => return Ok(totals),
            Some(why) => (why, checker.take_trace()),
        },
        Err(panic) => {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
            (format!("the world panicked: {}", message.unwrap_or_default()), Vec::new())
        }
    };
    Err(Failure { seed, why, trace, scenario })
}

/// Runs to the end, in time that passes only while nothing can go on.
pub(crate) fn in_virtual_time<T>(seed: u64, run: impl Future<Output = T>) -> T {
    // The engine's own random numbers: the jitter of its timers.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(run)
}

fn run_world(
    seed: u64,
    bug: Option<Bug>,
    traced: bool,
    scenario: &mut Vec<Step>,
) -> (Totals, Checker) {
    in_virtual_time(seed, async {
        let mut world = World::new(seed, bug, traced);
        let checker = world.checker.clone();
        (world.run(scenario).await, checker)
    })
}

/// Runs many seeds on all processors. Returns the first failures in order. A processor stops after
/// `failures_max` failures. `on_failure` is called at once for each.
pub fn run_all(
    bug: Option<Bug>,
    from: u64,
    count: u64,
    failures_max: usize,
    on_failure: &(dyn Fn(&Failure) + Sync),
) -> (Vec<Failure>, Totals) {
    let next = AtomicU64::new(from);
    let results =
        on_all_processors(&|| run_some(bug, &next, from + count, failures_max, on_failure));
    let mut totals = Totals::default();
    let mut failures = Vec::new();
    for (failed, part) in results {
        totals.writes += part.writes;
        totals.virtual_seconds += part.virtual_seconds;
        failures.extend(failed);
    }
    failures.sort_by_key(|failure| failure.seed);
    (failures, totals)
}

fn on_all_processors<T: Send>(work: &(dyn Fn() -> T + Sync)) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// So many failures of one processor are enough to look at.
pub const FAILURES_MAX: usize = 5;

fn run_some(
    bug: Option<Bug>,
    next: &AtomicU64,
    end: u64,
    failures_max: usize,
    on_failure: &dyn Fn(&Failure),
) -> (Vec<Failure>, Totals) {
    let (mut failures, mut totals) = (Vec::new(), Totals::default());
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end || failures.len() >= failures_max {
            return (failures, totals);
        }
        match run(seed, bug, false) {
            Ok(one) => {
                totals.writes += one.writes;
                totals.virtual_seconds += one.virtual_seconds;
            }
            Err(failure) => {
                on_failure(&failure);
                failures.push(failure);
            }
        }
    }
}

/// The number of seeds, from `from` on, until one fails with the bug, and its failure; `None` if
/// none of `most` seeds fails.
pub fn seeds_to_find(bug: Bug, from: u64, most: u64) -> Option<(u64, Failure)> {
    let (next, end) = (AtomicU64::new(from), AtomicU64::new(from + most));
    let first_of_one = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end.load(Ordering::Relaxed) {
            return None;
        }
        // A seed that fails without the bug says nothing about it.
        if let Err(failure) = run(seed, Some(bug), false)
            && run(seed, None, false).is_ok()
        {
            // Another thread may still run an earlier seed.
            end.fetch_min(seed, Ordering::Relaxed);
            return Some(failure);
        }
    };
    let found = on_all_processors(&first_of_one).into_iter().flatten();
    let first = found.min_by_key(|failure| failure.seed)?;
    Some((first.seed - from + 1, first))
}

/// The trace of one seed.
pub fn trace(seed: u64) -> Vec<String> {
    run_world(seed, None, true, &mut scenario::whole()).1.take_trace()
}

/// The largest number of runs to shorten a scenario: some seconds.
const SHRINK_RUNS_MAX: usize = 200;

/// The failure with the shortest scenario found, and its trace.
pub fn shrunk(failure: Failure, bug: Option<Bug>) -> Failure {
    let seed = failure.seed;
    let again = |scenario: &[Step]| run_scenario(seed, bug, false, scenario.into()).err();
    let shortest = scenario::shrink(failure, SHRINK_RUNS_MAX, again);
    run_scenario(seed, bug, true, shortest.scenario.clone()).err().unwrap_or(shortest)
}

/// The failure as text, with the events of its shortest scenario.
pub fn describe(failure: &Failure) -> String {
    let seed = failure.seed;
    let shortest = shrunk(failure.clone(), None);
    let mut text = format!("seed {seed} failed: {}\n", failure.why);
    let (few, all) = (shortest.actions(), failure.actions());
    let _infallible = writeln!(
        text,
        "{few} of its {all} actions are enough to fail ({}):\n{}\n\
         Run the whole seed with `GITWORK_SEED={seed} cargo test -p gitwork-simulation --lib \
         fleet_follows_git`, or with `cargo run --example simulate -- --trace --from {seed}`. \
         After the fix, add it to tests/simulation/fleet/seeds.rs.",
        shortest.why,
        shortest.trace.join("\n"),
    );
    text
}
