//! Questions about a repository on disk, bare or not. Only its object database and references are
//! read, never a working tree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use git2::{ErrorCode, ObjectType, Oid};

use super::error::RepositoryError;
use super::folder_lock::FileLock;
use crate::limits;
use gitwork_core::model::name::{CommitId, ObjectId, RepoPath};
use gitwork_core::model::snapshot::{ObjectError, Objects, Snapshot, Tree, TreeError, read_tree};
use gitwork_core::signature::{SignatureError, Signed};
use gitwork_signatures::commit;

/// An open repository. It can be moved to another thread, not shared between threads.
pub struct Repository {
    git: git2::Repository,
    /// For messages, and to reopen it.
    path: PathBuf,
    /// Set when a required object is missing or unreadable.
    is_damaged: Arc<AtomicBool>,
    /// Keeps a mirror's repository on disk. Held, never read.
    pin: Option<Arc<FileLock>>,
    /// The commits of names that revisions may begin with, besides those in the repository.
    names: BTreeMap<String, CommitId>,
}

/// Whether one commit is an ancestor of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AncestorCheck {
    /// It is an ancestor, or the same commit.
    Yes,
    /// It is not.
    No,
    /// A part of the history is not local: a shallow clone, or a commit that was never fetched.
    Unknown,
}

/// Author, time and subject of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitFacts {
    /// Its id.
    pub id: CommitId,
    /// The author's name; invalid UTF-8 is replaced.
    pub author_name: String,
    /// The author's e-mail address; invalid UTF-8 is replaced.
    pub author_email: String,
    /// The committer date, in seconds since 1970.
    pub committed_seconds: i64,
    /// The first line of the message.
    pub summary: String,
}

/// The tree at one path of one commit, with access to its objects.
pub struct GitSnapshot {
    /// The commit.
    pub commit: CommitId,
    /// The tree at the path.
    pub root: ObjectId,
    repository: git2::Repository,
    is_damaged: Arc<AtomicBool>,
    /// Held, never read.
    _pin: Option<Arc<FileLock>>,
}

impl Repository {
    pub(super) fn new(git: git2::Repository) -> Self {
        let path = git.path().to_owned();
        let (is_damaged, names) = (Arc::default(), BTreeMap::new());
        Self { git, path, is_damaged, pin: None, names }
    }

    /// A repository that other processes may remove once nobody holds `pin`.
    pub(super) fn pinned(git: git2::Repository, pin: FileLock) -> Self {
        Self { pin: Some(Arc::new(pin)), ..Self::new(git) }
    }

    /// Opens the repository at a path, bare or with a working tree.
    pub fn open(path: &Path) -> Result<Self, RepositoryError> {
        let git = git2::Repository::open(path).map_err(|e| open_error(path, e))?;
        Ok(Self::new(git))
    }

    /// Whether a required object was missing or unreadable.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// The names that revisions may begin with, besides those in the repository.
    pub(super) fn names(&self) -> &BTreeMap<String, CommitId> {
        &self.names
    }

    /// The same, to change them.
    pub(super) fn names_mut(&mut self) -> &mut BTreeMap<String, CommitId> {
        &mut self.names
    }

    pub(super) fn git(&self) -> &git2::Repository {
        &self.git
    }

    /// Its path on disk.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn failed(&self, source: git2::Error) -> RepositoryError {
        RepositoryError::Git { repository: self.path.clone(), source }
    }

    pub(super) fn find_commit(&self, id: CommitId) -> Result<git2::Commit<'_>, RepositoryError> {
        self.git.find_commit(oid(id)).map_err(|e| match e.code() {
            ErrorCode::NotFound => RepositoryError::CommitMissing {
                repository: self.path.clone(),
                commit: id,
                is_shallow: self.git.is_shallow(),
            },
            _ => self.failed(e),
        })
    }

    /// The tree of a folder. `folder` is its path, for messages.
    pub(super) fn find_folder(
        &self,
        id: Oid,
        folder: &RepoPath,
    ) -> Result<git2::Tree<'_>, RepositoryError> {
        let malformed =
            |problem| Err(RepositoryError::MalformedFolder { folder: folder.clone(), problem });
        let odb = self.git.odb().map_err(|e| self.failed(e))?;
        // A small pack may have an object of any size.
        let (size, kind) = odb.read_header(id).map_err(|e| self.failed(e))?;
        if kind != ObjectType::Tree {
            return malformed(format!("it is a {kind}, not a tree"));
        }
        if size > limits::TREE_BYTES_MAX {
            let limit = limits::TREE_BYTES_MAX;
            return malformed(format!("it has {size} bytes; the limit is {limit}"));
        }
        match self.git.find_tree(id) {
            Err(e) if self.is_intact(id) => malformed(e.message().to_owned()),
            found => found.map_err(|e| self.failed(e)),
        }
    }

    /// Whether an object is there, and its bytes are those of its id.
    pub(super) fn is_intact(&self, id: Oid) -> bool {
        check_object(&self.git, id).is_ok()
    }

    /// The tree at a path of a commit. Fails with [`RepositoryError::PathMissing`] or
    /// [`RepositoryError::NotAFolder`] if the commit has no folder there.
    pub fn snapshot(
        &self,
        commit: CommitId,
        path: &RepoPath,
    ) -> Result<GitSnapshot, RepositoryError> {
        // Its tree is read by the caller, who may name its path if it is malformed.
        let mut root = self.find_commit(commit)?.tree_id();
        let mut folder = RepoPath::root();
        for part in path.parts() {
            let tree = self.find_folder(root, &folder)?;
            folder = folder.join(part);
            let missing = || RepositoryError::PathMissing { commit, path: path.clone() };
            let entry = tree.get_name(part).ok_or_else(missing)?;
            if entry.kind() != Some(ObjectType::Tree) {
                return Err(RepositoryError::NotAFolder { commit, path: path.clone() });
            }
            root = entry.id();
        }
        let repository = git2::Repository::open(&self.path).map_err(|e| self.failed(e))?;
        let (is_damaged, pin) = (Arc::clone(&self.is_damaged), self.pin.clone());
        Ok(GitSnapshot { commit, root: object_id(root), repository, is_damaged, _pin: pin })
    }

    /// Whether `old` is `new` or an ancestor of it.
    pub fn is_ancestor(
        &self,
        old: CommitId,
        new: CommitId,
    ) -> Result<AncestorCheck, RepositoryError> {
        if old == new {
            return Ok(AncestorCheck::Yes);
        }
        if self.git.find_commit(oid(old)).is_err() {
            return Ok(AncestorCheck::Unknown);
        }
        match self.git.graph_descendant_of(oid(new), oid(old)) {
            Ok(true) => Ok(AncestorCheck::Yes),
            Ok(false) if self.git.is_shallow() => Ok(AncestorCheck::Unknown),
            Ok(false) => Ok(AncestorCheck::No),
            Err(e) if e.code() == ErrorCode::NotFound => Ok(AncestorCheck::Unknown),
            Err(e) => Err(self.failed(e)),
        }
    }

    /// The members of `commits` that are not ancestors of `head`, as far as the local history
    /// shows. A commit that is not local counts as not reached.
    pub fn unreached(
        &self,
        head: CommitId,
        commits: &BTreeSet<CommitId>,
        cancel: &AtomicBool,
    ) -> Result<BTreeSet<CommitId>, RepositoryError> {
        let (local, mut unreached): (BTreeSet<CommitId>, BTreeSet<CommitId>) =
            commits.iter().partition(|commit| self.git.find_commit(oid(**commit)).is_ok());
        // One walk from the head answers for all commits, but a question for one commit is shorter.
        if local.len() <= 4 {
            for commit in local {
                if self.is_ancestor(commit, head)? != AncestorCheck::Yes {
                    unreached.insert(commit);
                }
            }
            return Ok(unreached);
        }
        let mut left = local;
        let mut walk = self.git.revwalk().map_err(|e| self.failed(e))?;
        walk.push(oid(head)).map_err(|e| self.failed(e))?;
        for id in walk {
            if left.is_empty() {
                break;
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(RepositoryError::Cancelled { repository: self.path.clone() });
            }
            left.remove(&object_id(id.map_err(|e| self.failed(e))?));
        }
        unreached.extend(left);
        Ok(unreached)
    }

    /// The commit that a revision names (gitrevisions(7)): `main`, `HEAD~2`, `v1.2.3`, an
    /// abbreviated id.
    pub fn resolve(&self, revision: &str) -> Result<CommitId, RepositoryError> {
        let missing = || RepositoryError::RevisionMissing {
            repository: self.path.clone(),
            revision: revision.to_owned(),
            is_shallow: self.git.is_shallow(),
        };
        // libgit2 takes C strings.
        if revision.contains('\0') || revision.len() > gitwork_core::limits::PATH_BYTES_MAX {
            return Err(missing());
        }
        let (name, rest) = split_revision(revision);
        let known = self.named(name).map(|commit| format!("{commit}{rest}"));
        let revision = known.as_deref().unwrap_or(revision);
        let object = self.git.revparse_single(revision).map_err(|e| match e.code() {
            ErrorCode::NotFound | ErrorCode::InvalidSpec | ErrorCode::Ambiguous => missing(),
            _ => self.failed(e),
        })?;
        object.peel_to_commit().map(|commit| object_id(commit.id())).map_err(|_| missing())
    }

    /// The commit of a name, looked up in Git's order.
    fn named(&self, name: &str) -> Option<CommitId> {
        let orders = ["", "refs/", "refs/tags/", "refs/heads/"];
        orders.iter().find_map(|before| self.names.get(&format!("{before}{name}")).copied())
    }

    /// The tree or blob of a commit at a path; `None` if there is none.
    pub fn entry(
        &self,
        commit: CommitId,
        path: &RepoPath,
    ) -> Result<Option<ObjectId>, RepositoryError> {
        let root = self.find_commit(commit)?.tree_id();
        if path.is_root() {
            return Ok(Some(object_id(root)));
        }
        let tree = self.find_folder(root, &RepoPath::root())?;
        match tree.get_path(Path::new(path.as_str())) {
            Ok(entry) => Ok(Some(object_id(entry.id()))),
            Err(e) if e.code() == ErrorCode::NotFound => Ok(None),
            Err(e) => Err(self.failed(e)),
        }
    }

    /// Author, time and subject of a commit.
    pub fn commit(&self, id: CommitId) -> Result<CommitFacts, RepositoryError> {
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

    /// The signature of a commit and the signed content; the inner error says why there is none
    /// to check.
    pub fn signature(
        &self,
        id: CommitId,
    ) -> Result<Result<Signed, SignatureError>, RepositoryError> {
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
    /// The snapshot in the form that the core reads.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot { commit: Some(self.commit), root: self.root, objects: self }
    }

    /// Reads an object of one kind and at most `limit` bytes. A missing or corrupt object marks the
    /// repository as damaged.
    fn read<T>(
        &self,
        id: ObjectId,
        kind: ObjectType,
        limit: usize,
        take: impl FnOnce(&[u8]) -> Result<T, TreeError>,
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
                return Err(ObjectError::Malformed(id, format!("it is a {found}, not a {kind}")));
            }
            if size > limit {
                return Err(ObjectError::TooLarge { id, size: size as u64, limit });
            }
            let object = odb.read(oid(id)).map_err(failed)?;
            // libgit2 has compared the bytes with the id.
            take(object.data()).map_err(|error| ObjectError::Malformed(id, error.to_string()))
        };
        read().inspect_err(|error| {
            if !error.is_of_object() {
                self.is_damaged.store(true, Ordering::Relaxed);
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

    fn for_thread(&self) -> Option<Box<dyn Objects + Send + '_>> {
        let repository = git2::Repository::open(self.repository.path()).ok()?;
        let (is_damaged, pin) = (Arc::clone(&self.is_damaged), self._pin.clone());
        let Self { commit, root, .. } = *self;
        Some(Box::new(Self { commit, root, repository, is_damaged, _pin: pin }))
    }
}

/// The name that a revision begins with, and what follows it (gitrevisions(7)).
pub fn split_revision(revision: &str) -> (&str, &str) {
    let ends = ["~", "^", ":", "@{"].into_iter().filter_map(|end| revision.find(end));
    let end = ends.min().unwrap_or(revision.len());
    revision.split_at_checked(end).unwrap_or((revision, ""))
}

/// Reads an object that should be a tree, so that damage shows. One that is too large for a tree
/// is not read.
pub(super) fn check_object(git: &git2::Repository, id: Oid) -> Result<(), git2::Error> {
    let odb = git.odb()?;
    let (size, _) = odb.read_header(id)?;
    if size > limits::TREE_BYTES_MAX { Ok(()) } else { odb.read(id).map(drop) }
}

pub(super) fn open_error(path: &Path, error: git2::Error) -> RepositoryError {
    let path = path.to_owned();
    match error.code() {
        ErrorCode::NotFound => RepositoryError::NoRepository { path },
        ErrorCode::Owner => RepositoryError::ForeignOwner { path },
        _ => RepositoryError::Git { repository: path, source: error },
    }
}

pub(super) fn oid(id: ObjectId) -> Oid {
    // Twenty bytes are always an id; no repository has the zero id.
    Oid::from_bytes(&id.0).unwrap_or(Oid::ZERO_SHA1)
}

pub(super) fn object_id(id: Oid) -> ObjectId {
    let mut bytes = [0; 20];
    bytes.iter_mut().zip(id.as_bytes()).for_each(|(to, from)| *to = *from);
    ObjectId(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::changed_files::ComparisonBudget;
    use crate::history;
    use gitwork_core::model::operation_error::OperationError as _;

    /// A repository whose commits may have any object as their tree.
    struct AnyTrees {
        folder: tempfile::TempDir,
        git: git2::Repository,
    }

    impl AnyTrees {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let git = git2::Repository::init_bare(folder.path()).unwrap();
            Self { folder, git }
        }

        fn object(&self, kind: ObjectType, bytes: &[u8]) -> Oid {
            self.git.odb().unwrap().write(kind, bytes).unwrap()
        }

        fn malformed(&self) -> Oid {
            self.object(ObjectType::Tree, b"100644 x.yaml\0short")
        }

        /// A folder with one entry.
        fn folder_of(&self, mode: &str, name: &str, id: Oid) -> Oid {
            let head = format!("{mode} {name}\0");
            self.object(ObjectType::Tree, &[head.as_bytes(), id.as_bytes()].concat())
        }

        /// The root of a repository with one work.
        fn root_with_work(&self, text: &str) -> Oid {
            let file = self.object(ObjectType::Blob, text.as_bytes());
            let web = self.folder_of("100644", "x.yaml", file);
            let cluster = self.folder_of("40000", "web", web);
            self.folder_of("40000", "clusters", self.folder_of("40000", "a", cluster))
        }

        fn commit(&self, tree: Oid, parent: Option<CommitId>) -> CommitId {
            let parent = parent.map(|id| format!("parent {id}\n")).unwrap_or_default();
            let person = "a <a@example.com> 1700000000 +0000";
            let text = format!("tree {tree}\n{parent}author {person}\ncommitter {person}\n\nm\n");
            object_id(self.object(ObjectType::Commit, text.as_bytes()))
        }

        fn open(&self) -> Repository {
            Repository::open(self.folder.path()).unwrap()
        }
    }

    #[test]
    fn malformed_root_is_the_snapshots_and_a_malformed_folder_above_it_is_named() {
        let any = AnyTrees::new();
        let root = any.malformed();
        let at_root = any.commit(root, None);
        let below = any.commit(any.folder_of("40000", "team", root), None);
        let blob = any.object(ObjectType::Blob, b"text");
        let no_tree = any.commit(blob, None);
        let repository = any.open();
        let path = |text: &str| RepoPath::parse(text).unwrap();
        for (commit, root) in [(at_root, root), (no_tree, blob)] {
            let snapshot = repository.snapshot(commit, &RepoPath::root()).unwrap();
            assert_eq!(snapshot.root, object_id(root));
            let error = snapshot.tree(snapshot.root).unwrap_err();
            assert!(error.is_of_object(), "{error}");
        }
        for (commit, folder) in [(at_root, "."), (no_tree, "."), (below, "team")] {
            let error = repository.snapshot(commit, &path("team/a")).err().unwrap();
            let text = error.to_string();
            assert!(text.starts_with(&format!("the Git object of the folder `{folder}` is")));
            assert!(error.needs_action(), "no fetch repairs it: {text}");
        }
        assert!(!repository.is_damaged());
    }

    #[test]
    fn malformed_folder_in_a_comparison_is_named_by_its_path() {
        let any = AnyTrees::new();
        let clusters = any.folder_of("40000", "a", any.malformed());
        let commit = any.commit(any.folder_of("40000", "clusters", clusters), None);
        let cancel = AtomicBool::new(false);
        let budget = ComparisonBudget::new(&cancel);
        for (below, folder) in [("", "clusters/a"), ("clusters", "clusters/a")] {
            let below = RepoPath::parse(below).unwrap();
            let found = any.open().changed_files([None, Some(commit)], &below, &budget, &|_| true);
            let text = found.unwrap_err().to_string();
            assert!(text.contains(&format!("the folder `{folder}` is malformed")), "{text}");
        }
    }

    /// A commit with a malformed folder does not stop deletions for ever.
    #[test]
    fn history_goes_on_over_malformed_folders() {
        let any = AnyTrees::new();
        let with_work = any.commit(any.root_with_work("one"), None);
        let malformed = any.commit(any.malformed(), Some(with_work));
        let file = any.object(ObjectType::Blob, b"text");
        let without = any.commit(any.folder_of("100644", "README", file), Some(malformed));
        let again = any.commit(any.root_with_work("one"), Some(malformed));
        let path = RepoPath::parse("clusters/a/web").unwrap();
        let (paths, cancel) = (BTreeSet::from([path.clone()]), AtomicBool::new(false));
        let removals = history::last_removals(&any.open(), without, &paths, &cancel).unwrap();
        let removal = removals[&path];
        assert_eq!((removal.removed_by, removal.last_in), (malformed, with_work));
        let changes = history::last_changed(&any.open(), again, &paths, &cancel).unwrap();
        assert_eq!(changes[&path], again);

        // An object that is missing is not taken for an empty folder.
        let missing = Oid::from_bytes(&[7; 20]).unwrap();
        let damaged = any.commit(missing, Some(with_work));
        let head = any.commit(any.folder_of("100644", "README", file), Some(damaged));
        assert!(history::last_removals(&any.open(), head, &paths, &cancel).is_err());
    }
}
