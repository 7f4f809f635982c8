//! The hub as its API server: ManifestWorks are read and written as plain JSON, so that fields that
//! gitwork does not know are neither lost nor rejected.

use futures::future::{BoxFuture, FutureExt};
use futures::stream::BoxStream;
use serde_json::{Value, json};

use crate::connection::{ApiRequest, KubeHub, unavailable};
use crate::response::{self, RequestTarget, Verb};
use crate::{Hub, HubError, HubEvent, StoredRecord, list, watch};
use gitwork_core::model::name::{CommitId, SourceId, WorkKey};
use gitwork_core::model::work::WorkBody;
use gitwork_core::plan::Effect;
use gitwork_core::plan::directives::Directives;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_core::plan::record::Record;
use gitwork_core::plan::request;
use gitwork_core::plan::request::Request as Write;

impl KubeHub {
    async fn get_work(&self, key: &WorkKey) -> Result<Option<ObservedWork>, HubError> {
        let request = ApiRequest::of_work(key, Verb::Get);
        match self.send_for_work(&request, key, None).await {
            // A read has no precondition: it is stale only if the work does not exist (404).
            Err(HubError::Stale { .. }) => Ok(None),
            other => other,
        }
    }

    /// Sends a request whose response is a ManifestWork, or a `Status` after its deletion. `body`
    /// is the content in the request.
    async fn send_for_work(
        &self,
        request: &ApiRequest,
        key: &WorkKey,
        body: Option<&WorkBody>,
    ) -> Result<Option<ObservedWork>, HubError> {
        let response = self.send(request).await?;
        if !response.status.is_success() {
            let spec = body.map(|body| body.spec.value());
            return Err(response::error(
                &response,
                request.verb,
                RequestTarget::Work(key),
                spec.as_ref(),
            ));
        }
        let object: Value = serde_json::from_slice(&response.body)
            .map_err(|error| unavailable(format!("the response is not JSON: {error}")))?;
        match object.get("kind").and_then(Value::as_str) {
            Some("ManifestWork") => ObservedWork::from_manifest_work(object)
                .map(Some)
                .map_err(|error| unavailable(format!("the response is no ManifestWork: {error}"))),
            Some("Status") if request.verb == Verb::Delete => Ok(None),
            _ => Err(unavailable("the response is no ManifestWork".into())),
        }
    }

    /// Sends a create or a patch. `body` is the content after it, where all of it is known.
    async fn create_or_patch(
        &self,
        request: &ApiRequest,
        key: &WorkKey,
        body: Option<&WorkBody>,
    ) -> Result<Option<ObservedWork>, HubError> {
        match (self.send_for_work(request, key, body).await, body) {
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
        let there = self.get_work(key).await?;
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
        match self.send_for_work(&request, key, None).await {
            // The work does not exist (404) or a precondition failed (409): read it to know which.
            Err(HubError::Stale { .. }) => match self.get_work(key).await? {
                Some(work) if work.uid != uid => Err(HubError::Stale { key: key.to_string() }),
                Some(work) if !work.deleting => Err(HubError::Stale { key: key.to_string() }),
                there => Ok(there),
            },
            other => other,
        }
    }
}

impl Hub for KubeHub {
    fn watch(&self, source: &SourceId) -> BoxStream<'static, HubEvent> {
        watch::watch(self.clone(), source.clone())
    }

    fn list<'a>(
        &'a self,
        source: Option<&'a SourceId>,
    ) -> BoxFuture<'a, Result<Vec<ObservedWork>, HubError>> {
        async move { Ok(list::list(self, source).await?.works) }.boxed()
    }

    fn get<'a>(
        &'a self,
        key: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>> {
        self.get_work(key).boxed()
    }

    fn directives<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Directives, HubError>> {
        self.read_directives(source).boxed()
    }

    fn record<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Option<StoredRecord>, HubError>> {
        self.read_record(source).boxed()
    }

    fn set_record<'a>(
        &'a self,
        source: &'a SourceId,
        record: &'a Record,
        before: Option<&'a StoredRecord>,
    ) -> BoxFuture<'a, Result<StoredRecord, HubError>> {
        self.write_record(source, record, before).boxed()
    }

    fn execute<'a>(
        &'a self,
        key: &'a WorkKey,
        effect: &'a Effect,
        commit: Option<CommitId>,
    ) -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>> {
        async move {
            let (verb, content_type, content) = match request::request(key, effect, commit) {
                Write::Create(object) => (Verb::Create, "application/json", object),
                Write::JsonPatch(patch) => (Verb::Patch, "application/json-patch+json", patch),
                Write::MergePatch(patch) => (Verb::Patch, "application/merge-patch+json", patch),
                Write::Delete { uid, resource_version } => {
                    return self.delete(key, &uid, &resource_version).await;
                }
            };
            let body = content.to_string().into_bytes();
            let request = ApiRequest { body, content_type, ..ApiRequest::of_work(key, verb) };
            let wanted = match effect {
                Effect::Create { body }
                | Effect::Update { body, .. }
                | Effect::Adopt { body, .. } => Some(body.as_ref()),
                _ => None,
            };
            self.create_or_patch(&request, key, wanted).await
        }
        .boxed()
    }
}
