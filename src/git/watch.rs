//! Hints that a folder has changed. A hint only means "read again". It may come too often, and late
//! if the system cannot watch (network file systems, too few inotify watches), so a caller also has
//! to read at intervals.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_retry::log_error;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// Interval between checks that the watched folder is still the one at its path; costs one `stat`.
const PRESENCE_INTERVAL: Duration = Duration::from_millis(500);
/// A folder that changes all the time gives a hint after this many quiet periods.
const BUSY_PERIODS_MAX: u32 = 10;

/// Why the changes of a folder cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The watching thread could not be started.
    #[error("cannot start a thread that watches {folder}")]
    Thread {
        /// The folder to watch.
        folder: PathBuf,
        /// Why the system started no thread.
        source: std::io::Error,
    },
    /// The system does not report changes of the folder.
    #[error("cannot watch {folder}")]
    Folder {
        /// The folder to watch.
        folder: PathBuf,
        /// Why the system does not report them.
        source: notify::Error,
    },
}

impl OperationError for WatchError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "FolderWatch"
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Folder { source, .. } if is_over_limit(source) => {
                vec!["raise the sysctl fs.inotify.max_user_watches".to_owned()]
            }
            _ => Vec::new(),
        }
    }
}

/// Whether the user has as many watches as the system allows.
fn is_over_limit(error: &notify::Error) -> bool {
    matches!(error.kind, notify::ErrorKind::MaxFilesWatch)
}

/// Watches a folder until it is dropped.
pub struct Watch {
    stop: Arc<AtomicBool>,
    wake: SyncSender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Calls `hint` from a thread of its own after the folder has changed and then been quiet for
    /// `quiet`. Changes below `.git` do not count, unless the folder itself is inside `.git`. The
    /// folder may be missing, disappear and come back: each of these is a change.
    pub fn start(
        folder: &Path,
        quiet: Duration,
        hint: impl FnMut() + Send + 'static,
    ) -> Result<Self, WatchError> {
        let stop = Arc::new(AtomicBool::new(false));
        // Capacity for one message is enough: one waiting hint covers all changes.
        let (wake, woken) = mpsc::sync_channel(1);
        let watching = Watching {
            folder: folder.to_owned(),
            quiet,
            stop: Arc::clone(&stop),
            wake: wake.clone(),
            watcher: None,
            identity: None,
        };
        // Attach before returning, so that no change after this call is missed.
        let mut watching = watching;
        watching.attach();
        let thread = thread::Builder::new()
            .name("git-watch".to_owned())
            .spawn(move || watching.run(&woken, hint))
            .map_err(|source| WatchError::Thread { folder: folder.to_owned(), source })?;
        Ok(Self { stop, wake, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = self.wake.try_send(());
        if let Some(thread) = self.thread.take() {
            // The thread ends by itself; a panic in `hint` has already been reported.
            let _ = thread.join();
        }
    }
}

struct Watching {
    folder: PathBuf,
    quiet: Duration,
    stop: Arc<AtomicBool>,
    wake: SyncSender<()>,
    watcher: Option<RecommendedWatcher>,
    /// Device and inode of the folder that the watcher is on.
    identity: Option<(u64, u64)>,
}

impl Watching {
    fn run(mut self, woken: &Receiver<()>, mut hint: impl FnMut()) {
        while !self.stop.load(Ordering::SeqCst) {
            let changed = match woken.recv_timeout(PRESENCE_INTERVAL) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => self.is_replaced(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if !changed {
                continue;
            }
            self.settle(woken);
            if self.is_replaced() {
                self.attach();
            }
            if !self.stop.load(Ordering::SeqCst) {
                hint();
            }
        }
    }

    /// Waits until the folder is quiet, within a bound.
    fn settle(&self, woken: &Receiver<()>) {
        let latest = Instant::now() + self.quiet * BUSY_PERIODS_MAX;
        while !self.stop.load(Ordering::SeqCst) && Instant::now() < latest {
            if woken.recv_timeout(self.quiet).is_err() {
                return;
            }
        }
    }

    fn is_replaced(&self) -> bool {
        identity(&self.folder) != self.identity
    }

    /// Watches the folder that is at the path now. If the system refuses, only the check of the
    /// folder's identity remains.
    fn attach(&mut self) {
        self.watcher = None;
        self.identity = identity(&self.folder);
        if self.identity.is_none() {
            return;
        }
        let wake = self.wake.clone();
        let folder = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        let root = folder.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.as_ref().map_or(true, |event| may_be_change(&root, event)) {
                // A full channel means that a hint is already waiting.
                let _ = wake.try_send(());
            }
        });
        let attached = watcher.and_then(|mut watcher| {
            watcher.watch(&folder, RecursiveMode::Recursive)?;
            Ok(watcher)
        });
        match attached {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(source) => {
                let error = WatchError::Folder { folder: self.folder.clone(), source };
                log_error!(warn, &error, "polling the folder instead of watching it");
            }
        }
    }
}

/// Whether an event may be a change of the folder. Reading and Git's own files are none. An event
/// without a path, or one about lost events, counts.
fn may_be_change(root: &Path, event: &notify::Event) -> bool {
    if matches!(event.kind, EventKind::Access(_)) {
        return false;
    }
    let own = |path: &PathBuf| path.strip_prefix(root).is_ok_and(|p| p.starts_with(".git"));
    event.need_rescan() || event.paths.is_empty() || !event.paths.iter().all(own)
}

fn identity(folder: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(folder).ok().map(|facts| (facts.dev(), facts.ino()))
}

#[cfg(test)]
mod tests {
    use notify::Event;
    use notify::event::{AccessKind, CreateKind, Flag, ModifyKind};

    use super::*;

    #[test]
    fn reads_and_files_of_git_are_no_changes() {
        let (read, modified) =
            (EventKind::Access(AccessKind::Read), EventKind::Modify(ModifyKind::Any));
        let created = EventKind::Create(CreateKind::Any);
        for (kind, paths, expected) in [
            (modified, &["a.yaml"][..], true),
            (read, &["a.yaml"], false),
            (created, &[".git"], false),
            (created, &[".git/index.lock"], false),
            (modified, &[".git/index", "a.yaml"], true),
            (modified, &[".github/a.yaml"], true),
            (modified, &[], true),
        ] {
            let root = Path::new("/work");
            let add = |event: Event, path: &&str| event.add_path(root.join(path));
            let event = paths.iter().fold(Event::new(kind), add);
            assert_eq!(may_be_change(root, &event), expected, "{event:?}");
        }
        let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        let lost = lost.add_path(PathBuf::from("/work/.git/index"));
        assert!(may_be_change(Path::new("/work"), &lost), "events were lost");
    }
}
