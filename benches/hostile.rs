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

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

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
            let mut objects = MemoryObjects::default();
            let root = (input.add)(&mut objects);
            let bytes = checkout_bytes(&objects, root, ORDINARY_BYTES_MAX);
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
    let mut objects = MemoryObjects::default();
    let root = match name.strip_prefix(ORDINARY) {
        Some(bytes) => ordinary(&mut objects, bytes.parse().unwrap()),
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

/// A repository of about so many bytes, as people write them: each work has a Deployment, a Service
/// and a ConfigMap, and no two works are the same.
fn ordinary(objects: &mut MemoryObjects, bytes: usize) -> ObjectId {
    let (mut clusters, mut added, mut number) = (Tree::new(), 0, 0);
    while added < bytes {
        let mut works = BTreeMap::new();
        while added < bytes && works.len() < 20 {
            let text = ordinary_work(number);
            added += text.len();
            works.insert(format!("shop-{number}/shop.yaml"), File::Bytes(text.into_bytes()));
            number += 1;
        }
        let folder = Entry { kind: EntryKind::Tree, id: objects.add(&works) };
        clusters.insert(format!("edge-{}", clusters.len()), folder);
    }
    let clusters = Entry { kind: EntryKind::Tree, id: objects.add_tree(clusters) };
    objects.add_tree([("clusters".to_owned(), clusters)].into())
}

fn ordinary_work(number: usize) -> String {
    let settings = (0..20).fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "  setting-{line}: value {line} of shop {number}");
        text
    });
    format!(
        "apiVersion: apps/v1
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
