//! Seeds that failed once. They run with every `cargo test`.

/// The seed, and what was wrong then.
pub const FOUND: [(u64, &str); 15] = [
    (1, "a retry whose time had come woke the loop without end while the record was not known"),
    (4, "as seed 1, while Git had not said what the head builds on"),
    (30, "the time to ask for history again stayed in the past, and woke the loop without end"),
    (85, "the work of another that was being deleted was looked at only once"),
    (134, "an answer that came after the work was gone brought it back"),
    (178, "a name that was taken was looked at no more once its work had been frozen for a while"),
    (5421, "works being deleted counted as staying, so that all others could be deleted"),
    (
        6478,
        "without gitwork's annotations, a work was deleted by the hub's deleteOption, not by Git's last word",
    ),
    (
        9784,
        "a process that had read Git before another took what that one had applied for a rewind",
    ),
    (14512, "a look at the hub took away what the watch had brought back"),
    (16613, "who wiped a newcomer's mark let a held deletion through"),
    (36877, "what was made by an old list, without a mark, counted as kept"),
    (117227, "as seed 36877"),
    (
        137025,
        "the late answer to a creation brought back what had gone before the watch began anew",
    ),
    (142088, "what a restored hub had again was taken for gone when it was looked up"),
];
