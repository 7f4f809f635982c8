//! The sources of a command that reads them.

use jiff::Timestamp;

use super::output;
use gitwork_git::Mirrors;
use gitwork_source::Sources;

/// Opens sources for a command. A long wait for another process is noted on stderr.
pub fn sources() -> Sources {
    let mirrors = Mirrors::announcing(|wait| output::note(&wait.to_string()));
    Sources::new(mirrors, Timestamp::now)
}
