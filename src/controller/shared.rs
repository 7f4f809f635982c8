//! What watches and passes share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gitwork_core::model::name::ClusterName;
use gitwork_replica_sets::names::{LABEL_OWNER, SetKey};
use gitwork_runtime::clock::WallClock;
use gitwork_runtime::queue::Queue;
use jiff::Timestamp;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Duration, Instant};

use crate::collection_watch::{CollectionEvent, WatchedCollection, follow};
use crate::controller_metrics::ControllerMetrics;
use crate::hub_api::HubApi;
use crate::limits;
use crate::store::{ChangedObjects, ControllerState};

/// The ManifestWorks of all clusters.
pub(crate) const WORKS: &str = "/apis/work.open-cluster-management.io/v1/manifestworks";
const SETS: &str = "/apis/work.open-cluster-management.io/v1alpha1/manifestworkreplicasets";
const CLUSTERS: &str = "/apis/cluster.open-cluster-management.io/v1/managedclusters";
const PLACEMENTS: &str = "/apis/cluster.open-cluster-management.io/v1beta1/placements";
const DECISIONS: &str = "/apis/cluster.open-cluster-management.io/v1beta1/placementdecisions";

/// What a pass is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum PassKey {
    /// What the hub says of Placements.
    Facts,
    /// A replica set.
    Set(SetKey),
    /// A completed work.
    Completed(ClusterName, String),
}

/// The state of a leader.
pub(crate) struct SharedController {
    pub api: Arc<HubApi>,
    pub clock: WallClock,
    pub metrics: Arc<ControllerMetrics>,
    pub queue: Queue<PassKey>,
    /// Bounds the writes in flight.
    pub writes: Semaphore,
    /// Whether completed works are deleted.
    pub deletes_completed: bool,
    /// Everything was read once.
    pub ready: Notify,
    state: Mutex<ControllerState>,
}

impl SharedController {
    pub fn new(
        api: Arc<HubApi>,
        clock: WallClock,
        metrics: Arc<ControllerMetrics>,
        state: ControllerState,
        (writes_max, deletes_completed): (usize, bool),
    ) -> Self {
        let (queue, state) = (Queue::new(), Mutex::new(state));
        let writes = Semaphore::new(writes_max);
        let ready = Notify::new();
        Self { api, clock, metrics, queue, writes, deletes_completed, ready, state }
    }

    pub fn lock(&self) -> MutexGuard<'_, ControllerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The instant of a time of day.
    pub fn instant_of(&self, time: Timestamp) -> Instant {
        let wait = time.duration_since(self.clock.now());
        Instant::now() + Duration::try_from(wait).unwrap_or_default()
    }

    /// Queues passes over what has changed.
    pub fn queue_changed(&self, changed: ChangedObjects) {
        let due = Instant::now() + limits::COALESCE;
        for key in changed.sets {
            self.queue.add_at(PassKey::Set(key), due);
        }
        if self.deletes_completed {
            for ((cluster, name), at) in changed.completed {
                self.queue.add_at(PassKey::Completed(cluster, name), self.instant_of(at));
            }
        }
        if changed.all {
            self.queue.add_at(PassKey::Facts, due);
            let keys: Vec<SetKey> = self.lock().sets.keys().cloned().collect();
            for key in keys {
                self.queue.add_at(PassKey::Set(key), due);
            }
        }
    }

    /// Follows all collections for ever.
    pub async fn watch(&self) {
        let works = if self.deletes_completed {
            WORKS.to_owned()
        } else {
            format!("{WORKS}?labelSelector={}", LABEL_OWNER.replace('/', "%2F"))
        };
        let collection = |path: &str, kind| WatchedCollection { path: path.to_owned(), kind };
        let sets = collection(SETS, "ManifestWorkReplicaSets");
        let works = collection(&works, "ManifestWorks");
        let clusters = collection(CLUSTERS, "ManagedClusters");
        let placements = collection(PLACEMENTS, "Placements");
        let decisions = collection(DECISIONS, "PlacementDecisions");
        let observe_sets = |event| {
            let changed = self.lock().observe_sets(event);
            self.queue_changed(changed);
            self.count();
        };
        let observe_works = |event| {
            let changed = self.lock().observe_works(event);
            self.queue_changed(changed);
        };
        let facts_changed = || {
            self.queue.add_at(PassKey::Facts, Instant::now() + limits::COALESCE);
        };
        let observe_clusters = |event: CollectionEvent| {
            self.lock().observe_clusters(event);
            facts_changed();
        };
        let observe_placements = |event: CollectionEvent| {
            self.lock().observe_placements(event);
            facts_changed();
        };
        let observe_decisions = |event: CollectionEvent| {
            self.lock().observe_decisions(event);
            facts_changed();
        };
        tokio::join!(
            follow(&self.api, &sets, observe_sets),
            follow(&self.api, &works, observe_works),
            follow(&self.api, &clusters, observe_clusters),
            follow(&self.api, &placements, observe_placements),
            follow(&self.api, &decisions, observe_decisions),
        );
    }

    /// Publishes the numbers of objects.
    pub fn count(&self) {
        let (sets, works) = {
            let state = self.lock();
            (state.sets.len(), state.count_works())
        };
        self.metrics.set_counts(sets, works);
    }
}
