//! Seeds that failed once. They run with every `cargo test`.

/// So many of the seeds below failed before works had moves. Their worlds still have none, so that
/// each does what it did.
const WITHOUT_MOVES: usize = 15;
/// So many failed before sources had groups.
const WITHOUT_GROUPS: usize = 65;
/// So many failed before operators had budgets for clusters.
const WITHOUT_CLUSTER_BUDGETS: usize = 65;

/// Whether objects move between the works of this world.
pub fn has_moves(seed: u64) -> bool {
    !seed.is_multiple_of(3)
        && !has_groups(seed)
        && FOUND.iter().take(WITHOUT_MOVES).all(|(found, _)| *found != seed)
}

/// Whether the source of this world has groups, and no other works. Seeds that failed before there
/// were such worlds have none.
pub fn has_groups(seed: u64) -> bool {
    seed % 8 == 5 && FOUND.iter().take(WITHOUT_GROUPS).all(|(found, _)| *found != seed)
}

/// Whether changes of the groups of this world reach clusters in waves.
pub fn has_rollouts(seed: u64) -> bool {
    seed % 16 == 13 && has_groups(seed)
}

/// Whether the operator of this world has budgets for some of the clusters. Seeds that failed
/// before have none.
pub fn has_cluster_budgets(seed: u64) -> bool {
    seed % 16 == 6 && FOUND.iter().take(WITHOUT_CLUSTER_BUDGETS).all(|(found, _)| *found != seed)
}

/// Each seed, and the bug that it found.
pub const FOUND: [(u64, &str); 77] = [
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
    (92, "the order of a giving work's entries changed when one of its moves was complete"),
    (
        313,
        "a work orphaned an object that the agent had yet to remove from the work before, and so \
         the agent deleted it",
    ),
    (601, "two works that exchanged all their orphaned objects waited for each other"),
    (983, "an orphaned object was owned again when its move was held, and then orphaned again"),
    (1651, "a work that orphaned one object still wrote another that its new work had applied"),
    (
        272,
        "a work dropped an object that moved on, before the agent had reported that it owned it, \
         and so went on owning it",
    ),
    (1216, "as seed 272: the agent then deleted the object, although another work orphaned it"),
    (1673, "as seed 272, when a move was reverted"),
    (
        1018,
        "an object that a removed work had orphaned stayed there, as the move of another one was \
         held",
    ),
    (1706, "as seed 1018"),
    (517, "the checker did not know that a Complete work gets no object"),
    (1573, "as seed 517"),
    (2666, "as seed 517, for a move back"),
    (
        1343,
        "the checker took an object in an unreadable folder for an error of a readable one, too",
    ),
    (2542, "as seed 1343"),
    (3938, "the checker expected that an object that had left a work would be deleted with it"),
    (
        5443,
        "the checker did not know that an approved deletion covers what the moves of the work need \
         before",
    ),
    (6985, "as seed 3938, for an object that Git dropped from a work that orphans its objects"),
    (
        7370,
        "the checker expected that an object that an unreadable folder may have keeps a \
         deleteOption that Git changes",
    ),
    (
        10253,
        "a work orphaned an object that another work owned, whose deletion the process had not \
         seen, and so the agent deleted it",
    ),
    (10892, "the checker did not know that an approved change covers what its moves need before"),
    (1198, "a work that shared an object with others went on writing what its new work wrote"),
    (3022, "as seed 1198"),
    (8905, "two works that shared two objects waited for each other to give one up first"),
    (11722, "the last owner of a shared object got a deleteOption that orphaned it too early"),
    (3311, "the checker did not know that a Complete work may list an object before it owns it"),
    (
        15055,
        "the checker took an object that an agent only read, and a user created again with its \
         owners, for one of another client",
    ),
    (
        3247,
        "the simulated cluster kept references to owners that were gone, which Kubernetes removes",
    ),
    (
        7043,
        "a work waited for a receiver that another work withheld the shared object from, until the \
         first one had given it up",
    ),
    (8081, "as seed 7043"),
    (
        12767,
        "the checker did not know that an object that a user created again with its owners is \
         deleted with them",
    ),
    (
        19880,
        "a work owned an object for a while that Git orphaned, as its deleteOption was delayed",
    ),
    (24157, "a work did not give up an object that it shared, as the move of another one was held"),
    (87566, "a work gave no object away, as the agent of another work could still own one of them"),
    (
        65867,
        "a work of another owner, whose name Git no longer had, delayed a deletion without end",
    ),
    (30355, "the simulated agent of a cluster without works did not finish what it had begun"),
    (
        26092,
        "the checker did not know that an orphaned object stays where a Complete work has it, too",
    ),
    (
        66655,
        "the checker did not know that a Complete work may own an object that it no longer lists",
    ),
    (
        98632,
        "the checker did not know that a Complete work keeps what it has if nothing can arrive",
    ),
    (
        45535,
        "a work that no agent had seen was deleted, although its objects could be in an unreadable \
         folder",
    ),
    (
        60559,
        "a process with an old list removed the marker of a work that it looked up, and so the \
         work counted as kept",
    ),
    (
        120586,
        "the checker did not know that a released work keeps its labels when it is adopted again",
    ),
    (
        82940,
        "the checker did not know that an object that one work orphans goes with another one that \
         owns it",
    ),
    (83846, "as seed 19880, for an object that the work had on the hub before"),
    (
        67522,
        "a work gave up a shared object because another one owned it, which orphaned it in the \
         same pass",
    ),
    (
        72358,
        "a work was deleted because another one owned its object, from which a former leader \
         dropped it late",
    ),
    (
        162124,
        "a work orphaned what it had got, when a former leader dropped it from the giving one",
    ),
    (145, "a work that never owned an object stopped orphaning it"),
    (
        204061,
        "a work was deleted because another one owned its object, which a request of a former \
         leader changed after the new leader had read the hub",
    ),
    (
        26456,
        "a work went on writing an object that its new work wrote, until the agent of a third one \
         had given it up",
    ),
    (
        26341,
        "a work was deleted while one that had depended on it was being deleted, as a new process \
         did not know of what that one depended on",
    ),
    (148581, "as seed 26341, of a cluster that the hub no longer had"),
    (
        125609,
        "a released work was forgotten while its agent still owned what had moved from it, so that \
         the agent deleted what the next work orphaned",
    ),
    (155083, "as seed 125609"),
    (
        9933,
        "the checker did not know that a cluster that waits gets the works that are missing of the \
         content that it has",
    ),
    (
        133293,
        "a new term began with the contents that clusters were to have in the last one, and a \
         cluster without works got an old one",
    ),
    (84845, "the same within a term, until Git was read again"),
    (
        90269,
        "a cluster with half of a content was taken for done by works of the content before, and \
         the record called the new one good",
    ),
    (28717, "a failed write that waited until Git was read again woke the loop without end"),
    (70_939, "works that came after a removal and could not be read made its budget larger"),
    (102_484, "an object that a work was to read only counted as its own before the first report"),
    (
        159_812,
        "the simulated agent took an object that a user created again for the one it had read",
    ),
];
