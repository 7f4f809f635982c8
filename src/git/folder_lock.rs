//! Locks of files and folders that several processes use (flock(2)). The system releases them when
//! their process ends, however it ends.

use std::fmt;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::lock_holder::LockHolder;
use super::mirror_error::MirrorError;
use crate::limits;

/// The file in a folder that is locked, and that names the holder.
const LOCK_FILE: &str = "lock";
/// Time between two attempts to lock.
const RETRY: Duration = Duration::from_millis(20);

/// A process that has waited for the lock of a folder for a while.
#[derive(Debug, Clone)]
pub struct LongWait {
    /// The folder.
    pub folder: PathBuf,
    /// The process that holds its lock.
    pub holder: LockHolder,
}

impl fmt::Display for LongWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { folder, holder } = self;
        write!(f, "waiting for {holder}, which is fetching into {}", folder.display())
    }
}

/// How to wait for the lock of a folder.
pub(super) struct LockWait<'a> {
    pub time_max: Duration,
    pub cancel: &'a AtomicBool,
    /// Called once if the wait takes longer than [`limits::LOCK_WAIT_ANNOUNCED`].
    pub announce: &'a dyn Fn(&LongWait),
}

/// The exclusive lock of this process on a folder.
pub struct FolderLock {
    /// Held, never read.
    _lock: FileLock,
}

impl FolderLock {
    /// Locks a folder, or fails at once if another process has locked it. Creates the folder if it
    /// is missing; only this user can read it.
    pub fn acquire(folder: &Path) -> Result<Self, MirrorError> {
        Self::attempt(folder)?.ok_or_else(|| MirrorError::Locked {
            folder: folder.to_owned(),
            holder: LockHolder::of(&folder.join(LOCK_FILE)),
        })
    }

    /// As [`Self::acquire`], but waits while another process holds the lock.
    pub(super) fn wait(folder: &Path, wait: &LockWait<'_>) -> Result<Self, MirrorError> {
        let began = Instant::now();
        let mut is_announced = false;
        loop {
            if let Some(lock) = Self::attempt(folder)? {
                return Ok(lock);
            }
            let holder = LockHolder::of(&folder.join(LOCK_FILE));
            let folder = folder.to_owned();
            if wait.cancel.load(Ordering::Relaxed) {
                return Err(MirrorError::Cancelled { folder });
            }
            if began.elapsed() > wait.time_max {
                return Err(MirrorError::Busy { folder, holder, limit: wait.time_max });
            }
            if !is_announced && began.elapsed() > limits::LOCK_WAIT_ANNOUNCED {
                (wait.announce)(&LongWait { folder, holder });
                is_announced = true;
            }
            thread::sleep(RETRY);
        }
    }

    fn attempt(folder: &Path) -> Result<Option<Self>, MirrorError> {
        create_private(folder)?;
        let Some(lock) = FileLock::try_exclusive(&folder.join(LOCK_FILE))? else {
            return Ok(None);
        };
        // The name is for messages only.
        let _ = lock.replace_text(&LockHolder::this_process());
        Ok(Some(Self { _lock: lock }))
    }
}

/// The lock of this process on a file.
pub(super) struct FileLock(File);

impl FileLock {
    /// Locks a file, which is created if it is missing; `None` if another process has locked it.
    pub fn try_exclusive(path: &Path) -> Result<Option<Self>, MirrorError> {
        Self::attempt(path, File::try_lock)
    }

    /// As [`Self::try_exclusive`], with a lock that several processes can hold.
    pub fn try_shared(path: &Path) -> Result<Option<Self>, MirrorError> {
        Self::attempt(path, File::try_lock_shared)
    }

    fn attempt(
        path: &Path,
        lock: fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Option<Self>, MirrorError> {
        let mut options = File::options();
        let options = options.create(true).truncate(false).read(true).write(true);
        let file = options.open(path).map_err(|e| MirrorError::io("open", path, e))?;
        match lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(MirrorError::io("lock", path, source)),
        }
        let lock = Self(file);
        // Another process may have removed the file before this one locked it.
        Ok(if lock.is_at(path) { Some(lock) } else { None })
    }

    fn is_at(&self, path: &Path) -> bool {
        let same = |ours: fs::Metadata, there: fs::Metadata| {
            (ours.dev(), ours.ino()) == (there.dev(), there.ino())
        };
        self.0.metadata().is_ok_and(|ours| fs::metadata(path).is_ok_and(|there| same(ours, there)))
    }

    fn replace_text(&self, text: &str) -> std::io::Result<()> {
        self.0.set_len(0)?;
        (&self.0).write_all(text.as_bytes())
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Unlock explicitly: a child that another thread has just forked keeps the file open, and
        // with it the lock, until it runs its program. On an error the lock ends with the file.
        let _ = self.0.unlock();
    }
}

/// Creates a folder that only this user can read, if it is missing.
pub(super) fn create_private(folder: &Path) -> Result<(), MirrorError> {
    // The repository may be private.
    let create = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    create.map_err(|source| MirrorError::io("create the folder", folder, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_lock_is_refused_at_once_and_names_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        let first = FolderLock::acquire(&folder).unwrap();
        let error = FolderLock::acquire(&folder).err().unwrap();
        assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
        assert!(error.to_string().contains(&folder.display().to_string()), "{error}");
        drop(first);
        assert!(FolderLock::acquire(&folder).is_ok());
    }

    #[test]
    fn wait_ends_with_the_lock_with_its_bound_or_when_cancelled() {
        let folder = tempfile::tempdir().unwrap();
        let held = FolderLock::acquire(folder.path()).unwrap();
        let cancel = AtomicBool::new(false);
        let wait = |time_max| LockWait { time_max, cancel: &cancel, announce: &|_| {} };
        let error = FolderLock::wait(folder.path(), &wait(Duration::from_millis(50)));
        assert!(matches!(error, Err(MirrorError::Busy { .. })));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let wait = LockWait {
                    time_max: Duration::from_secs(60),
                    cancel: &AtomicBool::new(false),
                    announce: &|_| {},
                };
                FolderLock::wait(folder.path(), &wait).is_ok()
            });
            thread::sleep(RETRY * 2);
            drop(held);
            assert!(waiting.join().unwrap());
        });
        let _held = FolderLock::acquire(folder.path()).unwrap();
        cancel.store(true, Ordering::Relaxed);
        let error = FolderLock::wait(folder.path(), &wait(Duration::from_secs(60)));
        assert!(matches!(error, Err(MirrorError::Cancelled { .. })));
    }

    #[test]
    fn shared_locks_exclude_only_an_exclusive_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pin");
        let first = FileLock::try_shared(&file).unwrap().unwrap();
        let second = FileLock::try_shared(&file).unwrap().unwrap();
        assert!(FileLock::try_exclusive(&file).unwrap().is_none());
        drop((first, second));
        let last = FileLock::try_exclusive(&file).unwrap().unwrap();
        fs::remove_file(&file).unwrap();
        assert!(!last.is_at(&file), "a removed file locks nothing");
    }
}
