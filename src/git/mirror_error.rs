//! Errors of a mirror on disk. No message holds a secret: URLs carry none.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gitwork_core::model::operation_error::{ErrorClass, OperationError};

use super::lock_holder::LockHolder;

/// Why a mirror could not be opened.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show the meaning of the fields")]
pub enum MirrorError {
    /// Another process holds the lock of a folder that one process uses at a time.
    #[error("the folder {folder} is used by {holder}")]
    Locked { folder: PathBuf, holder: LockHolder },
    /// Another process held the lock of a mirror for too long.
    #[error("{holder} has been fetching into the mirror {folder} for more than {limit:?}")]
    Busy { folder: PathBuf, holder: LockHolder, limit: Duration },
    /// The caller cancelled the wait for another process.
    #[error("the wait for the mirror {folder} was cancelled")]
    Cancelled { folder: PathBuf },
    /// A file operation failed; `action` is a verb, as in "open".
    #[error("cannot {action} {path}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// libgit2 could not create or open the mirror.
    #[error("cannot create the mirror in {folder}")]
    Git { folder: PathBuf, source: git2::Error },
    /// The repository's or the proxy's URL is invalid.
    #[error(transparent)]
    Url(#[from] UrlError),
}

/// Why a repository's URL was refused. `shown` is the URL without possible secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show the meaning of the fields")]
pub enum UrlError {
    /// The URL has a user or a password in it.
    #[error("the repository URL {shown} holds credentials")]
    Credentials { shown: String },
    /// The scheme is not supported.
    #[error("the repository URL {shown} has the scheme `{scheme}`")]
    Scheme { shown: String, scheme: String },
    /// Any other problem, which follows the URL in the message.
    #[error("the repository URL {shown} {problem}")]
    Malformed { shown: String, problem: &'static str },
    /// The proxy's URL is invalid.
    #[error("the proxy URL {shown} {problem}")]
    Proxy { shown: String, problem: &'static str },
}

impl MirrorError {
    /// A failed file operation; `action` is a verb, as in "open".
    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
}

impl OperationError for MirrorError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Cancelled { .. } => ErrorClass::Cancelled,
            _ => ErrorClass::TRANSIENT,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Cancelled { .. } => "Cancelled",
            _ => "Mirror",
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Locked { .. } => "give each gitwork that syncs this source its own cache folder",
            Self::Busy { .. } => "wait until it has ended, or end it",
            Self::Url(UrlError::Scheme { .. }) => "use https, http, ssh or file",
            Self::Url(UrlError::Credentials { .. }) => {
                "remove them and name a file in `credentials`"
            }
            Self::Cancelled { .. } | Self::Io { .. } | Self::Git { .. } | Self::Url(_) => {
                return Vec::new();
            }
        };
        vec![hint.to_owned()]
    }
}
