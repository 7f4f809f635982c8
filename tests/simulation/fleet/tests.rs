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

const PAGE: &str = include_str!("../../../docs/simulation.md");

#[test]
fn checkers_find_planted_bugs() {
    let rows = rows(PAGE);
    for (bug, _) in ALL {
        // A change of the simulation or of gitwork moves the seed that found it last.
        let row = rows.iter().find(|row| row.name == format!("{bug:?}"));
        let last = row.map(|row| row.seeds).filter(|seeds| (1..=BUG_SEEDS).contains(seeds));
        let found = last.and_then(|seeds| seeds_to_find(bug, seeds - 1, 1));
        let found = found.or_else(|| seeds_to_find(bug, 0, BUG_SEEDS));
        assert!(found.is_some(), "{bug:?} is not found");
    }
}

/// A row of the table of planted bugs.
struct Row<'a> {
    name: &'a str,
    description: &'a str,
    /// How many seeds it took to find it.
    seeds: u64,
}

fn rows(page: &str) -> Vec<Row<'_>> {
    let (_, table) = page.split_once("|---|---|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_start_matches("| ").split(" | ").collect();
        let name = cells[0].trim_matches('`');
        Row { name, description: cells[1], seeds: cells[2].parse().unwrap() }
    })
    .collect()
}

#[test]
fn simulation_page_lists_planted_bugs_and_counts_of_seeds() {
    let planted = ALL.map(|(bug, _)| (format!("{bug:?}"), bug.description().to_owned()));
    let listed = rows(PAGE).into_iter().map(|row| (row.name.into(), row.description.into()));
    let listed: Vec<(String, String)> = listed.collect();
    assert_eq!(listed, planted, "see the command above the table of docs/simulation.md");
    let thousands = SEEDS / 1_000;
    for count in [
        format!("# {thousands},000 seeds\n"),
        format!("{thousands},000 seeds,"),
        format!("the {} seeds that failed once", seeds::FOUND.len()),
        format!("the {} planted bugs", ALL.len()),
        format!("within {},{:03} seeds", BUG_SEEDS / 1_000, BUG_SEEDS % 1_000),
    ] {
        assert!(PAGE.contains(&count), "docs/simulation.md does not have {count:?}");
    }
}

/// The largest number of seeds to find a planted bug.
const BUG_SEEDS: u64 = 5_000;
