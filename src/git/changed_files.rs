//! The files that differ between two commits.
//!
//! Ten equal folders in each of 14 levels are a few hundred bytes in Git and 10^14 files. So each
//! entry counts towards a bound, and the comparison can be cancelled.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use git2::{ObjectType, Oid, Tree, TreeEntry};

use super::error::RepositoryError;
use super::repository::{Repository, object_id};
use crate::limits;
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_core::signature::verification::FileState;

/// What comparisons may cost together.
#[derive(Debug)]
pub struct ComparisonBudget<'a> {
    /// Ends a comparison early.
    pub cancel: &'a AtomicBool,
    /// Differing entries that may still be found.
    left: Cell<usize>,
}

impl<'a> ComparisonBudget<'a> {
    /// A budget of [`limits::COMPARED_ENTRIES_MAX`].
    pub fn new(cancel: &'a AtomicBool) -> Self {
        Self { cancel, left: Cell::new(limits::COMPARED_ENTRIES_MAX) }
    }
}

/// Two versions of one folder. `None` if a version has no such folder.
struct FolderPair {
    path: String,
    from: Option<Oid>,
    to: Option<Oid>,
}

impl Repository {
    /// The files below a path that differ between two commits, or all files of `to` without
    /// `from`, of those that `is_wanted`: each in the state that `to` has, with its path relative
    /// to `below`.
    ///
    /// # Errors
    /// An object that cannot be read, a cancellation, or more entries than `budget` has left.
    pub fn changed_files(
        &self,
        [from, to]: [Option<CommitId>; 2],
        below: &RepoPath,
        budget: &ComparisonBudget<'_>,
        is_wanted: &dyn Fn(&RepoPath) -> bool,
    ) -> Result<BTreeMap<RepoPath, FileState>, RepositoryError> {
        let root = |commit: Option<CommitId>| -> Result<Option<Oid>, RepositoryError> {
            let Some(commit) = commit else { return Ok(None) };
            Ok(self.tree_below(commit, below)?.map(|tree| tree.id()))
        };
        let mut open = vec![FolderPair { path: String::new(), from: root(from)?, to: root(to)? }];
        let mut found = BTreeMap::new();
        while let Some(pair) = open.pop() {
            if pair.from == pair.to {
                continue;
            }
            let folder = RepoPath::parse(&pair.path).map(|path| below.join_path(&path));
            let folder = folder.unwrap_or_else(|| below.clone());
            let tree = |id: Option<Oid>| id.map(|id| self.find_folder(id, &folder)).transpose();
            let trees = [tree(pair.from)?, tree(pair.to)?];
            let entries: usize = trees.iter().flatten().map(Tree::len).sum();
            let mut cost = 1 + entries / limits::EQUAL_ENTRIES_PER_COMPARED;
            compare(&pair.path, &trees, &mut |path, change| {
                cost += 1;
                match change {
                    ChangedEntry::Folder { from, to } => open.push(FolderPair { path, from, to }),
                    ChangedEntry::File(state) => {
                        if let Some(path) = RepoPath::parse(&path).filter(is_wanted) {
                            cost += limits::KEPT_FILE_COST;
                            // A file that becomes a folder is deleted.
                            found.insert(path, state);
                        }
                    }
                }
            });
            self.charge(budget, cost)?;
        }
        Ok(found)
    }

    /// Takes the cost of one folder from the budget.
    fn charge(&self, budget: &ComparisonBudget<'_>, cost: usize) -> Result<(), RepositoryError> {
        let repository = || self.path().to_owned();
        if budget.cancel.load(Ordering::Relaxed) {
            return Err(RepositoryError::Cancelled { repository: repository() });
        }
        let Some(left) = budget.left.get().checked_sub(cost) else {
            let limit = limits::COMPARED_ENTRIES_MAX;
            return Err(RepositoryError::TooManyEntries { repository: repository(), limit });
        };
        budget.left.set(left);
        Ok(())
    }
}

/// How one entry of a folder differs.
enum ChangedEntry {
    /// A folder to compare. `None` if a version has no folder of this name.
    Folder { from: Option<Oid>, to: Option<Oid> },
    /// The new state of a file, link or submodule; `None` if it is gone.
    File(FileState),
}

/// Calls `each` with the path and the change of each entry that differs. Paths that are too long
/// for a file of a source are left out, with all that is below them.
fn compare(
    folder: &str,
    [from, to]: &[Option<Tree<'_>>; 2],
    each: &mut dyn FnMut(String, ChangedEntry),
) {
    let mut changed = |name: &[u8], old: Option<&TreeEntry<'_>>, new: Option<&TreeEntry<'_>>| {
        let name = String::from_utf8_lossy(name);
        let path = if folder.is_empty() { name.into_owned() } else { format!("{folder}/{name}") };
        if path.len() > gitwork_core::limits::PATH_BYTES_MAX {
            return;
        }
        let [old_folder, new_folder] = [old, new]
            .map(|entry| entry.filter(|it| it.kind() == Some(ObjectType::Tree)).map(TreeEntry::id));
        if old_folder != new_folder {
            each(path.clone(), ChangedEntry::Folder { from: old_folder, to: new_folder });
        }
        let [old_file, new_file] = [old, new].map(|entry| entry.and_then(file_state));
        if old_file != new_file {
            each(path, ChangedEntry::File(new_file));
        }
    };
    for entry in to.iter().flatten() {
        let old = from.as_ref().and_then(|from| from.get_name_bytes(entry.name_bytes()));
        changed(entry.name_bytes(), old.as_ref(), Some(&entry));
    }
    for entry in from.iter().flatten() {
        if to.as_ref().is_none_or(|to| to.get_name_bytes(entry.name_bytes()).is_none()) {
            changed(entry.name_bytes(), Some(&entry), None);
        }
    }
}

/// The state of an entry that is no folder.
fn file_state(entry: &TreeEntry<'_>) -> FileState {
    if entry.kind() == Some(ObjectType::Tree) {
        return None;
    }
    // libgit2 normalizes modes.
    Some((u32::try_from(entry.filemode()).unwrap_or_default(), object_id(entry.id())))
}
