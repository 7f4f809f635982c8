//! The end of things: objects that are not in a work any more, works that are deleted, and AppliedManifestWorks
//! whose work is gone.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::info;

use super::Agent;
use super::core::condition::{self, DELETING, Finding, api_time};
use super::core::eviction::{Eviction, eviction};
use super::core::identity::{APPLIED_FINALIZER, WORK_FINALIZER, applied_name, work_of_applied};
use super::core::manifest::Mapping;
use super::core::owner::Owner;
use super::core::patience::retry_after;
use super::core::status::WorkStatus;
use super::core::tracked::{AppliedResource, Removal, removal};
use super::items::{AppliedItem, Facts, HubWork};
use super::pass::{Ended, NO_PLACE, PassError, version_of};
use super::server::{ApiError, path};
use super::tracking::{Key, ObjectKey};

/// A look at what is being deleted, though no event has told of its end.
const PENDING: Duration = Duration::from_secs(10);

fn doing(doing: &'static str) -> impl Fn(ApiError) -> PassError {
    move |error| PassError::Request { doing, error }
}

impl Agent {
    /// Deletes objects that `owner` holds. Gives those that are still going.
    pub async fn remove_all(
        &self,
        key: &Key,
        stale: &[AppliedResource],
        owner: &Owner,
    ) -> Result<Vec<AppliedResource>, PassError> {
        let mut pending = Vec::new();
        for resource in stale {
            if self.remove(key, resource, owner).await.map_err(doing("delete an object"))? {
                pending.push(resource.clone());
            }
        }
        Ok(pending)
    }

    /// Gives whether the object is still going.
    async fn remove(
        &self,
        key: &Key,
        resource: &AppliedResource,
        owner: &Owner,
    ) -> Result<bool, ApiError> {
        let mapping = Mapping {
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
        let going = match removal(resource, live.as_ref(), owner) {
            Removal::Forget => false,
            Removal::Disown(patch) => {
                self.cluster.merge_patch(&object_path, &patch).await?;
                false
            }
            Removal::Await => true,
            Removal::Delete => match self.cluster.delete(&object_path, &resource.uid).await {
                Ok(()) => true,
                // Usually another object has taken its name: the next look tells.
                Err(error) if error.code() == 409 => true,
                Err(error) => return Err(error),
            },
        };
        let mut state = self.state();
        if going {
            // Its end is to be heard of at once.
            state.tracking.hold(
                &object,
                key,
                NO_PLACE,
                true,
                live.as_ref().map(Facts::of_object),
                0,
            );
        } else {
            state.tracking.release(&object, key, NO_PLACE);
        }
        Ok(going)
    }

    /// A work that is being deleted: its AppliedManifestWork goes first, with all that it holds.
    pub async fn finish_work(
        &self,
        work: &HubWork,
        applied: Option<&AppliedItem>,
    ) -> Result<Ended, PassError> {
        let Some(applied) = applied else {
            self.drop_finalizer(work).await?;
            return Ok(Ended { changed: true, ..Ended::default() });
        };
        if !applied.is_deleting() {
            self.report_deleting(work).await?;
            let name = &applied.metadata.name;
            let deleted =
                self.cluster.delete(&self.applied_path(Some(name)), &applied.metadata.uid).await;
            deleted.map_err(doing("delete the AppliedManifestWork"))?;
        }
        // The event of its end brings us back.
        Ok(Ended { changed: true, ..Ended::default() })
    }

    async fn drop_finalizer(&self, work: &HubWork) -> Result<(), PassError> {
        if !work.has_finalizer() {
            return Ok(());
        }
        let rest: Vec<&String> =
            work.finalizers.iter().filter(|one| *one != WORK_FINALIZER).collect();
        let patch = json!({"metadata": {"uid": work.uid, "resourceVersion": work.resource_version, "finalizers": rest}});
        match self.hub.merge_patch(&self.work_path(&work.name), &patch).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) if error.is_conflict() => {
                // With the version that is there now, the next try will do.
                self.read_work(&work.name).await?;
                Err(doing("remove the finalizer of the ManifestWork")(error))
            }
            Err(error) => Err(doing("remove the finalizer of the ManifestWork")(error)),
        }
    }

    async fn report_deleting(&self, work: &HubWork) -> Result<(), PassError> {
        let mut status: WorkStatus = serde_json::from_str(&work.status).unwrap_or_default();
        let old = status.clone();
        let finding =
            Finding::new(DELETING, "True", "WorkDeleting", "ManifestWork is being deleted");
        condition::set(&mut status.conditions, finding.at(work.generation), Timestamp::now());
        if status == old {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"uid": work.uid, "resourceVersion": work.resource_version},
            "status": {"conditions": status.conditions},
        });
        let path = format!("{}/status", self.work_path(&work.name));
        match self.hub.merge_patch(&path, &patch).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) if error.is_conflict() => {
                self.read_work(&work.name).await?;
                Err(doing("update the status of the ManifestWork")(error))
            }
            Err(error) => Err(doing("update the status of the ManifestWork")(error)),
        }
    }

    /// One AppliedManifestWork of this agent: finalized where it is being deleted, evicted where its work is gone.
    pub async fn pass_applied(self: &Arc<Self>, name: &Arc<str>) {
        let Some(applied) = self.state().applied.get(name).cloned() else {
            self.applied_failures().remove(name);
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
                self.applied_failures().remove(name);
                again
            }
            Err(error) => {
                info!(applied = %name, %error, "the AppliedManifestWork is tried again");
                let mut failures = self.applied_failures();
                let count = failures.entry(name.clone()).or_default();
                let wait = retry_after(*count);
                *count = count.saturating_add(1);
                Some(wait)
            }
        };
        if let Some(again) = again {
            self.queue.add_at(Key::Applied(name.clone()), Instant::now() + again);
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
        let key = Key::Applied(name.clone());
        let owner =
            Owner { name: applied.metadata.name.clone(), uid: applied.metadata.uid.clone() };
        let recorded = &applied.status.applied_resources;
        let pending = self.remove_all(&key, recorded, &owner).await?;
        if !pending.is_empty() {
            if pending != *recorded {
                self.write_applied_status(applied, &json!({"appliedResources": pending})).await?;
            }
            return Ok(Some(PENDING));
        }
        let rest: Vec<&String> =
            applied.metadata.finalizers.iter().filter(|one| *one != APPLIED_FINALIZER).collect();
        let mut metadata = version_of(applied);
        if let Value::Object(fields) = &mut metadata {
            fields.insert("finalizers".into(), json!(rest));
        }
        let path = self.applied_path(Some(name));
        match self.cluster.merge_patch(&path, &json!({"metadata": metadata})).await {
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(doing("remove the finalizer of the AppliedManifestWork")(error)),
        }
    }

    async fn evict(&self, applied: &AppliedItem) -> Result<Option<Duration>, PassError> {
        let work_name = &applied.spec.manifest_work_name;
        let is_of_hub = applied.metadata.name.starts_with(&self.settings.hub_hash);
        let managed = is_of_hub && self.state().works.contains_key(work_name.as_str());
        let start = applied.status.eviction_start_time;
        match eviction(managed, start, self.settings.eviction_grace, Timestamp::now()) {
            Eviction::Nothing => Ok(None),
            Eviction::ClearStart => {
                self.write_applied_status(applied, &json!({"evictionStartTime": null})).await?;
                Ok(None)
            }
            Eviction::SetStart => {
                let now = api_time(Timestamp::now());
                self.write_applied_status(applied, &json!({"evictionStartTime": now})).await?;
                Ok(Some(self.settings.eviction_grace))
            }
            Eviction::Wait(rest) => Ok(Some(rest)),
            Eviction::Delete => {
                info!(
                    applied = applied.metadata.name,
                    "its ManifestWork is gone from the hub: evicted"
                );
                let path = self.applied_path(Some(&applied.metadata.name));
                let deleted = self.cluster.delete(&path, &applied.metadata.uid).await;
                deleted.map_err(doing("delete the AppliedManifestWork"))?;
                Ok(None)
            }
        }
    }

    /// The work that an AppliedManifestWork of this hub belongs to.
    pub fn key_of_work(&self, applied: &str) -> Option<Key> {
        work_of_applied(&self.settings.hub_hash, applied).map(|work| Key::Work(work.into()))
    }

    /// The AppliedManifestWork of a work, as a key.
    pub fn key_of_applied(&self, work: &str) -> Key {
        Key::Applied(applied_name(&self.settings.hub_hash, work).into())
    }
}
