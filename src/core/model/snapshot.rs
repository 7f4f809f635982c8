//! One state of a repository: trees and blobs by id, whatever they were read from.

use std::collections::{BTreeMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use super::digest::Digest;
use super::name::{CommitId, ObjectId, RepoPath};
use super::operation_error::{ErrorClass, OperationError};

/// What a tree entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A folder.
    Tree,
    /// A file, executable or not.
    Blob,
    /// A symbolic link: its blob is the path that it points to.
    Symlink,
    /// A submodule: never followed.
    Gitlink,
}

/// One entry of a tree. Equal ids mean equal content, all the way down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What the id stands for.
    pub kind: EntryKind,
    /// The tree, the blob, or the submodule's commit.
    pub id: ObjectId,
}

/// The entries of one folder by name. A name that is not UTF-8 is kept with U+FFFD in place of the
/// bad bytes and reported by the layout rules.
pub type Tree = BTreeMap<String, Entry>;

/// Why an object could not be had. It is never taken for an absent one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The object database does not have it, as in an incomplete mirror.
    #[error("the object {0} is missing from the repository's mirror")]
    Missing(ObjectId),
    /// It cannot be read, or its bytes are not those of its id; the text says what is wrong.
    #[error("the object {0} is corrupt: {1}")]
    Corrupt(ObjectId, String),
    /// Its bytes are those of its id, and they are no tree, or not of the kind that the folder
    /// says. Somebody has committed it like this: no fetch brings a better one.
    #[error("the object {0} is malformed: {1}")]
    Malformed(ObjectId, String),
    /// The caller does not need it any more.
    #[error("reading was cancelled")]
    Cancelled,
    /// A blob is larger than the caller accepts. It was not read.
    #[error("the object {id} has {size} bytes; the limit is {limit}")]
    TooLarge {
        /// The blob.
        id: ObjectId,
        /// Its size in bytes.
        size: u64,
        /// The most bytes that the caller accepts.
        limit: usize,
    },
}

impl OperationError for ObjectError {
    fn class(&self) -> ErrorClass {
        match self {
            // The next fetch may bring it.
            Self::Missing(_) | Self::Corrupt(..) => ErrorClass::TRANSIENT,
            Self::Cancelled => ErrorClass::Cancelled,
            Self::Malformed(..) | Self::TooLarge { .. } => ErrorClass::NeedsAction,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Missing(_) | Self::Corrupt(..) | Self::Malformed(..) => "Repository",
            Self::Cancelled => "Cancelled",
            Self::TooLarge { .. } => "TooLarge",
        }
    }
}

impl ObjectError {
    /// Whether the object itself is the problem, so that only what needs it is concerned. The other
    /// errors are those of the store.
    pub fn is_of_object(&self) -> bool {
        matches!(self, Self::Malformed(..) | Self::TooLarge { .. })
    }
}

/// A content-addressed store: the same id always gives the same answer.
pub trait Objects {
    /// The entries of a tree. A tree that is malformed or too large is an error of its folder.
    fn tree(&self, id: ObjectId) -> Result<Arc<Tree>, ObjectError>;
    /// The bytes of a blob, or of a symlink's target. More than `limit` bytes are an error, found
    /// before they are read into memory.
    fn blob(&self, id: ObjectId, limit: usize) -> Result<Arc<[u8]>, ObjectError>;
    /// The same store for another thread; `None` if only this thread can read it.
    fn for_thread(&self) -> Option<Box<dyn Objects + Send + '_>> {
        None
    }
}

/// Of a reference or a box.
impl<P> Objects for P
where
    P: Deref,
    P::Target: Objects,
{
    fn tree(&self, id: ObjectId) -> Result<Arc<Tree>, ObjectError> {
        (**self).tree(id)
    }

    fn blob(&self, id: ObjectId, limit: usize) -> Result<Arc<[u8]>, ObjectError> {
        (**self).blob(id, limit)
    }

    fn for_thread(&self) -> Option<Box<dyn Objects + Send + '_>> {
        (**self).for_thread()
    }
}

/// One state of a repository.
pub struct Snapshot<'a> {
    /// `None` for a local directory with uncommitted changes.
    pub commit: Option<CommitId>,
    /// The tree at the source's path.
    pub root: ObjectId,
    /// Where its trees and blobs are read from.
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

/// What is wrong with a tree object: a clause whose subject is the tree or one of its entries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// No space ends the mode of an entry.
    #[error("an entry has no mode")]
    NoMode,
    /// No NUL byte ends the name of an entry.
    #[error("an entry has no end of its name")]
    UnendedName,
    /// The tree ends within the 20 bytes of an id.
    #[error("an id is cut")]
    CutId,
    /// The name is empty, `.` or `..`, or has a slash.
    #[error("it has an entry named {0:?}")]
    InvalidName(String),
    /// Two entries have this name.
    #[error("it names {0:?} twice")]
    DuplicateName(String),
}

/// Reads a tree object: `<mode in octal> <name>\0<20 bytes of id>`, again and again.
///
/// # Errors
/// Fails at the first malformed entry, and at the second entry of one name.
pub fn read_tree(mut bytes: &[u8]) -> Result<Tree, TreeError> {
    let lossy = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let (mut plain, mut others) = (Vec::new(), Tree::new());
    let mut names = HashSet::new();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|b| *b == b' ').ok_or(TreeError::NoMode)?;
        let (mode, rest) = bytes.split_at(space);
        let rest = rest.get(1..).unwrap_or_default();
        let end = rest.iter().position(|b| *b == 0).ok_or(TreeError::UnendedName)?;
        let (name, rest) = rest.split_at(end);
        let (id, rest) =
            rest.get(1..).and_then(|r| r.split_first_chunk::<20>()).ok_or(TreeError::CutId)?;
        bytes = rest;
        let kind = match mode {
            b"40000" | b"040000" => EntryKind::Tree,
            b"120000" => EntryKind::Symlink,
            b"160000" => EntryKind::Gitlink,
            _ => EntryKind::Blob,
        };
        if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
            return Err(TreeError::InvalidName(lossy(name)));
        }
        if !names.insert(name) {
            return Err(TreeError::DuplicateName(lossy(name)));
        }
        let entry = Entry { kind, id: ObjectId(*id) };
        // Only names outside ASCII can look alike. The others are added at once, below.
        match name.is_ascii() {
            true => plain.push((lossy(name), entry)),
            false => insert(&mut others, name, entry),
        }
    }
    let mut tree: Tree = plain.into_iter().collect();
    tree.append(&mut others);
    Ok(tree)
}

/// Adds an entry of a name that the folder does not have yet. Two names that differ only in bytes
/// that are not UTF-8 both stay: the later one has a hash of its bytes behind it. (A mark for each
/// one before it would take a time that grows with the cube of their number, and a folder may have
/// a million of them.)
pub fn insert(tree: &mut Tree, name: &[u8], entry: Entry) {
    let mut text = String::from_utf8_lossy(name).into_owned();
    if tree.contains_key(&text) {
        text.push_str(&format!("\u{fffd}{}", Digest::of(name)));
    }
    // Somebody may have named a file like this.
    while tree.contains_key(&text) {
        text.push('\u{fffd}');
    }
    tree.insert(text, entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(mode: &str, name: &[u8]) -> Vec<u8> {
        [mode.as_bytes(), b" ", name, b"\0", &[7; 20]].concat()
    }

    #[test]
    fn trees_keep_every_entry_and_its_kind() {
        let bytes = [
            entry("100644", b"a.yaml"),
            entry("120000", b"link"),
            entry("160000", b"module"),
            entry("40000", b"web"),
            entry("100644", b"\xff"),
            entry("100644", b"\xfe"),
        ]
        .concat();
        let tree = read_tree(&bytes).unwrap();
        let kinds: Vec<_> = tree.values().map(|e| e.kind).collect();
        use EntryKind::{Blob, Gitlink, Symlink, Tree};
        assert_eq!(kinds, [Blob, Symlink, Gitlink, Tree, Blob, Blob]);
        let marked: Vec<&String> = tree.keys().filter(|name| name.contains('\u{fffd}')).collect();
        assert_eq!(marked, ["\u{fffd}", &format!("\u{fffd}\u{fffd}{}", Digest::of(b"\xfe"))]);
    }

    /// Each used to be compared with all before it, under names as long as their number: for hours.
    #[test]
    fn many_names_that_look_alike_take_no_longer_than_others() {
        let name = |number: u32| {
            let digits = number.to_be_bytes().into_iter().flat_map(|b| [b >> 4, b & 15]);
            digits.map(|digit| 0xf0 | digit).collect::<Vec<u8>>()
        };
        let many = 20_000;
        let bytes: Vec<u8> = (0..many).flat_map(|n| entry("100644", &name(n))).collect();
        let tree = read_tree(&bytes).unwrap();
        assert_eq!(tree.len(), many as usize);
        assert!(tree.keys().all(|name| name.len() < 100));
    }

    /// Git sorts a folder as if its name ended with a slash.
    #[test]
    fn trees_are_sorted_by_name_and_each_name_is_there_once() {
        let names: [&[u8]; 6] = [b"a-b", b"a", b"b", "\u{fffd}".as_bytes(), b"\xff", b"z"];
        let bytes = names.map(|name| entry("40000", name)).concat();
        let tree = read_tree(&bytes).unwrap();
        let marked = format!("\u{fffd}\u{fffd}{}", Digest::of(b"\xff"));
        let sorted: Vec<&str> = tree.keys().map(String::as_str).collect();
        assert_eq!(sorted, ["a", "a-b", "b", "z", "\u{fffd}", &marked]);
        for name in names {
            let twice = [bytes.clone(), entry("100644", name)].concat();
            let shown = String::from_utf8_lossy(name).into_owned();
            assert_eq!(read_tree(&twice), Err(TreeError::DuplicateName(shown)));
        }
    }

    #[test]
    fn malformed_trees_are_errors() {
        for bytes in [
            b"100644".to_vec(),
            b"100644 a".to_vec(),
            b"100644 a\0short".to_vec(),
            entry("100644", b".."),
            entry("100644", b"a/b"),
            entry("100644", b""),
            [entry("100644", b"a"), entry("40000", b"a")].concat(),
            [entry("100644", b"\xff"), entry("100644", b"\xff")].concat(),
        ] {
            assert!(read_tree(&bytes).is_err(), "{bytes:?}");
        }
    }
}
