//! The simulation as `cargo test` runs it. `GITWORK_SEED=N` runs only that seed.

use super::bugs::{ALL, Bug};
use super::{FAILURES_MAX, describe, run, run_all, scenario, seeds, seeds_to_find, shrunk};

/// The number of seeds in a run of the tests. A seed with moves takes twice the time of others.
const SEEDS: u64 = 5_000;

#[test]
fn fleet_follows_git_and_loses_nothing_under_faults() {
    let (from, count) = match std::env::var("GITWORK_SEED") {
        Ok(seed) => (seed.parse().expect("GITWORK_SEED is a number"), 1),
        Err(_) => (0, SEEDS),
    };
    let (failures, _) = run_all(None, from, count, FAILURES_MAX, &|_| ());
    let text: Vec<String> = failures.iter().map(describe).collect();
    assert!(text.is_empty(), "{}", text.join("\n\n"));
}

#[test]
fn seeds_that_failed_once_succeed() {
    for (seed, what) in seeds::FOUND {
        if let Err(failure) = run(seed, None, false) {
            panic!("{what}\n{}", describe(&failure));
        }
    }
}

#[test]
fn one_seed_always_has_the_same_trace() {
    for seed in [1, 2, 3, 5, 6] {
        let traces: Vec<Vec<String>> = (0..2).map(|_| super::trace(seed)).collect();
        assert!(traces[0].len() > 20, "seed {seed}: {:?}", traces[0]);
        assert_eq!(traces[0], traces[1], "seed {seed}");
    }
}

#[test]
fn failure_report_shows_shortest_scenario() {
    for bug in [Bug::UserLabelsRemoved, Bug::SuspendIgnored, Bug::BudgetIgnored] {
        let (_, failure) = seeds_to_find(bug, 0, BUG_SEEDS).unwrap();
        let (whole, kind) = (failure.actions(), scenario::failure_kind(&failure.why));
        let shortest = shrunk(failure, Some(bug));
        let few = shortest.actions();
        assert!(few < whole || whole <= 1, "{bug:?}: {few} of {whole}: {:?}", shortest.trace);
        assert_eq!(scenario::failure_kind(&shortest.why), kind, "{bug:?}");
        assert!(!shortest.trace.is_empty(), "{bug:?}");
    }
}

#[test]
fn checkers_find_planted_bugs() {
    for (bug, _) in ALL {
        assert!(is_found(bug), "{bug:?} is not found");
    }
}

/// The cells of the rows of the table of planted bugs: the bug's name and its text.
fn rows(page: &str) -> Vec<(&str, &str)> {
    let (_, table) = page.split_once("|---|---|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut cells = row.split(" | ");
        let name = cells.next().unwrap_or_default().trim_start_matches("| ").trim_matches('`');
        (name, cells.next().unwrap_or_default())
    })
    .collect()
}

#[test]
fn simulation_page_lists_planted_bugs_and_counts_of_seeds() {
    let page = include_str!("../../../docs/simulation.md");
    let planted = ALL.map(|(bug, _)| (format!("{bug:?}"), bug.description()));
    let planted: Vec<(&str, &str)> =
        planted.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    assert_eq!(rows(page), planted, "see the command above the table of docs/simulation.md");
    let thousands = SEEDS / 1_000;
    for count in [
        format!("# {thousands},000 seeds\n"),
        format!("{thousands},000 seeds,"),
        format!("the {} seeds that failed once", seeds::FOUND.len()),
        format!("the {} planted bugs", ALL.len()),
        format!("within {},{:03} seeds", BUG_SEEDS / 1_000, BUG_SEEDS % 1_000),
    ] {
        assert!(page.contains(&count), "docs/simulation.md does not have {count:?}");
    }
}

/// The largest number of seeds to find a planted bug.
const BUG_SEEDS: u64 = 5_000;

fn is_found(bug: Bug) -> bool {
    seeds_to_find(bug, 0, BUG_SEEDS).is_some()
}
