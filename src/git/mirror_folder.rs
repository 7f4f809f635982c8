//! The folder of a mirror: its lock, the numbered mirrors in it, and their size.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::error::MirrorError;

/// The key in the mirror's configuration that keeps the URL of its repository.
const URL_KEY: &str = "gitwork.url";
/// The name of a mirror under construction.
pub(super) const NEW: &str = "new.git";

/// Creates a folder that only this user can read.
pub(super) fn create_private(folder: &Path) -> Result<(), MirrorError> {
    use std::os::unix::fs::DirBuilderExt as _;
    // The repository may be private.
    let create = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    create.map_err(|source| io_error("create the folder", folder, source))
}

/// The exclusive lock of this process on a folder.
pub(super) struct FolderLock(File);

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Unlock explicitly: a child that another thread has just forked keeps the file open, and
        // with it the lock, until it runs its program. On an error the lock ends with the file.
        let _ = self.0.unlock();
    }
}

/// Locks a folder, or fails at once if another process has locked it.
pub(super) fn lock(folder: &Path) -> Result<FolderLock, MirrorError> {
    let path = folder.join("lock");
    let options = File::options().create(true).truncate(false).write(true).open(&path);
    let file = options.map_err(|source| io_error("open", &path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(FolderLock(file)),
        Err(TryLockError::WouldBlock) => Err(MirrorError::Locked { folder: folder.to_owned() }),
        Err(TryLockError::Error(source)) => Err(io_error("lock", &path, source)),
    }
}

/// The mirror with a number, if it is of this repository, readable and owned by this user.
pub(super) fn usable(folder: &Path, number: u64, url: &str) -> Option<git2::Repository> {
    use std::os::unix::fs::MetadataExt as _;
    let path = numbered(folder, number);
    // The user's configuration can turn off libgit2's own check.
    let ours = tempfile::tempfile_in(folder).ok()?.metadata().ok()?.uid();
    if fs::metadata(&path).ok()?.uid() != ours {
        return None;
    }
    let git = git2::Repository::open_bare(path).ok()?;
    let recorded = git.config().and_then(|mut c| c.snapshot()?.get_string(URL_KEY)).ok()?;
    let readable = git.references().is_ok() && git.odb().is_ok() && !git.is_shallow();
    (recorded == url && readable).then_some(git)
}

/// The path of the mirror with a number.
pub(super) fn numbered(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("mirror-{number}.git"))
}

/// The numbers of the mirrors in a folder, ascending.
pub(super) fn numbers(folder: &Path) -> Result<Vec<u64>, MirrorError> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| io_error("list", folder, e))? {
        let name = entry.map_err(|e| io_error("list", folder, e))?.file_name();
        let number = name.to_str().and_then(|n| n.strip_prefix("mirror-")?.strip_suffix(".git"));
        numbers.extend(number.and_then(|n| n.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Creates an empty bare repository for a mirror of `url`.
pub(super) fn create(path: &Path, url: &str) -> Result<git2::Repository, MirrorError> {
    let failed = |source| MirrorError::Git { folder: path.to_owned(), source };
    let mut options = git2::RepositoryInitOptions::new();
    // Templates of the system could add hooks and settings.
    options.bare(true).external_template(false).no_reinit(true);
    let git = git2::Repository::init_opts(path, &options).map_err(failed)?;
    git.config().and_then(|mut c| c.set_str(URL_KEY, url)).map_err(failed)?;
    Ok(git)
}

/// Gives the new mirror its number.
pub(super) fn install(folder: &Path, number: u64) -> Result<git2::Repository, MirrorError> {
    let (new, path) = (folder.join(NEW), numbered(folder, number));
    remove(&path)?;
    fs::rename(&new, &path).map_err(|source| io_error("move into place", &new, source))?;
    git2::Repository::open_bare(&path).map_err(|source| MirrorError::Git { folder: path, source })
}

/// Removes a folder or file, if there is one.
pub(super) fn remove(path: &Path) -> Result<(), MirrorError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(facts) if facts.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path, e)),
        _ => Ok(()),
    }
}

/// The bytes of all files below a folder; `seen` gets the path of each. Files that vanish
/// meanwhile do not count.
pub(super) fn folder_size(folder: &Path, seen: &mut dyn FnMut(&Path)) -> Result<u64, MirrorError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(e) => return Err(io_error("list", folder, e)),
    };
    let mut size = 0;
    for entry in entries {
        let entry = entry.map_err(|e| io_error("list", folder, e))?;
        let Ok(facts) = entry.metadata() else { continue };
        if facts.is_dir() {
            size += folder_size(&entry.path(), seen)?;
        } else {
            seen(&entry.path());
            size += facts.len();
        }
    }
    Ok(size)
}

/// A failed file operation; `action` is a verb, as in "open".
pub(super) fn io_error(action: &'static str, path: &Path, source: io::Error) -> MirrorError {
    MirrorError::Io { action, path: path.to_owned(), source }
}
