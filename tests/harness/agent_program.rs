//! The program `gitwork-agent`, which belongs to another package than the tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;
use std::{env, fs};

/// The crates of the agent.
const CRATES: &[&str] = &["agent", "agent-core", "api", "kube", "rules", "runtime"];

/// The agent next to `gitwork`, from the same build. `cargo test` builds it for the tests of its
/// own package. If only this binary is built, or a source is newer, it is built here.
///
/// # Panics
/// If it cannot be built.
pub fn agent_program(gitwork: &str) -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = Path::new(gitwork).with_file_name("gitwork-agent");
        if is_stale(&program) {
            build(&program);
        }
        program
    })
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn is_stale(program: &Path) -> bool {
    let Ok(built) = fs::metadata(program).and_then(|file| file.modified()) else { return true };
    CRATES.iter().any(|name| newest(&root().join("src").join(name)) > built)
}

fn newest(folder: &Path) -> SystemTime {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let times = entries.map(|path| {
        if path.is_dir() { newest(&path) } else { fs::metadata(&path).unwrap().modified().unwrap() }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

fn build(program: &Path) {
    let folder = program.parent().unwrap();
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(["build", "--locked", "-p", "gitwork-agent", "--target-dir"]);
    command.arg(folder.parent().unwrap());
    if folder.ends_with("release") {
        command.arg("--release");
    }
    let status = command.status().unwrap();
    assert!(status.success(), "cannot build gitwork-agent: {status}");
    // Cargo does not touch the file if nothing has changed.
    let file = fs::File::open(program).unwrap();
    file.set_modified(SystemTime::now()).unwrap();
}
