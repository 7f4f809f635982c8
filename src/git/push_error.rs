//! Errors of pushing the status branch.

use std::path::PathBuf;

use super::error::FetchError;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_report::status_branch::SUMMARY_FILE;

/// Why the status was not pushed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show the meaning of the fields")]
pub enum PushError {
    /// The remote cannot be reached, or refuses the credentials.
    #[error(transparent)]
    Remote(#[from] FetchError),
    /// Another program or source owns the branch.
    #[error(
        "the branch {branch} is not gitwork's for this source (it has no {SUMMARY_FILE} of \
         source {source_id})"
    )]
    Foreign { branch: String, source_id: String },
    /// The remote refused the push; `message` is its text.
    #[error("the remote refused a push to {branch}: {message}")]
    Rejected { branch: String, message: String },
    /// Other pushes to the branch came first, several times in a row.
    #[error("other pushes to {branch} came first each time; the status is pushed later")]
    Contended { branch: String },
    /// The name cannot be a branch name.
    #[error("{name:?} is not a valid branch name")]
    BadName { name: String },
    /// libgit2 failed.
    #[error("Git failed on {folder}, the repository for the status branch")]
    Git { folder: PathBuf, source: git2::Error },
}

impl OperationError for PushError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Remote(error) => error.class(),
            Self::Foreign { .. } | Self::Rejected { .. } | Self::BadName { .. } => {
                ErrorClass::NeedsAction
            }
            Self::Contended { .. } | Self::Git { .. } => ErrorClass::TRANSIENT,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Remote(error) => error.reason(),
            Self::Foreign { .. } => "ForeignBranch",
            Self::Rejected { .. } => "PushRejected",
            Self::Contended { .. } => "Contended",
            Self::BadName { .. } => "BranchName",
            Self::Git { .. } => "Repository",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Remote(error) => error.hints(),
            Self::Foreign { .. } => vec!["name another branch, or delete it".to_owned()],
            Self::Rejected { .. } => vec!["allow it for these credentials".to_owned()],
            Self::Contended { .. } | Self::BadName { .. } | Self::Git { .. } => Vec::new(),
        }
    }
}
