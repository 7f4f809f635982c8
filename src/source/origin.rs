//! The origin of a source's files: a mirror of a repository, or a folder on disk.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_git::{
    Directory, FetchError, GitSnapshot, LocalRepository, Mirror, Mirrors, Reference, Remote,
};

use crate::config::{SourceConfig, SourceLocation};
use crate::error::SourceReadError;

/// An opened mirror or folder.
pub(crate) enum Origin {
    Mirror {
        mirror: Box<Mirror>,
        reference: Reference,
        /// A fetch ahead of the next read that failed, and when it began.
        failed: Option<(Instant, FetchError)>,
    },
    Directory(Directory),
}

impl Origin {
    /// Opens the mirror, or names the folder. Nothing is fetched or read yet.
    pub fn open(config: &SourceConfig, mirrors: &Mirrors) -> Result<Self, SourceReadError> {
        Ok(match &config.repository {
            SourceLocation::Git { remote, reference, cache } => {
                let remote = Remote::clone(remote);
                let mirror = mirrors.open(cache, remote, reference.clone())?;
                Self::Mirror {
                    mirror: Box::new(mirror),
                    reference: reference.clone(),
                    failed: None,
                }
            }
            SourceLocation::Directory(folder) => {
                Self::Directory(Directory::new(&folder.join(config.path.as_str())))
            }
        })
    }

    /// Fetches the newest commit ahead of the next read; `None` if that fails, and for a folder on
    /// disk.
    pub fn fetch_ahead(&mut self, cancel: &Arc<AtomicBool>) -> Option<CommitId> {
        let Self::Mirror { mirror, reference, failed } = self else { return None };
        let began = Instant::now();
        match mirror.fetch(reference, cancel) {
            Ok(fetched) => Some(fetched.commit),
            Err(error) => {
                *failed = Some((began, error));
                None
            }
        }
    }

    /// Calls `act` with the repository and the source's path in it: the mirror, or the clone that
    /// the folder is in.
    pub fn with_repository<T>(
        &self,
        path: &RepoPath,
        act: impl FnOnce(&gitwork_git::Repository, &RepoPath) -> Result<T, SourceReadError>,
    ) -> Result<T, SourceReadError> {
        match self {
            Self::Mirror { mirror, .. } => act(mirror.repository(), path),
            Self::Directory(directory) => {
                let local = LocalRepository::discover(directory.root())?;
                act(local.repository(), local.path())
            }
        }
    }
}

/// The tree at a path of a commit; `None` if the commit has no such folder. An unreadable folder is
/// an error, never absent.
pub(crate) fn folder_at(
    mirror: &Mirror,
    commit: CommitId,
    path: &RepoPath,
) -> Result<Option<GitSnapshot>, gitwork_git::RepositoryError> {
    match mirror.snapshot(commit, path) {
        Ok(snapshot) => Ok(Some(snapshot)),
        Err(
            gitwork_git::RepositoryError::PathMissing { .. }
            | gitwork_git::RepositoryError::NotAFolder { .. }
            | gitwork_git::RepositoryError::MalformedFolder { .. },
        ) => Ok(None),
        Err(error) => Err(error),
    }
}
