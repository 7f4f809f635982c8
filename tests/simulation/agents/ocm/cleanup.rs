//! Deletes recorded objects, each with a read and then a request.

use gitwork_agent_core::applied_resources::CleanupAction;
use gitwork_agent_core::owner::Owner;
use gitwork_api::work::AppliedManifestResourceMeta;
use gitwork_core::model::name::WorkKey;

use super::{Conflict, in_order};
use crate::agents::{AgentBug, Agents, AppliedWork, is_wrong, owner, recorded_identity};

/// A run over objects that are to go.
#[derive(Debug, Default)]
pub(super) struct Cleanup {
    /// The objects still to go through, the next one last.
    left: Vec<AppliedManifestResourceMeta>,
    /// What to do about the next one, by its state when it was read.
    decided: Option<CleanupAction>,
    /// Objects whose end the agent has not seen.
    pub pending: Vec<AppliedManifestResourceMeta>,
}

impl Cleanup {
    pub fn of(resources: &[AppliedManifestResourceMeta]) -> Self {
        Self { left: in_order(resources), ..Self::default() }
    }
}

impl Agents {
    /// Reads or deletes the next object. Returns false if there is none left.
    pub(super) fn clean_next(
        &mut self,
        key: &WorkKey,
        cleanup: &mut Cleanup,
        owner: &Owner,
    ) -> Result<bool, Conflict> {
        let Some(recorded) = cleanup.left.last().cloned() else { return Ok(false) };
        let object = (key.cluster.clone(), recorded_identity(&recorded));
        let Some(decided) = cleanup.decided.take() else {
            cleanup.decided = Some(self.cleanup_action(&object, &recorded, owner));
            return Ok(true);
        };
        cleanup.left.pop();
        let (cluster_name, id) = &object;
        let ignores_uids = self.agent_bug == Some(AgentBug::IgnoresUids);
        let cluster = self.clusters.entry(cluster_name.clone()).or_default();
        match decided {
            CleanupAction::Forget => {}
            CleanupAction::Wait => cleanup.pending.push(recorded),
            CleanupAction::RemoveOwner(patch) => {
                cluster.patch(id, &patch).map_err(|_| Conflict)?;
            }
            CleanupAction::Delete => {
                let gone = if ignores_uids {
                    cluster.delete(id)
                } else {
                    cluster.delete_uid(id, &recorded.uid)
                };
                if let Some(live) = gone {
                    self.note(cluster_name, id, is_wrong(&live, Some(&owner.uid)));
                    cleanup.pending.push(recorded);
                }
            }
        }
        Ok(true)
    }

    /// The next request of AppliedManifestWorkFinalizer.
    pub(super) fn finalize_applied(&mut self, key: &WorkKey) {
        let Some(agent) = self.ocm.get_mut(&key.cluster) else { return };
        let Some(applied) = agent.applied.get(key).cloned() else { return };
        let begun = agent.cleanups.remove(&applied.uid);
        let mut cleanup = begun.unwrap_or_else(|| Cleanup::of(&applied.resources));
        match self.clean_next(key, &mut cleanup, &owner(key, &applied)) {
            Ok(true) => {
                let Some(agent) = self.ocm.get_mut(&key.cluster) else { return };
                agent.cleanups.insert(applied.uid.clone(), cleanup);
            }
            // It begins again.
            Err(Conflict) => {}
            Ok(false) if cleanup.pending == applied.resources && !cleanup.pending.is_empty() => {}
            Ok(false) if !cleanup.pending.is_empty() => {
                let resources = cleanup.pending;
                let _conflict = self.write_applied(key, AppliedWork { resources, ..applied });
            }
            Ok(false) => self.remove_applied(key, &applied),
        }
    }

    /// Removes the finalizer of an AppliedManifestWork that is being deleted.
    fn remove_applied(&mut self, key: &WorkKey, applied: &AppliedWork) {
        let is_stored =
            |stored: &AppliedWork| stored.uid == applied.uid && stored.version == applied.version;
        if self.applied.get(key).is_some_and(is_stored) {
            self.applied.remove(key);
            let agent = self.ocm.entry(key.cluster.clone()).or_default();
            agent.applied_changes.push_back((key.clone(), None));
        }
    }
}
