//! OCM's work agent on one cluster, as its order of events is: controllers of their own, which read
//! ManifestWorks and AppliedManifestWorks from caches that lag, and send one request at a time. The
//! scheduler of a world chooses which controller goes on, so gitwork, users and the other
//! controllers can write between any two requests.
//!
//! Requests on AppliedManifestWorks and on the status of ManifestWorks carry the resourceVersion in
//! the cache. A conflict ends the sync, and the controller begins again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use gitwork_agent_core::condition::{APPLIED, COMPLETE, DELETING, NewCondition};
use gitwork_agent_core::eviction::{EvictionAction, eviction_action};
use gitwork_agent_core::{condition, status};
use gitwork_api::work::{AppliedManifestResourceMeta, ManifestWorkSpec, ManifestWorkStatus};
use gitwork_core::model::name::{ClusterName, WorkKey};
use gitwork_core::plan::observed::AGENT_FINALIZER;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Agents, AppliedWork, EVICTION_GRACE, finalizers};
use crate::hub::{SimulatedHub, generation, is_deleting};
use work_sync::WorkSync;

mod cleanup;
mod work_sync;

use cleanup::Cleanup;

/// More tasks than an agent has until it is idle.
const TASKS_MAX: usize = 20_000;

/// What the agent's processes have in memory.
#[derive(Debug, Default)]
pub(super) struct OcmAgent {
    /// How many of the hub's changes the informer of ManifestWorks has delivered.
    delivered: usize,
    /// The cache of that informer.
    works: BTreeMap<WorkKey, Arc<Value>>,
    /// Changes that the informer of AppliedManifestWorks has not delivered.
    applied_changes: VecDeque<(WorkKey, Option<AppliedWork>)>,
    /// The cache of that informer.
    applied: BTreeMap<WorkKey, AppliedWork>,
    /// The queue of ManifestWorkController.
    queue: BTreeSet<WorkKey>,
    /// The syncs of ManifestWorkController that have begun.
    syncs: BTreeMap<WorkKey, WorkSync>,
    /// The queue of AvailableStatusController.
    status_queue: BTreeSet<WorkKey>,
    /// The syncs of AppliedManifestWorkFinalizer that have begun, by the uid of the
    /// AppliedManifestWork: a work that is created again has another one.
    cleanups: BTreeMap<String, Cleanup>,
}

/// What one of the controllers can do next.
#[derive(Debug, Clone)]
enum Task {
    DeliverWork,
    DeliverApplied,
    AddFinalizer(WorkKey),
    /// The next request of ManifestWorkController.
    Sync(WorkKey),
    /// AvailableStatusController.
    ReportStatus(WorkKey),
    /// ManifestWorkFinalizer.
    FinalizeWork(WorkKey),
    /// The next request of AppliedManifestWorkFinalizer.
    FinalizeApplied(WorkKey),
    /// UnManagedAppliedManifestWork.
    Evict(WorkKey, EvictionAction),
    /// Kubernetes' garbage collector.
    CollectGarbage,
}

fn has_finalizer(work: &Value) -> bool {
    finalizers(work).contains(&AGENT_FINALIZER.into())
}

fn status_of(work: &Value) -> ManifestWorkStatus {
    ManifestWorkStatus::deserialize(&work["status"]).unwrap_or_default()
}

impl OcmAgent {
    /// Whether ManifestWorkController does anything for the work in the cache.
    fn is_synced(&self, key: &WorkKey) -> bool {
        self.works.get(key).is_some_and(|work| {
            let is_complete = condition::is_true(&status_of(work).conditions, COMPLETE);
            has_finalizer(work) && !is_deleting(work) && !is_complete
        })
    }

    /// The works that a controller may act on, also if neither the hub nor the cluster has them.
    pub fn keys(&self) -> impl Iterator<Item = &WorkKey> {
        self.works.keys().chain(self.syncs.keys())
    }

    /// Puts a work's change into the cache, and into the queues of the controllers.
    fn deliver_work(&mut self, (key, now): (WorkKey, Option<Arc<Value>>)) {
        self.delivered += 1;
        let Some(now) = now else {
            self.works.remove(&key);
            return;
        };
        let before = self.works.insert(key.clone(), now.clone());
        let is_synced = has_finalizer(&now)
            && before.is_none_or(|before| {
                !has_finalizer(&before)
                    || before["spec"] != now["spec"]
                    || before["metadata"]["labels"] != now["metadata"]["labels"]
            });
        if is_synced {
            self.queue.insert(key.clone());
        }
        self.status_queue.insert(key);
    }

    fn deliver_applied(&mut self) {
        match self.applied_changes.pop_front() {
            Some((key, Some(applied))) => drop(self.applied.insert(key, applied)),
            Some((key, None)) => drop(self.applied.remove(&key)),
            None => {}
        }
    }
}

impl Agents {
    /// Lets the controllers of a cluster send some requests, in any order. Returns the works that
    /// they may have changed.
    pub(super) fn act_as_ocm(
        &mut self,
        hub: &SimulatedHub,
        cluster: &ClusterName,
        random: &mut fastrand::Rng,
    ) -> BTreeSet<WorkKey> {
        let mut acted_on = BTreeSet::new();
        let agent = self.ocm.entry(cluster.clone()).or_default();
        // AppliedManifestWorks are on the cluster itself. Their events come later than the next
        // requests of the agent, but before gitwork has answered what the agent reported.
        while !agent.applied_changes.is_empty() {
            agent.deliver_applied();
        }
        if random.u8(..16) == 0 {
            // The controllers come back to each work after some minutes.
            agent.queue.extend(agent.works.keys().cloned());
            agent.status_queue.extend(agent.works.keys().cloned());
        }
        for _ in 0..random.u8(1..12) {
            let mut tasks = self.tasks(hub, cluster);
            if tasks.is_empty() {
                break;
            }
            let task = tasks.swap_remove(random.usize(..tasks.len()));
            acted_on.extend(self.run(hub, cluster, task));
            self.remove_dangling_owners(cluster);
        }
        acted_on
    }

    /// Lets the controllers of a cluster act until they are idle. They come back to this work.
    pub(super) fn settle_ocm(&mut self, hub: &SimulatedHub, key: &WorkKey) {
        let agent = self.ocm.entry(key.cluster.clone()).or_default();
        agent.queue.insert(key.clone());
        agent.status_queue.insert(key.clone());
        for _ in 0..TASKS_MAX {
            let Some(task) = self.tasks(hub, &key.cluster).into_iter().next() else { return };
            self.run(hub, &key.cluster, task);
            self.remove_dangling_owners(&key.cluster);
        }
        let tasks = self.tasks(hub, &key.cluster);
        panic!("the agent of {} does not become idle: {tasks:?}", key.cluster);
    }

    /// What the controllers of a cluster can do.
    fn tasks(&self, hub: &SimulatedHub, cluster: &ClusterName) -> Vec<Task> {
        let agent = &self.ocm[cluster];
        let mut tasks = Vec::new();
        let reaches_hub = !self.cut.contains(cluster);
        if reaches_hub && hub.change(cluster, agent.delivered).is_some() {
            tasks.push(Task::DeliverWork);
        }
        if !agent.applied_changes.is_empty() {
            tasks.push(Task::DeliverApplied);
        }
        for (key, work) in agent.works.iter().filter(|_| reaches_hub) {
            if !is_deleting(work) && !has_finalizer(work) {
                tasks.push(Task::AddFinalizer(key.clone()));
            }
            let waits = agent.applied.get(key).is_some_and(|applied| applied.deleting);
            if is_deleting(work) && has_finalizer(work) && !waits {
                tasks.push(Task::FinalizeWork(key.clone()));
            }
        }
        let begun = agent.syncs.keys();
        let waiting = agent.queue.iter().filter(|key| !agent.syncs.contains_key(*key));
        tasks.extend(begun.chain(waiting).cloned().map(Task::Sync));
        tasks.extend(agent.status_queue.iter().cloned().map(Task::ReportStatus));
        for (key, applied) in &agent.applied {
            if applied.deleting {
                tasks.push(Task::FinalizeApplied(key.clone()));
                continue;
            }
            let (managed, since) = (agent.works.contains_key(key), applied.evicted_since);
            match eviction_action(managed, since, EVICTION_GRACE, self.now) {
                EvictionAction::None | EvictionAction::Wait(_) => {}
                action => tasks.push(Task::Evict(key.clone(), action)),
            }
        }
        if self.has_garbage(cluster) {
            tasks.push(Task::CollectGarbage);
        }
        tasks
    }

    fn has_garbage(&self, cluster: &ClusterName) -> bool {
        let left = self.applied.values().map(|applied| applied.uid.as_str()).collect();
        self.clusters.get(cluster).is_some_and(|cluster| !cluster.garbage(&left).is_empty())
    }

    /// A request of ManifestWorkController that was late can add an owner that is gone. Kubernetes
    /// removes it within a moment, before an agent has applied another write of gitwork.
    fn remove_dangling_owners(&mut self, cluster: &ClusterName) {
        let left = self.applied.values().map(|applied| applied.uid.as_str()).collect();
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.remove_dangling_owners(&left);
        }
    }

    /// Does one task. Returns the work that it may have changed on the hub.
    fn run(&mut self, hub: &SimulatedHub, cluster: &ClusterName, task: Task) -> Option<WorkKey> {
        let agent = self.ocm.get_mut(cluster)?;
        match task {
            Task::DeliverWork => {
                agent.deliver_work(hub.change(cluster, agent.delivered)?);
                None
            }
            Task::DeliverApplied => {
                agent.deliver_applied();
                None
            }
            Task::AddFinalizer(key) => {
                let work = agent.works.get(&key)?;
                let mut all = finalizers(work);
                all.push(AGENT_FINALIZER.into());
                patch_finalizers(hub, &key, work, &all);
                Some(key)
            }
            Task::Sync(key) => self.sync(hub, key),
            Task::ReportStatus(key) => self.report_status(hub, key),
            Task::FinalizeWork(key) => self.finalize_work(hub, key),
            Task::FinalizeApplied(key) => {
                self.finalize_applied(&key);
                None
            }
            Task::Evict(key, action) => {
                let mut applied = agent.applied.get(&key)?.clone();
                match action {
                    EvictionAction::SetStart => applied.evicted_since = Some(self.now),
                    EvictionAction::ClearStart => applied.evicted_since = None,
                    _ => applied.deleting = true,
                }
                let _conflict = self.write_applied(&key, applied);
                None
            }
            Task::CollectGarbage => {
                self.collect_garbage(cluster);
                None
            }
        }
    }

    /// Writes an AppliedManifestWork, with the version in it as the precondition.
    fn write_applied(&mut self, key: &WorkKey, mut applied: AppliedWork) -> Result<(), Conflict> {
        let stored = self.applied.get_mut(key).ok_or(Conflict)?;
        if stored.version != applied.version || stored.uid != applied.uid {
            return Err(Conflict);
        }
        // A deletion is never taken back, and the ManifestWork's uid is a fact for the checkers.
        applied.deleting |= stored.deleting;
        applied.work.clone_from(&stored.work);
        self.made += 1;
        applied.version = self.made;
        *stored = applied.clone();
        let agent = self.ocm.entry(key.cluster.clone()).or_default();
        agent.applied_changes.push_back((key.clone(), Some(applied)));
        Ok(())
    }

    /// AvailableStatusController: what exists of the objects in the status.
    fn report_status(&mut self, hub: &SimulatedHub, key: WorkKey) -> Option<WorkKey> {
        let agent = self.ocm.get_mut(&key.cluster)?;
        agent.status_queue.remove(&key);
        let work = agent.works.get(&key)?.clone();
        let old = status_of(&work);
        if !has_finalizer(&work) || condition::find(&old.conditions, APPLIED).is_none() {
            return None;
        }
        let spec = ManifestWorkSpec::deserialize(&work["spec"]).unwrap();
        let all = status::manifests(&old).iter().enumerate();
        let seen: Vec<_> = all
            .map(|(place, one)| {
                let meta = &one.resource_meta;
                let options = super::ManifestOptions::of(&spec, meta);
                (place, self.look_at(&key, meta, &options))
            })
            .collect();
        let mut new = old.clone();
        status::record_observations(&mut new, generation(&work), seen, self.now);
        if new == old || self.cut.contains(&key.cluster) {
            return None;
        }
        // After a conflict the new version comes, and with it another sync.
        let _conflict = patch_status(hub, &key, &work, &new);
        Some(key)
    }

    /// ManifestWorkFinalizer: deletes the AppliedManifestWork, and then removes the finalizer.
    fn finalize_work(&mut self, hub: &SimulatedHub, key: WorkKey) -> Option<WorkKey> {
        let agent = self.ocm.get_mut(&key.cluster)?;
        let work = agent.works.get(&key)?.clone();
        if agent.applied.contains_key(&key) {
            let stored = self.applied.get(&key).cloned();
            if let Some(stored) = stored.filter(|stored| !stored.deleting) {
                let _written = self.write_applied(&key, AppliedWork { deleting: true, ..stored });
            }
            let deleting = NewCondition::new(DELETING, "True", "WorkDeleting", "");
            let mut status = status_of(&work);
            condition::set(&mut status.conditions, deleting.at(generation(&work)), self.now);
            if status != status_of(&work) {
                let _conflict = patch_status(hub, &key, &work, &status);
            }
            return Some(key);
        }
        let mut rest = finalizers(&work);
        rest.retain(|one| one != AGENT_FINALIZER);
        patch_finalizers(hub, &key, &work, &rest);
        Some(key)
    }
}

/// Another client has written the object since.
#[derive(Debug, Clone, Copy)]
struct Conflict;

fn patch_finalizers(hub: &SimulatedHub, key: &WorkKey, work: &Value, finalizers: &[Value]) {
    let metadata = &work["metadata"];
    let patch = json!({"metadata": {
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
        "finalizers": finalizers,
    }});
    let _conflict = hub.user_patches(key, &patch);
}

fn patch_status(
    hub: &SimulatedHub,
    key: &WorkKey,
    work: &Value,
    status: &ManifestWorkStatus,
) -> Result<(), Conflict> {
    let version = &work["metadata"]["resourceVersion"];
    let written = hub.patch_status_at(key, version, &status::status_patch(status));
    written.map(drop).map_err(|_| Conflict)
}

/// The objects on record, as a cleanup goes through them.
fn in_order(resources: &[AppliedManifestResourceMeta]) -> Vec<AppliedManifestResourceMeta> {
    resources.iter().rev().cloned().collect()
}
