//! Errors of reading a source.

use std::path::PathBuf;

use gitwork_core::model::name::CommitId;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::model::snapshot::ObjectError;
use gitwork_core::signature::verification::VerificationFailure;
use gitwork_git::directory::DirectoryError;
use gitwork_git::{FetchError, MirrorError, PushError};

/// Why a source could not be read. Its works are unknown then, not absent.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show the meaning of the fields")]
pub enum SourceReadError {
    /// The mirror cannot be opened.
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    /// The fetch failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The repository on disk cannot be read.
    #[error(transparent)]
    Repository(#[from] gitwork_git::RepositoryError),
    /// The folder on disk cannot be read.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// An object of the repository cannot be read.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// The status branch cannot be read, which has the last published record generation.
    #[error("cannot read the checkpoint on the status branch: {0}")]
    StatusBranchCheckpoint(PushError),
    /// No commit may be applied, or it is unknown which.
    #[error(transparent)]
    Unverified(#[from] VerifyError),
    /// The source requires signatures, but is a folder on disk.
    #[error("{path} is a folder on disk, which has no signatures")]
    NothingSigned { path: PathBuf },
}

impl SourceReadError {
    /// The verification failure, if that is the cause.
    pub fn verification_failure(&self) -> Option<&VerificationFailure> {
        match self {
            Self::Unverified(VerifyError::Failed(failure)) => Some(failure),
            _ => None,
        }
    }

    /// The error of the failed step; `None` for errors of this crate.
    fn inner(&self) -> Option<&dyn OperationError> {
        match self {
            Self::Mirror(error) => Some(error),
            Self::Fetch(error) => Some(error),
            Self::Repository(error) => Some(error),
            Self::Directory(error) => Some(error),
            Self::StatusBranchCheckpoint(error) => Some(error),
            Self::Unverified(error) => Some(error),
            Self::Objects(error) => Some(error),
            Self::NothingSigned { .. } => None,
        }
    }
}

impl OperationError for SourceReadError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::NothingSigned { .. } => ErrorClass::NeedsAction,
            _ => self.inner().map_or(ErrorClass::TRANSIENT, OperationError::class),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::NothingSigned { .. } => "NothingSigned",
            _ => self.inner().map_or("Repository", OperationError::reason),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NothingSigned { .. } => {
                vec!["name its repository by a URL or a branch, or leave out `signers`".to_owned()]
            }
            _ => self.inner().map(OperationError::hints).unwrap_or_default(),
        }
    }
}

/// Why no commit may be applied, or why it is unknown which.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show the meaning of the fields")]
pub enum VerifyError {
    /// A key file cannot be read.
    #[error(transparent)]
    Keys(#[from] FetchError),
    /// The repository on disk cannot be read.
    #[error(transparent)]
    Repository(#[from] gitwork_git::RepositoryError),
    /// An object of the repository cannot be read.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// Too many commits since the last verified one.
    #[error("{commit} has more than {limit} unverified commits before it")]
    TooMany { commit: CommitId, limit: usize },
    /// The commit does not satisfy the signers' policy.
    #[error(transparent)]
    Failed(Box<VerificationFailure>),
}

impl OperationError for VerifyError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Keys(error) => error.class(),
            Self::Repository(error) => error.class(),
            Self::Objects(error) => error.class(),
            Self::TooMany { .. } | Self::Failed(_) => ErrorClass::NeedsAction,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Keys(error) => error.reason(),
            Self::Repository(error) => error.reason(),
            Self::Objects(error) => error.reason(),
            Self::TooMany { .. } => "TooManyUnverifiedCommits",
            Self::Failed(_) => "VerificationFailed",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Keys(error) => error.hints(),
            Self::Repository(error) => error.hints(),
            Self::TooMany { .. } => {
                vec!["let the source follow an older commit first".to_owned()]
            }
            Self::Objects(_) | Self::Failed(_) => Vec::new(),
        }
    }
}
