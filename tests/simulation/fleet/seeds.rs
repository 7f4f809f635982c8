//! Seeds that failed once. They run with every `cargo test`.

/// What was wrong then, and the seed that showed it.
pub const FOUND: [(u64, &str); 0] = [];
