//! Every bound of this crate, with its reason. Input past a bound is an error, never a crash and
//! never a silent cut.

/// Characters of the reason for a suspension: one line in a table.
pub const REASON_CHARS_MAX: usize = 200;
/// Adoptions whose changes `plan` shows: each is a request to the hub, and a page to read.
pub const ADOPTIONS_SHOWN_MAX: usize = 20;
/// Bytes of the list of `render --out`: 200,000 works with paths of some 200 bytes.
pub const RENDERED_LIST_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Bytes of one rendered file: a work of 500 KiB as YAML, with room for indentation and quotes. A
/// larger one was not written by gitwork.
pub const RENDERED_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Bytes that one `import` reads, from files or as JSON from a hub: some thousand works of usual
/// size. More of them are selected with `--cluster` and `--work`.
pub const IMPORT_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Writes of one work that meet a change of its agent, each with the state as it is then. An agent
/// writes the status a few times in a second at most.
pub const WORK_WRITES_MAX: usize = 5;
/// Requests of `create work` that wait for answers at the same time.
pub const WORK_REQUESTS_MAX: usize = 16;
/// Objects in the files of one `import`: four works of 5,000 objects.
pub const IMPORT_OBJECTS_MAX: usize = 20_000;
/// Bytes of a daemon's file that a shell completes from: 1,000 sources of 4 KiB.
pub const COMPLETION_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
