//! Escapes of untrusted text: from a repository, a hub, a forge or a client.

pub use gitwork_api::escape::{
    escape_invisible, escape_untrusted, escape_untrusted_json, single_line,
};
use serde::Serialize;

/// A value as indented JSON with a final line break. Characters that control a terminal or hide
/// content are escaped.
pub fn json_text(value: &impl Serialize) -> String {
    // The values that gitwork prints have names as keys: their serialization cannot fail.
    escape_untrusted_json(&serde_json::to_string_pretty(value).unwrap_or_default()) + "\n"
}

/// Escapes untrusted text but keeps its line breaks.
pub fn escape_lines(text: &str) -> String {
    text.split('\n').map(escape_untrusted).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_stay_and_control_characters_are_escaped() {
        assert_eq!(escape_lines("a\u{1b}[31m\n\u{202e}b"), "a\\u{1b}[31m\n\\u{202e}b");
    }
}
