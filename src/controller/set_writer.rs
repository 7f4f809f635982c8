//! Carries out the writes that a decision asks for.

use std::sync::Arc;

use gitwork_core::model::name::ClusterName;
use gitwork_core::model::work::MANAGER;
use gitwork_kube::api_status::ApiStatus;
use gitwork_kube::list_page::{ListPage, escape_query};
use gitwork_replica_sets::completed_work::CompletedWork;
use gitwork_replica_sets::names::LABEL_OWNER;
use gitwork_replica_sets::replica_set::ReplicaSet;
use gitwork_replica_sets::set_work::SetWork;
use gitwork_replica_sets::write::{SetWrite, finalizer_patch, new_work, work_patch};
use serde_json::{Value, json};

use crate::hub_api::{HubOperation, HubRequest, HubRequestCause, HubRequestError};
use crate::limits;
use crate::shared::{SharedController, WORKS};

const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Sends the writes of one replica set.
pub(crate) struct SetWriter<'a> {
    pub shared: &'a SharedController,
    pub set: &'a Arc<ReplicaSet>,
}

impl SetWriter<'_> {
    /// Carries out one write, and keeps the object in the answer: the next decision must not be
    /// made from older ones.
    pub async fn write(&self, write: &SetWrite) -> Result<(), HubRequestError> {
        // The semaphore is never closed.
        let _permit = self.shared.writes.acquire().await;
        match write {
            SetWrite::AddFinalizer => self.write_finalizer(true).await,
            SetWrite::RemoveFinalizer => {
                if self.has_works_left().await? {
                    return Ok(());
                }
                self.write_finalizer(false).await
            }
            SetWrite::Create { cluster, name, placement } => {
                self.create(cluster, name, placement).await
            }
            SetWrite::Update { work, placement } => {
                let now = Some(self.shared.clock.now());
                let patch = work_patch(self.set, work, placement, now);
                self.patch(work, patch).await
            }
            SetWrite::UpdateMetadata { work, placement } => {
                let patch = work_patch(self.set, work, placement, None);
                self.patch(work, patch).await
            }
            SetWrite::Delete { cluster, name, uid, .. } => {
                delete(self.shared, cluster, name, &json!({ "uid": uid })).await
            }
        }
    }

    async fn write_finalizer(&self, is_added: bool) -> Result<(), HubRequestError> {
        let path = format!("{}?fieldManager={MANAGER}", self.path());
        let request = HubRequest::new(HubOperation::Update, path, self.subject());
        let request = request.with_body(MERGE_PATCH, finalizer_patch(self.set, is_added));
        let object: Value = self.shared.api.send(&request).await?;
        self.shared.lock().update_set(&object);
        Ok(())
    }

    /// Writes the status of the set.
    pub async fn write_status(&self, status: &Value) -> Result<(), HubRequestError> {
        let path = format!("{}/status?fieldManager={MANAGER}", self.path());
        let subject = format!("the status of {}", self.subject());
        // The uid is a precondition: another set may have the name by now.
        let patch = json!({"metadata": {"uid": self.set.uid}, "status": status});
        let request = HubRequest::new(HubOperation::Update, path, subject);
        let request = request.with_body(MERGE_PATCH, patch);
        let object: Value = self.shared.api.send(&request).await?;
        self.shared.lock().update_set(&object);
        Ok(())
    }

    async fn create(
        &self,
        cluster: &ClusterName,
        name: &str,
        placement: &str,
    ) -> Result<(), HubRequestError> {
        let work = new_work(self.set, cluster, name, placement, self.shared.clock.now());
        let path = format!("{}?fieldManager={MANAGER}", works_of(cluster));
        let request = HubRequest::new(HubOperation::Create, path, work_subject(cluster, name));
        let request = request.with_body(JSON, work);
        match self.shared.api.send::<Value>(&request).await {
            Ok(object) => self.keep(&object),
            // The answer of an earlier create was lost, or somebody else has the name.
            Err(error) if error.status().is_some_and(ApiStatus::is_already_exists) => {
                let path = format!("{}/{name}", works_of(cluster));
                let subject = work_subject(cluster, name);
                let read = HubRequest::new(HubOperation::Read, path, subject);
                let object: Value = self.shared.api.send(&read).await?;
                let owner = SetWork::read(&object).map(|work| work.owner);
                if owner != Some(self.set.key.owner_label()) {
                    return Err(HubRequestError { cause: HubRequestCause::NameTaken, ..error });
                }
                self.shared.lock().put_work(&object, None);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn patch(&self, work: &SetWork, patch: Value) -> Result<(), HubRequestError> {
        let path = format!("{}/{}?fieldManager={MANAGER}", works_of(&work.cluster), work.name);
        let subject = work_subject(&work.cluster, &work.name);
        let request = HubRequest::new(HubOperation::Update, path, subject);
        let request = request.with_body(JSON_PATCH, patch);
        let answer = self.shared.api.send::<Value>(&request).await;
        if answer.as_ref().is_err_and(|error| error.status().is_some_and(ApiStatus::is_not_found)) {
            let id = (work.cluster.clone(), work.name.clone());
            self.shared.lock().remove_work(&id, &work.uid);
        }
        self.keep(&answer?);
        Ok(())
    }

    /// Keeps the answer of a write. The API server may have changed the content by admission.
    fn keep(&self, object: &Value) {
        self.shared.lock().put_work(object, Some(self.set.digest));
    }

    /// Reads the works of the set again, before its finalizer is removed: the answer of a create
    /// may have been lost. Gives whether any has to be waited for.
    async fn has_works_left(&self) -> Result<bool, HubRequestError> {
        let selector = escape_query(&format!("{LABEL_OWNER}={}", self.set.key.owner_label()));
        let path = format!("{WORKS}?labelSelector={selector}&limit={}", limits::LIST_PAGE);
        let subject = format!("the ManifestWorks of {}", self.subject());
        let request = HubRequest::new(HubOperation::List, path, subject);
        let page: ListPage<Value> = self.shared.api.send(&request).await?;
        let mut is_left = false;
        for object in page.items.into_iter().flatten() {
            self.shared.lock().put_work(&object, None);
            let work = SetWork::read(&object);
            is_left |= work.is_some_and(|work| self.set.is_foreground || !work.is_deleting);
        }
        Ok(is_left)
    }

    fn path(&self) -> String {
        let key = &self.set.key;
        format!(
            "/apis/work.open-cluster-management.io/v1alpha1/namespaces/{}/\
             manifestworkreplicasets/{}",
            key.namespace, key.name
        )
    }

    fn subject(&self) -> String {
        format!("ManifestWorkReplicaSet {}", self.set.key)
    }
}

/// Deletes a completed work in the version that was read.
pub(crate) async fn delete_completed(
    shared: &SharedController,
    work: &CompletedWork,
) -> Result<(), HubRequestError> {
    let _permit = shared.writes.acquire().await;
    let preconditions = json!({ "uid": work.uid, "resourceVersion": work.resource_version });
    delete(shared, &work.cluster, &work.name, &preconditions).await
}

/// Deletes a work. That it does not exist is no error.
async fn delete(
    shared: &SharedController,
    cluster: &ClusterName,
    name: &str,
    preconditions: &Value,
) -> Result<(), HubRequestError> {
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "propagationPolicy": "Background", "preconditions": preconditions,
    });
    let path = format!("{}/{name}", works_of(cluster));
    let request = HubRequest::new(HubOperation::Delete, path, work_subject(cluster, name));
    let request = request.with_body(JSON, options);
    let uid = preconditions.get("uid").and_then(Value::as_str).unwrap_or_default();
    match shared.api.send::<Value>(&request).await {
        Ok(object) if object.get("kind").and_then(Value::as_str) == Some("ManifestWork") => {
            // The agent's finalizer keeps it for now. Without one, it is gone.
            let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
            if finalizers.is_some_and(|all| !all.is_empty()) {
                shared.lock().put_work(&object, None);
                return Ok(());
            }
        }
        Ok(_) => {}
        Err(error) if error.status().is_some_and(ApiStatus::is_not_found) => {}
        Err(error) => return Err(error),
    }
    shared.lock().remove_work(&(cluster.clone(), name.to_owned()), uid);
    Ok(())
}

fn works_of(cluster: &ClusterName) -> String {
    format!("/apis/work.open-cluster-management.io/v1/namespaces/{cluster}/manifestworks")
}

fn work_subject(cluster: &ClusterName, name: &str) -> String {
    format!("ManifestWork {cluster}/{name}")
}
