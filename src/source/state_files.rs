//! The files of one source beside its mirror: what the next process on this machine has to know.

use std::path::PathBuf;

use gitwork_git::replace_file;

use crate::config::{SourceConfig, SourceLocation};
use crate::origin::mirror_folder;

/// The files of one source in the folder of its mirror, which this process has locked. A folder on
/// disk has none: nothing is remembered then.
pub struct StateFiles<'a> {
    config: &'a SourceConfig,
}

impl<'a> StateFiles<'a> {
    pub(crate) fn new(config: &'a SourceConfig) -> Self {
        Self { config }
    }

    /// The path of one file, if the source has a mirror.
    pub(crate) fn path(&self, extension: &str) -> Option<PathBuf> {
        let SourceLocation::Git { remote, cache, .. } = &self.config.repository else {
            return None;
        };
        Some(mirror_folder(cache, &remote.url).join(format!("{}.{extension}", self.config.id)))
    }

    /// The generation of the source's record on the hub when this machine last saw it; 0 if never.
    pub fn record_generation(&self) -> u64 {
        let text =
            self.path("record-generation").and_then(|file| std::fs::read_to_string(file).ok());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or_default()
    }

    /// Keeps the record's generation: a hub with a lower one was restored from a backup.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn remember_record_generation(&self, generation: u64) -> std::io::Result<()> {
        match self.path("record-generation").filter(|_| generation != self.record_generation()) {
            Some(file) => replace_file(&file, &format!("{generation}\n")),
            None => Ok(()),
        }
    }

    /// A name for this process as the holder of the source's Lease. It begins with `host` and is
    /// unique among running processes.
    ///
    /// A later process with the same mirror and since the same boot gets the same name: it could
    /// lock the mirror, so the earlier process is dead, and its Lease need not expire first.
    pub fn holder(&self, host: &str) -> String {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let prefix = format!("{host}_{}_", boot.get(..8).unwrap_or_default());
        let fresh = format!("{prefix}{:016x}", fastrand::u64(..));
        let Some(file) = self.path("holder").filter(|_| !boot.is_empty()) else {
            return fresh;
        };
        let known = std::fs::read_to_string(&file).unwrap_or_default();
        let known = known.trim();
        let is_ours = |rest: &str| rest.len() == 16 && rest.bytes().all(|b| b.is_ascii_hexdigit());
        if known.strip_prefix(&prefix).is_some_and(is_ours) {
            return known.to_owned();
        }
        if let Err(error) = replace_file(&file, &format!("{fresh}\n")) {
            tracing::debug!(
                source = %self.config.id, %error,
                "cannot keep the name of the Lease's holder; \
                 the next process waits until the Lease expires"
            );
        }
        fresh
    }
}
