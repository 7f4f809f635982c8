//! The whole of gitwork in a simulated world: the engine's real loop, renderer, planner and executor on virtual time,
//! with Git, the hub, the agents, the network, other users and operators acting as a seed says. What must hold is
//! checked at every write, and once all faults have stopped the world has to come to rest as Git wants it.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
mod story;
#[cfg(test)]
mod tests;
mod wall;

use bugs::Bug;
use check::Checker;
pub use run::World;
use story::{Deed, Step};

/// How a seed failed.
#[derive(Debug, Clone)]
pub struct Failure {
    pub seed: u64,
    pub why: String,
    /// What happened, the last of it last; empty where it was not asked for.
    pub trace: Vec<String>,
    /// The steps that led there.
    story: Vec<Step>,
}

impl Failure {
    /// How many actions led there.
    pub fn actions(&self) -> usize {
        self.story.iter().filter(|step| step.deed == Deed::Act).count()
    }
}

/// What one seed came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub writes: usize,
    pub virtual_seconds: u64,
}

/// Runs one seed. The same seed always does the same.
pub fn run(seed: u64, bug: Option<Bug>, traced: bool) -> Result<Tally, Failure> {
    run_story(seed, bug, traced, story::whole())
}

/// Runs the world of a seed with another story.
fn run_story(
    seed: u64,
    bug: Option<Bug>,
    traced: bool,
    mut story: Vec<Step>,
) -> Result<Tally, Failure> {
    let living = AssertUnwindSafe(|| lived(seed, bug, traced, &mut story));
    let (why, trace) = match catch_unwind(living) {
        Ok((tally, checker)) => match checker.violation() {
            None => return Ok(tally),
            Some(why) => (why, checker.take_trace()),
        },
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
            (format!("the world panicked: {}", said.unwrap_or_default()), Vec::new())
        }
    };
    Err(Failure { seed, why, trace, story })
}

fn lived(seed: u64, bug: Option<Bug>, traced: bool, story: &mut Vec<Step>) -> (Tally, Checker) {
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
        (world.live(story).await, checker)
    })
}

/// Runs many seeds on all processors; gives all that failed, in order, up to a handful.
pub fn run_all(from: u64, count: u64, bug: Option<Bug>) -> (Vec<Failure>, Tally) {
    let next = AtomicU64::new(from);
    let results = on_all_processors(&|| work(&next, from + count, bug));
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

fn on_all_processors<T: Send>(work: &(dyn Fn() -> T + Sync)) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
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
    let (next, end) = (AtomicU64::new(from), AtomicU64::new(from + most));
    let first_of_one = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end.load(Ordering::Relaxed) {
            return None;
        }
        if let Err(failure) = run(seed, Some(bug), false) {
            // What another one runs before this seed is still to be waited for.
            end.fetch_min(seed, Ordering::Relaxed);
            return Some(failure);
        }
    };
    let found = on_all_processors(&first_of_one).into_iter().flatten();
    let first = found.min_by_key(|failure| failure.seed)?;
    Some((first.seed - from + 1, first))
}

/// All that happens in one seed.
pub fn trace(seed: u64) -> Vec<String> {
    lived(seed, None, true, &mut story::whole()).1.take_trace()
}

/// A failing story is tried so often in a shorter form, at most: some seconds.
const SHRINK_RUNS_MAX: usize = 200;

/// The failure by a story that is as short as can be found soon, with what happens in it.
pub fn shrunk(failure: Failure, bug: Option<Bug>) -> Failure {
    let seed = failure.seed;
    let again = |story: &[Step]| run_story(seed, bug, false, story.into()).err();
    let least = story::shrink(failure, SHRINK_RUNS_MAX, again);
    run_story(seed, bug, true, least.story.clone()).err().unwrap_or(least)
}

/// A failure as people read it: what happens in the seed, cut down to what it takes to fail.
pub fn tell(failure: &Failure) -> String {
    let seed = failure.seed;
    let least = shrunk(failure.clone(), None);
    let mut told = format!("seed {seed} failed: {}\n", failure.why);
    let (few, all) = (least.actions(), failure.actions());
    let _infallible = writeln!(
        told,
        "what {few} of its {all} actions do, which is enough to fail ({}):\n{}\nreplay it whole: GITWORK_SEED={seed} \
         cargo test --test it fleet::, or with `--example simulate -- --trace --from {seed}`; once it is mended, add it \
         to tests/simulation/fleet/seeds.rs",
        least.why,
        least.trace.join("\n"),
    );
    told
}
