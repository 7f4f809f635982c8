//! The status branch as a checkpoint of the source's record on the hub. It is in Git, so a hub
//! restored from a backup does not restore an older one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::push_error::PushError;
use super::remote::Remote;
use super::status_branch::StatusBranch;
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{GroupName, SourceId};
use gitwork_report::status_branch::StatusSummary;

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

    /// What the branch says of the source; nothing if there is no such branch, or none of this
    /// source. Blocks.
    pub fn read(
        &self,
        source: &SourceId,
        cancel: &Arc<AtomicBool>,
    ) -> Result<PublishedRecord, PushError> {
        let branch = StatusBranch::open(&self.folder, self.remote.clone(), &self.branch)?;
        let summary = branch.published(cancel)?;
        let ours = summary.filter(|summary| summary.source == source.as_str());
        Ok(ours.map(|summary| PublishedRecord::of(&summary)).unwrap_or_default())
    }
}

/// What a status branch says of a source's record on the hub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublishedRecord {
    /// The generation of the record when the status was last published.
    pub generation: u64,
    /// The contents of groups that were rejected then.
    pub rejected: BTreeMap<GroupName, Digest>,
}

impl PublishedRecord {
    fn of(summary: &StatusSummary) -> Self {
        let generation = Some(summary.record_generation);
        let generation = generation.filter(|number| *number <= RECORD_GENERATION_MAX);
        let rejected = summary.rollouts.iter().filter(|rollout| rollout.rejected);
        let rejected = rejected.filter_map(|rollout| {
            let group = GroupName::parse(&rollout.group).ok()?;
            Some((group, Digest::parse(&rollout.content)?))
        });
        Self { generation: generation.unwrap_or_default(), rejected: rejected.collect() }
    }
}
