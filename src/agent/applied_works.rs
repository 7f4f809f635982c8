//! The AppliedManifestWorks of this agent on the cluster: their spec and the list of applied
//! objects.

use std::sync::Arc;

use gitwork_agent_core::identity::{
    APPLIED_FINALIZER, APPLIED_KIND, WORK_API_VERSION, applied_name, work_of_applied,
};
use gitwork_agent_core::object::Object;
use serde_json::{Value, json};

use super::deletion::{Deletion, DeletionTarget};
use super::error::{PassError, request_error};
use super::items::{AppliedItem, HubWork};
use super::resource_path::{path, work_mapping};
use super::server::ApiServer;
use super::shared::SharedState;
use super::tracking::QueueKey;

/// Reads and writes AppliedManifestWorks on the cluster. Stores what it reads in the shared state.
pub struct AppliedWorks {
    /// The managed cluster.
    pub server: ApiServer,
    /// See [`gitwork_agent_core::identity::hub_hash`].
    pub hub_hash: String,
    /// `spec.agentID` of the AppliedManifestWorks.
    pub agent_id: String,
    /// Where the latest version of each AppliedManifestWork is stored.
    pub shared: Arc<SharedState>,
}

impl AppliedWorks {
    fn written(&self, object: Object) -> Result<Arc<AppliedItem>, PassError> {
        let item: AppliedItem = serde_json::from_value(Value::Object(object))
            .map_err(|_| PassError::InvalidResponse("AppliedManifestWork"))?;
        let item = Arc::new(item);
        self.shared.lock().put_applied(&item);
        if item.is_deleting() {
            // Its event will not count as a change any more.
            self.shared.queue.add(QueueKey::Applied(item.metadata.name.as_str().into()));
        }
        Ok(item)
    }

    /// Creates the AppliedManifestWork of a work, or corrects its spec.
    pub async fn ensure_applied(
        &self,
        work: &HubWork,
        known: Option<Arc<AppliedItem>>,
    ) -> Result<Arc<AppliedItem>, PassError> {
        let name = applied_name(&self.hub_hash, &work.name);
        let spec = json!({
            "hubHash": self.hub_hash,
            "agentID": self.agent_id,
            "manifestWorkName": work.name,
        });
        let known = match known {
            Some(known) => known,
            None => {
                let object = json!({
                    "apiVersion": WORK_API_VERSION,
                    "kind": APPLIED_KIND,
                    "metadata": {
                        "name": name,
                        "labels": work.labels,
                        "finalizers": [APPLIED_FINALIZER],
                    },
                    "spec": spec,
                });
                let Value::Object(object) = object else {
                    return Err(PassError::InvalidResponse("object"));
                };
                match self.server.create(&self.applied_path(None), &object).await {
                    Ok(object) => return self.written(object),
                    Err(error) if error.is_already_exists() => {
                        let found = self.server.get(&self.applied_path(Some(&name))).await;
                        let found = found.map_err(request_error("read the AppliedManifestWork"))?;
                        self.written(
                            found.ok_or(PassError::InvalidResponse("AppliedManifestWork"))?,
                        )?
                    }
                    Err(error) => {
                        return Err(request_error("create the AppliedManifestWork")(error));
                    }
                }
            }
        };
        let right = known.spec.hub_hash == self.hub_hash
            && known.spec.agent_id == self.agent_id
            && known.spec.manifest_work_name == work.name;
        if right || known.is_deleting() {
            return Ok(known);
        }
        let patch = json!({"metadata": version_of(&known), "spec": spec});
        let patched = self.server.merge_patch(&self.applied_path(Some(&name)), &patch).await;
        self.written(patched.map_err(request_error("update the AppliedManifestWork"))?)
    }

    /// Deletes the AppliedManifestWork with this uid in the background.
    pub async fn delete(&self, name: &str, uid: &str) -> Result<(), PassError> {
        let target = DeletionTarget::uid(uid);
        let deleted = self.server.delete(&self.applied_path(Some(name)), &target).await;
        match deleted.map_err(request_error("delete the AppliedManifestWork"))? {
            // The pass over its objects begins without the event.
            Deletion::Begun(Some(object)) => self.written(object).map(|_item| ()),
            // The event of its deletion follows.
            Deletion::Begun(None) | Deletion::Gone => Ok(()),
        }
    }

    /// Writes fields of the status, bound to the latest known version.
    pub async fn write_applied_status(
        &self,
        applied: &AppliedItem,
        status: &Value,
    ) -> Result<Arc<AppliedItem>, PassError> {
        let path = format!("{}/status", self.applied_path(Some(&applied.metadata.name)));
        let latest = self.shared.lock().applied.get(applied.metadata.name.as_str()).cloned();
        let version = latest.filter(|one| one.metadata.uid == applied.metadata.uid);
        let metadata = version_of(version.as_deref().unwrap_or(applied));
        let patch = json!({"metadata": metadata, "status": status});
        let patched = self.server.merge_patch(&path, &patch).await;
        let doing = "update the status of the AppliedManifestWork";
        self.written(patched.map_err(request_error(doing))?)
    }

    /// The work that an AppliedManifestWork of this hub belongs to.
    pub fn key_of_work(&self, applied: &str) -> Option<QueueKey> {
        work_of_applied(&self.hub_hash, applied).map(|work| QueueKey::Work(work.into()))
    }

    /// The AppliedManifestWork of a work, as a key.
    pub fn key_of_applied(&self, work: &str) -> QueueKey {
        QueueKey::Applied(applied_name(&self.hub_hash, work).into())
    }

    /// The path of an AppliedManifestWork, or of all.
    pub fn applied_path(&self, name: Option<&str>) -> String {
        path(&work_mapping("appliedmanifestworks", false), "", name)
    }
}

/// Metadata that binds a patch to the version that was read.
pub fn version_of(applied: &AppliedItem) -> Value {
    json!({"uid": applied.metadata.uid, "resourceVersion": applied.metadata.resource_version})
}
