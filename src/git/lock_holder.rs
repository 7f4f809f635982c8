//! The name of a process that holds a lock.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Bytes of a name that are read.
const NAME_BYTES_MAX: u64 = 200;

/// The process that holds the lock of a folder, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockHolder(String);

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl LockHolder {
    /// The name that this process writes into a lock file.
    pub(super) fn this_process() -> String {
        let program = std::env::args_os().next().map(PathBuf::from);
        let name = program.as_deref().and_then(Path::file_name).unwrap_or_default();
        format!("{} (pid {})", name.to_string_lossy(), std::process::id())
    }

    /// The holder of a lock file, as it named itself.
    pub(super) fn of(file: &Path) -> Self {
        let mut text = String::new();
        let file = File::open(file);
        // The name is for messages only: an unreadable one is left out.
        let _ = file.and_then(|file| file.take(NAME_BYTES_MAX).read_to_string(&mut text));
        text.retain(|c| !c.is_control());
        Self(if text.is_empty() { "another process".to_owned() } else { text })
    }
}
