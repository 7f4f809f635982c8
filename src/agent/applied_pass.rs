//! One pass over one AppliedManifestWork: finalize it if it is being deleted, evict it if its work
//! is gone.

use std::sync::Arc;
use std::time::Duration;

use gitwork_agent_core::applied_resources::applied_resources_patch;
use gitwork_agent_core::condition::api_time;
use gitwork_agent_core::drift_backoff::retry_after;
use gitwork_agent_core::eviction::{EvictionAction, eviction_action};
use gitwork_agent_core::identity::APPLIED_FINALIZER;
use gitwork_agent_core::owner::Owner;
use gitwork_retry::log_error;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::info;

use super::applied_works::{AppliedWorks, version_of};
use super::error::{PassError, request_error};
use super::items::AppliedItem;
use super::removal::ObjectRemover;
use super::shared::SharedState;
use super::tracking::QueueKey;

/// How often an object that is being deleted is read again, in case the event of its end is missed.
const PENDING: Duration = Duration::from_secs(10);

/// Runs the passes over the AppliedManifestWorks of this agent.
pub struct AppliedReconciler {
    /// Reads and writes them.
    pub applied_works: Arc<AppliedWorks>,
    /// Deletes their objects.
    pub remover: Arc<ObjectRemover>,
    /// Their latest versions, and the queue.
    pub shared: Arc<SharedState>,
    /// How long applied objects stay after their ManifestWork is gone from the hub.
    pub eviction_grace: Duration,
}

impl AppliedReconciler {
    /// Runs one pass, and queues the next one if it is not done.
    pub async fn pass(&self, name: &Arc<str>) {
        let Some(applied) = self.shared.lock().applied.get(name).cloned() else {
            self.shared.applied_failures().remove(name);
            return;
        };
        if applied.spec.agent_id != self.applied_works.agent_id {
            return;
        }
        let result = if applied.is_deleting() {
            self.finalize(name, &applied).await
        } else {
            self.evict(&applied).await
        };
        let again = match result {
            Ok(again) => {
                self.shared.applied_failures().remove(name);
                again
            }
            Err(error) => {
                log_error!(
                    info,
                    &error,
                    applied = %name,
                    "the pass over the AppliedManifestWork failed; retrying"
                );
                let mut failures = self.shared.applied_failures();
                let count = failures.entry(name.clone()).or_default();
                let wait = retry_after(*count);
                *count = count.saturating_add(1);
                Some(wait)
            }
        };
        if let Some(again) = again {
            self.shared.queue.add_at(QueueKey::Applied(name.clone()), Instant::now() + again);
        }
    }

    async fn finalize(
        &self,
        name: &Arc<str>,
        applied: &AppliedItem,
    ) -> Result<Option<Duration>, PassError> {
        if !applied.has_finalizer() {
            return Ok(None);
        }
        let key = QueueKey::Applied(name.clone());
        let owner =
            Owner { name: applied.metadata.name.clone(), uid: applied.metadata.uid.clone() };
        let recorded = &applied.status.applied_resources;
        let pending = self.remover.remove_all(&key, recorded, &owner).await?;
        if !pending.is_empty() {
            if pending != *recorded {
                let patch = json!({"appliedResources": applied_resources_patch(&pending)});
                self.applied_works.write_applied_status(applied, &patch).await?;
            }
            return Ok(Some(PENDING));
        }
        let rest: Vec<&String> =
            applied.metadata.finalizers.iter().filter(|one| *one != APPLIED_FINALIZER).collect();
        let mut metadata = version_of(applied);
        if let Value::Object(fields) = &mut metadata {
            fields.insert("finalizers".into(), json!(rest));
        }
        let path = self.applied_works.applied_path(Some(name));
        let patch = json!({"metadata": metadata});
        match self.applied_works.server.merge_patch(&path, &patch).await {
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => {
                Err(request_error("remove the finalizer of the AppliedManifestWork")(error))
            }
        }
    }

    async fn evict(&self, applied: &AppliedItem) -> Result<Option<Duration>, PassError> {
        let work_name = &applied.spec.manifest_work_name;
        let is_of_hub = applied.metadata.name.starts_with(&self.applied_works.hub_hash);
        let managed = is_of_hub && self.shared.lock().works.contains_key(work_name.as_str());
        let start = applied.status.eviction_start_time.as_ref().map(|time| time.0);
        let now = Timestamp::now();
        match eviction_action(managed, start, self.eviction_grace, now) {
            EvictionAction::None => Ok(None),
            EvictionAction::ClearStart => {
                let patch = json!({"evictionStartTime": null});
                self.applied_works.write_applied_status(applied, &patch).await?;
                Ok(None)
            }
            EvictionAction::SetStart => {
                let patch = json!({"evictionStartTime": api_time(now)});
                self.applied_works.write_applied_status(applied, &patch).await?;
                Ok(Some(self.eviction_grace))
            }
            EvictionAction::Wait(rest) => Ok(Some(rest)),
            EvictionAction::Delete => {
                let name = &applied.metadata.name;
                info!(
                    applied = name,
                    "the ManifestWork is gone from the hub; evicting its objects"
                );
                self.applied_works.delete(name, &applied.metadata.uid).await?;
                Ok(None)
            }
        }
    }
}
