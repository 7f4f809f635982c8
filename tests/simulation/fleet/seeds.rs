//! Seeds that failed once. They run with every `cargo test`.

/// The seed, and what was wrong then.
pub const FOUND: [(u64, &str); 6] = [
    (1, "a retry whose time had come woke the loop without end while the record was not known"),
    (4, "as seed 1, while Git had not said what the head builds on"),
    (30, "the time to ask for history again stayed in the past, and woke the loop without end"),
    (85, "the work of another that was being deleted was looked at only once"),
    (134, "an answer that came after the work was gone brought it back"),
    (178, "a name that was taken was looked at no more once its work had been frozen for a while"),
];
