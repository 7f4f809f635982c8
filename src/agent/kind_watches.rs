//! One watch for each kind with tracked objects, metadata only.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gitwork_agent_core::manifest::ResourceMapping;
use gitwork_retry::log_error;
use tokio::task::AbortHandle;

use super::items::MetadataItem;
use super::metrics::AgentMetrics;
use super::mutex::lock;
use super::resource_path::path;
use super::server::{ApiError, ApiServer};
use super::shared::SharedState;
use super::tracking::KindId;
use super::watch::{Follower, follow, revision};

/// What the watches of tracked kinds have in common.
#[derive(Clone)]
pub struct KindWatchSettings {
    /// The managed cluster.
    pub cluster: ApiServer,
    /// The tracked objects, and the queue.
    pub shared: Arc<SharedState>,
    /// Counts the watches, and changes that only a list reported.
    pub metrics: Arc<AgentMetrics>,
    /// Polling interval of objects that cannot be watched.
    pub poll_interval: Duration,
}

/// The watches of all tracked kinds. They stop when it is dropped or stopped.
pub struct KindWatches {
    settings: KindWatchSettings,
    watches: Mutex<HashMap<KindId, AbortHandle>>,
}

impl KindWatches {
    /// No watches yet.
    pub fn new(settings: KindWatchSettings) -> Self {
        Self { settings, watches: Mutex::default() }
    }

    /// Watches the kinds of all tracked objects, and no others.
    pub fn update(&self) {
        let mut watches = lock(&self.watches);
        let kinds: Vec<(KindId, ResourceMapping, bool)> = {
            let state = self.settings.shared.lock();
            state
                .tracking
                .kinds()
                .filter(|(id, _, used)| *used != watches.contains_key(id))
                .map(|(id, mapping, used)| (id, mapping.clone(), used))
                .collect()
        };
        for (id, mapping, used) in kinds {
            if used {
                let mut kind_watch = KindWatch::new(self.settings.clone(), id);
                let watch = tokio::spawn(async move {
                    let cluster = kind_watch.settings.cluster.clone();
                    follow(&cluster, &path(&mapping, "", None), true, &mut kind_watch).await;
                });
                watches.insert(id, watch.abort_handle());
            } else if let Some(watch) = watches.remove(&id) {
                watch.abort();
            }
        }
        self.settings.metrics.watches.set(i64::try_from(watches.len()).unwrap_or(i64::MAX));
    }

    /// Stops all watches.
    pub fn stop(&self) {
        for (_, watch) in lock(&self.watches).drain() {
            watch.abort();
        }
    }
}

impl Drop for KindWatches {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The objects of one tracked kind.
struct KindWatch {
    settings: KindWatchSettings,
    id: KindId,
    /// The tracked objects in the list that is under way.
    seen: BTreeSet<(Box<str>, Box<str>)>,
    /// Complete lists so far.
    lists: u32,
    listing: bool,
}

impl KindWatch {
    fn new(settings: KindWatchSettings, id: KindId) -> Self {
        Self { settings, id, seen: BTreeSet::new(), lists: 0, listing: false }
    }
}

impl Follower for KindWatch {
    type Item = MetadataItem;
    fn list_started(&mut self) {
        self.seen.clear();
        self.listing = true;
    }
    fn present(&mut self, item: MetadataItem) {
        let metadata = item.metadata;
        let changes = {
            let mut state = self.settings.shared.lock();
            if self.listing
                && state.tracking.is_tracked(self.id, &metadata.namespace, &metadata.name)
            {
                self.seen
                    .insert((metadata.namespace.as_str().into(), metadata.name.as_str().into()));
            }
            state.tracking.observe_present(self.id, &metadata)
        };
        if self.listing && self.lists > 0 {
            self.settings.metrics.missed_changes.inc_by(changes.len() as u64);
        }
        self.settings.shared.notify(changes);
    }
    fn gone(&mut self, item: MetadataItem) {
        let metadata = item.metadata;
        let at = revision(&metadata.resource_version);
        let (namespace, name) = (&metadata.namespace, &metadata.name);
        let changes = {
            let mut state = self.settings.shared.lock();
            state.tracking.observe_gone(self.id, namespace, name, at)
        };
        self.settings.shared.notify(changes);
    }
    fn list_ended(&mut self, revision: u64) {
        let changes = {
            let mut state = self.settings.shared.lock();
            state.tracking.list_ended(self.id, &self.seen, revision)
        };
        if self.lists > 0 {
            self.settings.metrics.missed_changes.inc_by(changes.len() as u64);
        }
        self.settings.shared.notify(changes);
        self.seen.clear();
        self.listing = false;
        self.lists = self.lists.saturating_add(1);
    }
    fn failed(&mut self, error: &ApiError) -> Duration {
        if !error.is_forbidden() && !error.is_not_found() {
            return Duration::ZERO;
        }
        // Objects of this kind cannot be watched: poll them, as OCM's agent does.
        log_error!(
            info,
            error,
            "cannot watch a kind; polling its objects instead. Grant list and watch on the kind"
        );
        let changes = self.settings.shared.lock().tracking.all_subscribers(self.id);
        self.settings.shared.notify(changes);
        self.settings.poll_interval
    }
}
