//! Patterns for paths in a repository, in .gitignore syntax.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::limits;
use crate::model::name::RepoPath;
use crate::text::truncate::truncate_chars;

/// A compiled list of patterns in .gitignore syntax, relative to the source's path.
#[derive(Debug, Clone)]
pub struct PathPatterns(Gitignore);

impl PathPatterns {
    /// Compiles the patterns. Returns also the invalid ones, each with its index and the reason.
    /// Reports a list that is too large as a whole at its last pattern; it then matches nothing.
    pub fn new(patterns: &[String]) -> (Self, Vec<(usize, String)>) {
        let mut builder = GitignoreBuilder::new("");
        let mut invalid = Vec::new();
        let last = patterns.len().saturating_sub(1);
        let bytes: usize = patterns.iter().map(String::len).sum();
        if patterns.len().max(bytes / 64) > limits::PATTERNS_MAX {
            let (lines, bytes) = (limits::PATTERNS_MAX, 64 * limits::PATTERNS_MAX);
            let why = format!("the limit is {lines} patterns and {bytes} bytes in total");
            return (Self(Gitignore::empty()), vec![(last, why)]);
        }
        let reason = |error: ignore::Error| {
            truncate_chars(&error.to_string(), limits::STATUS_TEXT_CHARS_MAX).into_owned()
        };
        for (index, pattern) in patterns.iter().enumerate() {
            if let Err(error) = builder.add_line(None, pattern) {
                invalid.push((index, reason(error)));
            }
        }
        // Patterns that do not compile together would match nothing: report them.
        let compiled = builder.build().unwrap_or_else(|error| {
            invalid.push((last, reason(error)));
            Gitignore::empty()
        });
        (Self(compiled), invalid)
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the patterns match a path. Ask about a folder before its content, as Git does.
    pub fn is_match(&self, path: &RepoPath, is_folder: bool) -> bool {
        !self.0.is_empty() && self.0.matched(path.as_str(), is_folder).is_ignore()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_gitignore() {
        let lines = ["*.test.yaml", "/clusters/a/tmp/", "!keep.test.yaml", "docs"];
        let (patterns, invalid) = PathPatterns::new(&lines.map(String::from));
        assert_eq!(invalid, []);
        for (file, folder, expected) in [
            ("clusters/a/web/x.test.yaml", false, true),
            ("clusters/a/web/keep.test.yaml", false, false),
            ("clusters/a/tmp", true, true),
            ("clusters/a/tmp", false, false),
            ("clusters/b/tmp", true, false),
            ("clusters/b/docs", true, true),
        ] {
            let path = RepoPath::parse(file).unwrap();
            assert_eq!(patterns.is_match(&path, folder), expected, "{file}");
        }
    }

    #[test]
    fn an_invalid_pattern_is_reported_with_its_index() {
        let (_, invalid) = PathPatterns::new(&["ok".into(), "[z-a]".into()]);
        assert_eq!(invalid.len(), 1, "{invalid:?}");
        assert_eq!(invalid[0].0, 1);
    }
}
