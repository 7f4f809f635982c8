//! What the status branch says of the source's record on the hub, read once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gitwork_core::model::name::SourceId;
use gitwork_core::model::operation_error::OperationError;
use gitwork_git::{PublishedRecord, Remote, StatusBranchCheckpoint};
use gitwork_retry::log_error;

use crate::config::{SourceConfig, SourceLocation};
use crate::error::SourceReadError;

/// The checkpoint on the source's status branch.
#[derive(Default)]
pub(crate) struct Checkpoint {
    /// The status branch, until it has been read once.
    branch: Option<StatusBranchCheckpoint>,
    /// What it says; nothing while it has not been read.
    published: PublishedRecord,
}

impl Checkpoint {
    /// The checkpoint on a branch of the source's repository; none for a folder on disk.
    pub fn on_branch(config: &SourceConfig, branch: &str) -> Self {
        let SourceLocation::Git { remote, cache, .. } = &config.repository else {
            return Self::default();
        };
        let folder = cache.join(format!("{}-status-checkpoint", config.id));
        let branch = StatusBranchCheckpoint::new(&folder, Remote::clone(remote), branch);
        Self { branch: Some(branch), published: PublishedRecord::default() }
    }

    /// What the branch says; nothing while it has not been read.
    pub fn published(&self) -> &PublishedRecord {
        &self.published
    }

    /// Reads the branch, if that has not happened yet. If only a person can fix the branch, the
    /// source is read without it; if a retry may help, the read fails.
    pub fn read(
        &mut self,
        source: &SourceId,
        cancel: &Arc<AtomicBool>,
    ) -> Result<(), SourceReadError> {
        let Some(branch) = &self.branch else { return Ok(()) };
        match branch.read(source, cancel) {
            Ok(published) => self.published = published,
            Err(error) if error.needs_action() => log_error!(
                warn,
                &error,
                %source,
                branch = branch.branch(),
                "cannot read the status branch; gitwork may not notice a hub restored from a backup"
            ),
            Err(error) => return Err(SourceReadError::StatusBranchCheckpoint(error)),
        }
        self.branch = None;
        Ok(())
    }
}
