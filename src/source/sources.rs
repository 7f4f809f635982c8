//! The sources of one process: from a configuration to an opened mirror or folder.

use jiff::Timestamp;

use gitwork_git::Mirrors;

use crate::config::SourceConfig;
use crate::error::SourceReadError;
use crate::origin::Origin;
use crate::reading::Reading;
use crate::source::Source;
use crate::state_files::StateFiles;

/// Opens the sources of one process. Sources of one repository share its mirror and fetches.
#[derive(Debug)]
pub struct Sources {
    mirrors: Mirrors,
    clock: fn() -> Timestamp,
}

impl Sources {
    /// `clock` gives the time of day, for the validity of signers' keys.
    pub fn new(mirrors: Mirrors, clock: fn() -> Timestamp) -> Self {
        Self { mirrors, clock }
    }

    /// Opens a source to read it, beside other processes that read or sync it. Nothing is fetched
    /// yet.
    ///
    /// # Errors
    /// The mirror's folder cannot be used, or the URL is invalid.
    pub fn open(&self, config: SourceConfig) -> Result<Source, SourceReadError> {
        let state_files = StateFiles::new(&config);
        self.opened(config, state_files)
    }

    /// Opens a source to sync it, as the only process that does so with this cache folder. Only
    /// this process writes the source's files.
    ///
    /// # Errors
    /// As [`Self::open`], or another process syncs the source.
    pub fn open_to_sync(&self, config: SourceConfig) -> Result<Source, SourceReadError> {
        let state_files = StateFiles::lock(&config)?;
        self.opened(config, state_files)
    }

    fn opened(
        &self,
        config: SourceConfig,
        state_files: StateFiles,
    ) -> Result<Source, SourceReadError> {
        let origin = Origin::open(&config, &self.mirrors)?;
        let reading = Reading::new(&config, self.clock);
        Ok(Source::new(config, origin, state_files, reading))
    }
}
