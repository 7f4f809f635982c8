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

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Command, ExitStatus, Stdio};

use gitwork_core::model::name::ObjectId;
use gitwork_core::model::snapshot::{Entry, EntryKind, Objects as _, Snapshot, Tree};
use gitwork_core::render::renderer::Renderer;

use memory_repository::{File, MemoryObjects};

#[path = "../tests/hostile/mod.rs"]
mod hostile;
#[path = "../tests/it/memory_repository.rs"]
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
/// As JSON, this is just below the hub's limit of a work.
const LARGE_WORK_BYTES: usize = 400 * 1024;
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
        if hostile::VALID.contains(&input.name) && input.name != "empty" {
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
    // From here on, the most memory is that of rendering.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = most_kib();
    let began = cpu_seconds();
    let snapshot = Snapshot { commit: None, root, objects: &objects };
    let desired = Renderer::new(memory_repository::source()).render(&snapshot).unwrap();
    let seconds = cpu_seconds() - began;
    let mib = (most_kib() - before) as f64 / 1024.0;
    let is_ordinary = name.starts_with(ORDINARY) || name.starts_with(LARGE_WORKS);
    assert!(!is_ordinary || desired.diagnostics.is_empty(), "{:?}", desired.diagnostics.first());
    drop(desired);
    println!("{seconds} {mib}");
}

/// Bytes of the files below a tree, as a checkout has them, up to `max`.
fn checkout_bytes(objects: &MemoryObjects, tree: ObjectId, max: usize) -> usize {
    let mut bytes = 0;
    for entry in objects.tree(tree).unwrap().values() {
        bytes += match entry.kind {
            EntryKind::Tree => checkout_bytes(objects, entry.id, max),
            _ => objects.blob(entry.id, usize::MAX).unwrap().len(),
        };
        if bytes >= max {
            return max;
        }
    }
    bytes
}

/// A repository of about so many bytes, as people write them: each shop has a Deployment, a Service
/// and a ConfigMap, and no two are the same. A work has the shops of at least so many bytes.
fn ordinary(objects: &mut MemoryObjects, bytes: usize, of_work: usize) -> ObjectId {
    let (mut clusters, mut added, mut number) = (Tree::new(), 0, 0);
    while added < bytes {
        let mut works = BTreeMap::new();
        while added < bytes && works.len() < 20 {
            let mut text = String::new();
            while text.len() < of_work && added + text.len() < bytes {
                text += &shop(number);
                number += 1;
            }
            added += text.len();
            works.insert(format!("shop-{number}/shop.yaml"), File::Bytes(text.into_bytes()));
        }
        let folder = Entry { kind: EntryKind::Tree, id: objects.add(&works) };
        clusters.insert(format!("edge-{}", clusters.len()), folder);
    }
    let clusters = Entry { kind: EntryKind::Tree, id: objects.add_tree(clusters) };
    objects.add_tree([("clusters".to_owned(), clusters)].into())
}

fn shop(number: usize) -> String {
    let settings = (0..20).fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "  setting-{line}: value {line} of shop {number}");
        text
    });
    format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop-{number}
  namespace: shop
spec:
  replicas: 3
  selector:
    matchLabels: {{app: shop-{number}}}
  template:
    metadata:
      labels: {{app: shop-{number}}}
    spec:
      containers:
      - name: shop
        image: registry.example.com/shop:1.{number}.0
        ports:
        - containerPort: 8080
---
apiVersion: v1
kind: Service
metadata:
  name: shop-{number}
  namespace: shop
spec:
  selector: {{app: shop-{number}}}
  ports:
  - port: 80
    targetPort: 8080
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: shop-{number}
  namespace: shop
data:
{settings}"
    )
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
