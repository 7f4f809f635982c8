//! A sync of ManifestWorkController: it applies each manifest, deletes what left the work, and
//! writes the status of the ManifestWork and then of the AppliedManifestWork.

use std::collections::BTreeMap;
use std::sync::Arc;

use gitwork_agent_core::applied_resources::{applied_resource, record, stale_resources};
use gitwork_agent_core::apply::ApplyStep;
use gitwork_agent_core::manifest::{ParsedManifest, apply_order};
use gitwork_agent_core::object::Object as Fields;
use gitwork_agent_core::status::{ApplyOutcome, is_complete, record_apply_outcomes};
use gitwork_agent_core::work::{ManifestOptions, is_owned};
use gitwork_api::work::{
    AppliedManifestResourceMeta, ManifestResourceMeta, ManifestWorkSpec, ManifestWorkStatus,
};
use gitwork_core::model::name::WorkKey;
use serde::Deserialize;
use serde_json::Value;

use super::cleanup::Cleanup;
use super::{Conflict, patch_status, status_of};
use crate::agents::apply::Wanted;
use crate::agents::{Agents, AppliedWork, identity_of, mapping, owner};
use crate::hub::{SimulatedHub, generation, is_deleting};

/// How often an object is read again after a conflict.
const CONFLICTS_MAX: usize = 4;

/// A sync that has begun.
#[derive(Debug)]
pub(super) struct WorkSync {
    /// The ManifestWork in the cache when the sync began.
    work: Arc<Value>,
    spec: ManifestWorkSpec,
    status: ManifestWorkStatus,
    applied: AppliedWork,
    /// The manifests still to apply, the next one last.
    manifests: Vec<ParsedManifest>,
    /// The object of the next manifest, once it is read.
    read: Option<Option<Fields>>,
    conflicts: usize,
    /// By the position of the manifest.
    results: BTreeMap<usize, (ManifestResourceMeta, ApplyOutcome)>,
    /// The objects in the work, and the deletion of those that left it.
    leaving: Option<(Vec<AppliedManifestResourceMeta>, Cleanup)>,
    has_reported: bool,
}

impl WorkSync {
    fn new(work: Arc<Value>, applied: AppliedWork) -> Self {
        let mut spec = ManifestWorkSpec::deserialize(&work["spec"]).unwrap();
        let raw = spec.workload.take().unwrap_or_default().manifests;
        let parsed = raw.into_iter().enumerate();
        let mut manifests: Vec<ParsedManifest> =
            parsed.filter_map(|(place, raw)| ParsedManifest::parse(place, raw).ok()).collect();
        manifests.sort_by_key(|one| apply_order(one.kind()));
        manifests.reverse();
        Self {
            status: status_of(&work),
            work,
            spec,
            applied,
            manifests,
            read: None,
            conflicts: 0,
            results: BTreeMap::new(),
            leaving: None,
            has_reported: false,
        }
    }
}

impl Agents {
    /// The next request for a work. Returns the work if its status on the hub may have changed.
    pub(super) fn sync(&mut self, hub: &SimulatedHub, key: WorkKey) -> Option<WorkKey> {
        let agent = self.ocm.get_mut(&key.cluster)?;
        let Some(mut sync) = agent.syncs.remove(&key) else {
            agent.queue.remove(&key);
            if agent.is_synced(&key) {
                self.begin_sync(&key);
            }
            return None;
        };
        let ended = self.go_on(hub, &key, &mut sync);
        let agent = self.ocm.get_mut(&key.cluster)?;
        let has_reported = sync.has_reported;
        match ended {
            Ok(false) => drop(agent.syncs.insert(key.clone(), sync)),
            // The end of the objects that were deleted is still to be recorded.
            Ok(true) if sync.leaving.is_some_and(|(_, leaving)| !leaving.pending.is_empty()) => {
                agent.queue.insert(key.clone());
            }
            Ok(true) => {}
            Err(Conflict) => drop(agent.queue.insert(key.clone())),
        }
        has_reported.then_some(key)
    }

    /// Reads the work from the cache, and its AppliedManifestWork, which is created if it is
    /// missing.
    fn begin_sync(&mut self, key: &WorkKey) {
        let Some(agent) = self.ocm.get_mut(&key.cluster) else { return };
        let Some(work) = agent.works.get(key).cloned() else { return };
        let cached = agent.applied.get(key).cloned();
        let applied = match cached {
            Some(applied) => applied,
            // The cache does not have it yet: its event starts another sync.
            None if self.applied.contains_key(key) => {
                agent.queue.insert(key.clone());
                return;
            }
            None => {
                self.made += 1;
                let made = self.made;
                let uid = format!("applied-{made}");
                let applied = AppliedWork { uid, version: made, ..AppliedWork::default() };
                agent.applied_changes.push_back((key.clone(), Some(applied.clone())));
                self.applied.insert(key.clone(), applied.clone());
                applied
            }
        };
        if let Some(stored) = self.applied.get_mut(key).filter(|one| one.uid == applied.uid) {
            work["metadata"]["uid"].as_str().unwrap().clone_into(&mut stored.work);
        }
        let Some(agent) = self.ocm.get_mut(&key.cluster) else { return };
        agent.syncs.insert(key.clone(), WorkSync::new(work, applied));
    }

    /// Sends the next request. Returns whether the sync is over.
    fn go_on(
        &mut self,
        hub: &SimulatedHub,
        key: &WorkKey,
        sync: &mut WorkSync,
    ) -> Result<bool, Conflict> {
        if let Some(manifest) = sync.manifests.last().cloned() {
            self.apply_next(hub, key, sync, &manifest);
            return Ok(false);
        }
        let owner = owner(key, &sync.applied);
        if sync.leaving.is_none() {
            sync.leaving = Some(self.leaving(key, sync));
        }
        let Some((current, cleanup)) = &mut sync.leaving else { return Err(Conflict) };
        if self.clean_next(key, cleanup, &owner)? {
            return Ok(false);
        }
        let resources = record(current.clone(), cleanup.pending.clone());
        if !sync.has_reported {
            sync.has_reported = true;
            let mut status = sync.status.clone();
            let results: Vec<_> = sync.results.values().cloned().collect();
            record_apply_outcomes(&mut status, generation(&sync.work), &results, self.now);
            if status != sync.status {
                if self.cut.contains(&key.cluster) {
                    return Err(Conflict);
                }
                patch_status(hub, key, &sync.work, &status)?;
            }
            return Ok(false);
        }
        if resources != sync.applied.resources && !sync.applied.deleting {
            self.write_applied(key, AppliedWork { resources, ..sync.applied.clone() })?;
        }
        Ok(true)
    }

    /// Reads the object of the next manifest, or writes it.
    fn apply_next(
        &mut self,
        hub: &SimulatedHub,
        key: &WorkKey,
        sync: &mut WorkSync,
        manifest: &ParsedManifest,
    ) {
        let meta = manifest.resource_meta(Some(&mapping(manifest)));
        let object = (key.cluster.clone(), identity_of(&meta));
        let Some(read) = sync.read.take() else {
            sync.read = Some(self.get(&object).map(|live| live.object.clone()));
            return;
        };
        let options = ManifestOptions::of(&sync.spec, &meta);
        let owner = owner(key, &sync.applied);
        let (id, owned) = (&object.1, is_owned(&sync.spec, &meta));
        let wanted = Wanted { id, manifest, options: &options, owner: &owner, owned };
        let outcome = if is_complete(&sync.status, &meta) {
            ApplyOutcome::Complete { note: None }
        } else if self.failing.contains(&object) {
            ApplyOutcome::Failed("the API server failed".into())
        } else {
            match wanted.next_step(read.as_ref()) {
                Err(why) => ApplyOutcome::Failed(why),
                Ok(step) => {
                    let creates = matches!(step, ApplyStep::Create(_));
                    let cluster = self.clusters.entry(key.cluster.clone()).or_default();
                    let written = wanted.write(cluster, step);
                    if written.is_err() && sync.conflicts < CONFLICTS_MAX {
                        sync.conflicts += 1;
                        return;
                    }
                    if written.is_ok() && creates && !is_current(hub, key, &sync.work) {
                        self.created_late.insert(object.clone());
                    }
                    match written {
                        Ok(()) => ApplyOutcome::Complete { note: None },
                        Err(_) => ApplyOutcome::Failed("the object has been modified".into()),
                    }
                }
            }
        };
        sync.conflicts = 0;
        sync.manifests.pop();
        sync.results.insert(manifest.ordinal, (meta, outcome));
    }

    /// The objects in the work, and those that left it.
    fn leaving(
        &mut self,
        key: &WorkKey,
        sync: &WorkSync,
    ) -> (Vec<AppliedManifestResourceMeta>, Cleanup) {
        let cluster = self.clusters.entry(key.cluster.clone()).or_default();
        let current = sync.results.values().filter_map(|(meta, _)| {
            let live = cluster.get_mut(&identity_of(meta))?;
            // The agent reads the objects again. It takes one for its own that a user has created
            // again since, with its owners.
            if live.is_owned_by(&sync.applied.uid) {
                live.applied_by.entry(sync.applied.uid.clone()).or_insert(true);
            }
            Some(applied_resource(meta, live.uid()))
        });
        let current: Vec<AppliedManifestResourceMeta> = current.collect();
        let never_applied = sync.results.is_empty()
            && gitwork_agent_core::condition::find(&sync.status.conditions, "Applied").is_none();
        let stale = if sync.applied.deleting || never_applied {
            Vec::new()
        } else {
            stale_resources(&sync.applied.resources, &current)
        };
        (current, Cleanup::of(&stale))
    }
}

/// Whether the hub still has the work with this content.
fn is_current(hub: &SimulatedHub, key: &WorkKey, work: &Value) -> bool {
    hub.object(key).is_some_and(|now| {
        now["metadata"]["uid"] == work["metadata"]["uid"]
            && generation(&now) == generation(work)
            && !is_deleting(&now)
    })
}
