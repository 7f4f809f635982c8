//! The mirrors that the sources of one process share.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::error::MirrorError;
use super::fetch_group::FetchGroup;
use super::folder_lock::LongWait;
use super::mirror::{Mirror, MirrorLimits, Sharing};
use super::remote::{Reference, Remote};

/// The mirrors of one process. Sources with the same remote and cache folder share one mirror and
/// its fetches; sources with different credentials never do.
pub struct Mirrors {
    open: Mutex<Vec<OpenMirror>>,
    announce: Arc<dyn Fn(&LongWait) + Send + Sync>,
}

/// A mirror that sources have open.
struct OpenMirror {
    folder: PathBuf,
    remote: Remote,
    group: Weak<FetchGroup>,
}

impl Default for Mirrors {
    /// Long waits are logged.
    fn default() -> Self {
        Self::announcing(|wait| tracing::info!("{wait}"))
    }
}

impl fmt::Debug for Mirrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mirrors")
    }
}

impl Mirrors {
    /// Calls `announce` when a source has waited for another process for a while.
    pub fn announcing(announce: impl Fn(&LongWait) + Send + Sync + 'static) -> Self {
        Self { open: Mutex::default(), announce: Arc::new(announce) }
    }

    /// Opens the mirror of a remote for a source that follows `reference`, in a folder of its own
    /// below `cache`. Nothing is fetched yet.
    pub fn open(
        &self,
        cache: &Path,
        remote: Remote,
        reference: Reference,
    ) -> Result<Mirror, MirrorError> {
        let name = remote.identity().to_string();
        let folder = cache.join(name.get(..32).unwrap_or_default()).with_extension("git");
        let sharing =
            Sharing { group: self.group(&folder, &remote), announce: Arc::clone(&self.announce) };
        let mirror = Mirror::shared(&folder, remote, MirrorLimits::default(), sharing)?;
        Ok(mirror.follow(reference))
    }

    /// The sources with the same mirror. Sources whose remotes differ, as in a proxy's password,
    /// fetch one after the other, like processes.
    fn group(&self, folder: &Path, remote: &Remote) -> Arc<FetchGroup> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|one| one.group.strong_count() > 0);
        let same = open.iter().find(|one| one.folder == folder && one.remote == *remote);
        if let Some(group) = same.and_then(|one| one.group.upgrade()) {
            return group;
        }
        let group = Arc::<FetchGroup>::default();
        let weak = Arc::downgrade(&group);
        open.push(OpenMirror { folder: folder.to_owned(), remote: remote.clone(), group: weak });
        group
    }
}
