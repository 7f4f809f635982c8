//! Every bound of this crate, with its reason. Input past a bound is an error, never a crash and
//! never a silent cut.

/// Characters of the reason for a suspension: one line in a table.
pub const REASON_CHARS_MAX: usize = 200;
/// Adoptions whose changes `plan` shows: each is a request to the hub, and a page to read.
pub const ADOPTIONS_SHOWN_MAX: usize = 20;
