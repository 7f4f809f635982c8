//! Words that somebody who knows Kubernetes, Git and Rust would have to learn first.

use std::fs;
use std::path::{Path, PathBuf};

/// Whole words, case as written, in code, comments, messages and documents.
const WORDS: &str = "Told told Rival Departed LastStood Toll Witness witness Bulletin Tenure \
    Standing Fenced Setback homeless NoHome StoredForm Fate Patience Stretch Asker Paint heed \
    take_in harmless Refusal gotcha Fight Contest Contested farewell newcomer Surprise Moments \
    worn";

/// Phrases in messages, comments and documents, small and capital letters alike.
const PHRASES: &[&str] = &[
    " anew",
    "let go of",
    " mend ",
    " mended",
    "ever less often",
    "last word",
    "takes in ",
    "is told",
];

/// Every file of text below a folder that people write.
pub fn texts(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            // Built by others, or bytes that a fuzzer made.
            if !matches!(name, "target" | "seeds" | "corpus" | "artifacts") {
                found.extend(texts(&path));
            }
        } else if name.rsplit('.').next().is_some_and(|end| {
            matches!(end, "rs" | "md" | "yaml" | "yml" | "toml" | "js" | "html" | "css" | "json")
        }) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Each private word of a file, with its line.
pub fn offences(file: &Path, root: &Path) -> Vec<String> {
    // The lists themselves, and facts of other projects.
    let own =
        ["tests/it/architecture/words.rs", "tests/control-plane", "tests/gitea", "tests/wire"];
    let name = file.strip_prefix(root).unwrap();
    if own.iter().any(|own| name.starts_with(own)) {
        return Vec::new();
    }
    let text = fs::read_to_string(file).unwrap();
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let is_private = |word: &&str| words.contains(word);
        let small = format!("{} ", line.to_lowercase());
        let phrases = PHRASES.iter().copied().filter(|phrase| small.contains(phrase));
        let hits = line.split(|c| !is_part(c)).filter(is_private).chain(phrases);
        found.extend(hits.map(|hit| format!("{}:{}: {hit}", name.display(), index + 1)));
    }
    found
}

/// Each line of a Rust file that is too long and could be shorter.
pub fn long_lines(file: &Path, root: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let name = file.strip_prefix(root).unwrap();
    let lines = text.lines().enumerate().filter(|(_, line)| line.chars().count() > 100);
    lines.map(|(index, _)| format!("{}:{}", name.display(), index + 1)).collect()
}
