//! Every bound of this crate, with its reason. Input past a bound is an error, never a crash and
//! never a silent cut.

/// New commits verified at once. Each takes up to a millisecond for its signature, and more for its
/// changes.
pub const VERIFIED_COMMITS_MAX: usize = 10_000;
/// Commits that a change is compared with if the last verified one is not known exactly.
pub const SIGNER_BASES_MAX: usize = 16;
/// Failed commits of a branch in a row before only its head is judged. Each failure checks all new
/// commits again, because a later one may have the missing signature.
pub const SIGNER_RETRIES_MAX: usize = 50;
/// Versions of the work.yaml of one folder that are searched for the name of a work that Git no
/// longer has. A folder is seldom renamed more than once before the hub follows.
pub const WORK_FILE_VERSIONS_MAX: usize = 20;
/// Applied commits outside the history of the head that are searched for such a name, each with its
/// whole history.
pub const APPLIED_COMMITS_MAX: usize = 8;
