//! Removal: objects that left their work, works that are being deleted, and AppliedManifestWorks
//! whose work is gone.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::info;

use super::Agent;
use super::applied_works::version_of;
use super::error::{PassError, request_error};
use super::items::{AppliedItem, HubWork, ObjectVersion};
use super::pass::PassOutcome;
use super::server::{ApiError, path};
use super::tracking::{ObjectKey, QueueKey, REMOVED_OBJECTS};
use gitwork_agent_core::applied_resources::{
    CleanupAction, applied_resources_patch, cleanup_action,
};
use gitwork_agent_core::condition::api_time;
use gitwork_agent_core::drift_backoff::retry_after;
use gitwork_agent_core::eviction::{EvictionAction, eviction_action};
use gitwork_agent_core::identity::APPLIED_FINALIZER;
use gitwork_agent_core::manifest::ResourceMapping;
use gitwork_agent_core::owner::Owner;
use gitwork_api::work::AppliedManifestResourceMeta;

/// How often an object that is being deleted is read again, in case the event of its end is missed.
const PENDING: Duration = Duration::from_secs(10);

impl Agent {
    /// Deletes objects that `owner` owns. Returns those that still exist.
    pub async fn remove_all(
        &self,
        key: &QueueKey,
        stale: &[AppliedManifestResourceMeta],
        owner: &Owner,
    ) -> Result<Vec<AppliedManifestResourceMeta>, PassError> {
        let mut pending = Vec::new();
        for resource in stale {
            if self.remove(key, resource, owner).await.map_err(request_error("delete an object"))? {
                pending.push(resource.clone());
            }
        }
        Ok(pending)
    }

    /// Deletes one object. Returns whether it still exists.
    async fn remove(
        &self,
        key: &QueueKey,
        resource: &AppliedManifestResourceMeta,
        owner: &Owner,
    ) -> Result<bool, ApiError> {
        let mapping = ResourceMapping {
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.resource.clone(),
            namespaced: !resource.namespace.is_empty(),
        };
        let object_path = path(&mapping, &resource.namespace, Some(&resource.name));
        let live = self.cluster.get_metadata(&object_path).await?;
        let object = ObjectKey {
            kind: self.state().tracking.kind(&mapping),
            namespace: resource.namespace.as_str().into(),
            name: resource.name.as_str().into(),
        };
        let going = match cleanup_action(resource, live.as_ref(), owner) {
            CleanupAction::Forget => false,
            CleanupAction::RemoveOwner(patch) => {
                self.cluster.merge_patch(&object_path, &patch).await?;
                false
            }
            CleanupAction::Wait => true,
            CleanupAction::Delete => match self.cluster.delete(&object_path, &resource.uid).await {
                Ok(()) => true,
                // Usually another object has the name now: the next pass finds out.
                Err(error) if error.code() == 409 => true,
                Err(error) => return Err(error),
            },
        };
        let mut state = self.state();
        if going {
            // Watch it, so that the next pass runs as soon as it is gone.
            state.tracking.subscribe(
                &object,
                key,
                REMOVED_OBJECTS,
                true,
                live.as_ref().map(ObjectVersion::of_object),
                0,
            );
        } else {
            state.tracking.unsubscribe(&object, key, REMOVED_OBJECTS);
        }
        Ok(going)
    }

    /// Finishes a work that is being deleted. Its AppliedManifestWork goes first, with its objects.
    pub async fn finish_work(
        &self,
        work: &HubWork,
        applied: Option<&AppliedItem>,
    ) -> Result<PassOutcome, PassError> {
        let Some(applied) = applied else {
            self.hub_works.drop_finalizer(work).await?;
            return Ok(PassOutcome { changed: true, ..PassOutcome::default() });
        };
        if !applied.is_deleting() {
            self.hub_works.report_deleting(work).await?;
            let name = &applied.metadata.name;
            let deleted = self
                .cluster
                .delete(&self.applied_works.applied_path(Some(name)), &applied.metadata.uid)
                .await;
            deleted.map_err(request_error("delete the AppliedManifestWork"))?;
        }
        // The event of its deletion starts the next pass.
        Ok(PassOutcome { changed: true, ..PassOutcome::default() })
    }

    /// Runs one pass over an AppliedManifestWork of this agent: finalizes it if it is being
    /// deleted, evicts it if its work is gone.
    pub async fn pass_applied(self: &Arc<Self>, name: &Arc<str>) {
        let Some(applied) = self.state().applied.get(name).cloned() else {
            self.shared.applied_failures().remove(name);
            return;
        };
        if applied.spec.agent_id != self.settings.agent_id {
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
                info!(applied = %name, %error, "the pass over the AppliedManifestWork failed; retrying");
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
        self.follow_kinds();
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
        let pending = self.remove_all(&key, recorded, &owner).await?;
        if !pending.is_empty() {
            if pending != *recorded {
                self.applied_works
                    .write_applied_status(
                        applied,
                        &json!({"appliedResources": applied_resources_patch(&pending)}),
                    )
                    .await?;
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
        match self.cluster.merge_patch(&path, &json!({"metadata": metadata})).await {
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => {
                Err(request_error("remove the finalizer of the AppliedManifestWork")(error))
            }
        }
    }

    async fn evict(&self, applied: &AppliedItem) -> Result<Option<Duration>, PassError> {
        let work_name = &applied.spec.manifest_work_name;
        let is_of_hub = applied.metadata.name.starts_with(&self.settings.hub_hash);
        let managed = is_of_hub && self.state().works.contains_key(work_name.as_str());
        let start = applied.status.eviction_start_time.as_ref().map(|time| time.0);
        match eviction_action(managed, start, self.settings.eviction_grace, Timestamp::now()) {
            EvictionAction::None => Ok(None),
            EvictionAction::ClearStart => {
                self.applied_works
                    .write_applied_status(applied, &json!({"evictionStartTime": null}))
                    .await?;
                Ok(None)
            }
            EvictionAction::SetStart => {
                let now = api_time(Timestamp::now());
                self.applied_works
                    .write_applied_status(applied, &json!({"evictionStartTime": now}))
                    .await?;
                Ok(Some(self.settings.eviction_grace))
            }
            EvictionAction::Wait(rest) => Ok(Some(rest)),
            EvictionAction::Delete => {
                info!(
                    applied = applied.metadata.name,
                    "the ManifestWork is gone from the hub; evicting its objects"
                );
                let path = self.applied_works.applied_path(Some(&applied.metadata.name));
                let deleted = self.cluster.delete(&path, &applied.metadata.uid).await;
                deleted.map_err(request_error("delete the AppliedManifestWork"))?;
                Ok(None)
            }
        }
    }
}
