//! Lines of a file for snippets, without values where the file may hold a Secret.

use crate::span::Span;

/// Characters of a line that a snippet shows at most.
const SNIPPET_CHARS_MAX: usize = 160;

/// The lines of one file, for snippets. Leaves out values if the file may hold a Secret.
#[derive(Debug)]
pub struct Lines<'a> {
    lines: Vec<&'a str>,
    /// Whether values are left out.
    pub(crate) masked: bool,
}

impl<'a> Lines<'a> {
    /// Splits a file into lines. Returns `None` if it is not UTF-8.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = std::str::from_utf8(bytes).ok()?;
        Some(Self { lines: text.lines().collect(), masked: holds_secret(text) })
    }

    /// Returns the line at a location, cut to 160 characters. If values are left out, returns only
    /// its key, or `None` for a line without one.
    pub fn snippet(&self, span: Span) -> Option<String> {
        let line = self.lines.get(usize::try_from(span.line).ok()?.checked_sub(1)?)?;
        if self.masked {
            let (key, _) = line.split_once(':')?;
            let plain = key
                .trim_start()
                .trim_start_matches("- ")
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_./\"".contains(c));
            return plain.then(|| {
                format!("{}: ...", key.chars().take(SNIPPET_CHARS_MAX).collect::<String>())
            });
        }
        Some(line.chars().take(SNIPPET_CHARS_MAX).collect())
    }
}

/// Whether a text may hold a Secret: `Secret` or `SecretList` is a value anywhere, in YAML or JSON.
/// A false positive only costs a snippet.
fn holds_secret(text: &str) -> bool {
    text.match_indices("Secret").any(|(at, word)| {
        let before = text.get(..at).unwrap_or_default().trim_end_matches([' ', '\t', '"', '\'']);
        let after = text.get(at + word.len()..).unwrap_or_default();
        before.trim_end_matches([' ', '\t', '\n', '\r']).ends_with(':')
            && !after.starts_with(|c: char| c.is_ascii_alphanumeric() && !after.starts_with("List"))
    })
}
