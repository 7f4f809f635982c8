//! One state of a repository: trees and blobs by id, whatever they were read from.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::name::{CommitId, ObjectId, RepoPath};

/// What a tree entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    Tree,
    Blob,
    Symlink,
    /// A submodule: never followed.
    Gitlink,
}

/// One entry of a tree. Equal ids mean equal content, all the way down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: EntryKind,
    pub id: ObjectId,
}

/// The entries of one folder by name. A name that is not UTF-8 is kept with U+FFFD in place of the bad
/// bytes and reported by the layout rules.
pub type Tree = BTreeMap<String, Entry>;

/// Why an object could not be had. It is never taken for an absent one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    #[error("the object {0} is missing from the repository's mirror")]
    Missing(ObjectId),
    #[error("the object {0} is corrupt or not of the kind expected: {1}")]
    Corrupt(ObjectId, String),
    #[error("the object {id} has {size} bytes; at most {limit} are read")]
    TooLarge { id: ObjectId, size: u64, limit: usize },
}

/// A content-addressed store: the same id always gives the same answer.
pub trait Objects {
    fn tree(&self, id: ObjectId) -> Result<Arc<Tree>, ObjectError>;
    /// The bytes of a blob, or of a symlink's target. More than `limit` bytes are an error, found before
    /// they are read into memory.
    fn blob(&self, id: ObjectId, limit: usize) -> Result<Arc<[u8]>, ObjectError>;
}

/// One state of a repository.
pub struct Snapshot<'a> {
    /// `None` for a local directory with uncommitted changes.
    pub commit: Option<CommitId>,
    /// The tree at the source's path.
    pub root: ObjectId,
    pub objects: &'a dyn Objects,
}

impl Snapshot<'_> {
    /// The tree or blob at a path; `None` where there is nothing.
    pub fn entry(&self, path: &RepoPath) -> Result<Option<ObjectId>, ObjectError> {
        let (mut at, mut kind) = (self.root, EntryKind::Tree);
        for part in path.parts() {
            if kind != EntryKind::Tree {
                return Ok(None);
            }
            let tree = self.objects.tree(at)?;
            let Some(entry) = tree.get(part) else { return Ok(None) };
            (at, kind) = (entry.id, entry.kind);
        }
        Ok(Some(at))
    }
}
