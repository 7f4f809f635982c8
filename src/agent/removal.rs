//! Deletes objects that left their work, or whose work or AppliedManifestWork is being deleted.

use std::sync::Arc;

use gitwork_agent_core::applied_resources::{CleanupAction, cleanup_action};
use gitwork_agent_core::owner::Owner;
use gitwork_api::work::AppliedManifestResourceMeta;

use super::deletion::{Deletion, DeletionTarget};
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

/// One object to delete.
struct Removal<'a> {
    recorded: &'a AppliedManifestResourceMeta,
    owner: &'a Owner,
    /// Its key in the tracking.
    object: ObjectKey,
    /// Whether the tracking had it as absent before.
    was_absent: bool,
    path: String,
}

/// What is left of an object after an attempt to delete it.
enum Remainder {
    /// Nothing that needs a record.
    Nothing,
    /// The object still exists, in this state.
    Object(ObservedState),
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
        for recorded in stale {
            let removal = self.removal(recorded, owner);
            let remainder =
                self.remove(&removal).await.map_err(request_error("delete an object"))?;
            if self.track(key, &removal, &remainder) {
                pending.push(recorded.clone());
            }
        }
        Ok(pending)
    }

    fn removal<'a>(
        &self,
        recorded: &'a AppliedManifestResourceMeta,
        owner: &'a Owner,
    ) -> Removal<'a> {
        let mapping = recorded_mapping(recorded);
        let path = path(&mapping, &recorded.namespace, Some(&recorded.name));
        let mut state = self.shared.lock();
        let object = ObjectKey {
            kind: state.tracking.kind(&mapping),
            namespace: recorded.namespace.as_str().into(),
            name: recorded.name.as_str().into(),
        };
        let was_absent = state.tracking.is_absent(&object);
        Removal { recorded, owner, object, was_absent, path }
    }

    async fn remove(&self, removal: &Removal<'_>) -> Result<Remainder, ApiError> {
        if let Some(remainder) = self.remove_unread(removal).await? {
            return Ok(remainder);
        }
        let Removal { recorded, owner, path, .. } = removal;
        let live = self.cluster.get_metadata(path).await?;
        let observed = ObservedState::of_read(live.as_ref());
        match cleanup_action(recorded, live.as_ref(), owner) {
            CleanupAction::Forget => Ok(Remainder::Nothing),
            CleanupAction::RemoveOwner(patch) => {
                self.cluster.merge_patch(path, &patch).await?;
                Ok(Remainder::Nothing)
            }
            CleanupAction::Wait => Ok(Remainder::Object(observed)),
            CleanupAction::Delete => {
                match self.cluster.delete(path, &DeletionTarget::uid(&recorded.uid)).await {
                    Ok(Deletion::Gone) => Ok(Remainder::Nothing),
                    Ok(Deletion::Begun(_)) => Ok(Remainder::Object(observed)),
                    // Usually another object has the name now: the next pass finds out.
                    Err(error) if error.code() == 409 => Ok(Remainder::Object(observed)),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Deletes an object without reading it, if the last observed version shows that only `owner`
    /// owns it. The API server rejects the request if the object has another version. `None`: the
    /// object must be read.
    async fn remove_unread(&self, removal: &Removal<'_>) -> Result<Option<Remainder>, ApiError> {
        let known = self.shared.lock().tracking.version(&removal.object);
        let (owner, object) = (&removal.owner.uid, &removal.recorded.uid);
        let Some(version) =
            known.filter(|version| version.revision > 0 && version.is_only_owned_by(owner, object))
        else {
            return Ok(None);
        };
        let target =
            DeletionTarget { uid: &removal.recorded.uid, revision: Some(version.revision) };
        match self.cluster.delete(&removal.path, &target).await {
            Ok(Deletion::Gone) => Ok(Some(Remainder::Nothing)),
            // It is read in the next pass: its version is not that of the tracking any more.
            Ok(Deletion::Begun(_)) => Ok(Some(Remainder::Object(ObservedState::Present(version)))),
            Err(error) if error.code() == 409 => {
                self.shared.lock().tracking.forget_state(&removal.object);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Watches an object that is being deleted, so that the next pass runs as soon as it is gone.
    /// Returns whether it still exists.
    fn track(&self, key: &QueueKey, removal: &Removal<'_>, remainder: &Remainder) -> bool {
        let object = &removal.object;
        let mut state = self.shared.lock();
        // The event can come before the response to the deletion.
        let is_gone = !removal.was_absent && state.tracking.is_absent(object);
        let observed = match remainder {
            Remainder::Object(observed) if !is_gone => observed,
            _ => {
                state.tracking.unsubscribe(object, key, REMOVED_OBJECTS);
                return false;
            }
        };
        let subscription = Subscription {
            key: key.clone(),
            ordinal: REMOVED_OBJECTS,
            wants_all: true,
            applied_digest: 0,
        };
        state.tracking.subscribe(object, *observed, subscription);
        true
    }
}
