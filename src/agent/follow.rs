//! The watches that always run: ManifestWorks on the hub; AppliedManifestWorks and prerequisites of
//! failing works on the cluster. They record what changed and queue passes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use gitwork_agent_core::manifest::ResourceMapping;
use gitwork_retry::log_error;

use super::applied_works::AppliedWorks;
use super::hub_works::HubWorks;
use super::items::{AppliedItem, HubWork, MetadataItem, WorkItem};
use super::resource_path::{path, recorded_mapping};
use super::server::{ApiError, ApiServer};
use super::shared::SharedState;
use super::tracking::{ObjectKey, QueueKey, REMOVED_OBJECTS};
use super::watch::{Follower, follow, revision};

/// Wait before a forbidden watch of a prerequisite is tried again: it only speeds up retries.
const FORBIDDEN_RETRY: Duration = Duration::from_secs(300);
/// The kinds that failing works may wait for: group and resource.
pub const PREREQUISITES: [(&str, &str); 2] =
    [("apiextensions.k8s.io", "customresourcedefinitions"), ("", "namespaces")];

/// Follows the ManifestWorks on the hub until the future is dropped.
pub async fn follow_works(hub_works: Arc<HubWorks>, applied_works: Arc<AppliedWorks>) {
    let (hub, path) = (hub_works.server.clone(), hub_works.works_path());
    let mut follower = WorkWatch { hub_works, applied_works, listed: HashSet::new() };
    follow(&hub, &path, false, &mut follower).await;
}

/// Follows the AppliedManifestWorks on the cluster until the future is dropped.
pub async fn follow_applied_works(applied_works: Arc<AppliedWorks>) {
    let (cluster, path) = (applied_works.server.clone(), applied_works.applied_path(None));
    let mut follower = AppliedWorkWatch { applied_works, listed: HashSet::new() };
    follow(&cluster, &path, false, &mut follower).await;
}

/// Follows one of [`PREREQUISITES`] on the cluster until the future is dropped.
pub async fn follow_prerequisites(
    cluster: ApiServer,
    (group, resource): (&str, &str),
    shared: Arc<SharedState>,
) {
    let mapping = ResourceMapping {
        group: group.into(),
        version: "v1".into(),
        resource: resource.into(),
        namespaced: false,
    };
    let mut follower = Prerequisites { shared, latest: 0, listed: false };
    follow(&cluster, &path(&mapping, "", None), true, &mut follower).await;
}

/// The ManifestWorks on the hub.
struct WorkWatch {
    hub_works: Arc<HubWorks>,
    applied_works: Arc<AppliedWorks>,
    listed: HashSet<String>,
}

impl WorkWatch {
    fn shared(&self) -> &SharedState {
        &self.hub_works.shared
    }

    fn is_gone(&self, name: &str) {
        let mut state = self.shared().lock();
        let Some((name, entry)) = state.works.remove_entry(name) else { return };
        state.unsubscribe_all(&QueueKey::Work(name.clone()), &entry.last_pass.outcomes);
        drop(state);
        self.shared().queue.add(self.applied_works.key_of_applied(&name));
    }
}

impl Follower for WorkWatch {
    type Item = WorkItem;
    fn list_started(&mut self) {
        self.listed.clear();
    }
    fn present(&mut self, item: WorkItem) {
        let work = HubWork::from(item);
        let name = work.name.clone();
        self.listed.insert(name.clone());
        let is_evicted = {
            let mut state = self.shared().lock();
            let needs_pass = state.put_work(work);
            if needs_pass {
                self.shared().queue.add(QueueKey::Work(name.as_str().into()));
            }
            let QueueKey::Applied(applied) = self.applied_works.key_of_applied(&name) else {
                return;
            };
            state.applied.get(&applied).is_some_and(|one| one.status.eviction_start_time.is_some())
        };
        if is_evicted {
            self.shared().queue.add(self.applied_works.key_of_applied(&name));
        }
    }
    fn gone(&mut self, item: WorkItem) {
        self.listed.remove(&item.metadata.name);
        self.is_gone(&item.metadata.name);
    }
    fn list_ended(&mut self, _revision: u64) {
        let gone: Vec<Arc<str>> = {
            let state = self.shared().lock();
            state.works.keys().filter(|name| !self.listed.contains(&***name)).cloned().collect()
        };
        for name in gone {
            self.is_gone(&name);
        }
        self.listed = HashSet::new();
        self.shared().listed.send_modify(|listed| listed.works = true);
    }
    fn failed(&mut self, error: &ApiError) -> Duration {
        let cluster = &self.hub_works.cluster_name;
        log_error!(warn, error, cluster, "cannot watch the ManifestWorks on the hub");
        Duration::ZERO
    }
    fn recovered(&mut self) {
        self.shared().retry_failed();
    }
}

/// The AppliedManifestWorks of all hubs.
struct AppliedWorkWatch {
    applied_works: Arc<AppliedWorks>,
    listed: HashSet<String>,
}

impl Follower for AppliedWorkWatch {
    type Item = AppliedItem;
    fn list_started(&mut self) {
        self.listed.clear();
    }
    fn present(&mut self, item: AppliedItem) {
        let name: Arc<str> = item.metadata.name.as_str().into();
        self.listed.insert(item.metadata.name.clone());
        let mut state = self.shared().lock();
        state.applied_revision = state.applied_revision.max(item.revision());
        let old = state.applied.get(&name);
        if old.is_some_and(|old| {
            old.revision() >= item.revision() && old.metadata.uid == item.metadata.uid
        }) {
            return;
        }
        let is_news = old.is_none_or(|old| {
            old.is_deleting() != item.is_deleting()
                || old.spec != item.spec
                || old.metadata.uid != item.metadata.uid
        });
        // Another client changed the list, or deleted and recreated the AppliedManifestWork.
        let recorded_differs = old.is_some_and(|old| {
            old.status.applied_resources != item.status.applied_resources || old.spec != item.spec
        });
        state.applied.insert(name.clone(), Arc::new(item));
        if let (true, Some(QueueKey::Work(work))) =
            (recorded_differs, self.applied_works.key_of_work(&name))
            && let Some(entry) = state.works.get_mut(&work)
        {
            entry.pending.forced = true;
            self.shared().queue.add(QueueKey::Work(work));
        }
        drop(state);
        if is_news {
            self.shared().queue.add(QueueKey::Applied(name));
        }
    }
    fn gone(&mut self, item: AppliedItem) {
        {
            let mut state = self.shared().lock();
            state.applied_revision = state.applied_revision.max(item.revision());
        }
        self.is_gone(&item.metadata.name);
    }
    fn list_ended(&mut self, revision: u64) {
        let gone: Vec<Arc<str>> = {
            let mut state = self.shared().lock();
            state.applied_revision = revision;
            state.applied.keys().filter(|name| !self.listed.contains(&***name)).cloned().collect()
        };
        for name in gone {
            self.is_gone(&name);
        }
        self.listed = HashSet::new();
        self.shared().listed.send_modify(|listed| listed.applied = true);
    }
    fn failed(&mut self, error: &ApiError) -> Duration {
        log_error!(warn, error, "cannot watch the AppliedManifestWorks on the cluster");
        Duration::ZERO
    }
    fn recovered(&mut self) {
        self.shared().retry_failed();
    }
}

impl AppliedWorkWatch {
    fn shared(&self) -> &SharedState {
        &self.applied_works.shared
    }

    /// The AppliedManifestWork is gone: its work is finished, or is applied again.
    fn is_gone(&self, name: &str) {
        let mut state = self.shared().lock();
        let Some(applied) = state.applied.remove(name) else { return };
        let key = QueueKey::Applied(name.into());
        for resource in &applied.status.applied_resources {
            let object = ObjectKey {
                kind: state.tracking.kind(&recorded_mapping(resource)),
                namespace: resource.namespace.as_str().into(),
                name: resource.name.as_str().into(),
            };
            state.tracking.unsubscribe(&object, &key, REMOVED_OBJECTS);
        }
        let Some(QueueKey::Work(work)) = self.applied_works.key_of_work(name) else { return };
        if let Some(entry) = state.works.get_mut(&work) {
            entry.pending.everything = true;
            self.shared().queue.add(QueueKey::Work(work));
        }
    }
}

/// A kind that failing works may wait for.
struct Prerequisites {
    shared: Arc<SharedState>,
    /// The latest revision.
    latest: u64,
    listed: bool,
}

impl Follower for Prerequisites {
    type Item = MetadataItem;
    fn list_started(&mut self) {}
    fn present(&mut self, item: MetadataItem) {
        let at = revision(&item.metadata.resource_version);
        let is_new = at > self.latest;
        self.latest = self.latest.max(at);
        if self.listed && is_new {
            self.shared.retry_failed();
        }
    }
    fn gone(&mut self, _item: MetadataItem) {}
    fn list_ended(&mut self, revision: u64) {
        self.latest = self.latest.max(revision);
        self.listed = true;
    }
    fn failed(&mut self, error: &ApiError) -> Duration {
        if error.is_forbidden() { FORBIDDEN_RETRY } else { Duration::ZERO }
    }
}
