//! One bare mirror for each repository, with its whole history, because removed folders are looked
//! up there. A mirror that is damaged, too large or of another user is rebuilt.
//!
//! The mirror's folder has `lock`, held as long as a [`Mirror`] lives, `mirror-<number>.git`, and,
//! during a rebuild, `new.git`, which then gets the next number. Numbers are not reused, because
//! libgit2 keeps packs open by path for the whole process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use git2::ErrorClass;

use super::address::{Address, ProxyAddress};
use super::error::{FetchError, MirrorError, RepositoryError};
use super::fetch::{Fetched, fetch_into};
use super::mirror_folder::{
    FolderLock, NEW, create, create_private, folder_size, install, lock, numbered, numbers, remove,
    usable,
};
use super::remote::{Reference, Remote};
use super::repository::{AncestorCheck, GitSnapshot, Repository};
use super::transport::Bounds;
use crate::limits;
use gitwork_core::model::name::{CommitId, RepoPath};

/// Bounds of one mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorLimits {
    /// Time for one fetch, from the DNS look-up to the last object.
    pub fetch_time_max: Duration,
    /// Time without a byte from the server during a fetch.
    pub stall_time_max: Duration,
    /// Bytes that one fetch may receive.
    pub fetch_bytes_max: u64,
    /// Bytes that the mirror may use on disk. A larger mirror is rebuilt without unreachable
    /// objects, because libgit2 cannot collect garbage.
    pub mirror_bytes_max: u64,
}

impl Default for MirrorLimits {
    /// Enough for repositories a hundred times larger than the configuration of a fleet.
    fn default() -> Self {
        Self {
            fetch_time_max: Duration::from_secs(300),
            stall_time_max: Duration::from_secs(30),
            fetch_bytes_max: 1 << 30,
            mirror_bytes_max: 2 << 30,
        }
    }
}

/// A bare mirror of one repository, used by this process alone.
pub struct Mirror {
    folder: PathBuf,
    remote: Remote,
    limits: MirrorLimits,
    repository: Repository,
    is_damaged: Arc<AtomicBool>,
    number: u64,
    /// Held, never read.
    _lock: FolderLock,
}

impl Mirror {
    /// Opens the mirror in a folder. Creates an empty one if there is none, or only one that is
    /// damaged, of another user or of another repository.
    pub fn open(folder: &Path, remote: Remote, limits: MirrorLimits) -> Result<Self, MirrorError> {
        Address::parse(&remote.url)?;
        if let Some(proxy) = &remote.proxy {
            ProxyAddress::parse(proxy)?;
        }
        create_private(folder)?;
        let lock = lock(folder)?;
        remove(&folder.join(NEW))?;
        let mut numbers = numbers(folder)?;
        let last = numbers.pop();
        let git = last.and_then(|number| usable(folder, number, &remote.url));
        let (number, git) = match git {
            Some(git) => (last.unwrap_or_default(), git),
            None => {
                let number = last.map_or(0, |last| last + 1);
                create(&folder.join(NEW), &remote.url)?;
                (number, install(folder, number)?)
            }
        };
        let is_damaged = Arc::new(AtomicBool::new(false));
        let repository = Repository::new(git, Arc::clone(&is_damaged));
        let folder = folder.to_owned();
        let mirror = Self { folder, remote, limits, repository, is_damaged, number, _lock: lock };
        mirror.remove_others()?;
        Ok(mirror)
    }

    /// Removes the mirrors with other numbers.
    fn remove_others(&self) -> Result<(), MirrorError> {
        let others = numbers(&self.folder)?.into_iter().filter(|number| *number != self.number);
        others.into_iter().try_for_each(|number| remove(&numbered(&self.folder, number)))
    }

    /// The repository as fetched so far.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Fetches a reference and returns the commit that it names. On an error the mirror is as it
    /// was. Setting `cancel` ends the fetch within a fraction of a second.
    pub fn fetch(
        &mut self,
        reference: &Reference,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Fetched, FetchError> {
        self.remove_others()?;
        if self.is_damaged.load(Ordering::Relaxed) || self.is_oversized()? {
            return self.rebuild(reference, cancel);
        }
        let bounds = self.bounds(self.limits.fetch_bytes_max);
        match fetch_into(self.repository.git(), &self.remote, bounds, reference, cancel) {
            // An error on the local disk: the mirror is suspect, not the remote.
            Err(FetchError::Git { source, .. }) if is_local(&source) => {
                self.rebuild(reference, cancel)
            }
            other => other,
        }
    }

    /// The tree at a path of a fetched commit.
    pub fn snapshot(
        &self,
        commit: CommitId,
        path: &RepoPath,
    ) -> Result<GitSnapshot, RepositoryError> {
        self.repository.snapshot(commit, path)
    }

    /// Whether `old` is `new` or an ancestor of it.
    pub fn is_ancestor(
        &self,
        old: CommitId,
        new: CommitId,
    ) -> Result<AncestorCheck, RepositoryError> {
        self.repository.is_ancestor(old, new)
    }

    /// The fetched commit that a revision names, as in `git rev-parse`.
    pub fn resolve(&self, revision: &str) -> Result<CommitId, RepositoryError> {
        self.repository.resolve(revision)
    }

    /// The mirror's size on disk, in bytes.
    pub fn size(&self) -> Result<u64, MirrorError> {
        folder_size(&numbered(&self.folder, self.number), &mut |_| {})
    }

    fn bounds(&self, bytes_max: u64) -> Bounds {
        let MirrorLimits { fetch_time_max: total, stall_time_max: stall, .. } = self.limits;
        Bounds { total, stall, bytes_max }
    }

    /// Whether the mirror is larger than its limit or has too many packs.
    fn is_oversized(&self) -> Result<bool, MirrorError> {
        let mut packs = 0;
        let size = folder_size(&numbered(&self.folder, self.number), &mut |path| {
            packs += usize::from(path.extension().is_some_and(|e| e == "pack"));
        })?;
        Ok(size > self.limits.mirror_bytes_max || packs > limits::MIRROR_PACKS_MAX)
    }

    /// Fetches into a new mirror, which then replaces the old one. The old one stays on disk until
    /// the next fetch, for snapshots that still read it.
    fn rebuild(
        &mut self,
        reference: &Reference,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Fetched, FetchError> {
        let new = self.folder.join(NEW);
        remove(&new)?;
        let git = create(&new, &self.remote.url)?;
        let budget = self.limits.fetch_bytes_max.min(self.limits.mirror_bytes_max);
        let fetched = fetch_into(&git, &self.remote, self.bounds(budget), reference, cancel)
            .inspect_err(|_| drop(remove(&new)))?;
        let size = folder_size(&new, &mut |_| {})?;
        if size > self.limits.mirror_bytes_max {
            remove(&new)?;
            let limit = self.limits.mirror_bytes_max;
            return Err(FetchError::OverBudget { url: self.remote.url.clone(), size, limit });
        }
        drop(git);
        let git = install(&self.folder, self.number + 1)?;
        self.number += 1;
        self.is_damaged = Arc::default();
        self.repository = Repository::new(git, Arc::clone(&self.is_damaged));
        Ok(fetched)
    }
}

/// Whether an error is about the local disk.
fn is_local(error: &git2::Error) -> bool {
    matches!(
        error.class(),
        ErrorClass::Odb
            | ErrorClass::Object
            | ErrorClass::Tree
            | ErrorClass::Zlib
            | ErrorClass::Reference
            | ErrorClass::Repository
            | ErrorClass::Config
    )
}
