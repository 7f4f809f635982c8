//! Prints the processor time and memory that each repository of `tests/hostile` takes to render, in
//! a process of its own. For those without a problem, it prints the same of an ordinary repository
//! with as many bytes. `docs/benchmarks.md` has the results.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    dead_code,
    reason = "a benchmark fails by panicking and prints its results; it does not use every helper"
)]

use std::process::Command;

use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::render::renderer::Renderer;

#[path = "../tests/hostile/mod.rs"]
mod hostile;
#[path = "../tests/it/memory_repository.rs"]
mod memory_repository;

const INPUT: &str = "GITWORK_HOSTILE_INPUT";
/// Past it, an input is reported as too slow.
const SECONDS_MAX: u32 = 100;
/// The name of an ordinary repository, before its number of bytes.
const ORDINARY: &str = "ordinary-";
/// The bytes of the largest ordinary repository.
const ORDINARY_BYTES_MAX: usize = 64 * 1024 * 1024;

fn main() {
    if let Ok(name) = std::env::var(INPUT) {
        return measure(&name);
    }
    println!("| input | seconds | MiB |\n|---|---|---|");
    for input in hostile::ALL {
        run(input.name);
        if hostile::VALID.contains(&input.name) {
            let mut objects = memory_repository::MemoryObjects::default();
            let root = (input.add)(&mut objects);
            let bytes = hostile::checkout_bytes(&objects, root, ORDINARY_BYTES_MAX);
            run(&format!("{ORDINARY}{bytes}"));
        }
    }
}

/// Measures one input in a process of its own.
fn run(name: &str) {
    let limits = format!("ulimit -t {SECONDS_MAX} && ulimit -v 8000000 && exec \"$0\"");
    let status = Command::new("sh")
        .args(["-c", &limits])
        .arg(std::env::current_exe().unwrap())
        .env(INPUT, name)
        .env("RUST_BACKTRACE", "0")
        .status()
        .unwrap();
    if !status.success() {
        println!("| {name} | {status} | |");
    }
}

/// Renders one input.
fn measure(name: &str) {
    let mut objects = memory_repository::MemoryObjects::default();
    let root = match name.strip_prefix(ORDINARY) {
        Some(bytes) => hostile::ordinary(&mut objects, bytes.parse().unwrap()),
        None => {
            let input = hostile::ALL.iter().find(|input| input.name == name).unwrap();
            (input.add)(&mut objects)
        }
    };
    // From here on, the most memory is that of rendering.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = most_kib();
    let began = cpu_seconds();
    let snapshot = Snapshot { commit: None, root, objects: &objects };
    let desired = Renderer::new(memory_repository::source()).render(&snapshot).unwrap();
    let seconds = cpu_seconds() - began;
    let mib = (most_kib() - before) as f64 / 1024.0;
    drop(desired);
    println!("| {name} | {seconds:.2} | {mib:.0} |");
}

/// The time that this process has run on a processor: other programs do not count.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// The most memory that this process has had at once.
fn most_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
