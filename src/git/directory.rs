//! A folder as it is on disk, with uncommitted changes, read as if it had been committed: content
//! has the ids that Git would give it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use git2::{ObjectType, Oid};

use super::repository::object_id;
use crate::limits;
use gitwork_core::model::name::ObjectId;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::model::snapshot::{
    Entry, EntryKind, ObjectError, Objects, Snapshot, Tree, insert,
};

/// Why a folder could not be read. Its content is unknown then, not absent.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show the meaning of the fields")]
pub enum DirectoryError {
    /// A file or folder could not be read.
    #[error("cannot read {path}")]
    Io { path: PathBuf, source: io::Error },
    /// The path is not a folder.
    #[error("{path} is not a folder")]
    NotAFolder { path: PathBuf },
    /// The folder has too many entries.
    #[error("{path} has more than {limit} files and folders")]
    TooMany { path: PathBuf, limit: usize },
    /// The folder is nested too deeply.
    #[error("{path} is more than {limit} folders deep")]
    TooDeep { path: PathBuf, limit: usize },
    /// libgit2 failed to hash an object.
    #[error("cannot compute the id of {path}")]
    Hash { path: PathBuf, source: git2::Error },
}

impl OperationError for DirectoryError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Io { .. } | Self::Hash { .. } => ErrorClass::TRANSIENT,
            Self::NotAFolder { .. } | Self::TooMany { .. } | Self::TooDeep { .. } => {
                ErrorClass::NeedsAction
            }
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Io { .. } | Self::Hash { .. } => "Directory",
            Self::NotAFolder { .. } => "PathMissing",
            Self::TooMany { .. } | Self::TooDeep { .. } => "TooLarge",
        }
    }
}

/// A folder for repeated reads. A file is read again only if its times, size or inode changed.
pub struct Directory {
    root: PathBuf,
    known: HashMap<PathBuf, KnownFile>,
}

/// One state of the folder. Contents stay on disk until they are read, and are then checked against
/// their id: a change in between is an error, never a mixture of two states.
pub struct DirectorySnapshot {
    /// The tree of the folder itself.
    pub root: ObjectId,
    trees: HashMap<ObjectId, Arc<Tree>>,
    files: HashMap<ObjectId, Content>,
}

#[derive(Clone)]
struct Content {
    path: PathBuf,
    symlink: bool,
    size: u64,
}

#[derive(Clone)]
struct KnownFile {
    stamp: Stamp,
    id: ObjectId,
    executable: bool,
    /// Written so shortly before the read that a later write could leave the same stamp.
    is_fresh: bool,
}

/// File metadata that differs between a changed and an unchanged file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The coarsest file times in use: FAT counts in steps of two seconds.
const STAMP_COARSENESS: Duration = Duration::from_secs(2);

impl Directory {
    /// A folder, which need not exist yet.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), known: HashMap::new() }
    }

    /// The folder's path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads the folder as it is now. Leaves out `.git`, and everything that Git cannot hold: empty
    /// folders, sockets, pipes and devices. A folder with a `.git` of its own is a gitlink.
    pub fn snapshot(&mut self) -> Result<DirectorySnapshot, DirectoryError> {
        let facts = fs::metadata(&self.root).map_err(|e| io_error(&self.root, e))?;
        if !facts.is_dir() {
            return Err(DirectoryError::NotAFolder { path: self.root.clone() });
        }
        let mut reading = Reading {
            known: &self.known,
            seen: HashMap::with_capacity(self.known.len()),
            trees: HashMap::new(),
            files: HashMap::new(),
            entries: 0,
            root: &self.root,
            now: SystemTime::now(),
        };
        let root = match reading.folder(&self.root, 0)? {
            Some(root) => root,
            None => reading.add_tree(&self.root, Tree::new(), &BTreeMap::new())?,
        };
        let Reading { seen, trees, files, .. } = reading;
        self.known = seen;
        Ok(DirectorySnapshot { root, trees, files })
    }
}

struct Reading<'a> {
    known: &'a HashMap<PathBuf, KnownFile>,
    seen: HashMap<PathBuf, KnownFile>,
    trees: HashMap<ObjectId, Arc<Tree>>,
    files: HashMap<ObjectId, Content>,
    entries: usize,
    root: &'a Path,
    now: SystemTime,
}

impl Reading<'_> {
    /// The tree of a folder; `None` if it is empty.
    fn folder(&mut self, path: &Path, depth: usize) -> Result<Option<ObjectId>, DirectoryError> {
        if depth > limits::DIRECTORY_DEPTH_MAX {
            let limit = limits::DIRECTORY_DEPTH_MAX;
            return Err(DirectoryError::TooDeep { path: path.to_owned(), limit });
        }
        let mut tree = Tree::new();
        // Git's order and modes, for the id.
        let mut raw: BTreeMap<Vec<u8>, (&'static str, OsString, ObjectId)> = BTreeMap::new();
        for entry in fs::read_dir(path).map_err(|e| io_error(path, e))? {
            let entry = entry.map_err(|e| io_error(path, e))?;
            let name = entry.file_name();
            if name == ".git" {
                continue;
            }
            self.entries += 1;
            if self.entries > limits::DIRECTORY_ENTRIES_MAX {
                let limit = limits::DIRECTORY_ENTRIES_MAX;
                return Err(DirectoryError::TooMany { path: self.root.to_owned(), limit });
            }
            let path = entry.path();
            let facts = match fs::symlink_metadata(&path) {
                Ok(facts) => facts,
                // Deleted since the listing.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(io_error(&path, e)),
            };
            let Some((mode, kind, id)) = self.entry(&path, &facts, depth)? else { continue };
            let mut key = name.as_bytes().to_vec();
            if kind == EntryKind::Tree {
                key.push(b'/');
            }
            insert(&mut tree, name.as_bytes(), Entry { kind, id });
            raw.insert(key, (mode, name, id));
        }
        if tree.is_empty() {
            return Ok(None);
        }
        self.add_tree(path, tree, &raw).map(Some)
    }

    fn entry(
        &mut self,
        path: &Path,
        facts: &Metadata,
        depth: usize,
    ) -> Result<Option<(&'static str, EntryKind, ObjectId)>, DirectoryError> {
        if facts.is_symlink() {
            let target = fs::read_link(path).map_err(|e| io_error(path, e))?;
            let id = hash(path, ObjectType::Blob, target.as_os_str().as_bytes())?;
            let size = target.as_os_str().len() as u64;
            self.files.insert(id, Content { path: path.to_owned(), symlink: true, size });
            return Ok(Some(("120000", EntryKind::Symlink, id)));
        }
        if facts.is_dir() {
            if fs::symlink_metadata(path.join(".git")).is_ok() {
                let id = hash(path, ObjectType::Blob, path.as_os_str().as_bytes())?;
                return Ok(Some(("160000", EntryKind::Gitlink, id)));
            }
            let id = self.folder(path, depth + 1)?;
            return Ok(id.map(|id| ("40000", EntryKind::Tree, id)));
        }
        if !facts.is_file() {
            return Ok(None);
        }
        let file = self.file(path, facts)?;
        let mode = if file.executable { "100755" } else { "100644" };
        let id = file.id;
        let content = Content { path: path.to_owned(), symlink: false, size: facts.len() };
        self.files.insert(id, content);
        self.seen.insert(path.to_owned(), file);
        Ok(Some((mode, EntryKind::Blob, id)))
    }

    /// The id of a file, which is read only if its stamp is new.
    fn file(&self, path: &Path, facts: &Metadata) -> Result<KnownFile, DirectoryError> {
        let stamp = Stamp::of(facts);
        if let Some(known) = self.known.get(path)
            && known.stamp == stamp
            && !known.is_fresh
        {
            return Ok(known.clone());
        }
        let age = facts.modified().ok().and_then(|time| self.now.duration_since(time).ok());
        let is_fresh = age.is_none_or(|age| age < STAMP_COARSENESS);
        let executable = facts.mode() & 0o100 != 0;
        let id = if facts.len() > gitwork_yaml::limits::FILE_BYTES_MAX as u64 {
            // Too large to be read later, so any id unique to this version is enough.
            hash(path, ObjectType::Blob, format!("{path:?} {:?}", stamp.text()).as_bytes())?
        } else {
            let bytes =
                read(path, gitwork_yaml::limits::FILE_BYTES_MAX).map_err(|e| io_error(path, e))?;
            hash(path, ObjectType::Blob, &bytes)?
        };
        Ok(KnownFile { stamp, id, executable, is_fresh })
    }

    /// Adds a tree under the id that Git would give it.
    fn add_tree(
        &mut self,
        path: &Path,
        tree: Tree,
        raw: &BTreeMap<Vec<u8>, (&'static str, OsString, ObjectId)>,
    ) -> Result<ObjectId, DirectoryError> {
        let mut bytes = Vec::new();
        for (mode, name, id) in raw.values() {
            bytes.extend_from_slice(mode.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(&id.0);
        }
        let id = hash(path, ObjectType::Tree, &bytes)?;
        self.trees.insert(id, Arc::new(tree));
        Ok(id)
    }
}

impl Stamp {
    fn of(facts: &Metadata) -> Self {
        Self {
            inode: (facts.dev(), facts.ino()),
            size: facts.len(),
            modified: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
        }
    }

    fn text(&self) -> String {
        format!("{:?} {} {:?} {:?}", self.inode, self.size, self.modified, self.changed)
    }
}

impl DirectorySnapshot {
    /// The snapshot in the form that the core reads.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot { commit: None, root: self.root, objects: self }
    }
}

impl Objects for DirectorySnapshot {
    fn tree(&self, id: ObjectId) -> Result<Arc<Tree>, ObjectError> {
        self.trees.get(&id).cloned().ok_or(ObjectError::Missing(id))
    }

    fn blob(&self, id: ObjectId, limit: usize) -> Result<Arc<[u8]>, ObjectError> {
        let content = self.files.get(&id).ok_or(ObjectError::Missing(id))?;
        let limit = limit.min(gitwork_yaml::limits::FILE_BYTES_MAX);
        if content.size > limit as u64 {
            return Err(ObjectError::TooLarge { id, size: content.size, limit });
        }
        let bytes = if content.symlink {
            fs::read_link(&content.path).map(|target| target.as_os_str().as_bytes().to_vec())
        } else {
            read(&content.path, limit)
        };
        let path = content.path.display();
        let bytes = bytes.map_err(|e| ObjectError::Corrupt(id, format!("{path}: {e}")))?;
        let now = hash(&content.path, ObjectType::Blob, &bytes)
            .map_err(|e| ObjectError::Corrupt(id, e.to_string()))?;
        if now != id {
            return Err(ObjectError::Corrupt(
                id,
                format!("{path} has changed since it was listed"),
            ));
        }
        Ok(bytes.into())
    }

    fn for_thread(&self) -> Option<Box<dyn Objects + Send + '_>> {
        Some(Box::new(self))
    }
}

fn hash(path: &Path, kind: ObjectType, bytes: &[u8]) -> Result<ObjectId, DirectoryError> {
    Oid::hash_object(kind, bytes)
        .map(object_id)
        .map_err(|source| DirectoryError::Hash { path: path.to_owned(), source })
}

/// Reads a file of at most `limit` bytes. A longer file is cut one byte past the limit, so that
/// its id does not match.
fn read(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn io_error(path: &Path, source: io::Error) -> DirectoryError {
    DirectoryError::Io { path: path.to_owned(), source }
}
