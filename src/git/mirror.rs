//! One bare mirror for each repository and credentials, with its whole history, because removed
//! folders are looked up there. Sources and processes share it.
//!
//! Only a fetch locks the mirror. It adds objects, which does not disturb readers. A mirror that is
//! damaged, too large or of another user is rebuilt: as a new repository beside the old one, which
//! stays until nobody reads it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use git2::ErrorClass;

use super::address::{Address, ProxyAddress};
use super::error::{FetchError, MirrorError, RepositoryError};
use super::fetch::{Fetched, GroupFetched, fetch_into, local_commit};
use super::fetch_group::{FetchEntry, FetchGroup, FetchPermit, FetchRequest};
use super::folder_lock::{FolderLock, LongWait};
use super::kept_commits;
use super::mirror_folder::{MirrorFolder, PinnedRepository, size};
use super::remote::{Reference, Remote};
use super::repository::{AncestorCheck, GitSnapshot, Repository};
use super::transport::Bounds;
use crate::limits;
use gitwork_core::model::name::{CommitId, RepoPath, SourceId};

/// Bounds of one mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorLimits {
    /// Time for one fetch, from the DNS look-up to the last object.
    pub fetch_time_max: Duration,
    /// Time without a byte from the server during a fetch.
    pub stall_time_max: Duration,
    /// Time to wait until another process has fetched.
    pub lock_time_max: Duration,
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
            lock_time_max: Duration::from_secs(330),
            fetch_bytes_max: 1 << 30,
            mirror_bytes_max: 2 << 30,
        }
    }
}

/// How a process uses a mirror together with others.
pub(super) struct Sharing {
    /// The sources of this process that share the mirror.
    pub group: Arc<FetchGroup>,
    /// Called if another process fetches for a long time.
    pub announce: Arc<dyn Fn(&LongWait) + Send + Sync>,
}

/// A bare mirror of one repository, as one source uses it.
pub struct Mirror {
    folder: MirrorFolder,
    remote: Remote,
    limits: MirrorLimits,
    sharing: Sharing,
    /// The reference that each fetch of the group includes.
    followed: Option<Reference>,
    number: u64,
    repository: Repository,
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if let Some(reference) = &self.followed {
            self.sharing.group.unfollow(reference);
        }
    }
}

impl Mirror {
    /// Opens the mirror in a folder. Creates an empty one if there is none, or only one that is
    /// damaged, of another user or of another repository. [`super::Mirrors`] opens mirrors that
    /// share their fetches.
    pub fn open(folder: &Path, remote: Remote, limits: MirrorLimits) -> Result<Self, MirrorError> {
        let announce = Arc::new(|wait: &LongWait| tracing::info!("{wait}"));
        Self::shared(folder, remote, limits, Sharing { group: Arc::default(), announce })
    }

    pub(super) fn shared(
        folder: &Path,
        remote: Remote,
        limits: MirrorLimits,
        sharing: Sharing,
    ) -> Result<Self, MirrorError> {
        Address::parse(&remote.url)?;
        if let Some(proxy) = &remote.proxy {
            ProxyAddress::parse(proxy)?;
        }
        let folder = MirrorFolder::new(folder, &remote.url)?;
        let found = match folder.newest()? {
            Some(found) => found,
            None => {
                let never = AtomicBool::new(false);
                let lock = folder.lock(limits.lock_time_max, &never, &*sharing.announce)?;
                newest_or_new(&folder, None, &lock)?
            }
        };
        let (number, repository) = (found.number, Repository::pinned(found.git, found.pin));
        Ok(Self { folder, remote, limits, sharing, followed: None, number, repository })
    }

    /// Includes a reference in each fetch of the sources that share the mirror.
    pub(super) fn follow(mut self, reference: Reference) -> Self {
        self.sharing.group.follow(&reference);
        self.followed = Some(reference);
        self
    }

    /// The repository as fetched so far.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Whether the source's reference was fetched since the mirror was opened.
    pub fn has_fetched(&self) -> bool {
        self.repository.names().contains_key("HEAD")
    }

    /// Fetches a reference and returns the commit that it names. On an error the mirror is as it
    /// was. Setting `cancel` ends the fetch within a fraction of a second.
    pub fn fetch(
        &mut self,
        reference: &Reference,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Fetched, FetchError> {
        self.fetch_within(reference, Duration::ZERO, cancel)
    }

    /// As [`Self::fetch`]. A fetch for another source counts too if it began at most `age_max` ago.
    pub fn fetch_within(
        &mut self,
        reference: &Reference,
        age_max: Duration,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Fetched, FetchError> {
        let fetched = self.fetched(reference, age_max, cancel)?;
        let names = self.repository.names_mut();
        names.insert(fetched.name.clone(), fetched.commit);
        if self.followed.as_ref().is_none_or(|followed| followed == reference) {
            names.insert("HEAD".to_owned(), fetched.commit);
        }
        Ok(fetched)
    }

    fn fetched(
        &mut self,
        reference: &Reference,
        age_max: Duration,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Fetched, FetchError> {
        let group = Arc::clone(&self.sharing.group);
        let mut request = FetchRequest {
            reference,
            asked: Instant::now(),
            age_max,
            // Only a fetch of its own repairs the repository that this source reads.
            alone: self.repository.is_damaged(),
            cancel,
        };
        if let Some(fetched) = local_commit(self.repository.git(), reference)
            && !request.alone
        {
            return Ok(fetched);
        }
        loop {
            match group.enter(&request) {
                FetchEntry::Cancelled => return Err(self.cancelled()),
                FetchEntry::Own(permit) => return self.fetch_for_all(permit, cancel),
                FetchEntry::Shared { result: Err(error), .. } => return Err(error),
                FetchEntry::Shared { number, result: Ok(fetched) } => {
                    if self.move_to(number)? {
                        return Ok(fetched);
                    }
                    // Another process has replaced the repository of that fetch.
                    request.alone = true;
                }
            }
        }
    }

    /// Fetches for all sources that share the mirror.
    fn fetch_for_all(
        &mut self,
        mut permit: FetchPermit<'_>,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Fetched, FetchError> {
        let fetched = self.lock(cancel).and_then(|lock| {
            let mut newer = self.newer(&lock)?;
            let fetched = self.fetch_locked(&mut newer, &permit, &lock, cancel);
            if permit.others.is_empty() || !fetched.as_ref().is_err_and(may_be_of_another_source) {
                return fetched;
            }
            permit.separate();
            self.fetch_locked(&mut newer, &permit, &lock, cancel)
        });
        permit.end(fetched)
    }

    /// The newest repository, if this source does not read it yet. Removes those that nobody reads.
    fn newer(&self, lock: &FolderLock) -> Result<Option<PinnedRepository>, FetchError> {
        let is_newest = self.folder.newest_number()? == Some(self.number);
        let newer = match is_newest {
            true => None,
            false => Some(newest_or_new(&self.folder, Some(self.number), lock)?),
        };
        let newest = newer.as_ref().map_or(self.number, |newer| newer.number);
        self.folder.remove_others(newest, lock)?;
        Ok(newer)
    }

    /// One fetch, into the newest repository or into a new one. This source reads it from then on.
    /// Gives the number of the repository too.
    fn fetch_locked(
        &mut self,
        newer: &mut Option<PinnedRepository>,
        permit: &FetchPermit<'_>,
        lock: &FolderLock,
        cancel: &Arc<AtomicBool>,
    ) -> Result<(u64, GroupFetched), FetchError> {
        let (number, git, is_damaged) = match newer {
            Some(newer) => (newer.number, &newer.git, false),
            None => (self.number, self.repository.git(), self.repository.is_damaged()),
        };
        if is_damaged || self.is_oversized(number)? {
            return self.rebuild(permit, lock, cancel);
        }
        let local = local_commit(git, &permit.own).filter(|_| permit.others.is_empty());
        let bounds = self.bounds(self.limits.fetch_bytes_max);
        let references = (&permit.own, &permit.others[..]);
        let fetched = match local {
            Some(fetched) => Ok(GroupFetched { own: Ok(fetched), others: Vec::new() }),
            None => fetch_into(git, &self.remote, bounds, references, cancel),
        };
        let fetched = match fetched {
            // An error on the local disk: the mirror is suspect, not the remote.
            Err(FetchError::Git { source, .. })
            | Ok(GroupFetched { own: Err(FetchError::Git { source, .. }), .. })
                if is_local(&source) =>
            {
                return self.rebuild(permit, lock, cancel);
            }
            other => other?,
        };
        if let Some(newer) = newer.take_if(|_| fetched.own.is_ok()) {
            self.replace(newer);
        }
        Ok((number, fetched))
    }

    fn lock(&self, cancel: &Arc<AtomicBool>) -> Result<FolderLock, FetchError> {
        let announce = &*self.sharing.announce;
        self.folder.lock(self.limits.lock_time_max, cancel, announce).map_err(|error| match error {
            MirrorError::Cancelled { .. } => self.cancelled(),
            error => error.into(),
        })
    }

    fn cancelled(&self) -> FetchError {
        FetchError::Cancelled { url: self.remote.url.clone() }
    }

    /// Reads the repository with a number from now on; `false` if it is not the newest one.
    fn move_to(&mut self, number: u64) -> Result<bool, FetchError> {
        if number == self.number {
            return Ok(true);
        }
        let newest = self.folder.newest()?.filter(|newest| newest.number == number);
        let is_there = newest.is_some();
        newest.into_iter().for_each(|newest| self.replace(newest));
        Ok(is_there)
    }

    fn replace(&mut self, newest: PinnedRepository) {
        let names = std::mem::take(self.repository.names_mut());
        let PinnedRepository { number, git, pin } = newest;
        (self.number, self.repository) = (number, Repository::pinned(git, pin));
        *self.repository.names_mut() = names;
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

    /// The fetched commit that a revision names, as in `git rev-parse`. A name is one that this
    /// source has fetched; `HEAD` is the commit of its reference.
    pub fn resolve(&self, revision: &str) -> Result<CommitId, RepositoryError> {
        self.repository.resolve(revision)
    }

    /// The mirror's size on disk, in bytes.
    pub fn size(&self) -> Result<u64, MirrorError> {
        size(&self.folder.numbered(self.number), &mut |_| {})
    }

    fn bounds(&self, bytes_max: u64) -> Bounds {
        let MirrorLimits { fetch_time_max: total, stall_time_max: stall, .. } = self.limits;
        Bounds { total, stall, bytes_max }
    }

    /// Whether the repository with a number is larger than its limit or has too many packs.
    fn is_oversized(&self, number: u64) -> Result<bool, MirrorError> {
        let mut packs = 0;
        let bytes = size(&self.folder.numbered(number), &mut |path| {
            packs += usize::from(path.extension().is_some_and(|e| e == "pack"));
        })?;
        Ok(bytes > self.limits.mirror_bytes_max || packs > limits::MIRROR_PACKS_MAX)
    }

    /// Fetches into a new repository, which then replaces the old one. It gets the commits that
    /// sources still need from the old one, unless these would make it too large.
    fn rebuild(
        &mut self,
        permit: &FetchPermit<'_>,
        lock: &FolderLock,
        cancel: &Arc<AtomicBool>,
    ) -> Result<(u64, GroupFetched), FetchError> {
        let limit = self.limits.mirror_bytes_max;
        let budget = self.limits.fetch_bytes_max.min(limit);
        let references = (&permit.own, &permit.others[..]);
        let mut old = self.folder.newest_number()?.map(|newest| self.folder.numbered(newest));
        loop {
            let git = self.folder.create(lock)?;
            let fetched = fetch_into(&git, &self.remote, self.bounds(budget), references, cancel);
            let has_kept = old.take().filter(|old| fetched.is_ok() && copies_kept(old, &git));
            drop(git);
            if !matches!(fetched, Ok(GroupFetched { own: Ok(_), .. })) {
                self.folder.discard(lock)?;
                return fetched.map(|fetched| (0, GroupFetched { others: Vec::new(), ..fetched }));
            }
            let size = self.folder.new_size()?;
            if size <= limit {
                break self.install(fetched?, lock);
            }
            self.folder.discard(lock)?;
            if has_kept.is_none() {
                return Err(FetchError::OverBudget { url: self.remote.url.clone(), size, limit });
            }
        }
    }

    /// Reads the repository under construction from now on.
    fn install(
        &mut self,
        fetched: GroupFetched,
        lock: &FolderLock,
    ) -> Result<(u64, GroupFetched), FetchError> {
        let newest = self.folder.install(Some(self.number), lock)?;
        self.replace(newest);
        Ok((self.number, fetched))
    }

    /// Keeps fetched commits for a source, and no others that were kept for it before: also those
    /// that its branch no longer has.
    pub fn keep(&self, source: &SourceId, commits: &BTreeSet<CommitId>) -> Result<(), MirrorError> {
        let kept = kept_commits::set(self.repository.git(), source, commits);
        kept.map_err(|source| MirrorError::Git {
            folder: self.folder.numbered(self.number),
            source,
        })
    }
}

/// Copies what sources still need from an old repository into a new one. `false` if that is
/// nothing, or cannot be read.
fn copies_kept(old: &Path, new: &git2::Repository) -> bool {
    let Ok(git) = git2::Repository::open_bare(old) else { return false };
    let copied = kept_commits::any(&git).then(|| kept_commits::copy(old, new));
    if let Some(Err(error)) = &copied {
        let error = error.message();
        tracing::warn!(error, "commits that clusters still have are lost with the old mirror");
    }
    copied.is_some_and(|copied| copied.is_ok())
}

/// The newest repository of a folder, or a new and empty one. `last`: the highest number that this
/// process has used.
fn newest_or_new(
    folder: &MirrorFolder,
    last: Option<u64>,
    lock: &FolderLock,
) -> Result<PinnedRepository, MirrorError> {
    if let Some(newest) = folder.newest()? {
        return Ok(newest);
    }
    folder.create(lock)?;
    let new = folder.install(last, lock)?;
    folder.remove_others(new.number, lock)?;
    Ok(new)
}

/// Whether an error may come from the references of other sources in the same fetch.
fn may_be_of_another_source(error: &FetchError) -> bool {
    matches!(
        error,
        FetchError::TooLarge { .. }
            | FetchError::OverBudget { .. }
            | FetchError::Timeout { .. }
            | FetchError::Refused { .. }
            | FetchError::Git { .. }
    )
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
