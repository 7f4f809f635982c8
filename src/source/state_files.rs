//! The files of one source beside its mirror: what the next process on this machine has to know.

use std::io;
use std::path::PathBuf;

use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::SourceId;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_git::{FolderLock, MirrorError, replace_file};
use gitwork_retry::log_error;

use crate::config::{SourceConfig, SourceLocation};

/// Why a file of a source cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", .file.display())]
pub struct StateFileError {
    file: PathBuf,
    source: io::Error,
}

impl OperationError for StateFileError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "StateFile"
    }

    fn hints(&self) -> Vec<String> {
        vec!["check the space and the permissions of the cache folder".to_owned()]
    }
}

fn write(file: PathBuf, text: &str) -> Result<(), StateFileError> {
    replace_file(&file, text).map_err(|source| StateFileError { file, source })
}

/// The files of one source, in a folder of its own in the cache. Every process may read them; only
/// the one that syncs the source writes them. A folder on disk has none: nothing is remembered
/// then.
pub struct StateFiles {
    source: SourceId,
    folder: Option<PathBuf>,
    /// Held by the process that syncs the source.
    lock: Option<FolderLock>,
}

impl StateFiles {
    /// The files of a source, to read them.
    pub(crate) fn new(config: &SourceConfig) -> Self {
        let source = config.id.clone();
        let folder = match &config.repository {
            SourceLocation::Git { remote, cache, .. } => {
                // Another repository has other commits. The credentials do not matter: what was
                // verified with the old ones counts after a change.
                let hash = Digest::of(remote.url.as_bytes()).to_string();
                let hash = hash.get(..16).unwrap_or_default();
                Some(cache.join(format!("{source}-{hash}.source")))
            }
            SourceLocation::Directory(_) => None,
        };
        Self { source, folder, lock: None }
    }

    /// The files of a source, to write them. Fails if another process does.
    pub(crate) fn lock(config: &SourceConfig) -> Result<Self, MirrorError> {
        let files = Self::new(config);
        let lock = files.folder.as_deref().map(FolderLock::acquire).transpose()?;
        Ok(Self { lock, ..files })
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(name))
    }

    /// The path of a file that this process may write.
    pub(crate) fn writable(&self, name: &str) -> Option<PathBuf> {
        self.path(name).filter(|_| self.lock.is_some())
    }

    /// The generation of the source's record on the hub when this machine last saw it; 0 if never.
    pub fn record_generation(&self) -> u64 {
        let text =
            self.path("record-generation").and_then(|file| std::fs::read_to_string(file).ok());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or_default()
    }

    /// Keeps the record's generation, if this process syncs the source: a hub with a lower one was
    /// restored from a backup.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn remember_record_generation(&self, generation: u64) -> Result<(), StateFileError> {
        let file = self.writable("record-generation");
        match file.filter(|_| generation != self.record_generation()) {
            Some(file) => write(file, &format!("{generation}\n")),
            None => Ok(()),
        }
    }

    /// A name for this process as the holder of the source's Lease. It begins with `host` and is
    /// unique among running processes.
    ///
    /// A later process with the same cache folder and since the same boot gets the same name: it
    /// could lock the files, so the earlier process is dead, and its Lease need not expire first.
    pub fn holder(&self, host: &str) -> String {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let prefix = format!("{host}_{}_", boot.get(..8).unwrap_or_default());
        let fresh = format!("{prefix}{:016x}", fastrand::u64(..));
        let Some(file) = self.writable("holder").filter(|_| !boot.is_empty()) else {
            return fresh;
        };
        let known = std::fs::read_to_string(&file).unwrap_or_default();
        let known = known.trim();
        let is_ours = |rest: &str| rest.len() == 16 && rest.bytes().all(|b| b.is_ascii_hexdigit());
        if known.strip_prefix(&prefix).is_some_and(is_ours) {
            return known.to_owned();
        }
        if let Err(error) = write(file, &format!("{fresh}\n")) {
            log_error!(
                debug,
                &error,
                source = %self.source,
                "cannot keep the name of the Lease's holder; \
                 the next process waits until the Lease expires"
            );
        }
        fresh
    }
}
