//! The last commit that changed a folder, and the commit that removed a folder.
//!
//! Both searches walk from the newest commit back, once for all paths. Trees with equal ids are
//! never opened: the cost grows with the commits walked and their changes, not with the size of
//! the repository.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use git2::{Commit, Oid};

use super::error::RepositoryError;
use super::repository::{Repository, object_id};
use crate::limits;
use gitwork_core::model::name::{CommitId, RepoPath};

/// The removal of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathRemoval {
    /// The first commit without the path.
    pub removed_by: CommitId,
    /// The parent of that commit that still has the path.
    pub last_in: CommitId,
}

/// For each path that `head` has, the last commit at or before `head` that changed it.
///
/// A merge counts only where the path differs from all of its parents, as in `git log`. A path
/// whose last change lies beyond the local history (shallow clone, or more than
/// [`limits::HISTORY_COMMITS_MAX`] commits) is left out.
pub fn last_changed(
    repository: &Repository,
    head: CommitId,
    paths: &BTreeSet<RepoPath>,
    cancel: &AtomicBool,
) -> Result<BTreeMap<RepoPath, CommitId>, RepositoryError> {
    let walk = Walk::new(repository, paths, cancel);
    let mut answers = BTreeMap::new();
    let absent = walk.absent(head)?;
    let present = walk.all().filter(|index| !absent.contains(index)).collect();
    walk.run(head, present, |commit, parents, mut pending, next| {
        // A path that equals a parent's is followed into that parent, the first one that fits.
        for parent in parents {
            let differing = walk.differing(commit, Some(parent))?;
            let same = take_matching(&mut pending, |index| !differing.contains(&index));
            next(parent, same);
        }
        let id = object_id(commit.id());
        answers.extend(walk.paths_of(&pending).map(|path| (path.clone(), id)));
        Ok(())
    })?;
    Ok(answers)
}

/// For each path that `head` does not have, the newest commit before `head` that removed it, so
/// that a caller can read the last content of the path.
///
/// All lines of history are searched: a removal on a merged branch counts there, with the changes
/// that the branch made before. A path that never existed, or not in the local history, is left
/// out.
pub fn last_removals(
    repository: &Repository,
    head: CommitId,
    paths: &BTreeSet<RepoPath>,
    cancel: &AtomicBool,
) -> Result<BTreeMap<RepoPath, PathRemoval>, RepositoryError> {
    let walk = Walk::new(repository, paths, cancel);
    let mut answers: BTreeMap<usize, PathRemoval> = BTreeMap::new();
    // A merge without a path that only one parent has: the answer unless the other parent's line
    // removed the path itself.
    let mut dropped: BTreeMap<usize, PathRemoval> = BTreeMap::new();
    let absent = walk.absent(head)?;
    walk.run(head, absent, |commit, parents, mut pending, next| {
        pending.retain(|index| !answers.contains_key(index));
        let removed_by = object_id(commit.id());
        let mut without: BTreeSet<usize> = BTreeSet::new();
        let mut removals: BTreeMap<usize, PathRemoval> = BTreeMap::new();
        for parent in parents {
            let with = walk.differing(commit, Some(parent))?;
            let last_in = object_id(parent.id());
            let (had, lacked): (Vec<usize>, Vec<usize>) =
                pending.iter().partition(|index| with.contains(index));
            for index in had {
                removals.entry(index).or_insert(PathRemoval { removed_by, last_in });
            }
            without.extend(&lacked);
            next(parent, lacked);
        }
        for (index, removal) in removals {
            let kept = if without.contains(&index) { &mut dropped } else { &mut answers };
            kept.entry(index).or_insert(removal);
        }
        Ok(())
    })?;
    dropped.append(&mut answers);
    Ok(dropped
        .into_iter()
        .filter_map(|(index, removal)| Some((walk.path(index)?.clone(), removal)))
        .collect())
}

/// Visits earlier versions of paths: the commits that had another version than their children, or
/// no version, newest first. A path is not followed beyond a commit for which `visit` gives true.
pub fn earlier_versions(
    repository: &Repository,
    head: CommitId,
    paths: &BTreeSet<RepoPath>,
    cancel: &AtomicBool,
    mut visit: impl FnMut(&RepoPath, CommitId) -> bool,
) -> Result<(), RepositoryError> {
    let walk = Walk::new(repository, paths, cancel);
    walk.run(head, walk.all().collect(), |commit, parents, mut pending, next| {
        for parent in parents {
            let differing = walk.differing(commit, Some(parent))?;
            let same = take_matching(&mut pending, |index| !differing.contains(&index));
            next(parent, same);
        }
        for parent in parents {
            let id = object_id(parent.id());
            let mut is_done = |index| walk.path(index).is_none_or(|path| visit(path, id));
            let followed = pending.iter().copied().filter(|index| !is_done(*index));
            next(parent, followed.collect());
        }
        Ok(())
    })
}

/// Moves the paths that satisfy a condition out of `from`.
fn take_matching(from: &mut Vec<usize>, condition: impl Fn(usize) -> bool) -> Vec<usize> {
    let (taken, kept) = from.iter().copied().partition(|index| condition(*index));
    *from = kept;
    taken
}

/// The paths in question as a tree of folders.
#[derive(Default)]
struct PathNode {
    index: Option<usize>,
    children: BTreeMap<String, PathNode>,
}

/// The tree entry of one commit at a path.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PathEntry {
    id: Oid,
    folder: bool,
}

struct Walk<'a> {
    repository: &'a Repository,
    paths: Vec<&'a RepoPath>,
    root: PathNode,
    cancel: &'a AtomicBool,
}

impl<'a> Walk<'a> {
    fn new(
        repository: &'a Repository,
        paths: &'a BTreeSet<RepoPath>,
        cancel: &'a AtomicBool,
    ) -> Self {
        let mut root = PathNode::default();
        let paths: Vec<&RepoPath> = paths.iter().collect();
        for (index, path) in paths.iter().enumerate() {
            let mut node = &mut root;
            for part in path.parts() {
                node = node.children.entry(part.to_owned()).or_default();
            }
            node.index = Some(index);
        }
        Self { repository, paths, root, cancel }
    }

    fn all(&self) -> impl Iterator<Item = usize> {
        0..self.paths.len()
    }

    fn path(&self, index: usize) -> Option<&'a RepoPath> {
        self.paths.get(index).copied()
    }

    fn paths_of(&self, indexes: &[usize]) -> impl Iterator<Item = &'a RepoPath> {
        indexes.iter().filter_map(|index| self.path(*index))
    }

    /// The paths that a commit does not have.
    fn absent(&self, commit: CommitId) -> Result<Vec<usize>, RepositoryError> {
        let commit = self.repository.find_commit(commit)?;
        // Every present path differs from an empty tree.
        let present = self.differing(&commit, None)?;
        Ok(self.all().filter(|index| !present.contains(index)).collect())
    }

    /// Walks from commit to commit, the newest first, with the paths still in question at each.
    /// `visit` gets the commit, its local parents, the paths, and a function that passes paths on
    /// to a parent. A commit without local parents (shallow clone) is not visited: its changes are
    /// unknown.
    fn run(
        &self,
        head: CommitId,
        paths: Vec<usize>,
        mut visit: impl FnMut(
            &Commit<'_>,
            &[Commit<'_>],
            Vec<usize>,
            &mut dyn FnMut(&Commit<'_>, Vec<usize>),
        ) -> Result<(), RepositoryError>,
    ) -> Result<(), RepositoryError> {
        let mut pending: HashMap<Oid, Vec<usize>> = HashMap::new();
        let mut queue: BinaryHeap<(i64, Oid)> = BinaryHeap::new();
        let start = self.repository.find_commit(head)?;
        if !paths.is_empty() {
            queue.push((start.time().seconds(), start.id()));
            pending.insert(start.id(), paths);
        }
        for _ in 0..limits::HISTORY_COMMITS_MAX {
            let Some((_, id)) = queue.pop() else { return Ok(()) };
            if self.cancel.load(Ordering::Relaxed) {
                let repository = self.repository.path().to_owned();
                return Err(RepositoryError::Cancelled { repository });
            }
            let Some(mut paths) = pending.remove(&id) else { continue };
            paths.sort_unstable();
            paths.dedup();
            let commit = self.repository.find_commit(object_id(id))?;
            let Some(parents) = self.parents(&commit)? else { continue };
            let mut next = |parent: &Commit<'_>, paths: Vec<usize>| {
                if !paths.is_empty() {
                    queue.push((parent.time().seconds(), parent.id()));
                    pending.entry(parent.id()).or_default().extend(paths);
                }
            };
            visit(&commit, &parents, paths, &mut next)?;
        }
        Ok(())
    }

    /// The parents of a commit, or `None` where some are not at hand. libgit2 hides the parents
    /// that a shallow clone lacks, so the commit's own text is counted.
    fn parents<'c>(&self, commit: &Commit<'c>) -> Result<Option<Vec<Commit<'c>>>, RepositoryError> {
        let header = commit.raw_header_bytes();
        let written = header.split(|b| *b == b'\n').filter(|l| l.starts_with(b"parent ")).count();
        if written != commit.parent_count() {
            return Ok(None);
        }
        let mut parents = Vec::with_capacity(written);
        for parent in commit.parents() {
            parents.push(parent);
        }
        if parents.len() != written {
            return Ok(None);
        }
        Ok(Some(parents))
    }

    /// The paths at which two commits differ, or that the first one has if there is no other.
    fn differing(
        &self,
        commit: &Commit<'_>,
        other: Option<&Commit<'_>>,
    ) -> Result<BTreeSet<usize>, RepositoryError> {
        let mut found = BTreeSet::new();
        let root = |commit: &Commit<'_>| PathEntry { id: commit.tree_id(), folder: true };
        self.compare(&self.root, Some(root(commit)), other.map(root), &mut found)?;
        Ok(found)
    }

    fn compare(
        &self,
        node: &PathNode,
        one: Option<PathEntry>,
        other: Option<PathEntry>,
        found: &mut BTreeSet<usize>,
    ) -> Result<(), RepositoryError> {
        if one == other {
            return Ok(());
        }
        found.extend(node.index);
        if node.children.is_empty() {
            return Ok(());
        }
        let (one, other) = (self.tree(one)?, self.tree(other)?);
        for (name, child) in &node.children {
            let child_entry = |tree: &Option<git2::Tree<'_>>| {
                let tree = tree.as_ref()?;
                let entry = tree.get_name(name)?;
                let folder = entry.kind() == Some(git2::ObjectType::Tree);
                Some(PathEntry { id: entry.id(), folder })
            };
            self.compare(child, child_entry(&one), child_entry(&other), found)?;
        }
        Ok(())
    }

    /// The tree of a folder; `None` for a file, a submodule or a malformed folder: nothing of such
    /// a commit was ever applied. An object that is missing or damaged is an error, never an empty
    /// folder.
    fn tree(&self, entry: Option<PathEntry>) -> Result<Option<git2::Tree<'a>>, RepositoryError> {
        match entry {
            Some(PathEntry { id, folder: true }) => match self.repository.git().find_tree(id) {
                Ok(tree) => Ok(Some(tree)),
                Err(_) if self.repository.is_intact(id) => Ok(None),
                Err(e) => Err(self.repository.failed(e)),
            },
            _ => Ok(None),
        }
    }
}
