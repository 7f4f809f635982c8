//! Characters that are not safe to show.

/// Whether a character may change what a terminal shows around it: control characters, the line and
/// paragraph separators, byte order marks and bidirectional controls.
pub fn is_dangerous(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{061c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
        )
}
