//! Truncation of text to a number of characters, bytes or columns.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

pub use gitwork_api::truncate::{truncate_bytes, truncate_chars};

/// `text` in at most `max` columns of a terminal, with `…` at the end if it was cut.
pub fn truncate_columns(text: &str, max: usize) -> Cow<'_, str> {
    // The width of a text can be less than the sum of its characters' widths.
    if text.width() <= max {
        return Cow::Borrowed(text);
    }
    gitwork_api::truncate::truncate_by(text, max, |character| character.width().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_truncated_by_columns() {
        for (text, width, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("値値値", 5, "値値…"),
            ("値", 1, "…"),
            ("a", 0, ""),
        ] {
            assert_eq!(truncate_columns(text, width), expected);
        }
    }
}
