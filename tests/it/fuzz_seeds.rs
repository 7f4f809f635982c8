//! What the fuzzer checks, with the seeds that are in the repository: so that neither the targets
//! nor the seeds rot.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gitwork_core::model::name::ObjectId;
use gitwork_git::Repository;
use gitwork_signatures::commit;

#[path = "../../fuzz/checks/mod.rs"]
mod checks;

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

#[test]
fn every_seed_and_every_prefix_of_it_passes() {
    for (name, check) in checks::ALL {
        let mut reached = 0;
        for seed in seeds(name) {
            reached += usize::from(holds(name, *check, &seed));
            for part in 1..8 {
                holds(name, *check, &seed[..seed.len() * part / 8]);
            }
        }
        assert!(reached > 0, "no seed of {name} gets past its parser");
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
