//! Runs the simulation of `tests/simulation/fleet` for many seeds:
//! `cargo run --release --example simulate -- --seeds 1000000 --from 0`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that can run for hours"
)]

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use gitwork_simulation::fleet::{self, bugs};

#[derive(Parser)]
struct Args {
    /// Number of seeds to run
    #[arg(long, default_value_t = 100_000)]
    seeds: u64,
    /// First seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Print every event of the first seed
    #[arg(long)]
    trace: bool,
    /// Plant this bug (or `all`, one after the other) and print the number of seeds that find it
    #[arg(long)]
    bug: Option<String>,
    /// Run all seeds, however many fail, and print one line for each that fails; also with one bug
    #[arg(long)]
    list: bool,
    /// Run the random worlds of planner and agents, without the engine, and list those that fail
    #[arg(long)]
    worlds: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let bug =
        bugs::ALL.map(|(bug, _)| bug).into_iter().find(|bug| args.bug == Some(format!("{bug:?}")));
    if let Some(name) = args.bug.as_ref().filter(|_| bug.is_none() || !args.list) {
        return find_bugs(name, &args);
    }
    if args.worlds {
        return run_worlds(&args);
    }
    if args.trace {
        let done = fleet::run(args.from, None, true);
        println!("{done:#?}");
        return if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let began = Instant::now();
    let print = |failure: &fleet::Failure| println!("seed {}: {}", failure.seed, failure.why);
    let (failures, totals) = if args.list {
        fleet::run_all(bug, args.from, args.seeds, usize::MAX, &print)
    } else {
        fleet::run_all(None, args.from, args.seeds, fleet::FAILURES_MAX, &|_| ())
    };
    for failure in failures.iter().filter(|_| !args.list) {
        println!("{}\n", fleet::describe(failure));
    }
    println!(
        "{} seeds from {}: {} failed, {} writes, {} days of virtual time, in {:.1} s",
        args.seeds,
        args.from,
        failures.len(),
        totals.writes,
        totals.virtual_seconds / 86_400,
        began.elapsed().as_secs_f64()
    );
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs `tests/simulation/random.rs`. The panic of a world that fails is on stderr.
fn run_worlds(args: &Args) -> ExitCode {
    let is_wrong = |seed: &u64| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let run = || runtime.block_on(gitwork_simulation::random::run(*seed));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err()
    };
    let wrong: Vec<u64> = (args.from..args.from + args.seeds).filter(is_wrong).collect();
    println!("{} worlds from {}: these fail: {wrong:?}", args.seeds, args.from);
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a row of the table in `docs/simulation.md` for each bug. With `all` and
/// `GITWORK_UPDATE=1` it updates the page.
fn find_bugs(name: &str, args: &Args) -> ExitCode {
    let mut rows = Vec::new();
    let planted = bugs::ALL.into_iter().map(|(bug, _)| bug);
    for bug in planted.filter(|bug| name == "all" || format!("{bug:?}") == name) {
        let Some((seeds, failure)) = fleet::seeds_to_find(bug, args.from, args.seeds) else {
            println!("{bug:?}: not found in {} seeds", args.seeds);
            return ExitCode::FAILURE;
        };
        let shortest = fleet::shrunk(failure, Some(bug));
        let row =
            format!("| `{bug:?}` | {} | {seeds} | {} |\n", bug.description(), shortest.actions());
        print!("{row}");
        if name != "all" {
            println!("{}\n{}", shortest.why, shortest.trace.join("\n"));
        }
        rows.push(row);
    }
    if name == "all" && std::env::var_os("GITWORK_UPDATE").is_some() {
        update_page(&rows.concat());
    }
    if rows.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn update_page(rows: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/simulation.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, table) = page.split_once("|---|---|---|---|\n").unwrap();
    let after = table.find("\n\n").map_or("", |end| &table[end + 1..]);
    std::fs::write(path, format!("{before}|---|---|---|---|\n{rows}{after}")).unwrap();
}
