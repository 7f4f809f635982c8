//! The folder of a mirror on disk, which several processes use at the same time:
//!
//! - `lock`: held by the one process that fetches.
//! - `mirror-<number>.git`: the bare repository; the highest number is the newest one.
//! - `mirror-<number>.lock`: held by each process that reads the repository of this number. It is
//!   removed only when nobody holds it.
//! - `new.git`: a repository under construction, which then gets the next number.
//!
//! Numbers are not reused, because libgit2 keeps packs open by path for the whole process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::folder_lock::{FileLock, FolderLock, LockWait, LongWait, create_private};
use super::mirror_error::MirrorError;

/// The key in the mirror's configuration that keeps the URL of its repository.
const URL_KEY: &str = "gitwork.url";
/// The name of a repository under construction.
const NEW: &str = "new.git";
/// How often the newest repository is looked for while other processes replace it.
const ATTEMPTS: usize = 10;

/// A mirror's folder.
pub(super) struct MirrorFolder {
    path: PathBuf,
    /// The URL of the mirrored repository.
    url: String,
}

/// One repository of the folder, kept on disk as long as `pin` lives.
pub(super) struct PinnedRepository {
    pub number: u64,
    pub git: git2::Repository,
    pub pin: FileLock,
}

impl MirrorFolder {
    /// Creates the folder if it is missing.
    pub fn new(path: &Path, url: &str) -> Result<Self, MirrorError> {
        create_private(path)?;
        Ok(Self { path: path.to_owned(), url: url.to_owned() })
    }

    /// Waits until no other process fetches, for at most `time_max`.
    pub fn lock(
        &self,
        time_max: Duration,
        cancel: &AtomicBool,
        announce: &dyn Fn(&LongWait),
    ) -> Result<FolderLock, MirrorError> {
        FolderLock::wait(&self.path, &LockWait { time_max, cancel, announce })
    }

    /// The path of the repository with a number.
    pub fn numbered(&self, number: u64) -> PathBuf {
        self.path.join(format!("mirror-{number}.git"))
    }

    fn pin_file(&self, number: u64) -> PathBuf {
        self.path.join(format!("mirror-{number}.lock"))
    }

    /// The highest number of a repository in the folder.
    pub fn newest_number(&self) -> Result<Option<u64>, MirrorError> {
        Ok(self.numbers(".git")?.last().copied())
    }

    /// The newest repository, pinned; `None` if there is none, or only one that is damaged, of
    /// another user or of another repository.
    pub fn newest(&self) -> Result<Option<PinnedRepository>, MirrorError> {
        for _ in 0..ATTEMPTS {
            let Some(number) = self.newest_number()? else { return Ok(None) };
            // Another process may remove the repository before this one has pinned it.
            let Some(pin) = FileLock::try_shared(&self.pin_file(number))? else { continue };
            if let Some(git) = self.usable(number) {
                return Ok(Some(PinnedRepository { number, git, pin }));
            }
            if fs::symlink_metadata(self.numbered(number)).is_ok() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// The repository with a number, if it is of the mirror's URL, readable and owned by this user.
    fn usable(&self, number: u64) -> Option<git2::Repository> {
        use std::os::unix::fs::MetadataExt as _;
        let path = self.numbered(number);
        // The user's configuration can turn off libgit2's own check.
        let ours = tempfile::tempfile_in(&self.path).ok()?.metadata().ok()?.uid();
        if fs::metadata(&path).ok()?.uid() != ours {
            return None;
        }
        let git = git2::Repository::open_bare(path).ok()?;
        let recorded = git.config().and_then(|mut c| c.snapshot()?.get_string(URL_KEY)).ok()?;
        let readable = git.references().is_ok() && git.odb().is_ok() && !git.is_shallow();
        (recorded == self.url && readable).then_some(git)
    }

    /// Creates an empty repository under construction, for the holder of the folder's lock.
    pub fn create(&self, _lock: &FolderLock) -> Result<git2::Repository, MirrorError> {
        let path = self.path.join(NEW);
        remove(&path)?;
        let failed = |source| MirrorError::Git { folder: path.clone(), source };
        let mut options = git2::RepositoryInitOptions::new();
        // Templates of the system could add hooks and settings.
        options.bare(true).external_template(false).no_reinit(true);
        let git = git2::Repository::init_opts(&path, &options).map_err(failed)?;
        git.config().and_then(|mut c| c.set_str(URL_KEY, &self.url)).map_err(failed)?;
        Ok(git)
    }

    /// Gives the repository under construction the next number, which is above `last`. It is the
    /// newest one from then on.
    pub fn install(
        &self,
        last: Option<u64>,
        _lock: &FolderLock,
    ) -> Result<PinnedRepository, MirrorError> {
        let number = self.newest_number()?.max(last).map_or(0, |last| last + 1);
        let (new, path) = (self.path.join(NEW), self.numbered(number));
        let pin_file = self.pin_file(number);
        let pin = FileLock::try_shared(&pin_file)?.ok_or_else(|| {
            let busy = io::Error::from(io::ErrorKind::ResourceBusy);
            MirrorError::io("lock", &pin_file, busy)
        })?;
        fs::rename(&new, &path).map_err(|e| MirrorError::io("move into place", &new, e))?;
        let git = git2::Repository::open_bare(&path)
            .map_err(|source| MirrorError::Git { folder: path, source })?;
        Ok(PinnedRepository { number, git, pin })
    }

    /// Size in bytes of the repository under construction.
    pub fn new_size(&self) -> Result<u64, MirrorError> {
        size(&self.path.join(NEW), &mut |_| {})
    }

    /// Removes the repository under construction.
    pub fn discard(&self, _lock: &FolderLock) -> Result<(), MirrorError> {
        remove(&self.path.join(NEW))
    }

    /// Removes the repositories with other numbers that nobody reads.
    pub fn remove_others(&self, current: u64, lock: &FolderLock) -> Result<(), MirrorError> {
        self.discard(lock)?;
        let mut numbers = self.numbers(".git")?;
        numbers.extend(self.numbers(".lock")?);
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers.into_iter().filter(|number| *number != current) {
            let pin_file = self.pin_file(number);
            let Some(_unread) = FileLock::try_exclusive(&pin_file)? else { continue };
            remove(&self.numbered(number))?;
            remove(&pin_file)?;
        }
        Ok(())
    }

    /// The numbers of the entries `mirror-<number>` with an ending, ascending.
    fn numbers(&self, ending: &str) -> Result<Vec<u64>, MirrorError> {
        let failed = |e| MirrorError::io("list", &self.path, e);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let number =
                name.to_str().and_then(|n| n.strip_prefix("mirror-")?.strip_suffix(ending));
            numbers.extend(number.and_then(|n| n.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// Removes a folder or file, if there is one.
pub(super) fn remove(path: &Path) -> Result<(), MirrorError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(facts) if facts.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(MirrorError::io("remove", path, e)),
        _ => Ok(()),
    }
}

/// The bytes of all files below a folder; `seen` gets the path of each. Files that vanish
/// meanwhile do not count.
pub(super) fn size(folder: &Path, seen: &mut dyn FnMut(&Path)) -> Result<u64, MirrorError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(e) => return Err(MirrorError::io("list", folder, e)),
    };
    let mut bytes = 0;
    for entry in entries {
        let entry = entry.map_err(|e| MirrorError::io("list", folder, e))?;
        let Ok(facts) = entry.metadata() else { continue };
        if facts.is_dir() {
            bytes += size(&entry.path(), seen)?;
        } else {
            seen(&entry.path());
            bytes += facts.len();
        }
    }
    Ok(bytes)
}
