//! The watches: ManifestWorks on the hub; AppliedManifestWorks, tracked kinds, and prerequisites of
//! failing works on the cluster. They record what changed and queue passes.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tracing::{info, warn};

use super::Agent;
use super::items::{AppliedItem, HubWork, MetadataItem, WorkItem};
use super::mutex::lock;
use super::server::{ApiError, path};
use super::state::PassNeed;
use super::tracking::{KindId, QueueKey, tracking_ordinal};
use super::watch::{Follower, follow, revision};
use gitwork_agent_core::manifest::ResourceMapping;

/// Wait before a forbidden watch of a prerequisite is tried again: it only speeds up retries.
const FORBIDDEN_RETRY: Duration = Duration::from_secs(300);

impl Agent {
    pub(super) fn follow_all(self: &Arc<Self>) -> JoinSet<()> {
        let mut follows = JoinSet::new();
        let agent = self.clone();
        follows.spawn(async move {
            let mut follower = WorkWatch { agent: agent.clone(), listed: HashSet::new() };
            follow(&agent.hub_works.server, &agent.hub_works.works_path(), false, &mut follower)
                .await;
        });
        let agent = self.clone();
        follows.spawn(async move {
            let mut follower = AppliedWorkWatch { agent: agent.clone(), listed: HashSet::new() };
            follow(&agent.cluster, &agent.applied_works.applied_path(None), false, &mut follower)
                .await;
        });
        let crds = ("apiextensions.k8s.io", "customresourcedefinitions");
        for (group, resource) in [crds, ("", "namespaces")] {
            let mapping = ResourceMapping {
                group: group.into(),
                version: "v1".into(),
                resource: resource.into(),
                namespaced: false,
            };
            let agent = self.clone();
            follows.spawn(async move {
                let mut follower = Prerequisites { agent: agent.clone(), latest: 0, listed: false };
                follow(&agent.cluster, &path(&mapping, "", None), true, &mut follower).await;
            });
        }
        follows
    }

    /// Follows the kinds of all tracked objects, and no others.
    pub(super) fn follow_kinds(self: &Arc<Self>) {
        let mut follows = lock(&self.kind_watches);
        let kinds: Vec<(KindId, ResourceMapping, bool)> = {
            let state = self.state();
            state
                .tracking
                .kinds()
                .filter(|(id, _, used)| *used != follows.contains_key(id))
                .map(|(id, mapping, used)| (id, mapping.clone(), used))
                .collect()
        };
        for (id, mapping, used) in kinds {
            if used {
                let agent = self.clone();
                let follow = tokio::spawn(async move {
                    let mut follower = Kind {
                        agent: agent.clone(),
                        id,
                        seen: BTreeSet::new(),
                        lists: 0,
                        listing: false,
                    };
                    follow(&agent.cluster, &path(&mapping, "", None), true, &mut follower).await;
                });
                follows.insert(id, follow.abort_handle());
            } else if let Some(follow) = follows.remove(&id) {
                follow.abort();
            }
        }
        self.metrics.watches.set(i64::try_from(follows.len()).unwrap_or(i64::MAX));
    }

    fn work_is_gone(&self, name: &str) {
        let mut state = self.state();
        let Some((name, entry)) = state.works.remove_entry(name) else { return };
        let key = QueueKey::Work(name.clone());
        for (place, outcome) in entry.last_pass.outcomes.iter().enumerate() {
            if let Some(object) = &outcome.object {
                state.tracking.unsubscribe(object, &key, tracking_ordinal(place));
            }
        }
        drop(state);
        self.shared.queue.add(self.applied_works.key_of_applied(&name));
    }
}

/// The ManifestWorks on the hub.
struct WorkWatch {
    agent: Arc<Agent>,
    listed: HashSet<String>,
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
            let mut state = self.agent.state();
            let change = state.put_work(work);
            if change == PassNeed::Something {
                self.agent.shared.queue.add(QueueKey::Work(name.as_str().into()));
            }
            let QueueKey::Applied(applied) = self.agent.applied_works.key_of_applied(&name) else {
                return;
            };
            state.applied.get(&applied).is_some_and(|one| one.status.eviction_start_time.is_some())
        };
        if is_evicted {
            self.agent.shared.queue.add(self.agent.applied_works.key_of_applied(&name));
        }
    }
    fn gone(&mut self, item: WorkItem) {
        self.listed.remove(&item.metadata.name);
        self.agent.work_is_gone(&item.metadata.name);
    }
    fn list_ended(&mut self, _revision: u64) {
        let gone: Vec<Arc<str>> = {
            let state = self.agent.state();
            state.works.keys().filter(|name| !self.listed.contains(&***name)).cloned().collect()
        };
        for name in gone {
            self.agent.work_is_gone(&name);
        }
        self.listed = HashSet::new();
        self.agent.synced.send_modify(|synced| synced.works = true);
    }
    fn failed(&mut self, error: &ApiError) -> Duration {
        warn!(
            cluster = self.agent.hub_works.cluster_name,
            %error,
            "cannot watch the ManifestWorks on the hub"
        );
        Duration::ZERO
    }
    fn recovered(&mut self) {
        self.agent.shared.retry_failed();
    }
}

/// The AppliedManifestWorks of all hubs.
struct AppliedWorkWatch {
    agent: Arc<Agent>,
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
        let mut state = self.agent.state();
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
            (recorded_differs, self.agent.applied_works.key_of_work(&name))
            && let Some(entry) = state.works.get_mut(&work)
        {
            entry.pending.ordinals.insert(super::tracking::REMOVED_OBJECTS, u64::MAX);
            self.agent.shared.queue.add(QueueKey::Work(work));
        }
        drop(state);
        if is_news {
            self.agent.shared.queue.add(QueueKey::Applied(name));
        }
    }
    fn gone(&mut self, item: AppliedItem) {
        self.is_gone(&item.metadata.name);
    }
    fn list_ended(&mut self, _revision: u64) {
        let gone: Vec<Arc<str>> = {
            let state = self.agent.state();
            state.applied.keys().filter(|name| !self.listed.contains(&***name)).cloned().collect()
        };
        for name in gone {
            self.is_gone(&name);
        }
        self.listed = HashSet::new();
        self.agent.synced.send_modify(|synced| synced.applied = true);
    }
    fn failed(&mut self, error: &ApiError) -> Duration {
        warn!(%error, "cannot watch the AppliedManifestWorks on the cluster");
        Duration::ZERO
    }
    fn recovered(&mut self) {
        self.agent.shared.retry_failed();
    }
}

impl AppliedWorkWatch {
    /// The AppliedManifestWork is gone: its work is finished, or is applied again.
    fn is_gone(&self, name: &str) {
        let mut state = self.agent.state();
        let Some(applied) = state.applied.remove(name) else { return };
        let key = QueueKey::Applied(name.into());
        for resource in &applied.status.applied_resources {
            let mapping = ResourceMapping {
                group: resource.group.clone(),
                version: resource.version.clone(),
                resource: resource.resource.clone(),
                namespaced: !resource.namespace.is_empty(),
            };
            let object = super::tracking::ObjectKey {
                kind: state.tracking.kind(&mapping),
                namespace: resource.namespace.as_str().into(),
                name: resource.name.as_str().into(),
            };
            state.tracking.unsubscribe(&object, &key, super::tracking::REMOVED_OBJECTS);
        }
        let Some(QueueKey::Work(work)) = self.agent.applied_works.key_of_work(name) else { return };
        if let Some(entry) = state.works.get_mut(&work) {
            entry.pending.everything = true;
            self.agent.shared.queue.add(QueueKey::Work(work));
        }
    }
}

/// The objects of one tracked kind, metadata only.
struct Kind {
    agent: Arc<Agent>,
    id: KindId,
    seen: BTreeSet<(Box<str>, Box<str>)>,
    lists: u32,
    listing: bool,
}

impl Follower for Kind {
    type Item = MetadataItem;
    fn list_started(&mut self) {
        self.seen.clear();
        self.listing = true;
    }
    fn present(&mut self, item: MetadataItem) {
        let metadata = item.metadata;
        let changes = {
            let mut state = self.agent.state();
            if self.listing
                && state.tracking.is_tracked(self.id, &metadata.namespace, &metadata.name)
            {
                self.seen
                    .insert((metadata.namespace.as_str().into(), metadata.name.as_str().into()));
            }
            state.tracking.observe_present(self.id, &metadata)
        };
        if self.listing && self.lists > 0 {
            self.agent.metrics.missed_changes.inc_by(changes.len() as u64);
        }
        self.agent.shared.notify(changes);
    }
    fn gone(&mut self, item: MetadataItem) {
        let Some(at) = Some(revision(&item.metadata.resource_version)) else { return };
        let changes = self.agent.state().tracking.observe_gone(
            self.id,
            &item.metadata.namespace,
            &item.metadata.name,
            at,
        );
        self.agent.shared.notify(changes);
    }
    fn list_ended(&mut self, revision: u64) {
        let changes = self.agent.state().tracking.list_ended(self.id, &self.seen, revision);
        if self.lists > 0 {
            self.agent.metrics.missed_changes.inc_by(changes.len() as u64);
        }
        self.agent.shared.notify(changes);
        self.seen.clear();
        self.listing = false;
        self.lists = self.lists.saturating_add(1);
    }
    fn failed(&mut self, error: &ApiError) -> Duration {
        if !error.is_forbidden() && !error.is_not_found() {
            return Duration::ZERO;
        }
        // Objects of this kind cannot be watched: poll them, as OCM's agent does.
        info!(
            %error,
            "cannot watch a kind; polling its objects instead. Grant list and watch on the kind"
        );
        let changes = self.agent.state().tracking.all_subscribers(self.id);
        self.agent.shared.notify(changes);
        self.agent.settings.status_sync_interval
    }
}

/// Kinds that failing works may wait for: namespaces and CRDs.
struct Prerequisites {
    agent: Arc<Agent>,
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
            self.agent.shared.retry_failed();
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
