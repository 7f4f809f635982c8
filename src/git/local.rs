//! An existing clone on disk, read only: its commits, regardless of its working tree.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::RepositoryError;
use super::repository::{Repository, open_error};
use gitwork_core::model::name::RepoPath;

/// An existing clone, and the path of one folder in it.
pub struct LocalRepository {
    repository: Repository,
    path: RepoPath,
    working_tree: Option<PathBuf>,
}

impl LocalRepository {
    /// Finds the repository that a folder is in: a clone, a linked working tree, or a bare
    /// repository.
    pub fn discover(folder: &Path) -> Result<Self, RepositoryError> {
        let git = git2::Repository::discover(folder).map_err(|e| open_error(folder, e))?;
        let working_tree = git.workdir().map(Path::to_owned);
        let path = match &working_tree {
            Some(root) => path_in(root, folder)?,
            None => RepoPath::root(),
        };
        let repository = Repository::new(git, Arc::default());
        Ok(Self { repository, path, working_tree })
    }

    /// The clone.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The folder's path in the repository; the root for a bare repository.
    pub fn path(&self) -> &RepoPath {
        &self.path
    }

    /// The top folder of the working tree, if there is one.
    pub fn working_tree(&self) -> Option<&Path> {
        self.working_tree.as_deref()
    }
}

fn path_in(root: &Path, folder: &Path) -> Result<RepoPath, RepositoryError> {
    let outside = || RepositoryError::NoRepository { path: folder.to_owned() };
    let root = root.canonicalize().map_err(|_| outside())?;
    let folder = folder.canonicalize().map_err(|_| outside())?;
    // A folder inside `.git` stands for the whole repository.
    let inside = folder.strip_prefix(&root).unwrap_or(Path::new(""));
    if inside.starts_with(".git") {
        return Ok(RepoPath::root());
    }
    let text = inside.to_str().ok_or_else(outside)?;
    RepoPath::parse(text).ok_or_else(outside)
}
