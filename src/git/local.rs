//! A clone that is already on disk, read only: its commits, whatever its working tree looks like.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::ReadError;
use super::repository::{Repository, open_error};
use crate::core::name::RepoPath;

/// An existing clone and the place of a folder in it.
pub struct LocalRepository {
    repository: Repository,
    path: RepoPath,
    working_tree: Option<PathBuf>,
}

impl LocalRepository {
    /// Finds the repository that a folder is in: a clone, a linked working tree, or a bare repository.
    pub fn discover(folder: &Path) -> Result<Self, ReadError> {
        let git = git2::Repository::discover(folder).map_err(|e| open_error(folder, e))?;
        let working_tree = git.workdir().map(Path::to_owned);
        let path = match &working_tree {
            Some(root) => place(root, folder)?,
            None => RepoPath::root(),
        };
        let repository = Repository::new(git, Arc::default());
        Ok(Self { repository, path, working_tree })
    }

    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Where the folder is in the repository; the root for a bare one.
    pub fn path(&self) -> &RepoPath {
        &self.path
    }

    /// The top folder of the working tree, if there is one.
    pub fn working_tree(&self) -> Option<&Path> {
        self.working_tree.as_deref()
    }
}

fn place(root: &Path, folder: &Path) -> Result<RepoPath, ReadError> {
    let outside = || ReadError::NoRepository { path: folder.to_owned() };
    let root = root.canonicalize().map_err(|_| outside())?;
    let folder = folder.canonicalize().map_err(|_| outside())?;
    // Inside `.git` the repository is found as well; its root is what is meant then.
    let inside = folder.strip_prefix(&root).unwrap_or(Path::new(""));
    if inside.starts_with(".git") {
        return Ok(RepoPath::root());
    }
    let text = inside.to_str().ok_or_else(outside)?;
    RepoPath::parse(text).ok_or_else(outside)
}
