//! Lines of a file for snippets, without values where the file may hold a Secret.

use crate::span::Span;

/// Characters of a line that a snippet shows at most.
const SNIPPET_CHARS_MAX: usize = 160;
/// Bytes of a line in which its key is looked for, so that many problems in one long line stay
/// cheap.
const KEY_BYTES_MAX: usize = 4_096;

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

    /// Whether the file may hold a Secret, so that its values are not shown.
    pub fn may_hold_secret(&self) -> bool {
        self.masked
    }

    /// Returns the line at a location, cut to 160 characters. If values are left out, returns only
    /// its key, or `None` for a line without one.
    pub fn snippet(&self, span: Span) -> Option<String> {
        let line = self.lines.get(usize::try_from(span.line).ok()?.checked_sub(1)?)?;
        if self.masked {
            let start = line.floor_char_boundary(KEY_BYTES_MAX);
            let (key, _) = line.get(..start)?.split_once(':')?;
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

/// Whether a text may hold a Secret: the word `Secret` or `SecretList` is anywhere in it, after an
/// anchor, a tag or a quote as well as after a colon. So are an escape of YAML, which can spell the
/// word, and a variable in a kind. A false positive only costs a snippet.
fn holds_secret(text: &str) -> bool {
    let is_word = text.match_indices("Secret").any(|(at, word)| {
        let before = text.get(..at).unwrap_or_default();
        let after = text.get(at + word.len()..).unwrap_or_default();
        let after = after.strip_prefix("List").unwrap_or(after);
        !before.ends_with(|c: char| c.is_alphanumeric())
            && !after.starts_with(|c: char| c.is_alphanumeric())
    });
    let escapes = ["\\x", "\\u", "\\U", "\\\n", "\\\r"];
    is_word
        || (text.contains('\\') && escapes.iter().any(|escape| text.contains(escape)))
        || has_variable_kind(text)
}

/// Whether a line has the word `kind` and a variable.
fn has_variable_kind(text: &str) -> bool {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let start = before.rsplit('\n').next().unwrap_or_default();
        let (end, next) = after.split_once('\n').unwrap_or((after, ""));
        if start.contains("kind") || end.contains("kind") {
            return true;
        }
        rest = next;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_recognized_in_every_spelling_of_its_kind() {
        for kind in [
            "kind: Secret",
            "kind: &k Secret",
            "kind: !!str Secret",
            "kind: !<tag:yaml.org,2002:str> 'Secret'",
            "? kind\n: Secret",
            "kind: >-\n  Secret",
            "{\"kind\":\"Secret\"}",
            "kind: \"S\\x65cret\"",
            "kind: \"Sec\\\n  ret\"",
            "kind: ${KIND}",
            "kind: SecretList",
        ] {
            assert!(holds_secret(kind), "{kind}");
        }
        for other in [
            "a: ${X}\nkind: ConfigMap\nb: ${Y}",
            "kind: ConfigMap",
            "kind: SecretStore",
            "imagePullSecrets: []",
            "",
        ] {
            assert!(!holds_secret(other), "{other}");
        }
    }
}
