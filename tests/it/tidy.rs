//! Rules about the source text that the compiler does not check.

use std::fs;
use std::path::{Path, PathBuf};

/// What `src/core` may not touch: everything there is a function of its arguments.
const BANNED_IN_CORE: &[&str] = &[
    "tokio",
    "kube::",
    "git2",
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "std::time::SystemTime",
    "std::time::Instant",
    "Instant::now",
    "SystemTime::now",
    "Timestamp::now",
    "fastrand",
    "reqwest",
    "notify::",
    "println!",
    "eprintln!",
    "crate::git",
    "crate::hub",
    "crate::daemon",
    "crate::cli",
    "std::io::stdin",
    "std::io::stdout",
    "std::thread",
    "tempfile",
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The banned words in one source text, with their lines. Comments do not count.
fn banned_words(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        found.extend(
            BANNED_IN_CORE
                .iter()
                .filter(|word| code.contains(**word))
                .map(|word| (number + 1, *word)),
        );
    }
    found
}

#[test]
fn core_does_no_io() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut offences = Vec::new();
    for folder in ["src/core", "src/agent/core"] {
        let files = sources(&root.join(folder));
        assert!(files.len() > 10, "the scan must see {folder}: {files:?}");
        for file in files {
            for (line, word) in banned_words(&fs::read_to_string(&file).unwrap()) {
                offences.push(format!("{}:{line}: {word}", file.display()));
            }
        }
    }
    assert!(offences.is_empty(), "the core must stay pure:\n{}", offences.join("\n"));
}

#[test]
fn the_scan_sees_an_offence() {
    assert_eq!(banned_words("use std::fs;\n// tokio\n"), [(1, "std::fs")]);
    assert_eq!(banned_words("let now = Instant::now();"), [(1, "Instant::now")]);
}
