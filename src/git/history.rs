//! Which commit changed a folder last, and how a folder that is gone last stood.
//!
//! Both walk from the newest commit back, once for all paths. Trees with equal ids are never opened, so the
//! cost is in the commits walked and in what they changed, not in the size of the repository.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use git2::{Commit, Oid};

use super::error::ReadError;
use super::repository::{Repository, object_id};
use crate::core::name::{CommitId, RepoPath};
use crate::limits;

/// How a path went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departed {
    /// The commit without it.
    pub removed_by: CommitId,
    /// The parent of that commit which still had it.
    pub last_in: CommitId,
}

/// For each path that `head` has, the last commit at or before it that changed what is there. A merge counts
/// only where the path differs from all of its parents, as with `git log`. A path whose last change lies
/// beyond the history at hand (shallow, or past [`limits::HISTORY_COMMITS_MAX`]) is left out.
pub fn last_changed(
    repository: &Repository,
    head: CommitId,
    paths: &BTreeSet<RepoPath>,
    cancel: &AtomicBool,
) -> Result<BTreeMap<RepoPath, CommitId>, ReadError> {
    let walk = Walk::new(repository, paths, cancel);
    let mut answers = BTreeMap::new();
    let absent = walk.absent(head)?;
    let present = walk.all().filter(|index| !absent.contains(index)).collect();
    walk.run(head, present, |commit, parents, mut pending, next| {
        // A parent that has the same follows on; the first one takes it all when the trees are equal.
        for parent in parents {
            let differing = walk.differing(commit, Some(parent))?;
            let same = take(&mut pending, |index| !differing.contains(&index));
            next(parent, same);
        }
        let id = object_id(commit.id());
        answers.extend(walk.paths_of(&pending).map(|path| (path.clone(), id)));
        Ok(())
    })?;
    Ok(answers)
}

/// For each path that `head` does not have, the newest commit before it that removed the path, so that a
/// caller can read the path as it last stood. All lines of history are searched: what a merged branch removed
/// was removed there, together with what that branch had changed in it before. Paths that were never there, or
/// not in the history at hand, are left out.
pub fn last_stood(
    repository: &Repository,
    head: CommitId,
    paths: &BTreeSet<RepoPath>,
    cancel: &AtomicBool,
) -> Result<BTreeMap<RepoPath, Departed>, ReadError> {
    let walk = Walk::new(repository, paths, cancel);
    let mut answers: BTreeMap<usize, Departed> = BTreeMap::new();
    // A merge without a path that only one side had: the answer if the other side turns out never to have
    // had it.
    let mut dropped: BTreeMap<usize, Departed> = BTreeMap::new();
    let absent = walk.absent(head)?;
    walk.run(head, absent, |commit, parents, mut pending, next| {
        pending.retain(|index| !answers.contains_key(index));
        let removed_by = object_id(commit.id());
        let mut without: BTreeSet<usize> = BTreeSet::new();
        let mut departed: BTreeMap<usize, Departed> = BTreeMap::new();
        for parent in parents {
            let with = walk.differing(commit, Some(parent))?;
            let last_in = object_id(parent.id());
            let (had, lacked): (Vec<usize>, Vec<usize>) =
                pending.iter().partition(|index| with.contains(index));
            for index in had {
                departed.entry(index).or_insert(Departed { removed_by, last_in });
            }
            without.extend(&lacked);
            next(parent, lacked);
        }
        for (index, departed) in departed {
            let kept = if without.contains(&index) { &mut dropped } else { &mut answers };
            kept.entry(index).or_insert(departed);
        }
        Ok(())
    })?;
    dropped.append(&mut answers);
    Ok(dropped
        .into_iter()
        .filter_map(|(index, departed)| Some((walk.path(index)?.clone(), departed)))
        .collect())
}

/// Takes out what a condition holds for.
fn take(from: &mut Vec<usize>, condition: impl Fn(usize) -> bool) -> Vec<usize> {
    let (taken, kept) = from.iter().copied().partition(|index| condition(*index));
    *from = kept;
    taken
}

/// The paths asked about, as folders within folders.
#[derive(Default)]
struct Node {
    index: Option<usize>,
    children: BTreeMap<String, Node>,
}

/// What one commit has at a path.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    id: Oid,
    folder: bool,
}

struct Walk<'a> {
    repository: &'a Repository,
    paths: Vec<&'a RepoPath>,
    root: Node,
    cancel: &'a AtomicBool,
}

impl<'a> Walk<'a> {
    fn new(
        repository: &'a Repository,
        paths: &'a BTreeSet<RepoPath>,
        cancel: &'a AtomicBool,
    ) -> Self {
        let mut root = Node::default();
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
    fn absent(&self, commit: CommitId) -> Result<Vec<usize>, ReadError> {
        let commit = self.repository.find_commit(commit)?;
        // Everything that is there differs from nothing.
        let present = self.differing(&commit, None)?;
        Ok(self.all().filter(|index| !present.contains(index)).collect())
    }

    /// Goes from commit to commit, the newest first, with the paths still asked about in each. `visit` gets
    /// the commit, those of its parents that are at hand, the paths, and a way to hand paths on to a parent.
    /// Commits whose parents are not at hand are not visited: what they changed cannot be told.
    fn run(
        &self,
        head: CommitId,
        paths: Vec<usize>,
        mut visit: impl FnMut(
            &Commit<'_>,
            &[Commit<'_>],
            Vec<usize>,
            &mut dyn FnMut(&Commit<'_>, Vec<usize>),
        ) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
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
                return Err(ReadError::Cancelled { repository });
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

    /// The parents of a commit, or `None` where some are not at hand. libgit2 hides the parents that a shallow
    /// clone lacks, so the commit's own text is counted.
    fn parents<'c>(&self, commit: &Commit<'c>) -> Result<Option<Vec<Commit<'c>>>, ReadError> {
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
    ) -> Result<BTreeSet<usize>, ReadError> {
        let mut found = BTreeSet::new();
        let root = |commit: &Commit<'_>| Place { id: commit.tree_id(), folder: true };
        self.compare(&self.root, Some(root(commit)), other.map(root), &mut found)?;
        Ok(found)
    }

    fn compare(
        &self,
        node: &Node,
        one: Option<Place>,
        other: Option<Place>,
        found: &mut BTreeSet<usize>,
    ) -> Result<(), ReadError> {
        if one == other {
            return Ok(());
        }
        found.extend(node.index);
        if node.children.is_empty() {
            return Ok(());
        }
        let (one, other) = (self.tree(one)?, self.tree(other)?);
        for (name, child) in &node.children {
            let place = |tree: &Option<git2::Tree<'_>>| {
                let tree = tree.as_ref()?;
                let entry = tree.get_name(name)?;
                let folder = entry.kind() == Some(git2::ObjectType::Tree);
                Some(Place { id: entry.id(), folder })
            };
            self.compare(child, place(&one), place(&other), found)?;
        }
        Ok(())
    }

    /// What is in a folder; files and submodules have nothing in them. A folder that cannot be read is an
    /// error, not an empty one.
    fn tree(&self, place: Option<Place>) -> Result<Option<git2::Tree<'a>>, ReadError> {
        match place {
            Some(Place { id, folder: true }) => {
                let tree = self.repository.git().find_tree(id);
                tree.map(Some).map_err(|e| self.repository.failed(e))
            }
            _ => Ok(None),
        }
    }
}
