//! The patterns of schemas.

use std::collections::HashMap;

use regex::Regex;

use crate::limits::{PATTERN_BYTES_MAX, PATTERN_CHARS_MAX, PATTERNS_MAX};

/// Patterns that are compiled once for an object.
#[derive(Default)]
pub(crate) struct Patterns {
    known: HashMap<String, Option<Regex>>,
}

impl Patterns {
    /// Whether a text matches a pattern. One that cannot be compiled matches everything: the API
    /// server refuses its CRD.
    pub(crate) fn is_match(&mut self, pattern: &str, text: &str) -> bool {
        if !self.known.contains_key(pattern) {
            if self.known.len() >= PATTERNS_MAX || pattern.len() > PATTERN_CHARS_MAX {
                return true;
            }
            let compiled =
                regex::RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build().ok();
            self.known.insert(pattern.to_owned(), compiled);
        }
        self.known.get(pattern).and_then(Option::as_ref).is_none_or(|one| one.is_match(text))
    }
}
