//! One source: a repository, a ref and a path, opened and read into what Git wants. Blocking; the daemon and the
//! commands share it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::core::departed::{self, Removal};
use crate::core::desired::{Desired, Renderer};
use crate::core::digest::Digest;
use crate::core::name::{CommitId, NameError, ObjectId, RepoPath, SourceId, WorkKey};
use crate::core::plan::{Departed, LastStood};
use crate::core::snapshot::ObjectError;
use crate::core::work::DesiredWork;
use crate::git::directory::DirectoryError;
use crate::git::{
    self, Ancestry, Directory, FetchError, GitSnapshot, LocalRepository, Mirror, MirrorError,
    MirrorLimits, Reference, Remote, history,
};

/// What is needed to read a source.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    pub id: SourceId,
    pub repository: Repository,
    /// Where the layout starts inside the repository.
    pub path: RepoPath,
}

/// Where a source's files come from.
#[derive(Debug, Clone)]
pub enum Repository {
    /// A Git repository, fetched into a mirror below `cache`.
    Git { remote: Box<Remote>, reference: Reference, cache: PathBuf },
    /// A folder as it is on disk, uncommitted changes included.
    Directory(PathBuf),
}

/// Why a source could not be read. Nothing may be taken for absent then.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Repository(#[from] git::ReadError),
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Objects(#[from] ObjectError),
}

/// One state of a source.
#[derive(Debug, Clone)]
pub struct Read {
    pub desired: Arc<Desired>,
    /// The ref or folder that was read, for people.
    pub name: String,
    /// The commit read before this one is not among its ancestors: the branch was force-pushed or moved back.
    pub rewound_from: Option<CommitId>,
    /// The tree at the source's path.
    pub root: ObjectId,
}

/// An opened source. Keeps the mirror, and what was rendered last.
pub struct Source {
    config: SourceConfig,
    origin: Origin,
    renderer: Renderer,
    last: Option<Read>,
}

enum Origin {
    Mirror { mirror: Box<Mirror>, reference: Reference },
    Directory(Directory),
}

/// The id of a source that was given none: what people call the repository, and a hash that keeps apart what
/// differs in repository, ref or path.
pub fn default_id(
    repository: &str,
    reference: &str,
    path: &RepoPath,
) -> Result<SourceId, NameError> {
    let name = repository.trim_end_matches('/').trim_end_matches(".git");
    let name = name.rsplit(['/', ':', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let slug: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    let hash = Digest::of(format!("{repository}\n{reference}\n{path}").as_bytes()).to_string();
    let hash = hash.get(..8).unwrap_or_default();
    let slug = slug.trim_matches('-');
    SourceId::parse(&if slug.is_empty() {
        format!("source-{hash}")
    } else {
        format!("{slug}-{hash}")
    })
}

/// The folder of a repository's mirror below the cache.
fn mirror_folder(cache: &Path, url: &str) -> PathBuf {
    let hash = Digest::of(url.as_bytes()).to_string();
    cache.join(hash.get(..16).unwrap_or_default()).with_extension("git")
}

impl Source {
    /// Opens the mirror or the folder. Nothing is fetched yet.
    pub fn open(config: SourceConfig) -> Result<Self, ReadError> {
        let origin = match &config.repository {
            Repository::Git { remote, reference, cache } => {
                let folder = mirror_folder(cache, &remote.url);
                let mirror = Mirror::open(&folder, Remote::clone(remote), MirrorLimits::default())?;
                Origin::Mirror { mirror: Box::new(mirror), reference: reference.clone() }
            }
            Repository::Directory(folder) => {
                Origin::Directory(Directory::new(&folder.join(config.path.as_str())))
            }
        };
        let renderer = Renderer::new(config.id.clone());
        Ok(Self { config, origin, renderer, last: None })
    }

    pub fn config(&self) -> &SourceConfig {
        &self.config
    }

    /// Fetches and renders. What did not change since the last time is not read again.
    pub fn read(&mut self, cancel: &Arc<AtomicBool>) -> Result<Read, ReadError> {
        let read = match &mut self.origin {
            Origin::Mirror { mirror, reference } => {
                let fetched = mirror.fetch(reference, cancel)?;
                if let Some(last) = &self.last
                    && last.desired.commit == Some(fetched.commit)
                {
                    return Ok(Read { rewound_from: None, name: fetched.name, ..last.clone() });
                }
                let snapshot = mirror.snapshot(fetched.commit, &self.config.path)?;
                let desired = Arc::new(self.renderer.render(&snapshot.snapshot())?);
                let before = self.last.as_ref().and_then(|last| last.desired.commit);
                let rewound_from = match before {
                    Some(before)
                        if mirror.is_ancestor(before, fetched.commit)? != Ancestry::Yes =>
                    {
                        Some(before)
                    }
                    _ => None,
                };
                Read { desired, name: fetched.name, rewound_from, root: snapshot.root }
            }
            Origin::Directory(directory) => {
                let snapshot = directory.snapshot()?;
                if let Some(last) = &self.last
                    && last.root == snapshot.root
                {
                    return Ok(last.clone());
                }
                let desired = Arc::new(self.renderer.render(&snapshot.snapshot())?);
                let name = directory.root().display().to_string();
                Read { desired, name, rewound_from: None, root: snapshot.root }
            }
        };
        self.last = Some(read.clone());
        Ok(read)
    }

    /// Reads one revision, as `git rev-parse` names it, of the repository that the source is in.
    pub fn read_revision(
        &mut self,
        revision: &str,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Desired, ReadError> {
        let snapshot = match &mut self.origin {
            Origin::Mirror { mirror, reference } => {
                if self.last.is_none() {
                    mirror.fetch(reference, cancel)?;
                }
                mirror.snapshot(mirror.resolve(revision)?, &self.config.path)?
            }
            Origin::Directory(directory) => {
                let local = LocalRepository::discover(directory.root())?;
                let commit = local.repository().resolve(revision)?;
                local.repository().snapshot(commit, local.path())?
            }
        };
        // What was rendered last is a good start: most works of two revisions are the same.
        Ok(self.renderer.clone().render(&snapshot.snapshot())?)
    }

    /// Git's last word on works that `desired` does not have. Works without known history are left out.
    pub fn departed(
        &self,
        desired: &Desired,
        candidates: &[(WorkKey, Option<RepoPath>)],
        cancel: &AtomicBool,
    ) -> Result<Departed, ReadError> {
        let (Origin::Mirror { mirror, .. }, Some(head)) = (&self.origin, desired.commit) else {
            return Ok(Departed::new());
        };
        let mut found = Departed::new();
        let mut folders: Vec<(&WorkKey, &RepoPath)> = Vec::new();
        let there: BTreeMap<&RepoPath, &DesiredWork> =
            desired.works.values().map(|work| (&work.path, work)).collect();
        for (key, path) in candidates {
            let Some(path) = path else { continue };
            // The folder is still there, under another name: what it says now is the last word.
            if let Some(work) = there.get(path) {
                let delete_option = work.delete_option.clone();
                let word = LastStood {
                    removed_by: Some(head),
                    delete_option,
                    prune: work.prune,
                    budgets: None,
                };
                found.insert(key.clone(), word);
            } else {
                folders.push((key, path));
            }
        }
        let in_repository: BTreeSet<RepoPath> =
            folders.iter().map(|(_, path)| self.config.path.join_path(path)).collect();
        let removals = history::last_stood(mirror.repository(), head, &in_repository, cancel)?;
        // One commit mostly removes many.
        let mut snapshots: BTreeMap<CommitId, Option<GitSnapshot>> = BTreeMap::new();
        for (key, path) in folders {
            let Some(ends) = removals.get(&self.config.path.join_path(path)) else { continue };
            for commit in [ends.last_in, ends.removed_by] {
                if let Entry::Vacant(place) = snapshots.entry(commit) {
                    place.insert(self.snapshot(mirror, commit)?);
                }
            }
            let at = |commit| snapshots.get(&commit).and_then(Option::as_ref);
            let Some(before) = at(ends.last_in) else { continue };
            let removal = Removal {
                key,
                folder: path,
                removed_by: ends.removed_by,
                before: before.root,
                after: at(ends.removed_by).map(|after| after.root),
                objects: before,
            };
            if let Some(word) = departed::last_stood(&self.config.id, &removal)? {
                found.insert(key.clone(), word);
            }
        }
        Ok(found)
    }

    /// The source's path in a commit; `None` where the commit has no such folder. What cannot be read is an error,
    /// never taken for absent.
    fn snapshot(
        &self,
        mirror: &Mirror,
        commit: CommitId,
    ) -> Result<Option<GitSnapshot>, git::ReadError> {
        match mirror.snapshot(commit, &self.config.path) {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(git::ReadError::PathMissing { .. } | git::ReadError::NotAFolder { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// For each work folder, the commit that last changed it; `head` where that is not known.
    pub fn last_changed(
        &self,
        head: CommitId,
        folders: &BTreeSet<RepoPath>,
        cancel: &AtomicBool,
    ) -> Result<BTreeMap<RepoPath, CommitId>, ReadError> {
        let mut found: BTreeMap<RepoPath, CommitId> =
            folders.iter().map(|folder| (folder.clone(), head)).collect();
        if let Origin::Mirror { mirror, .. } = &self.origin {
            let paths = folders.iter().map(|folder| self.config.path.join_path(folder)).collect();
            let known = history::last_changed(mirror.repository(), head, &paths, cancel)?;
            for (folder, commit) in &mut found {
                if let Some(known) = known.get(&self.config.path.join_path(folder)) {
                    *commit = *known;
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_ids_are_readable_and_keep_sources_apart() {
        let root = RepoPath::root();
        let id = |repository, reference, path: &RepoPath| {
            default_id(repository, reference, path).unwrap().to_string()
        };
        let first = id("https://git.example/team/Fleet_Config.git", "main", &root);
        assert!(first.starts_with("fleet-config-"), "{first}");
        assert_eq!(first, id("https://git.example/team/Fleet_Config.git", "main", &root));
        assert_ne!(first, id("https://git.example/team/Fleet_Config.git", "next", &root));
        assert_ne!(first, id("https://git.example/team/Fleet_Config.git", "main", &root.join("a")));
        assert!(id("///", "", &root).starts_with("source-"));
        assert!(id(&"ü".repeat(200), "", &root).len() <= 63);
    }
}
