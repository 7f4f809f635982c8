//! What the fuzzer checks, with the seeds that are in the repository: so that neither the targets
//! nor the seeds rot.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gitwork_core::model::name::ObjectId;
use gitwork_git::Repository;
use gitwork_signatures::commit;

use crate::bounded_process::BoundedTest;

#[path = "../../fuzz/checks/mod.rs"]
mod checks;

const TARGET: &str = "GITWORK_FUZZ_TARGET";
/// Of one input; the fuzzer's own bound, with its sanitizer.
const INPUT_TIME_MAX: Duration = Duration::from_secs(5);
/// Larger ones are slow to fuzz from.
const SEED_BYTES_MAX: usize = 16 * 1024;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files or folders of a folder.
fn inside(folder: &str) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn stems(folder: &str) -> BTreeSet<String> {
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    inside(folder).into_iter().map(stem).collect()
}

fn names() -> BTreeSet<String> {
    checks::ALL.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// The seeds of a target, in the order of their names.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    inside(&format!("fuzz/seeds/{name}"))
        .into_iter()
        .map(|path| {
            let seed = fs::read(&path).unwrap();
            assert!(seed.len() <= SEED_BYTES_MAX, "{} is too large", path.display());
            seed
        })
        .collect()
}

/// Runs a check; a failure names the input.
fn holds(name: &str, check: checks::Check, input: &[u8]) -> bool {
    std::panic::catch_unwind(|| check(input)).unwrap_or_else(|failure| {
        eprintln!("{name} does not hold for b\"{}\"", input.escape_ascii());
        std::panic::resume_unwind(failure)
    })
}

/// The process that the next test starts.
#[test]
#[ignore = "it is started by another test"]
fn seeds_of_one_target_pass() {
    let Ok(target) = std::env::var(TARGET) else { return };
    let (name, check) = checks::ALL.iter().find(|(name, _)| *name == target).unwrap();
    let mut reached = 0;
    for seed in seeds(name) {
        for part in 1..=8 {
            let began = processor_time();
            let input = &seed[..seed.len() * part / 8];
            let passes = holds(name, *check, input);
            reached += usize::from(passes && part == 8);
            let took = processor_time() - began;
            assert!(took < INPUT_TIME_MAX, "{took:?} for b\"{}\"", input.escape_ascii());
        }
    }
    assert!(reached > 0, "no seed of {name} gets past its parser");
}

/// The time that this thread has run: other programs do not count.
fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn every_seed_and_every_prefix_of_it_passes() {
    let test = BoundedTest {
        test: "fuzz_seeds::seeds_of_one_target_pass",
        variable: TARGET,
        memory_kib: 256 * 1024,
        processor_seconds: 120,
    };
    let failed: Vec<String> = checks::ALL.iter().filter_map(|(name, _)| test.run(name)).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The fuzzer's command has the bounds that an input must keep.
#[test]
fn fuzzer_runs_with_bounds_of_time_and_memory() {
    let readme = fs::read_to_string(root().join("fuzz/README.md")).unwrap();
    for bound in ["-timeout=5", "-rss_limit_mb=600", "-malloc_limit_mb=256"] {
        assert!(readme.contains(bound), "{bound}");
    }
}

/// One seed with some changes: a byte set, a piece taken out, doubled, or put in from another seed.
fn changed(random: &mut fastrand::Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut input = random.choice(seeds).unwrap().clone();
    for _ in 0..random.usize(1..4) {
        let at = random.usize(..=input.len());
        let end = random.usize(at..=input.len().min(at + 32));
        match random.u8(..5) {
            0 if at < input.len() => input[at] = random.u8(..),
            1 => drop(input.drain(at..end)),
            2 => input.extend_from_within(at..end),
            3 => {
                let piece = input[at..end].to_vec();
                input.splice(at..at, piece);
            }
            _ => {
                let other = random.choice(seeds).unwrap();
                let from = random.usize(..=other.len());
                let piece = other[from..other.len().min(from + 32)].to_vec();
                input.splice(at..end, piece);
            }
        }
    }
    input
}

/// `GITWORK_CHANGES` sets how many of each target.
#[test]
fn mutated_seeds_pass() {
    let count = std::env::var("GITWORK_CHANGES").map_or(100, |count| count.parse().unwrap());
    for (name, check) in checks::ALL {
        let seeds = seeds(name);
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..count {
            holds(name, *check, &changed(&mut random, &seeds));
        }
    }
}

/// What the commit seeds are to the reading of the objects, which is libgit2's and not in the
/// fuzzer's reach.
#[test]
fn broken_commit_is_read_or_rejected_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let git = git2::Repository::init_bare(folder.path()).unwrap();
    let odb = git.odb().unwrap();
    let repository = Repository::open(folder.path()).unwrap();
    let mut read = 0;
    for path in inside("fuzz/seeds/commit") {
        let seed = fs::read(&path).unwrap();
        for length in (0..=seed.len()).rev() {
            let object = &seed[..length];
            let id = odb.write(git2::ObjectType::Commit, object).unwrap();
            let id = ObjectId(id.as_bytes().try_into().unwrap());
            assert_eq!(repository.signature(id).unwrap(), commit::signed(object));
            match repository.commit(id) {
                Ok(facts) => {
                    read += 1;
                    assert_eq!(facts.id, id);
                    assert!(!facts.summary.contains('\n'));
                    assert_eq!(repository.new_commit(id).unwrap().id, id);
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
    assert!(read > 0, "no commit is whole");
}

#[test]
fn every_fuzz_target_is_built_listed_and_has_seeds() {
    let names = names();
    assert_eq!(stems("fuzz/fuzz_targets"), names);
    assert_eq!(stems("fuzz/seeds"), names);
    let mut files = stems("fuzz/checks");
    assert!(files.remove("mod"));
    assert_eq!(files, names);
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    let built = manifest.split("[[bin]]").skip(1).map(|bin| {
        let name = bin.split("name = \"").nth(1).unwrap();
        name.split('"').next().unwrap().to_owned()
    });
    assert_eq!(built.collect::<BTreeSet<_>>(), names);
    let readme = fs::read_to_string(root().join("fuzz/README.md")).unwrap();
    for name in &names {
        assert!(readme.contains(&format!("| `{name}` |")), "{name} is not in fuzz/README.md");
    }
}
