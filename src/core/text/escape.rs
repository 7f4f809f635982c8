//! Escapes of untrusted text: from a repository, a hub, a forge or a client.

use gitwork_yaml::is_dangerous;

/// `text` with escapes such as `\u{1b}` in place of characters that control a terminal or hide
/// content: control characters and marks of the writing direction.
pub fn escape_untrusted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_dangerous(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// JSON text with JSON escapes in place of the same characters. Its value is unchanged.
pub fn escape_untrusted_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        // A line feed can only stand between values.
        if character != '\n' && is_dangerous(character) {
            out.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            out.push(character);
        }
    }
    out
}

/// Untrusted text on one line: line breaks and tabs become blanks.
pub fn single_line(text: &str) -> String {
    let blank = |c: char| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c };
    escape_untrusted(&text.chars().map(blank).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_line_has_no_control_characters() {
        assert_eq!(single_line("a\nb\tc\r\u{1b}[2J\u{202e}"), "a b c \\u{1b}[2J\\u{202e}");
    }
}
