//! Hints that a folder has changed. A hint says nothing but "look again", may come too often, and may be
//! late where the system cannot watch (network file systems, too few inotify watches): whoever wants to be
//! sure looks again from time to time as well.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// How often to look whether the watched folder is still the one at its path. It costs one `stat`.
const PRESENCE_INTERVAL: Duration = Duration::from_millis(500);
/// A folder that never comes to rest still gives a hint after this many quiet periods.
const BUSY_PERIODS_MAX: u32 = 10;

/// The thread that watches could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot watch {folder}")]
pub struct WatchError {
    folder: PathBuf,
    source: std::io::Error,
}

/// Watches a folder until it is dropped.
pub struct Watch {
    stop: Arc<AtomicBool>,
    wake: SyncSender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Calls `hint` from a thread of its own once the folder has changed and then been quiet for `quiet`,
    /// whatever is in it; changes below `.git` do not count, unless the folder itself is in one. The folder may
    /// be missing, and may be removed and come back: each of these is a change.
    pub fn start(
        folder: &Path,
        quiet: Duration,
        hint: impl FnMut() + Send + 'static,
    ) -> Result<Self, WatchError> {
        let stop = Arc::new(AtomicBool::new(false));
        // One place is enough: a hint that waits already says all.
        let (wake, woken) = mpsc::sync_channel(1);
        let watching = Watching {
            folder: folder.to_owned(),
            quiet,
            stop: Arc::clone(&stop),
            wake: wake.clone(),
            watcher: None,
            identity: None,
        };
        // Set up before the caller goes on, so that no change after this call is missed.
        let mut watching = watching;
        watching.attach();
        let thread = thread::Builder::new()
            .name("git-watch".to_owned())
            .spawn(move || watching.run(&woken, hint))
            .map_err(|source| WatchError { folder: folder.to_owned(), source })?;
        Ok(Self { stop, wake, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = self.wake.try_send(());
        if let Some(thread) = self.thread.take() {
            // It ends by itself; a panic in the caller's hint has been reported there.
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

    /// Waits until nothing has happened for a while, but not for ever.
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

    /// Puts a new watcher on the folder that is at the path now. Where the system refuses one, the look at
    /// the folder's identity is what remains.
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
            if event.as_ref().map_or(true, |event| matters(&root, event)) {
                // Full means that a hint is on its way.
                let _ = wake.try_send(());
            }
        });
        let attached = watcher.and_then(|mut watcher| {
            watcher.watch(&folder, RecursiveMode::Recursive)?;
            Ok(watcher)
        });
        match attached {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => {
                let folder = self.folder.display();
                tracing::warn!(%folder, %error, "the folder cannot be watched; it is only polled");
            }
        }
    }
}

/// Reading is no change, and neither is what Git does for itself. An event without a path, or one that says
/// that events were lost, may be anything.
fn matters(root: &Path, event: &notify::Event) -> bool {
    if matches!(event.kind, EventKind::Access(_)) {
        return false;
    }
    let own = |path: &PathBuf| path.strip_prefix(root).is_ok_and(|p| p.starts_with(".git"));
    event.need_rescan() || event.paths.is_empty() || !event.paths.iter().all(own)
}

fn identity(folder: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(folder).ok().map(|facts| (facts.dev(), facts.ino()))
}
