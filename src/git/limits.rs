//! Every bound of this crate, with its reason. Input past a bound is an error, never a crash and
//! never a silent cut.

use std::time::Duration;

/// Bytes of one tree object: a folder of more than a million entries.
pub const TREE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Commits visited for one question about the history. Each visit opens the changed trees: measured
/// at 6 ms a commit with 2,000 cluster folders in an unoptimised build, so two minutes at most.
pub const HISTORY_COMMITS_MAX: usize = 20_000;
/// Entries of folders that differ in one verification, counted for each pair of commits that it
/// compares: five times all files of the largest source. They take some seconds.
pub const COMPARED_ENTRIES_MAX: usize = 5_000_000;
/// What a file that is kept costs of them: so at most 600,000 are kept, in some 100 MiB.
pub const KEPT_FILE_COST: usize = 7;
/// Equal entries beside them that cost as much as one that differs. With 5,000 clusters, each of
/// the 10,000 commits of a verification costs some 160.
pub const EQUAL_ENTRIES_PER_COMPARED: usize = 64;
/// Files and folders of a local directory, enough for `WORKS_MAX` works of a few files each.
pub const DIRECTORY_ENTRIES_MAX: usize = 1_000_000;
/// Folder levels of a local directory. Deeper ones are mount loops, or an attack on the stack.
pub const DIRECTORY_DEPTH_MAX: usize = 64;
/// Bytes of the head of an HTTP response from a Git server.
pub const HTTP_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Redirects followed from a repository's URL; forges use one.
pub const HTTP_REDIRECTS_MAX: usize = 5;
/// References that a Git server may list.
pub const REFERENCES_MAX: usize = 500_000;
/// Packs of a mirror before it is rebuilt as one pack: every look-up searches all of them.
pub const MIRROR_PACKS_MAX: usize = 100;
/// Time to wait for a fetch of another process before a message says so.
pub const LOCK_WAIT_ANNOUNCED: Duration = Duration::from_secs(3);
/// Time for one push of the status branch, or for the fetch before it.
pub const STATUS_PUSH: Duration = Duration::from_secs(120);
/// Bytes fetched of a status branch: with 10,000 works its files have some 20 MB before packing.
pub const STATUS_FETCH_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes of the status branch's summary file. 200 works with problems, with a message each, have
/// some 200 KB.
pub const STATUS_SUMMARY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Commits of the status branch. After that its history restarts: nobody reads a thousand of them,
/// and each mirror of the repository carries them.
pub const STATUS_HISTORY_MAX: usize = 1_000;
/// Attempts of one publication when other processes push to the same branch.
pub const STATUS_PUSH_ATTEMPTS_MAX: usize = 5;
/// Pushes after which the local repository of the status branch is recreated: libgit2 cannot
/// collect garbage, and each push leaves some six loose objects.
pub const STATUS_PUSHES_MAX: usize = 2_000;
/// Files of the status branch that are written as loose objects. With more, they become packs: a
/// loose object costs a tenth of a millisecond.
pub const STATUS_LOOSE_FILES_MAX: usize = 200;
/// Files of the status branch in one pack: while it is made, they are in memory twice, at about a
/// kilobyte each.
pub const STATUS_PACKED_FILES_MAX: usize = 5_000;
/// Bytes of a commit object whose signature is checked: a tree, parents and a written message.
pub const COMMIT_BYTES_MAX: usize = 1024 * 1024;
