//! Renders repositories that are small and would cost much, each in a process of its own that may
//! use little memory and processor time. `cargo bench --bench hostile` prints what each takes.

use std::process::Command;

use gitwork_core::limits;
use gitwork_core::model::diagnostic::Code;
use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::render::desired::Desired;

use crate::bounded_process::BoundedTest;
use crate::hostile::ordinary::{LARGE_WORK_BYTES, PeakMemory, checkout_bytes, ordinary};
use crate::hostile::{self, HostileInput};
use crate::memory_repository::{File, MemoryObjects, files, render};

const INPUT: &str = "GITWORK_HOSTILE_INPUT";
/// Half of what the least of them took without bounds.
const MEMORY_KIB: usize = 200 * 1024;
/// Far more than one takes without optimisation, and less than each took without bounds.
const PROCESSOR_SECONDS: usize = 60;

fn input(name: &str) -> &'static HostileInput {
    hostile::ALL.iter().find(|input| input.name == name).unwrap()
}

/// Renders one of the inputs; and the number of trees and files that were read for that.
fn rendered(name: &str) -> (Desired, usize) {
    let mut objects = MemoryObjects::default();
    let root = (input(name).add)(&mut objects);
    let snapshot = Snapshot { commit: None, root, objects: &objects };
    let desired = hostile::renderer().render(&snapshot).unwrap();
    (desired, objects.reads.get())
}

/// The process that the next test starts.
#[test]
#[ignore = "it is started by another test"]
fn one_hostile_input_is_rendered() {
    let Ok(name) = std::env::var(INPUT) else { return };
    let (desired, _) = rendered(&name);
    assert!(desired.diagnostics.len() <= limits::DIAGNOSTICS_MAX);
    let is_valid = desired.diagnostics.is_empty() && !desired.works.is_empty();
    assert_eq!(is_valid, hostile::VALID.contains(&name.as_str()));
}

#[test]
fn hostile_inputs_are_rendered_in_little_memory_and_processor_time() {
    let test = BoundedTest {
        test: "hostile_inputs::one_hostile_input_is_rendered",
        variable: INPUT,
        memory_kib: MEMORY_KIB,
        processor_seconds: PROCESSOR_SECONDS,
    };
    let failed: Vec<String> =
        hostile::ALL.iter().filter_map(|input| test.run(input.name)).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The name of an ordinary repository, before its number of bytes.
const ORDINARY: &str = "ordinary-";
/// Bytes of the largest ordinary repository.
const ORDINARY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The process that measures one repository for the next test.
#[test]
#[ignore = "it is started by another test"]
fn memory_of_one_repository_is_measured() {
    let Ok(name) = std::env::var(INPUT) else { return };
    let mut objects = MemoryObjects::default();
    let root = match name.strip_prefix(ORDINARY) {
        Some(bytes) => ordinary(&mut objects, bytes.parse().unwrap(), LARGE_WORK_BYTES),
        None => (input(&name).add)(&mut objects),
    };
    let memory = PeakMemory::start();
    let snapshot = Snapshot { commit: None, root, objects: &objects };
    let desired = hostile::renderer().render(&snapshot).unwrap();
    let mebibytes = memory.mebibytes();
    assert!(desired.diagnostics.is_empty(), "{:?}", desired.diagnostics.first());
    println!("memory: {mebibytes} MiB");
}

fn memory_of(name: &str) -> f64 {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture"])
        .arg("hostile_inputs::memory_of_one_repository_is_measured")
        .env(INPUT, name)
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, after) = text.split_once("memory: ").unwrap_or_else(|| panic!("{name}: {text}"));
    after.split_once(' ').unwrap().0.parse().unwrap()
}

/// Memory follows the largest work. So a repository of one large work is compared with works as
/// large as the hub takes, of as many bytes together. One of many works is compared with those,
/// too.
#[test]
fn inputs_within_the_limits_take_at_most_three_times_the_memory_of_ordinary_ones() {
    let is_compared = |name: &&&str| **name != "empty" && !name.starts_with("group");
    for name in hostile::VALID.iter().filter(is_compared) {
        let mut objects = MemoryObjects::default();
        let root = (input(name).add)(&mut objects);
        let bytes = checkout_bytes(&objects, root, ORDINARY_BYTES_MAX);
        let (found, ordinary) = (memory_of(name), memory_of(&format!("{ORDINARY}{bytes}")));
        let ratio = found / ordinary;
        println!("{name}: {found:.1} MiB, {ratio:.1} times {ordinary:.1} MiB of {bytes} bytes");
        assert!(ratio <= 3.0, "{name} takes {found} MiB, an ordinary repository {ordinary} MiB");
    }
}

#[test]
fn equal_folders_are_visited_up_to_a_bound_and_read_once() {
    let (desired, reads) = rendered("tree-of-14-levels");
    let found: Vec<_> = desired.diagnostics.iter().map(|one| (one.code, &one.message)).collect();
    let message = "more than 100000 files and folders in one work".to_owned();
    assert_eq!(found, [(Code::TooManyFiles, &message)]);
    assert!(reads < 100, "{reads} reads of 20 objects");
}

/// The size of the work's files is known before all of them are read.
#[test]
fn links_to_a_large_file_are_read_up_to_the_limit_of_a_work() {
    let (desired, reads) = rendered("links-1500-to-2-mb");
    assert!(desired.diagnostics.iter().any(|one| one.code == Code::TooManyFiles));
    assert!(reads < 1_600, "{reads} reads: each link, and five files");
}

#[test]
fn file_with_many_problems_lists_the_first_and_counts_the_others() {
    let (desired, _) = rendered("ambiguous-words");
    let last = desired.diagnostics.iter().find(|one| one.code == Code::Omitted).unwrap();
    // Of 524,287 words, 100 are listed.
    assert_eq!(last.message, "524187 more problems in this file are not listed");
    assert!(desired.diagnostics.iter().any(|one| one.code == Code::UnexpectedShape));
}

const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: x, name: web}\n";

/// A link whose target is too long, and a folder that is no Git tree: errors of their work.
#[test]
fn malformed_object_freezes_its_work_only_and_is_named_by_its_path() {
    for (path, file) in [
        ("clusters/a/bad/link.yaml", File::Link("x/".repeat(2_500))),
        ("clusters/a/bad/sub", File::BadFolder),
        ("clusters/a/bad", File::BadFolder),
    ] {
        let mut all = files(&[("clusters/a/web/x.yaml", OBJECT)]);
        all.insert(path.into(), file);
        let desired = render(&all);
        let works: Vec<String> = desired.works.keys().map(ToString::to_string).collect();
        assert_eq!(works, ["a/web"], "{path}");
        let frozen: Vec<String> = desired.frozen.works.iter().map(ToString::to_string).collect();
        assert_eq!(frozen, ["a/bad"], "{path}");
        assert!(desired.frozen.clusters.is_empty() && !desired.frozen.source);
        let errors = desired.diagnostics.iter().filter(|found| found.is_error());
        let at: Vec<&str> = errors.map(|found| found.location.file.as_str()).collect();
        assert!(at.contains(&path), "{path}: {at:?}");
    }
    let mut all = files(&[("clusters/a/web/x.yaml", OBJECT)]);
    all.insert("clusters/b".into(), File::BadFolder);
    let desired = render(&all);
    assert_eq!(desired.works.len(), 1);
    let frozen: Vec<String> = desired.frozen.clusters.iter().map(ToString::to_string).collect();
    assert_eq!(frozen, ["b"]);
}

/// A tenant with many problems does not hide those of another.
#[test]
fn problems_of_many_works_are_cut_fairly() {
    let words = format!("{OBJECT}data: {{a: [{}]}}\n", "y,".repeat(200));
    let many = |n| (format!("clusters/c{n}/web/x.yaml"), File::from(words.as_str()));
    let mut all: std::collections::BTreeMap<String, File> = (0..150).map(many).collect();
    all.insert("clusters/z/last/x.yaml".into(), File::from("broken: ["));
    let desired = render(&all);
    let max = limits::DIAGNOSTICS_MAX;
    assert!(desired.diagnostics.len() <= max && desired.diagnostics.len() > max * 9 / 10);
    let error = desired.diagnostics.iter().find(|one| one.is_error()).unwrap();
    assert_eq!(error.location.file.as_str(), "clusters/z/last/x.yaml");
    assert_eq!(desired.diagnostics.last().unwrap().code, Code::Omitted);
    let frozen: Vec<String> = desired.frozen.works.iter().map(ToString::to_string).collect();
    assert_eq!(frozen, ["z/last"]);
}
