//! The sources of a command that reads them.

use std::num::NonZeroUsize;
use std::thread;

use jiff::Timestamp;

use super::output;
use gitwork_git::Mirrors;
use gitwork_source::Sources;

/// Opens sources for a command, which renders on all processors. A long wait for another process is
/// noted on stderr.
pub fn sources() -> Sources {
    let mirrors = Mirrors::announcing(|wait| output::note(&wait.to_string()));
    let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    Sources::new(mirrors, Timestamp::now).with_threads(threads)
}
