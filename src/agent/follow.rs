//! What the agent follows: the works on the hub, the applied works and the tracked kinds on the cluster, and what
//! failing works may wait for.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{info, warn};

use super::core::manifest::Mapping;
use super::items::{AppliedItem, HubWork, MetadataItem, WorkItem};
use super::pass::place_number;
use super::server::{ApiError, path};
use super::state::WorkChange;
use super::tracking::{Key, KindId, Told};
use super::watch::{Follower, follow, revision};
use super::{Agent, lock};

/// Changes of one object often come in pairs.
const COALESCE: Duration = Duration::from_millis(20);
/// A work whose objects change all the time is looked at no more often than this.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
/// Kinds that only help to retry sooner are asked for seldom where they may not be watched.
const UNIMPORTANT: Duration = Duration::from_secs(300);

impl Agent {
    pub(super) fn follow_all(self: &Arc<Self>) -> JoinSet<()> {
        let mut follows = JoinSet::new();
        let agent = self.clone();
        follows.spawn(async move {
            let mut follower = Works { agent: agent.clone(), listed: HashSet::new() };
            follow(&agent.hub, &agent.works_path(), false, &mut follower).await;
        });
        let agent = self.clone();
        follows.spawn(async move {
            let mut follower = AppliedWorks { agent: agent.clone(), listed: HashSet::new() };
            follow(&agent.cluster, &agent.applied_path(None), false, &mut follower).await;
        });
        let crds = ("apiextensions.k8s.io", "customresourcedefinitions");
        for (group, resource) in [crds, ("", "namespaces")] {
            let mapping = Mapping {
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
        let mut follows = lock(&self.follows);
        let kinds: Vec<(KindId, Mapping, bool)> = {
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

    pub(super) fn tell(&self, told: Vec<Told>) {
        if told.is_empty() {
            return;
        }
        let keys = self.state().note(told);
        let now = Instant::now();
        for key in keys {
            let after_last = match &key {
                Key::Work(name) => self.state().works.get(name).and_then(|entry| entry.looked),
                Key::Applied(_) => None,
            };
            let not_before = after_last.map_or(now, |looked| looked + BETWEEN_LOOKS);
            self.queue.add_at(key, not_before.max(now + COALESCE));
        }
    }

    /// Something that works may have waited for is there, or an API server is back.
    fn retry_failed(&self) {
        let failed: Vec<Arc<str>> = self
            .state()
            .works
            .iter()
            .filter(|(_, entry)| entry.failures > 0)
            .map(|(name, _)| name.clone())
            .collect();
        for name in failed {
            self.queue.add(Key::Work(name));
        }
        let failed: Vec<Arc<str>> = self.applied_failures().keys().cloned().collect();
        for name in failed {
            self.queue.add(Key::Applied(name));
        }
    }

    fn work_is_gone(&self, name: &str) {
        let mut state = self.state();
        let Some((name, entry)) = state.works.remove_entry(name) else { return };
        let key = Key::Work(name.clone());
        for (place, outcome) in entry.memory.outcomes.iter().enumerate() {
            if let Some(object) = &outcome.object {
                state.tracking.release(object, &key, place_number(place));
            }
        }
        drop(state);
        self.queue.add(self.key_of_applied(&name));
    }
}

/// The ManifestWorks on the hub.
struct Works {
    agent: Arc<Agent>,
    listed: HashSet<String>,
}

impl Follower for Works {
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
            if change == WorkChange::Something {
                self.agent.queue.add(Key::Work(name.as_str().into()));
            }
            let Key::Applied(applied) = self.agent.key_of_applied(&name) else { return };
            state.applied.get(&applied).is_some_and(|one| one.status.eviction_start_time.is_some())
        };
        if is_evicted {
            self.agent.queue.add(self.agent.key_of_applied(&name));
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
        warn!(cluster = self.agent.settings.cluster_name, %error, "cannot follow the ManifestWorks on the hub");
        Duration::ZERO
    }
    fn recovered(&mut self) {
        self.agent.retry_failed();
    }
}

/// The AppliedManifestWorks of all hubs.
struct AppliedWorks {
    agent: Arc<Agent>,
    listed: HashSet<String>,
}

impl Follower for AppliedWorks {
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
        // Somebody else changed the list, or made an applied work away and anew.
        let recorded_differs = old.is_some_and(|old| {
            old.status.applied_resources != item.status.applied_resources || old.spec != item.spec
        });
        state.applied.insert(name.clone(), Arc::new(item));
        if let (true, Some(Key::Work(work))) = (recorded_differs, self.agent.key_of_work(&name))
            && let Some(entry) = state.works.get_mut(&work)
        {
            entry.to_do.places.insert(super::pass::NO_PLACE, u64::MAX);
            self.agent.queue.add(Key::Work(work));
        }
        drop(state);
        if is_news {
            self.agent.queue.add(Key::Applied(name));
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
        warn!(%error, "cannot follow the AppliedManifestWorks on the cluster");
        Duration::ZERO
    }
    fn recovered(&mut self) {
        self.agent.retry_failed();
    }
}

impl AppliedWorks {
    /// Its work goes too, or is to be applied anew.
    fn is_gone(&self, name: &str) {
        let mut state = self.agent.state();
        let Some(applied) = state.applied.remove(name) else { return };
        let key = Key::Applied(name.into());
        for resource in &applied.status.applied_resources {
            let mapping = Mapping {
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
            state.tracking.release(&object, &key, super::pass::NO_PLACE);
        }
        let Some(Key::Work(work)) = self.agent.key_of_work(name) else { return };
        if let Some(entry) = state.works.get_mut(&work) {
            entry.to_do.everything = true;
            self.agent.queue.add(Key::Work(work));
        }
    }
}

/// One kind of tracked objects, of which only metadata is read.
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
        let told = {
            let mut state = self.agent.state();
            if self.listing
                && state.tracking.is_tracked(self.id, &metadata.namespace, &metadata.name)
            {
                self.seen
                    .insert((metadata.namespace.as_str().into(), metadata.name.as_str().into()));
            }
            state.tracking.present(self.id, &metadata)
        };
        if self.listing && self.lists > 0 {
            self.agent.metrics.missed_changes.inc_by(told.len() as u64);
        }
        self.agent.tell(told);
    }
    fn gone(&mut self, item: MetadataItem) {
        let Some(at) = Some(revision(&item.metadata.resource_version)) else { return };
        let told = self.agent.state().tracking.gone(
            self.id,
            &item.metadata.namespace,
            &item.metadata.name,
            at,
        );
        self.agent.tell(told);
    }
    fn list_ended(&mut self, revision: u64) {
        let told = self.agent.state().tracking.list_ended(self.id, &self.seen, revision);
        if self.lists > 0 {
            self.agent.metrics.missed_changes.inc_by(told.len() as u64);
        }
        self.agent.tell(told);
        self.seen.clear();
        self.listing = false;
        self.lists = self.lists.saturating_add(1);
    }
    fn failed(&mut self, error: &ApiError) -> Duration {
        if !error.is_forbidden() && !error.is_not_found() {
            return Duration::ZERO;
        }
        // Objects of this kind cannot be watched: they are read, as OCM's agent does.
        info!(%error, "a kind cannot be watched; grant list and watch on it. Its objects are read instead");
        let told = self.agent.state().tracking.all_of(self.id);
        self.agent.tell(told);
        self.agent.settings.status_sync_interval
    }
}

/// Kinds whose objects failing works may wait for.
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
            self.agent.retry_failed();
        }
    }
    fn gone(&mut self, _item: MetadataItem) {}
    fn list_ended(&mut self, revision: u64) {
        self.latest = self.latest.max(revision);
        self.listed = true;
    }
    fn failed(&mut self, error: &ApiError) -> Duration {
        if error.is_forbidden() { UNIMPORTANT } else { Duration::ZERO }
    }
}
