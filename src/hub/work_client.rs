//! Reads and writes ManifestWorks and ManifestWorkReplicaSets as plain JSON, so that fields that
//! gitwork does not know are neither lost nor rejected.

use std::sync::Arc;

use futures::stream::BoxStream;
use serde_json::{Value, json};

use crate::connection::HubConnection;
use crate::list::WorkQuery;
use crate::request::ApiRequest;
use crate::response::{self, RequestTarget, Verb};
use crate::work_kind::WorkKind;
use crate::{HubError, HubEvent, list, unavailable, watch};
use gitwork_core::model::name::{CommitId, SourceId, WorkKey};
use gitwork_core::model::work::WorkBody;
use gitwork_core::plan::Effect;
use gitwork_core::plan::observed::{ObservedWork, WorkContent};
use gitwork_core::plan::request;
use gitwork_core::plan::request::Request as Write;

/// The ManifestWorks of an API server.
pub(crate) struct WorkClient {
    connection: Arc<HubConnection>,
}

impl WorkClient {
    /// The ManifestWorks behind `connection`.
    pub fn new(connection: Arc<HubConnection>) -> Self {
        Self { connection }
    }

    /// See [`Hub::watch`](crate::Hub::watch).
    pub fn watch(&self, source: &SourceId) -> BoxStream<'static, HubEvent> {
        watch::watch(Arc::clone(&self.connection), source.clone())
    }

    /// See [`Hub::list`](crate::Hub::list).
    pub async fn list(&self, source: Option<&SourceId>) -> Result<Vec<ObservedWork>, HubError> {
        let listed = list::list(&self.connection, &WorkQuery::works(source)).await?;
        let mut works: Vec<ObservedWork> = listed.works.into_values().collect();
        match list::list(&self.connection, &WorkQuery::replica_sets()).await {
            Ok(sets) => {
                let is_wanted = |set: &ObservedWork| {
                    source.map_or(set.source.is_some(), |source| set.is_ours(source))
                };
                works.extend(sets.works.into_values().filter(is_wanted));
            }
            // Many hubs have no such kind, or let nobody read it.
            Err(HubError::ReplicaSetCrdMissing | HubError::Forbidden { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(works)
    }

    /// See [`Hub::set_works`](crate::Hub::set_works).
    pub async fn set_works(&self, set: &WorkKey) -> Result<Vec<ObservedWork>, HubError> {
        let listed = list::list(&self.connection, &WorkQuery::works_of(set)).await?;
        Ok(listed.works.into_values().collect())
    }

    /// See [`Hub::get`](crate::Hub::get).
    pub async fn get(&self, key: &WorkKey) -> Result<Option<ObservedWork>, HubError> {
        let request = ApiRequest::of_work(key, Verb::Get);
        match self.send(&request, key, None).await {
            // A read has no precondition: it is stale only if the work does not exist (404).
            Err(HubError::Stale { .. }) => Ok(None),
            other => other,
        }
    }

    /// See [`Hub::content`](crate::Hub::content).
    pub async fn content(&self, key: &WorkKey) -> Result<Option<WorkContent>, HubError> {
        let response = self.connection.send(&ApiRequest::of_work(key, Verb::Get)).await?;
        if response.status.is_success() {
            return Ok(Some(WorkContent::from_manifest_work(json_of(&response.body)?)));
        }
        match response::error(&response, Verb::Get, RequestTarget::Work(key), None) {
            HubError::Stale { .. } => Ok(None),
            error => Err(error),
        }
    }

    /// See [`Hub::execute`](crate::Hub::execute).
    pub async fn execute(
        &self,
        key: &WorkKey,
        effect: &Effect,
        commit: Option<CommitId>,
    ) -> Result<Option<ObservedWork>, HubError> {
        let (verb, content_type, text) = match request::request(key, effect, commit) {
            Write::Create(object) => (Verb::Create, "application/json", object.text()),
            Write::JsonPatch(patch) => (Verb::Patch, "application/json-patch+json", patch.text()),
            Write::MergePatch(patch) => {
                (Verb::Patch, "application/merge-patch+json", patch.to_string())
            }
            Write::Delete { uid, resource_version } => {
                return self.delete(key, &uid, &resource_version).await;
            }
        };
        let request =
            ApiRequest { body: text.into_bytes(), content_type, ..ApiRequest::of_work(key, verb) };
        let wanted = match effect {
            Effect::Create { body } | Effect::Update { body, .. } | Effect::Adopt { body, .. } => {
                Some(body.as_ref())
            }
            _ => None,
        };
        self.create_or_patch(&request, key, wanted).await
    }

    /// Sends a request whose response is a ManifestWork, or a `Status` after its deletion. `body`
    /// is the content in the request.
    async fn send(
        &self,
        request: &ApiRequest,
        key: &WorkKey,
        body: Option<&WorkBody>,
    ) -> Result<Option<ObservedWork>, HubError> {
        let response = self.connection.send(request).await?;
        if !response.status.is_success() {
            let spec = body.map(|body| body.spec.value());
            return Err(response::error(
                &response,
                request.verb,
                RequestTarget::Work(key),
                spec.as_ref(),
            ));
        }
        if let (Verb::Create, Some(body)) = (request.verb, body)
            && let Some(work) = ObservedWork::from_created(&response.body, key, body)
        {
            return Ok(Some(work));
        }
        let object = json_of(&response.body)?;
        let kind = WorkKind::of(key);
        let name = kind.names().1;
        match object.get("kind").and_then(Value::as_str) {
            Some(found) if found == name => kind
                .read(object)
                .map(Some)
                .map_err(|error| unavailable(format!("the response is no {name}: {error}"))),
            Some("Status") if request.verb == Verb::Delete => Ok(None),
            _ => Err(unavailable(format!("the response is no {name}"))),
        }
    }

    /// Sends a create or a patch. `body` is the content after it, where all of it is known.
    async fn create_or_patch(
        &self,
        request: &ApiRequest,
        key: &WorkKey,
        body: Option<&WorkBody>,
    ) -> Result<Option<ObservedWork>, HubError> {
        match (self.send(request, key, body).await, body) {
            (Err(error @ (HubError::Exists { .. } | HubError::Stale { .. })), Some(body)) => {
                self.own_earlier_write(key, body, error).await
            }
            (other, _) => other,
        }
    }

    /// Checks a conflict: the write may have succeeded earlier and its response been lost.
    async fn own_earlier_write(
        &self,
        key: &WorkKey,
        body: &WorkBody,
        conflict: HubError,
    ) -> Result<Option<ObservedWork>, HubError> {
        let there = self.get(key).await?;
        let ours = there.filter(|work| {
            !work.deleting && work.written == Some(body.digest) && work.digest == body.digest
        });
        ours.map(Some).ok_or(conflict)
    }

    async fn delete(
        &self,
        key: &WorkKey,
        uid: &str,
        resource_version: &str,
    ) -> Result<Option<ObservedWork>, HubError> {
        let mut request = ApiRequest::of_work(key, Verb::Delete);
        let preconditions = json!({"uid": uid, "resourceVersion": resource_version});
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "propagationPolicy": "Background", "preconditions": preconditions,
        });
        request.body = options.to_string().into_bytes();
        match self.send(&request, key, None).await {
            // The work does not exist (404) or a precondition failed (409): read it to know which.
            Err(HubError::Stale { .. }) => match self.get(key).await? {
                Some(work) if *work.uid != *uid => Err(HubError::Stale { key: key.to_string() }),
                Some(work) if !work.deleting => Err(HubError::Stale { key: key.to_string() }),
                there => Ok(there),
            },
            other => other,
        }
    }
}

fn json_of(body: &[u8]) -> Result<Value, HubError> {
    serde_json::from_slice(body)
        .map_err(|error| unavailable(format!("the response is not JSON: {error}")))
}
