//! The ManifestWorks of this cluster on the hub: their finalizer and their status.

use std::sync::Arc;

use gitwork_agent_core::condition;
use gitwork_agent_core::condition::{DELETING, NewCondition};
use gitwork_agent_core::identity::WORK_FINALIZER;
use gitwork_agent_core::object::Object;
use gitwork_agent_core::status::{
    ApplyOutcome, Observation, record_apply_outcomes, record_observations, status_patch,
};
use gitwork_api::work::{ManifestResourceMeta, ManifestWorkStatus};
use jiff::Timestamp;
use serde_json::{Value, json};
use tracing::debug;

use super::error::{PassError, request_error};
use super::items::{HubWork, WorkItem};
use super::resource_path::{path, work_mapping};
use super::server::{ApiError, ApiServer};
use super::shared::SharedState;

/// Attempts to write a status that other clients write too.
const STATUS_TRIES: usize = 4;

/// Reads and writes the ManifestWorks of this cluster on the hub. Stores what it reads in the
/// shared state.
pub struct HubWorks {
    /// The hub.
    pub server: ApiServer,
    /// The cluster's namespace on the hub.
    pub cluster_name: String,
    /// Where the latest version of each work is stored.
    pub shared: Arc<SharedState>,
}

impl HubWorks {
    /// Adds this agent's finalizer, and gives the work with it; `None` if the work is gone.
    pub async fn add_finalizer(&self, work: &HubWork) -> Result<Option<Arc<HubWork>>, PassError> {
        let mut finalizers = work.finalizers.clone();
        finalizers.push(WORK_FINALIZER.into());
        match self.write_finalizers(work, &finalizers).await {
            Ok(object) => self.written(object).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(request_error("add the finalizer to the ManifestWork")(error)),
        }
    }

    async fn write_finalizers(
        &self,
        work: &HubWork,
        finalizers: &[String],
    ) -> Result<Object, ApiError> {
        let HubWork { uid, resource_version, .. } = work;
        let patch = json!({"metadata": {
            "uid": uid, "resourceVersion": resource_version, "finalizers": finalizers,
        }});
        self.server.merge_patch(&self.work_path(&work.name), &patch).await
    }

    fn written(&self, object: Object) -> Result<Arc<HubWork>, PassError> {
        let item: WorkItem = serde_json::from_value(Value::Object(object))
            .map_err(|_| PassError::InvalidResponse("ManifestWork"))?;
        Ok(self.shared.lock().put_written(item.into()))
    }

    /// Records the results of a pass in the work's status, and writes it if it changed.
    pub async fn write_status(
        &self,
        work: &Arc<HubWork>,
        results: Option<&[(ManifestResourceMeta, ApplyOutcome)]>,
        seen: &[(usize, Observation)],
    ) -> Result<bool, PassError> {
        let mut work = work.clone();
        for _ in 0..STATUS_TRIES {
            let old: ManifestWorkStatus = work.status.read().unwrap_or_default();
            let mut status = old.clone();
            let now = Timestamp::now();
            if let Some(results) = results {
                record_apply_outcomes(&mut status, work.generation, results, now);
            }
            record_observations(&mut status, work.generation, seen.iter().cloned(), now);
            if status == old {
                return Ok(false);
            }
            let patch = json!({
                "metadata": {"uid": work.uid, "resourceVersion": work.resource_version},
                "status": status_patch(&status),
            });
            let path = format!("{}/status", self.work_path(&work.name));
            match self.server.merge_patch(&path, &patch).await {
                Ok(object) => {
                    self.written(object)?;
                    return Ok(true);
                }
                Err(error) if error.is_not_found() => return Ok(false),
                Err(error) if error.is_conflict() => match self.read_work(&work.name).await? {
                    Some(fresh) if fresh.generation == work.generation && fresh.uid == work.uid => {
                        work = fresh;
                    }
                    // Another pass reports on the new version.
                    _ => return Ok(false),
                },
                Err(error) => {
                    return Err(request_error("update the status of the ManifestWork")(error));
                }
            }
        }
        debug!(work = %work.name, "another client keeps writing the status");
        Err(PassError::Contended)
    }

    async fn read_work(&self, name: &str) -> Result<Option<Arc<HubWork>>, PassError> {
        match self
            .server
            .get(&self.work_path(name))
            .await
            .map_err(request_error("read the ManifestWork"))?
        {
            Some(object) => self.written(object).map(Some),
            None => Ok(None),
        }
    }

    /// Removes this agent's finalizer: nothing of the work is left on the cluster.
    pub async fn drop_finalizer(&self, work: &HubWork) -> Result<(), PassError> {
        if !work.has_finalizer() {
            return Ok(());
        }
        let mut rest = work.finalizers.clone();
        rest.retain(|one| one != WORK_FINALIZER);
        match self.write_finalizers(work, &rest).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) if error.is_conflict() => {
                // The next attempt uses the version that is there now.
                self.read_work(&work.name).await?;
                Err(request_error("remove the finalizer of the ManifestWork")(error))
            }
            Err(error) => Err(request_error("remove the finalizer of the ManifestWork")(error)),
        }
    }

    /// Sets the condition `Deleting` in the work's status.
    pub async fn report_deleting(&self, work: &HubWork) -> Result<(), PassError> {
        let mut status: ManifestWorkStatus = work.status.read().unwrap_or_default();
        let old = status.clone();
        let finding =
            NewCondition::new(DELETING, "True", "WorkDeleting", "ManifestWork is being deleted");
        condition::set(&mut status.conditions, finding.at(work.generation), Timestamp::now());
        if status == old {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"uid": work.uid, "resourceVersion": work.resource_version},
            "status": {"conditions": status.conditions},
        });
        let path = format!("{}/status", self.work_path(&work.name));
        match self.server.merge_patch(&path, &patch).await {
            // The finalizer goes by this version, maybe before the event comes.
            Ok(object) => self.written(object).map(|_work| ()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) if error.is_conflict() => {
                self.read_work(&work.name).await?;
                Err(request_error("update the status of the ManifestWork")(error))
            }
            Err(error) => Err(request_error("update the status of the ManifestWork")(error)),
        }
    }

    /// The path of one ManifestWork of this cluster.
    fn work_path(&self, name: &str) -> String {
        path(&work_mapping("manifestworks", true), &self.cluster_name, Some(name))
    }

    /// The path of all ManifestWorks of this cluster.
    pub fn works_path(&self) -> String {
        path(&work_mapping("manifestworks", true), &self.cluster_name, None)
    }
}
