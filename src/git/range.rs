//! New commits between commits, the state of their files, and the newest of several commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use git2::{ErrorCode, ObjectType, Sort};

use super::error::RepositoryError;
use super::repository::{Repository, object_id, oid};
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_core::signature::verification::FileState;

/// A commit's position in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCommit {
    /// Its id.
    pub id: CommitId,
    /// Its parents, in order.
    pub parents: Vec<CommitId>,
    /// Its committer date, in seconds since 1970.
    pub committed_seconds: i64,
    /// Whether it has the tree of its only parent.
    pub is_empty: bool,
}

impl Repository {
    /// The position of a commit in the history.
    pub fn new_commit(&self, id: CommitId) -> Result<NewCommit, RepositoryError> {
        let commit = self.find_commit(id)?;
        let only = if commit.parent_count() == 1 { commit.parent(0).ok() } else { None };
        Ok(NewCommit {
            id,
            parents: commit.parent_ids().map(object_id).collect(),
            committed_seconds: commit.time().seconds(),
            is_empty: only.is_some_and(|parent| parent.tree_id() == commit.tree_id()),
        })
    }

    /// The ancestors of `head`, itself included, that are not ancestors of `known`: parents before
    /// children, at most the newest `limit`. Commits of `known` that are not local are ignored.
    pub fn new_commits(
        &self,
        head: CommitId,
        known: &BTreeSet<CommitId>,
        limit: usize,
        cancel: &AtomicBool,
    ) -> Result<Vec<NewCommit>, RepositoryError> {
        let mut walk = self.git().revwalk().map_err(|e| self.failed(e))?;
        walk.set_sorting(Sort::TOPOLOGICAL).map_err(|e| self.failed(e))?;
        walk.push(oid(head)).map_err(|e| self.failed(e))?;
        for commit in known {
            match walk.hide(oid(*commit)) {
                Ok(()) => {}
                Err(e) if e.code() == ErrorCode::NotFound => {}
                Err(e) => return Err(self.failed(e)),
            }
        }
        let mut found = Vec::new();
        for id in walk {
            if cancel.load(Ordering::Relaxed) {
                return Err(RepositoryError::Cancelled { repository: self.path().to_owned() });
            }
            if found.len() == limit {
                break;
            }
            found.push(self.new_commit(object_id(id.map_err(|e| self.failed(e))?))?);
        }
        found.reverse();
        Ok(found)
    }

    /// The members of `commits` that are no other member's ancestor. Commits that are not local are
    /// ignored.
    pub fn newest(
        &self,
        commits: &BTreeSet<CommitId>,
        cancel: &AtomicBool,
    ) -> Result<BTreeSet<CommitId>, RepositoryError> {
        let here = |commit: &&CommitId| self.git().find_commit(oid(**commit)).is_ok();
        let mut open: BTreeSet<CommitId> = commits.iter().filter(here).copied().collect();
        let mut walk = self.git().revwalk().map_err(|e| self.failed(e))?;
        // Children come before their parents: a commit that was no one's parent yet is the newest
        // of its line.
        walk.set_sorting(Sort::TOPOLOGICAL).map_err(|e| self.failed(e))?;
        for commit in &open {
            walk.push(oid(*commit)).map_err(|e| self.failed(e))?;
        }
        let (mut built_on, mut newest) = (BTreeSet::new(), BTreeSet::new());
        for id in walk {
            if open.is_empty() {
                break;
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(RepositoryError::Cancelled { repository: self.path().to_owned() });
            }
            let commit = self.find_commit(object_id(id.map_err(|e| self.failed(e))?))?;
            let id = object_id(commit.id());
            if open.remove(&id) && !built_on.contains(&id) {
                newest.insert(id);
            }
            built_on.extend(commit.parent_ids().map(object_id));
        }
        Ok(newest)
    }

    /// Whether a commit is in the local repository.
    pub fn has(&self, commit: CommitId) -> bool {
        self.git().find_commit(oid(commit)).is_ok()
    }

    /// The state of files below a path in a commit.
    pub fn files<'f>(
        &self,
        commit: CommitId,
        below: &RepoPath,
        files: impl Iterator<Item = &'f RepoPath>,
    ) -> Result<BTreeMap<RepoPath, FileState>, RepositoryError> {
        let tree = self.tree_below(commit, below)?;
        let state = |file: &RepoPath| -> Result<FileState, RepositoryError> {
            let Some(tree) = &tree else { return Ok(None) };
            match tree.get_path(file.as_str().as_ref()) {
                Ok(entry) if entry.kind() == Some(ObjectType::Tree) => Ok(None),
                Ok(entry) => {
                    // libgit2 normalizes modes.
                    let mode = u32::try_from(entry.filemode()).unwrap_or_default();
                    Ok(Some((mode, object_id(entry.id()))))
                }
                Err(e) if e.code() == ErrorCode::NotFound => Ok(None),
                Err(e) => Err(self.failed(e)),
            }
        };
        files.map(|file| Ok((file.clone(), state(file)?))).collect()
    }

    /// The tree at a path of a commit; `None` if there is no folder.
    pub(crate) fn tree_below(
        &self,
        commit: CommitId,
        below: &RepoPath,
    ) -> Result<Option<git2::Tree<'_>>, RepositoryError> {
        let mut folder = RepoPath::root();
        let mut tree = self.find_folder(self.find_commit(commit)?.tree_id(), &folder)?;
        for part in below.parts() {
            let entry = tree.get_name(part).filter(|entry| entry.kind() == Some(ObjectType::Tree));
            let Some(id) = entry.map(|entry| entry.id()) else { return Ok(None) };
            folder = folder.join(part);
            tree = self.find_folder(id, &folder)?;
        }
        Ok(Some(tree))
    }
}
