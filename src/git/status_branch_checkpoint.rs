//! The status branch as a checkpoint of the source's record on the hub. It is in Git, so a hub
//! restored from a backup does not restore an older one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::push_error::PushError;
use super::remote::Remote;
use super::status_branch::StatusBranch;
use gitwork_core::model::name::SourceId;

/// The highest credible generation: one a second for 136 years. A higher number on the branch is
/// ignored, so that a client with push rights cannot make gitwork trust it.
const RECORD_GENERATION_MAX: u64 = u32::MAX as u64;

/// The location of one source's status branch.
#[derive(Debug, Clone)]
pub struct StatusBranchCheckpoint {
    folder: PathBuf,
    remote: Remote,
    branch: String,
}

impl StatusBranchCheckpoint {
    /// A checkpoint that keeps its repository in `folder`, which nothing else uses.
    pub fn new(folder: &Path, remote: Remote, branch: &str) -> Self {
        Self { folder: folder.to_owned(), remote, branch: branch.to_owned() }
    }

    /// The branch's name.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// The generation of the source's record on the hub when the status was last published; 0 if
    /// there is no such branch, or none of this source. Blocks.
    pub fn record_generation(
        &self,
        source: &SourceId,
        cancel: &Arc<AtomicBool>,
    ) -> Result<u64, PushError> {
        let branch = StatusBranch::open(&self.folder, self.remote.clone(), &self.branch)?;
        let summary = branch.published(cancel)?;
        let ours = summary.filter(|summary| summary.source == source.as_str());
        let generation = ours.map(|summary| summary.record_generation);
        Ok(generation.filter(|number| *number <= RECORD_GENERATION_MAX).unwrap_or_default())
    }
}
