//! Messages from outside, made fit for logs and statuses.

/// The longest message of an API server that is kept, in characters.
pub const MESSAGE_CHARS_MAX: usize = 1_000;

/// `message` on one line, cut after `chars_max` characters with an ellipsis.
pub fn one_line(message: &str, chars_max: usize) -> String {
    let mut kept = String::new();
    for (count, character) in message.trim().chars().enumerate() {
        if count == chars_max {
            kept.push('…');
            break;
        }
        kept.push(if character.is_control() { ' ' } else { character });
    }
    kept
}
