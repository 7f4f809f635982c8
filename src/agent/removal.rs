//! Deletes objects that left their work, or whose work or AppliedManifestWork is being deleted.

use std::sync::Arc;

use gitwork_agent_core::applied_resources::{CleanupAction, cleanup_action};
use gitwork_agent_core::owner::Owner;
use gitwork_api::work::AppliedManifestResourceMeta;

use super::error::{PassError, request_error};
use super::resource_path::{path, recorded_mapping};
use super::server::{ApiError, ApiServer};
use super::shared::SharedState;
use super::tracking::{ObjectKey, ObservedState, QueueKey, REMOVED_OBJECTS, Subscription};

/// Deletes objects on the cluster and tracks them until they are gone.
pub struct ObjectRemover {
    /// The managed cluster.
    pub cluster: ApiServer,
    /// The tracked objects, among others.
    pub shared: Arc<SharedState>,
}

impl ObjectRemover {
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
        let mapping = recorded_mapping(resource);
        let object_path = path(&mapping, &resource.namespace, Some(&resource.name));
        let live = self.cluster.get_metadata(&object_path).await?;
        let object = ObjectKey {
            kind: self.shared.lock().tracking.kind(&mapping),
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
        let mut state = self.shared.lock();
        if going {
            // Watch it, so that the next pass runs as soon as it is gone.
            let subscription = Subscription {
                key: key.clone(),
                ordinal: REMOVED_OBJECTS,
                wants_all: true,
                applied_digest: 0,
            };
            let observed = ObservedState::of_read(live.as_ref());
            state.tracking.subscribe(&object, observed, subscription);
        } else {
            state.tracking.unsubscribe(&object, key, REMOVED_OBJECTS);
        }
        Ok(going)
    }
}
