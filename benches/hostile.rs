//! Prints the processor time and memory that each repository of `tests/hostile` takes to render, in
//! a process of its own. Those without a problem are compared with ordinary repositories of as many
//! bytes: one with small works, and one with works as large as the hub takes. `docs/benchmarks.md`
//! has the results.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    dead_code,
    reason = "a benchmark fails by panicking and prints its results; it does not use every helper"
)]

use std::process::{Command, ExitStatus, Stdio};

use gitwork_core::model::snapshot::Snapshot;

use hostile::ordinary::{LARGE_WORK_BYTES, PeakMemory, checkout_bytes, ordinary};
use memory_repository::MemoryObjects;

#[path = "../tests/hostile/mod.rs"]
mod hostile;
#[path = "../tests/simulation/memory_repository.rs"]
mod memory_repository;

const INPUT: &str = "GITWORK_HOSTILE_INPUT";
/// Past it, an input is reported as too slow.
const SECONDS_MAX: u32 = 100;
/// The name of an ordinary repository, before its number of bytes.
const ORDINARY: &str = "ordinary-";
/// The same with large works.
const LARGE_WORKS: &str = "large-works-";
/// The bytes of the largest ordinary repository.
const ORDINARY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How often each input is measured.
const RUNS: usize = 3;

fn main() {
    if let Ok(name) = std::env::var(INPUT) {
        return measure(&name);
    }
    println!("| input | seconds | MiB |\n|---|---|---|");
    let mut ratios = Vec::new();
    for input in hostile::ALL {
        let found = run(input.name);
        // A group is as much as the copies of its folder, not as its files.
        let is_compared = input.name != "empty" && !input.name.starts_with("group");
        if hostile::VALID.contains(&input.name) && is_compared {
            let mut objects = MemoryObjects::default();
            let root = (input.add)(&mut objects);
            let bytes = checkout_bytes(&objects, root, ORDINARY_BYTES_MAX);
            let ordinary = [ORDINARY, LARGE_WORKS].map(|kind| run(&format!("{kind}{bytes}")));
            ratios.push((input.name, found, ordinary));
        }
    }
    println!("\n| input | seconds | small works | ratio | MiB | small | ratio | large | ratio |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for (name, found, [small, large]) in ratios {
        let Measured { seconds, mib } = found;
        let time = seconds / small.seconds;
        let memory = [small, large].map(|one| format!("{:.0} | {:.1}", one.mib, mib / one.mib));
        let [small_memory, large_memory] = memory;
        println!(
            "| {name} | {seconds:.3} | {:.3} | {time:.1} | {mib:.0} | {small_memory} | \
             {large_memory} |",
            small.seconds
        );
    }
}

/// What one input takes.
#[derive(Clone, Copy)]
struct Measured {
    seconds: f64,
    mib: f64,
}

/// Measures one input, each time in a process of its own: the least time, which other programs
/// disturb least, and the most memory.
fn run(name: &str) -> Measured {
    let mut found = Measured { seconds: f64::INFINITY, mib: 0.0 };
    for _ in 0..RUNS {
        match run_once(name) {
            Ok(Measured { seconds, mib }) => {
                found.seconds = found.seconds.min(seconds);
                found.mib = found.mib.max(mib);
            }
            Err(status) => {
                println!("| {name} | {status} | |");
                return Measured { seconds: f64::NAN, mib: f64::NAN };
            }
        }
    }
    println!("| {name} | {:.2} | {:.0} |", found.seconds, found.mib);
    found
}

fn run_once(name: &str) -> Result<Measured, ExitStatus> {
    let limits = format!("ulimit -t {SECONDS_MAX} && ulimit -v 8000000 && exec \"$0\"");
    let output = Command::new("sh")
        .args(["-c", &limits])
        .arg(std::env::current_exe().unwrap())
        .env(INPUT, name)
        .env("RUST_BACKTRACE", "0")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    if !output.status.success() {
        return Err(output.status);
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let (seconds, mib) = text.trim().split_once(' ').unwrap();
    Ok(Measured { seconds: seconds.parse().unwrap(), mib: mib.parse().unwrap() })
}

/// Renders one input.
fn measure(name: &str) {
    let mut objects = MemoryObjects::default();
    let bytes_after = |prefix| name.strip_prefix(prefix).map(|bytes: &str| bytes.parse().unwrap());
    let root = match (bytes_after(ORDINARY), bytes_after(LARGE_WORKS)) {
        (Some(bytes), _) => ordinary(&mut objects, bytes, 1),
        (_, Some(bytes)) => ordinary(&mut objects, bytes, LARGE_WORK_BYTES),
        _ => {
            let input = hostile::ALL.iter().find(|input| input.name == name).unwrap();
            (input.add)(&mut objects)
        }
    };
    let memory = PeakMemory::start();
    let began = cpu_seconds();
    let snapshot = Snapshot { commit: None, root, objects: &objects };
    let desired = hostile::renderer().render(&snapshot).unwrap();
    let seconds = cpu_seconds() - began;
    let mib = memory.mebibytes();
    let is_ordinary = name.starts_with(ORDINARY) || name.starts_with(LARGE_WORKS);
    assert!(!is_ordinary || desired.diagnostics.is_empty(), "{:?}", desired.diagnostics.first());
    drop(desired);
    println!("{seconds} {mib}");
}

/// The time that this process has run on a processor: other programs do not count.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
