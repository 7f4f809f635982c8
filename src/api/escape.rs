//! Escapes of untrusted text: from a repository, a hub, a cluster, a forge or a client.

use std::borrow::Cow;

/// Whether a character may change what a terminal shows around it, or shows nothing: control
/// characters, the line and paragraph separators, bidirectional controls, and characters without
/// width.
pub fn is_dangerous(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{034f}'
                | '\u{061c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// `text` with escapes such as `\u{1b}` in place of characters that control a terminal or hide
/// content: control characters and marks of the writing direction.
pub fn escape_untrusted(text: &str) -> String {
    escape(text, is_dangerous)
}

/// JSON text with JSON escapes in place of the same characters. Its value is unchanged.
pub fn escape_untrusted_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        // A line feed can only stand between values.
        if character != '\n' && is_dangerous(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(character);
        }
    }
    out
}

/// As [`escape_untrusted`], but keeps control characters: line breaks, and the colours of a line
/// that this program made.
pub fn escape_invisible(text: &str) -> String {
    escape(text, |character| !character.is_control() && is_dangerous(character))
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_escaped(character) {
            out.extend(character.escape_default());
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

/// A name or an index as a token of a JSON pointer (RFC 6901).
pub fn pointer_token(name: &str) -> Cow<'_, str> {
    // Much faster than `contains` for names, which each field of each object has.
    if name.bytes().any(|byte| matches!(byte, b'~' | b'/')) {
        return name.replace('~', "~0").replace('/', "~1").into();
    }
    name.into()
}

/// The name or index that a token of a JSON pointer stands for.
pub fn pointer_name(token: &str) -> Cow<'_, str> {
    if token.contains('~') {
        return token.replace("~1", "/").replace("~0", "~").into();
    }
    token.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_pointers_name_their_fields() {
        let object = serde_json::json!({"a~1/b": 1});
        let token = pointer_token("a~1/b");
        assert_eq!(object.pointer(&format!("/{token}")), Some(&1.into()));
        assert_eq!(pointer_name(&token), "a~1/b");
        assert_eq!(pointer_name("a"), "a");
    }

    #[test]
    fn characters_without_width_and_marks_of_direction_are_escaped() {
        let hostile = "a\u{200b}\u{202e}\u{2060}\u{feff}\u{e0041}b";
        let escaped = "a\\u{200b}\\u{202e}\\u{2060}\\u{feff}\\u{e0041}b";
        assert_eq!(escape_untrusted(hostile), escaped);
        assert_eq!(
            escape_invisible(&format!("{hostile}\n\u{1b}[0m")),
            format!("{escaped}\n\u{1b}[0m")
        );
        let json = serde_json::to_string(&[hostile]).unwrap_or_default();
        let shown = escape_untrusted_json(&json);
        assert!(!shown.chars().any(is_dangerous), "{shown}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), [hostile]);
    }

    #[test]
    fn a_single_line_has_no_control_characters() {
        assert_eq!(single_line("a\nb\tc\r\u{1b}[2J\u{202e}"), "a b c \\u{1b}[2J\\u{202e}");
    }
}
