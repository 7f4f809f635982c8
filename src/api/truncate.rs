//! Truncation of text to the length that a field of an API, a log or a table takes.

use std::borrow::Cow;

/// The last character of a truncated text.
const ELLIPSIS: char = '…';

/// `text` in at most `max` characters, with `…` as the last one if it was cut.
///
/// ```
/// use gitwork_api::truncate::truncate_chars;
/// assert_eq!(truncate_chars("abcdef", 4), "abc…");
/// assert_eq!(truncate_chars("abcd", 4), "abcd");
/// ```
pub fn truncate_chars(text: &str, max: usize) -> Cow<'_, str> {
    truncate_by(text, max, |_| 1)
}

/// `text` in at most `max` bytes of UTF-8, with `…` (3 bytes) at the end if it was cut.
pub fn truncate_bytes(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    truncate_by(text, max, char::len_utf8)
}

/// `text` in at most `max` units, where `measure` returns the units of a character. Ends with `…`
/// if it was cut, and is empty if not even that fits.
pub fn truncate_by(text: &str, max: usize, measure: impl Fn(char) -> usize) -> Cow<'_, str> {
    let room = max.checked_sub(measure(ELLIPSIS));
    let mut length = 0;
    // The end of the longest beginning that leaves room for the ellipsis.
    let mut end = 0;
    for (at, character) in text.char_indices() {
        length += measure(character);
        if room.is_some_and(|room| length <= room) {
            end = at + character.len_utf8();
        }
        if length > max {
            let kept = text.get(..end).unwrap_or_default();
            return match room {
                Some(_) => Cow::Owned(format!("{kept}{ELLIPSIS}")),
                None => Cow::Borrowed(""),
            };
        }
    }
    Cow::Borrowed(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_within_the_limit_is_unchanged() {
        for text in ["", "a", "値値", "e\u{301}"] {
            assert_eq!(truncate_chars(text, text.chars().count()), text);
            assert_eq!(truncate_bytes(text, text.len()), text);
        }
    }

    #[test]
    fn truncated_text_ends_with_an_ellipsis_within_the_limit() {
        for (text, max, expected) in
            [("abcd", 3, "ab…"), ("値値値", 2, "値…"), ("abcd", 1, "…"), ("a", 0, "")]
        {
            assert_eq!(truncate_chars(text, max), expected, "{text} {max}");
        }
        for (text, max, expected) in [
            ("abcdef", 5, "ab…"),
            ("値値", 5, "…"),
            ("値値", 4, "…"),
            ("値値値", 8, "値…"),
            ("abcd", 3, "…"),
            ("abcd", 2, ""),
        ] {
            assert_eq!(truncate_bytes(text, max), expected, "{text} {max}");
        }
    }
}
