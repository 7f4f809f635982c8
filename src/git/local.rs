//! An existing clone on disk, read only: its commits, regardless of its working tree.

use std::path::{Path, PathBuf};

use super::canonical_url::canonical_repository;
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
        let repository = Repository::new(git);
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

    /// The repository that this one is a clone of, as [`canonical_repository`] names it: its remote
    /// `origin`, or its only remote.
    pub fn upstream(&self) -> Option<String> {
        let git = self.repository.git();
        let config = git.config().and_then(|mut config| config.snapshot()).ok()?;
        let names = git.remotes().ok()?;
        let mut names = names.iter().flatten().flatten();
        let name = match (names.next(), names.next()) {
            (Some(only), None) => only,
            _ => "origin",
        };
        // Without the replacements of `url.*.insteadOf`, which differ between users.
        let url = config.get_string(&format!("remote.{name}.url")).ok()?;
        let base = self.working_tree().unwrap_or_else(|| git.path());
        Some(canonical_repository(&url, base))
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
