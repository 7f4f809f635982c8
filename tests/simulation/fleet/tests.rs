//! The simulation as `cargo test` runs it. `GITWORK_SEED=N` runs that seed alone.

use super::bugs::{ALL, Bug};
use super::{run, run_all, seeds, seeds_to_find, shrunk, story, tell};

/// How many seeds a run of the tests takes.
const SEEDS: u64 = 10_000;

#[test]
fn whatever_happens_in_the_fleet_git_is_followed_and_nothing_is_lost() {
    let (from, count) = match std::env::var("GITWORK_SEED") {
        Ok(seed) => (seed.parse().expect("GITWORK_SEED is a number"), 1),
        Err(_) => (0, SEEDS),
    };
    let (failures, _) = run_all(from, count, None);
    let told: Vec<String> = failures.iter().map(tell).collect();
    assert!(told.is_empty(), "{}", told.join("\n\n"));
}

#[test]
fn seeds_that_failed_once_go_well() {
    for (seed, what) in seeds::FOUND {
        if let Err(failure) = run(seed, None, false) {
            panic!("{what}\n{}", tell(&failure));
        }
    }
}

#[test]
fn one_seed_always_does_the_same() {
    for seed in [1, 2, 3, 6] {
        let traces: Vec<Vec<String>> = (0..2).map(|_| super::trace(seed)).collect();
        assert!(traces[0].len() > 20, "seed {seed}: {:?}", traces[0]);
        assert_eq!(traces[0], traces[1], "seed {seed}");
    }
}

#[test]
fn a_failure_is_told_by_the_few_actions_that_it_takes() {
    for bug in [Bug::UserLabelsWiped, Bug::SuspendIgnored, Bug::BudgetIgnored] {
        let (_, failure) = seeds_to_find(bug, 0, BUG_SEEDS).unwrap();
        let (whole, kind) = (failure.actions(), story::kind(&failure.why));
        let least = shrunk(failure, Some(bug));
        let few = least.actions();
        assert!(few < whole || whole <= 1, "{bug:?}: {few} of {whole}: {:?}", least.trace);
        assert_eq!(story::kind(&least.why), kind, "{bug:?}");
        assert!(!least.trace.is_empty(), "{bug:?}");
    }
}

/// Every planted bug is found, and `docs/simulation.md` says how soon, up to what a change of the code shifts.
#[test]
fn planted_bugs_are_found() {
    let page = include_str!("../../../docs/simulation.md");
    for bug in ALL {
        let name = format!("{bug:?}");
        let line = page.lines().find(|line| line.starts_with(&format!("| `{name}` ")));
        let line = line.unwrap_or_else(|| panic!("docs/simulation.md does not tell of {name}"));
        assert!(line.contains(bug.says()), "{line}");
        assert!(is_found(bug), "{name} is not found");
    }
}

/// So many seeds a planted bug may take.
const BUG_SEEDS: u64 = 5_000;

fn is_found(bug: Bug) -> bool {
    seeds_to_find(bug, 0, BUG_SEEDS).is_some()
}
