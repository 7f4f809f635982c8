//! Questions about the signatures of a source's commits, outside of a read.

use std::sync::atomic::AtomicBool;

use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_report::review::Signatures;

use crate::error::SourceReadError;
use crate::origin::Origin;
use crate::policy_file::requires_signatures;
use crate::reading::Reading;
use crate::verification::Verification;

/// Questions about the signatures of one source's commits. All calls block.
pub struct SourceSignatures<'a> {
    /// The source's path in its repository.
    path: &'a RepoPath,
    origin: &'a Origin,
    reading: &'a Reading,
}

impl<'a> SourceSignatures<'a> {
    pub(crate) fn new(path: &'a RepoPath, origin: &'a Origin, reading: &'a Reading) -> Self {
        Self { path, origin, reading }
    }

    /// The daemon's verdict on the signatures of the commits from `base` to `head`, assuming that
    /// `base` is verified; `None` if nobody requires signatures. Without `head` it is the commit
    /// that was read last, or for a folder on disk the checked-out commit.
    pub fn check_range(
        &self,
        verification: &mut Verification,
        (base, head): (CommitId, Option<CommitId>),
        cancel: &AtomicBool,
    ) -> Result<Option<Signatures>, SourceReadError> {
        let last = match self.origin {
            Origin::Mirror { .. } => self.reading.last_commit(),
            Origin::Directory(_) => None,
        };
        self.origin.with_repository(self.path, |repository, path| {
            let head = match (head, last) {
                (Some(head), _) | (None, Some(head)) => head,
                (None, None) => repository.resolve("HEAD")?,
            };
            let now = self.reading.now();
            Ok(verification.judge_range(repository, path, [base, head], now, cancel)?)
        })
    }

    /// Whether `gitwork.yaml` of a commit requires signatures; never for a folder on disk.
    pub fn are_required(&self, commit: CommitId) -> Result<bool, SourceReadError> {
        match self.origin {
            Origin::Mirror { mirror, .. } => {
                Ok(requires_signatures(mirror.repository(), self.path, commit)?)
            }
            Origin::Directory(_) => Ok(false),
        }
    }
}
