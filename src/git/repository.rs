//! What is asked of a repository that is on disk, bare or not. Only its object database and references are
//! read, never a working tree.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use git2::{ErrorCode, ObjectType, Oid};

use super::error::ReadError;
use crate::core::name::{CommitId, ObjectId, RepoPath};
use crate::core::signature::{SignatureError, Signed, commit};
use crate::core::snapshot::{ObjectError, Objects, Snapshot, Tree, read_tree};
use crate::limits;

/// An open repository. It can be moved to another thread, not shared between threads.
pub struct Repository {
    git: git2::Repository,
    /// For messages, and to open it again.
    path: PathBuf,
    /// Set when an object that must be there is missing or cannot be read.
    damaged: Arc<AtomicBool>,
}

/// Whether one commit comes before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ancestry {
    Yes,
    No,
    /// A part of the history is not here: a shallow clone, or a commit that was never fetched.
    Unknown,
}

/// Who made a commit, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitFacts {
    pub id: CommitId,
    pub author_name: String,
    pub author_email: String,
    /// When it was committed, in seconds since 1970.
    pub committed_seconds: i64,
    /// The first line of its message.
    pub summary: String,
}

/// The tree at one path of one commit, with the objects to read it.
pub struct GitSnapshot {
    pub commit: CommitId,
    pub root: ObjectId,
    repository: git2::Repository,
    damaged: Arc<AtomicBool>,
}

impl Repository {
    pub(super) fn new(git: git2::Repository, damaged: Arc<AtomicBool>) -> Self {
        let path = git.path().to_owned();
        Self { git, path, damaged }
    }

    /// Opens the repository at a path, bare or with a working tree.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let git = git2::Repository::open(path).map_err(|e| open_error(path, e))?;
        Ok(Self::new(git, Arc::default()))
    }

    pub(super) fn git(&self) -> &git2::Repository {
        &self.git
    }

    /// Where it is on disk.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn failed(&self, source: git2::Error) -> ReadError {
        ReadError::Git { repository: self.path.clone(), source }
    }

    fn hint(&self) -> &'static str {
        if self.git.is_shallow() {
            ", which is a shallow clone; fetch its whole history (`git fetch --unshallow`, or depth 0 in CI)"
        } else {
            "; is it fetched?"
        }
    }

    pub(super) fn find_commit(&self, id: CommitId) -> Result<git2::Commit<'_>, ReadError> {
        self.git.find_commit(oid(id)).map_err(|e| match e.code() {
            ErrorCode::NotFound => ReadError::CommitMissing {
                repository: self.path.clone(),
                commit: id,
                hint: self.hint(),
            },
            _ => self.failed(e),
        })
    }

    /// The tree at a path of a commit. Errors tell a path that is not there from one that cannot be read.
    pub fn snapshot(&self, commit: CommitId, path: &RepoPath) -> Result<GitSnapshot, ReadError> {
        let root = self.find_commit(commit)?.tree().map_err(|e| self.failed(e))?.id();
        let mut root = root;
        for part in path.parts() {
            let tree = self.git.find_tree(root).map_err(|e| self.failed(e))?;
            let missing = || ReadError::PathMissing { commit, path: path.clone() };
            let entry = tree.get_name(part).ok_or_else(missing)?;
            if entry.kind() != Some(ObjectType::Tree) {
                return Err(ReadError::NotAFolder { commit, path: path.clone() });
            }
            root = entry.id();
        }
        let repository = git2::Repository::open(&self.path).map_err(|e| self.failed(e))?;
        let damaged = Arc::clone(&self.damaged);
        Ok(GitSnapshot { commit, root: object_id(root), repository, damaged })
    }

    /// Whether `old` is `new` or comes before it.
    pub fn is_ancestor(&self, old: CommitId, new: CommitId) -> Result<Ancestry, ReadError> {
        if old == new {
            return Ok(Ancestry::Yes);
        }
        if self.git.find_commit(oid(old)).is_err() {
            return Ok(Ancestry::Unknown);
        }
        match self.git.graph_descendant_of(oid(new), oid(old)) {
            Ok(true) => Ok(Ancestry::Yes),
            Ok(false) if self.git.is_shallow() => Ok(Ancestry::Unknown),
            Ok(false) => Ok(Ancestry::No),
            Err(e) if e.code() == ErrorCode::NotFound => Ok(Ancestry::Unknown),
            Err(e) => Err(self.failed(e)),
        }
    }

    /// Those of `commits` that `head` does not build on, as far as the history here tells; one that is not here is among
    /// them.
    pub fn unreached(
        &self,
        head: CommitId,
        commits: &BTreeSet<CommitId>,
        cancel: &AtomicBool,
    ) -> Result<BTreeSet<CommitId>, ReadError> {
        let (here, mut unreached): (BTreeSet<CommitId>, BTreeSet<CommitId>) =
            commits.iter().partition(|commit| self.git.find_commit(oid(**commit)).is_ok());
        // A walk from the head answers for all at once, but a question for one need not go so far.
        if here.len() <= 4 {
            for commit in here {
                if self.is_ancestor(commit, head)? != Ancestry::Yes {
                    unreached.insert(commit);
                }
            }
            return Ok(unreached);
        }
        let mut left = here;
        let mut walk = self.git.revwalk().map_err(|e| self.failed(e))?;
        walk.push(oid(head)).map_err(|e| self.failed(e))?;
        for id in walk {
            if left.is_empty() {
                break;
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(ReadError::Cancelled { repository: self.path.clone() });
            }
            left.remove(&object_id(id.map_err(|e| self.failed(e))?));
        }
        unreached.extend(left);
        Ok(unreached)
    }

    /// The commit that a revision names, in the words of gitrevisions(7): `main`, `HEAD~2`, `v1.2.3`, an
    /// abbreviated id.
    pub fn resolve(&self, revision: &str) -> Result<CommitId, ReadError> {
        let missing = || ReadError::RevisionMissing {
            repository: self.path.clone(),
            revision: revision.to_owned(),
            hint: self.hint(),
        };
        // libgit2 takes C strings.
        if revision.contains('\0') || revision.len() > limits::PATH_BYTES_MAX {
            return Err(missing());
        }
        let object = self.git.revparse_single(revision).map_err(|e| match e.code() {
            ErrorCode::NotFound | ErrorCode::InvalidSpec | ErrorCode::Ambiguous => missing(),
            _ => self.failed(e),
        })?;
        object.peel_to_commit().map(|commit| object_id(commit.id())).map_err(|_| missing())
    }

    /// What a commit has at a path; `None` where that is nothing.
    pub fn entry(&self, commit: CommitId, path: &RepoPath) -> Result<Option<ObjectId>, ReadError> {
        let tree = self.find_commit(commit)?.tree().map_err(|e| self.failed(e))?;
        if path.is_root() {
            return Ok(Some(object_id(tree.id())));
        }
        match tree.get_path(Path::new(path.as_str())) {
            Ok(entry) => Ok(Some(object_id(entry.id()))),
            Err(e) if e.code() == ErrorCode::NotFound => Ok(None),
            Err(e) => Err(self.failed(e)),
        }
    }

    /// Who made a commit, and why.
    pub fn commit(&self, id: CommitId) -> Result<CommitFacts, ReadError> {
        let commit = self.find_commit(id)?;
        let author = commit.author();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let summary = text(commit.message_bytes());
        Ok(CommitFacts {
            id,
            author_name: text(author.name_bytes()),
            author_email: text(author.email_bytes()),
            committed_seconds: commit.time().seconds(),
            summary: summary.lines().next().unwrap_or_default().trim().to_owned(),
        })
    }

    /// The signature of a commit, if it has one that can be asked about.
    pub fn signature(&self, id: CommitId) -> Result<Result<Signed, SignatureError>, ReadError> {
        let odb = self.git.odb().map_err(|e| self.failed(e))?;
        let (size, _) = odb.read_header(oid(id)).map_err(|e| self.failed(e))?;
        let limit = limits::COMMIT_BYTES_MAX;
        if size > limit {
            return Ok(Err(SignatureError::TooLarge { limit }));
        }
        let object = odb.read(oid(id)).map_err(|e| self.failed(e))?;
        Ok(commit::signed(object.data()))
    }
}

impl GitSnapshot {
    /// The same as the core wants it.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot { commit: Some(self.commit), root: self.root, objects: self }
    }

    /// Reads an object of the kind and size expected.
    fn read<T>(
        &self,
        id: ObjectId,
        kind: ObjectType,
        limit: usize,
        take: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<T, ObjectError> {
        let failed = |e: git2::Error| {
            if e.code() == ErrorCode::NotFound {
                ObjectError::Missing(id)
            } else {
                ObjectError::Corrupt(id, e.message().to_owned())
            }
        };
        let read = || {
            let odb = self.repository.odb().map_err(failed)?;
            let (size, found) = odb.read_header(oid(id)).map_err(failed)?;
            if found != kind {
                return Err(ObjectError::Corrupt(id, format!("it is a {found}, not a {kind}")));
            }
            if size > limit {
                return Err(ObjectError::TooLarge { id, size: size as u64, limit });
            }
            let object = odb.read(oid(id)).map_err(failed)?;
            take(object.data()).map_err(|problem| ObjectError::Corrupt(id, problem))
        };
        read().inspect_err(|error| {
            if !matches!(error, ObjectError::TooLarge { .. }) {
                self.damaged.store(true, Ordering::Relaxed);
            }
        })
    }
}

impl Objects for GitSnapshot {
    fn tree(&self, id: ObjectId) -> Result<Arc<Tree>, ObjectError> {
        self.read(id, ObjectType::Tree, limits::TREE_BYTES_MAX, read_tree).map(Arc::new)
    }

    fn blob(&self, id: ObjectId, limit: usize) -> Result<Arc<[u8]>, ObjectError> {
        self.read(id, ObjectType::Blob, limit, |bytes| Ok(bytes.into()))
    }
}

pub(super) fn open_error(path: &Path, error: git2::Error) -> ReadError {
    let path = path.to_owned();
    match error.code() {
        ErrorCode::NotFound => ReadError::NoRepository { path },
        ErrorCode::Owner => ReadError::ForeignOwner { path },
        _ => ReadError::Git { repository: path, source: error },
    }
}

pub(super) fn oid(id: ObjectId) -> Oid {
    // Twenty bytes are always an id; zero would be found in no repository.
    Oid::from_bytes(&id.0).unwrap_or(Oid::ZERO_SHA1)
}

pub(super) fn object_id(id: Oid) -> ObjectId {
    let mut bytes = [0; 20];
    bytes.iter_mut().zip(id.as_bytes()).for_each(|(to, from)| *to = *from);
    ObjectId(bytes)
}
