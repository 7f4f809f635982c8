//! Seeds that failed once. They run with every `cargo test`.

/// So many of the seeds below failed before works had moves. Their worlds still have none, so that
/// each does what it did.
const WITHOUT_MOVES: usize = 15;

/// Whether objects move between the works of this world.
pub fn has_moves(seed: u64) -> bool {
    !seed.is_multiple_of(3) && FOUND.iter().take(WITHOUT_MOVES).all(|(found, _)| *found != seed)
}

/// Each seed, and the bug that it found.
pub const FOUND: [(u64, &str); 15] = [
    (1, "an overdue retry woke the loop without end while the record was not known"),
    (4, "as seed 1, while the ancestry of the head was not known"),
    (30, "the time to read history again stayed in the past, and woke the loop without end"),
    (85, "a foreign work that was being deleted was looked up only once"),
    (134, "a response that came after the work was gone brought it back"),
    (178, "a name conflict was not looked up again after its work had been frozen for a while"),
    (5421, "works being deleted counted as kept, so that all others could be deleted"),
    (
        6478,
        "without gitwork's annotations, a work was deleted by the deleteOption on the hub, not by \
         the final one in Git",
    ),
    (
        9784,
        "a process that had read Git before another took the commits that the other had applied \
         for a rewind",
    ),
    (14512, "a lookup on the hub removed what the watch had brought back"),
    (16613, "a user who removed the hold marker let a held deletion through"),
    (36877, "works created from an old list, without a marker, counted as kept"),
    (117227, "as seed 36877"),
    (
        137025,
        "the late response to a creation brought back what had gone before the watch began again",
    ),
    (142088, "a work on a restored hub counted as gone when it was looked up"),
];
