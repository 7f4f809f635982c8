//! The status branch as a witness of what was done on the hub: it is in Git, so that no backup of the hub brings back an
//! older one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::remote::Remote;
use super::statusbranch::{PushError, StatusBranch};
use crate::core::name::SourceId;

/// More moves than this were never made: at one a second, they take 136 years. Who may push to the branch must not have a
/// count believed past which none can be told apart.
const MOVES_MAX: u64 = u32::MAX as u64;

/// Where the status branch of one source is.
#[derive(Debug, Clone)]
pub struct Witness {
    folder: PathBuf,
    remote: Remote,
    branch: String,
}

impl Witness {
    /// `folder` is this witness's alone.
    pub fn new(folder: &Path, remote: Remote, branch: &str) -> Self {
        Self { folder: folder.to_owned(), remote, branch: branch.to_owned() }
    }

    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// The count of moves of the source's record on the hub when the status was last published; 0 where there is no such
    /// branch, or none of this source. Blocks.
    pub fn moves(&self, source: &SourceId, cancel: &Arc<AtomicBool>) -> Result<u64, PushError> {
        let branch = StatusBranch::open(&self.folder, self.remote.clone(), &self.branch)?;
        let summary = branch.published(cancel)?;
        let moves = summary.filter(|told| told.source == source.as_str()).map(|told| told.moves);
        Ok(moves.filter(|moves| *moves <= MOVES_MAX).unwrap_or_default())
    }
}
