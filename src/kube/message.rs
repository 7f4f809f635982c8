//! Messages from outside, made fit for logs and statuses.

use gitwork_api::truncate::truncate_chars;

/// The longest message of an API server that is kept, in characters.
pub const MESSAGE_CHARS_MAX: usize = 1_000;

/// `message` on one line, in at most `chars_max` characters. Control characters become spaces.
pub fn one_line(message: &str, chars_max: usize) -> String {
    truncate_chars(message.trim(), chars_max).replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_on_one_line_and_bounded() {
        for (message, expected) in [
            (" a\nb\t ", "a b"),
            ("a\u{7}b", "a b"),
            ("abcdef", "abc…"),
            ("值\n值x", "值 值x"),
            ("", ""),
        ] {
            assert_eq!(one_line(message, 4), expected, "{message:?}");
        }
    }
}
