//! The origin of a source's files: a locked mirror of a repository, or a folder on disk.

use std::path::{Path, PathBuf};

use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_git::{
    Directory, GitSnapshot, LocalRepository, Mirror, MirrorLimits, Reference, Remote,
};

use crate::config::{SourceConfig, SourceLocation};
use crate::error::SourceReadError;

/// An opened mirror or folder.
pub(crate) enum Origin {
    Mirror { mirror: Box<Mirror>, reference: Reference },
    Directory(Directory),
}

/// The folder of a repository's mirror below the cache.
pub(crate) fn mirror_folder(cache: &Path, url: &str) -> PathBuf {
    let hash = Digest::of(url.as_bytes()).to_string();
    cache.join(hash.get(..16).unwrap_or_default()).with_extension("git")
}

impl Origin {
    /// Opens and locks the mirror, or names the folder. Nothing is fetched or read yet.
    pub fn open(config: &SourceConfig) -> Result<Self, SourceReadError> {
        Ok(match &config.repository {
            SourceLocation::Git { remote, reference, cache } => {
                let folder = mirror_folder(cache, &remote.url);
                let mirror = Mirror::open(&folder, Remote::clone(remote), MirrorLimits::default())?;
                Self::Mirror { mirror: Box::new(mirror), reference: reference.clone() }
            }
            SourceLocation::Directory(folder) => {
                Self::Directory(Directory::new(&folder.join(config.path.as_str())))
            }
        })
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
            | gitwork_git::RepositoryError::NotAFolder { .. },
        ) => Ok(None),
        Err(error) => Err(error),
    }
}
