//! How errors get into the log, read from the source text.

use std::fs;
use std::path::Path;

use regex::Regex;

/// Logs of an error without its class, reason and hints: macros of `tracing` that have it as a
/// field or in the message.
pub fn errors_without_class(file: &Path, root: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let call = Regex::new(r"\b(?:trace|debug|info|warn|error)!\(").unwrap();
    let error = Regex::new(r"[%?]error\b|\berror *=|\{error\b").unwrap();
    let shown = file.strip_prefix(root).unwrap().display();
    let calls = call.find_iter(&text).filter(|call| error.is_match(arguments(&text[call.end()..])));
    calls.map(|call| format!("{shown}:{}", text[..call.start()].lines().count())).collect()
}

/// `text` up to the parenthesis that closes the one before it. Those in strings do not count.
fn arguments(text: &str) -> &str {
    let (mut open, mut is_string, mut is_escaped) = (1, false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if std::mem::take(&mut is_escaped) => {}
            '\\' => is_escaped = true,
            '"' => is_string = !is_string,
            '(' if !is_string => open += 1,
            ')' if !is_string => open -= 1,
            _ => {}
        }
        if open == 0 {
            return &text[..at];
        }
    }
    text
}
