//! A bare repository with commits of a test.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use git2::{Commit, IndexEntry, Oid, Repository, Signature, Time, Tree};
use gitwork_core::model::name::{CommitId, ObjectId};
use tempfile::TempDir;

/// A bare repository. Each commit is a minute younger than the one before, from a fixed start, so
/// that equal histories have equal ids.
pub struct Repo {
    path: PathBuf,
    repository: Repository,
    commits: Cell<i64>,
}

impl Repo {
    /// Creates an empty bare repository whose HEAD is `main`.
    pub fn create(path: &Path) -> Repo {
        let mut options = git2::RepositoryInitOptions::new();
        options.bare(true).initial_head("main").external_template(false);
        let repository = Repository::init_opts(path, &options).unwrap();
        Repo { path: path.to_owned(), repository, commits: Cell::new(0) }
    }

    /// An empty repository `fleet.git` in a folder of its own, which is removed with the folder.
    pub fn in_new_folder() -> (TempDir, Repo) {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repo::create(&folder.path().join("fleet.git"));
        (folder, repo)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The URL with the scheme `file`.
    pub fn file_url(&self) -> String {
        format!("file://{}", self.path.display())
    }

    /// For operations without a method of this type.
    pub fn git2(&self) -> &Repository {
        &self.repository
    }

    /// Commits these files to a branch, which is created if it does not exist. `None` removes a
    /// file, or the whole folder of that name.
    pub fn commit(&self, branch: &str, files: &[(&str, Option<&str>)]) -> CommitId {
        let parent = self.tip(branch);
        let parents: Vec<CommitId> = parent.into_iter().collect();
        self.commit_on(branch, &parents, files)
    }

    /// Merges `other` into `branch`. The result is the tree of `branch` with these files changed,
    /// so that the test decides what the merge takes from `other`.
    pub fn merge(&self, branch: &str, other: &str, files: &[(&str, Option<&str>)]) -> CommitId {
        let parents = [self.tip(branch).unwrap(), self.tip(other).unwrap()];
        self.commit_on(branch, &parents, files)
    }

    /// A new tip with these parents and the tree of the first one, changed by `files`.
    pub fn commit_on(
        &self,
        branch: &str,
        parents: &[CommitId],
        files: &[(&str, Option<&str>)],
    ) -> CommitId {
        let parents: Vec<Commit<'_>> =
            parents.iter().map(|id| self.repository.find_commit(oid(*id)).unwrap()).collect();
        let tree = self.tree(parents.first(), files);
        let parents: Vec<&Commit<'_>> = parents.iter().collect();
        let number = self.commits.replace(self.commits.get() + 1);
        let author = signature(number);
        let message = format!("Change {number}\n");
        let id = self.repository.commit(None, &author, &author, &message, &tree, &parents).unwrap();
        self.set_branch(branch, object_id(id));
        object_id(id)
    }

    fn tree(&self, base: Option<&Commit<'_>>, files: &[(&str, Option<&str>)]) -> Tree<'_> {
        let mut index = git2::Index::new().unwrap();
        if let Some(base) = base {
            index.read_tree(&base.tree().unwrap()).unwrap();
        }
        for (path, content) in files {
            match content {
                Some(text) => {
                    let id = self.repository.blob(text.as_bytes()).unwrap();
                    index.add(&entry(path, id, 0o100_644)).unwrap();
                }
                None if index.get_path(Path::new(path), 0).is_some() => {
                    index.remove(Path::new(path), 0).unwrap();
                }
                None => index.remove_dir(Path::new(path), 0).unwrap(),
            }
        }
        let id = index.write_tree_to(&self.repository).unwrap();
        self.repository.find_tree(id).unwrap()
    }

    /// Commits one entry of any mode, for example a symlink (`0o120000`) or a gitlink (`0o160000`).
    pub fn commit_mode(&self, branch: &str, path: &str, content: &[u8], mode: u32) -> CommitId {
        let parent = self.tip(branch).map(|id| self.repository.find_commit(oid(id)).unwrap());
        let mut index = git2::Index::new().unwrap();
        if let Some(parent) = &parent {
            index.read_tree(&parent.tree().unwrap()).unwrap();
        }
        let id = if mode == 0o160_000 {
            Oid::from_bytes(content).unwrap()
        } else {
            self.repository.blob(content).unwrap()
        };
        index.add(&entry(path, id, mode)).unwrap();
        let tree = self.repository.find_tree(index.write_tree_to(&self.repository).unwrap());
        let number = self.commits.replace(self.commits.get() + 1);
        let author = signature(number);
        let parents: Vec<&Commit<'_>> = parent.iter().collect();
        let commit =
            self.repository.commit(None, &author, &author, "Change", &tree.unwrap(), &parents);
        let commit = object_id(commit.unwrap());
        self.set_branch(branch, commit);
        commit
    }

    /// Points a branch at a commit, as a forced push does.
    pub fn set_branch(&self, branch: &str, commit: CommitId) {
        let name = format!("refs/heads/{branch}");
        self.repository.reference(&name, oid(commit), true, "test").unwrap();
    }

    pub fn delete_branch(&self, branch: &str) {
        self.repository.find_reference(&format!("refs/heads/{branch}")).unwrap().delete().unwrap();
    }

    /// Makes another branch the default one.
    pub fn set_head(&self, branch: &str) {
        self.repository.set_head(&format!("refs/heads/{branch}")).unwrap();
    }

    pub fn tip(&self, branch: &str) -> Option<CommitId> {
        let id = self.repository.refname_to_id(&format!("refs/heads/{branch}")).ok()?;
        Some(object_id(id))
    }

    /// A lightweight tag, moved if it exists.
    pub fn tag(&self, name: &str, commit: CommitId) {
        let target = self.repository.find_object(oid(commit), None).unwrap();
        self.repository.tag_lightweight(name, &target, true).unwrap();
    }

    /// An annotated tag: an object of its own.
    pub fn annotated_tag(&self, name: &str, commit: CommitId) -> ObjectId {
        let target = self.repository.find_object(oid(commit), None).unwrap();
        object_id(self.repository.tag(name, &target, &signature(0), "A tag\n", true).unwrap())
    }
}

fn entry(path: &str, id: Oid, mode: u32) -> IndexEntry {
    let time = git2::IndexTime::new(0, 0);
    IndexEntry {
        ctime: time,
        mtime: time,
        dev: 0,
        ino: 0,
        mode,
        uid: 0,
        gid: 0,
        file_size: 0,
        id,
        flags: 0,
        flags_extended: 0,
        path: path.as_bytes().to_vec(),
    }
}

fn signature(minutes: i64) -> Signature<'static> {
    let time = Time::new(1_700_000_000 + 60 * minutes, 0);
    Signature::new("Ada Example", "ada@example.com", &time).unwrap()
}

fn oid(id: ObjectId) -> Oid {
    Oid::from_bytes(&id.0).unwrap()
}

fn object_id(id: Oid) -> ObjectId {
    ObjectId(id.as_bytes().try_into().unwrap())
}
