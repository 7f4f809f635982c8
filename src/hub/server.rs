//! The hub as its kube-apiserver: ManifestWorks read and written as plain JSON, so that a field that gitwork does
//! not know is neither lost nor refused.

use std::sync::{Arc, PoisonError, RwLock};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::BoxStream;
use http::{Method, Request, StatusCode, header};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::answer::{self, Answer, Subject, Verb};
use super::client::{ClientError, Connect};
use super::{Hub, HubError, HubEvent, NAMESPACE, StoredRecord, list, transport, watch};
use crate::core::directives::Directives;
use crate::core::effect::{self, Request as Write};
use crate::core::name::{CommitId, SourceId, WorkKey};
use crate::core::observed::ObservedWork;
use crate::core::plan::Effect;
use crate::core::record::Record;
use crate::core::work::{MANAGER, WorkBody};
use crate::limits;

/// Every ManifestWork of the hub.
pub(super) const WORKS: &str = "/apis/work.open-cluster-management.io/v1/manifestworks";

/// A hub behind a kube client. Clones share the connection.
#[derive(Clone)]
pub struct KubeHub {
    connection: Arc<Connection>,
    namespace: Arc<str>,
}

struct Connection {
    client: RwLock<Client>,
    /// Makes a client from credentials as they are now; `None` where there is but one client.
    connect: Option<Connect>,
    /// When the client was last made anew.
    renewed: Mutex<Option<Instant>>,
}

impl KubeHub {
    /// A hub that is reached by `client`, whose credentials last or renew themselves.
    pub fn new(client: Client) -> Self {
        Self::over(client, None)
    }

    /// A hub that is reached by what `connect` makes. Once the API server does not accept the credentials any more,
    /// `connect` is asked again, so that a rotated kubeconfig needs no restart.
    pub async fn connect(connect: Connect) -> Result<Self, ClientError> {
        let client = connect().await?;
        Ok(Self::over(client, Some(connect)))
    }

    fn over(client: Client, connect: Option<Connect>) -> Self {
        let connection =
            Connection { client: RwLock::new(client), connect, renewed: Mutex::new(None) };
        Self { connection: Arc::new(connection), namespace: NAMESPACE.into() }
    }

    /// The same hub, with gitwork's own objects in another namespace.
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: namespace.into(), ..self }
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Asks and reads the whole answer, within `limits::HUB_CALL`.
    pub(super) async fn ask(&self, question: &Question) -> Result<Answer, HubError> {
        let answer = self.ask_once(question).await?;
        if answer.status == StatusCode::UNAUTHORIZED && self.renew().await? {
            // Nothing was done for someone whom the API server did not know.
            return self.ask_once(question).await;
        }
        Ok(answer)
    }

    async fn ask_once(&self, question: &Question) -> Result<Answer, HubError> {
        let answer = async {
            let response = self.send(question).await?;
            let status = response.status();
            let retry_after_seconds = answer::retry_after_seconds(response.headers());
            let body = axum::body::Body::new(response.into_body());
            let body = axum::body::to_bytes(body, limits::HUB_ANSWER_BYTES_MAX).await;
            let body = body.map_err(|error| unanswered(transport::describe(&error)))?.to_vec();
            Ok(Answer { status, retry_after_seconds, body })
        };
        let late =
            |_| Err(unanswered(format!("no answer within {} s", limits::HUB_CALL.as_secs())));
        timeout(limits::HUB_CALL, answer).await.unwrap_or_else(late)
    }

    /// Asks for an answer that goes on for long: its head comes within `limits::HUB_CALL`, the rest is the caller's.
    /// `None`: 410, what was asked for is too long ago.
    pub(super) async fn open(
        &self,
        question: &Question,
    ) -> Result<Option<axum::body::BodyDataStream>, HubError> {
        for may_renew in [true, false] {
            let response = timeout(limits::HUB_CALL, self.send(question)).await;
            let late = |_| unanswered(format!("no answer within {} s", limits::HUB_CALL.as_secs()));
            let response = response.map_err(late)??;
            let status = response.status();
            let retry_after_seconds = answer::retry_after_seconds(response.headers());
            let body = axum::body::Body::new(response.into_body());
            if status.is_success() {
                return Ok(Some(body.into_data_stream()));
            }
            if status == StatusCode::GONE {
                return Ok(None);
            }
            if status == StatusCode::UNAUTHORIZED && may_renew && self.renew().await? {
                continue;
            }
            let body =
                timeout(limits::HUB_CALL, axum::body::to_bytes(body, limits::HUB_EVENT_BYTES_MAX));
            let body = body.await.ok().and_then(Result::ok).unwrap_or_default().to_vec();
            let answer = Answer { status, retry_after_seconds, body };
            return Err(answer::error(&answer, question.verb, Subject::Works, None));
        }
        Err(unanswered("the credentials are not accepted".into()))
    }

    async fn send(&self, question: &Question) -> Result<http::Response<Body>, HubError> {
        let request = question.request().map_err(|error| unanswered(error.to_string()))?;
        let client = self.connection.client.read().unwrap_or_else(PoisonError::into_inner).clone();
        client.send(request).await.map_err(|error| unanswered(transport::describe(&error)))
    }

    /// Reads the credentials again, unless that was done just now. Whether it is worth asking once more.
    async fn renew(&self) -> Result<bool, HubError> {
        let Some(connect) = &self.connection.connect else { return Ok(false) };
        let mut renewed = self.connection.renewed.lock().await;
        if renewed.is_some_and(|at| at.elapsed() < limits::HUB_RECONNECT) {
            // Another call has renewed them while this one was on its way, or they are of no use.
            return Ok(true);
        }
        *renewed = Some(Instant::now());
        let client = timeout(limits::HUB_CALL, connect()).await;
        let client = client
            .map_err(|_| unanswered("reading the credentials again takes too long".into()))?
            .map_err(|error| HubError::Forbidden { message: error.to_string() })?;
        *self.connection.client.write().unwrap_or_else(PoisonError::into_inner) = client;
        tracing::info!("the hub did not accept the credentials; they were read again");
        Ok(true)
    }

    async fn get_work(&self, key: &WorkKey) -> Result<Option<ObservedWork>, HubError> {
        let question = Question::about(key, Verb::Get);
        match self.write(&question, key, None).await {
            Err(HubError::Stale { .. }) => Ok(None),
            other => other,
        }
    }

    /// Asks a question whose answer is a ManifestWork, or a `Status` where there is none any more. `body` is what
    /// the question carries.
    async fn write(
        &self,
        question: &Question,
        key: &WorkKey,
        body: Option<&WorkBody>,
    ) -> Result<Option<ObservedWork>, HubError> {
        let answer = self.ask(question).await?;
        if !answer.status.is_success() {
            let spec = body.map(|body| body.spec.value());
            return Err(answer::error(&answer, question.verb, Subject::Work(key), spec.as_ref()));
        }
        let object: Value = serde_json::from_slice(&answer.body)
            .map_err(|error| unanswered(format!("the answer is not JSON: {error}")))?;
        match object.get("kind").and_then(Value::as_str) {
            Some("ManifestWork") => ObservedWork::from_manifest_work(object)
                .map(Some)
                .map_err(|error| unanswered(format!("the answer is no ManifestWork: {error}"))),
            Some("Status") if question.verb == Verb::Delete => Ok(None),
            _ => Err(unanswered("the answer is no ManifestWork".into())),
        }
    }

    /// Sends a create or a patch. `body` is what the hub has afterwards, where all of it is known.
    async fn put(
        &self,
        question: &Question,
        key: &WorkKey,
        body: Option<&WorkBody>,
    ) -> Result<Option<ObservedWork>, HubError> {
        match (self.write(question, key, body).await, body) {
            (Err(error @ (HubError::Exists { .. } | HubError::Stale { .. })), Some(body)) => {
                self.done_before(key, body, error).await
            }
            (other, _) => other,
        }
    }

    /// After a conflict: a write whose answer was lost is tried again, and meets itself. Then it has succeeded.
    async fn done_before(
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
        let mut question = Question::about(key, Verb::Delete);
        let preconditions = json!({"uid": uid, "resourceVersion": resource_version});
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "propagationPolicy": "Background", "preconditions": preconditions,
        });
        question.body = options.to_string().into_bytes();
        match self.write(&question, key, None).await {
            // 404: it is gone, which is what was wanted.
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
            let (verb, content_type, content) = match effect::request(key, effect, commit) {
                Write::Create(object) => (Verb::Create, "application/json", object),
                Write::JsonPatch(patch) => (Verb::Patch, "application/json-patch+json", patch),
                Write::MergePatch(patch) => (Verb::Patch, "application/merge-patch+json", patch),
                Write::Delete { uid, resource_version } => {
                    return self.delete(key, &uid, &resource_version).await;
                }
            };
            let body = content.to_string().into_bytes();
            let question = Question { body, content_type, ..Question::about(key, verb) };
            let wanted = match effect {
                Effect::Create { body }
                | Effect::Update { body, .. }
                | Effect::Adopt { body, .. } => Some(body.as_ref()),
                _ => None,
            };
            self.put(&question, key, wanted).await
        }
        .boxed()
    }
}

/// The hub gave no answer that could be read; a write may have taken place.
pub(super) fn unanswered(message: String) -> HubError {
    HubError::Unavailable { message, retry_after_seconds: None }
}

/// One request, which can be sent more than once.
pub(super) struct Question {
    pub verb: Verb,
    pub path: String,
    pub body: Vec<u8>,
    pub content_type: &'static str,
}

impl Question {
    pub fn of_works(verb: Verb, query: &str) -> Self {
        let path = format!("{WORKS}?{query}");
        Self { verb, path, body: Vec::new(), content_type: "application/json" }
    }

    /// Names need no escaping: they are DNS names.
    fn about(key: &WorkKey, verb: Verb) -> Self {
        let folder = format!(
            "/apis/work.open-cluster-management.io/v1/namespaces/{}/manifestworks",
            key.cluster
        );
        let path = match verb {
            Verb::Create => format!("{folder}?fieldManager={MANAGER}"),
            Verb::Patch => format!("{folder}/{}?fieldManager={MANAGER}", key.work),
            _ => format!("{folder}/{}", key.work),
        };
        Self { verb, path, body: Vec::new(), content_type: "application/json" }
    }

    fn request(&self) -> Result<Request<Body>, http::Error> {
        let method = match self.verb {
            Verb::Get | Verb::List | Verb::Watch => Method::GET,
            Verb::Create => Method::POST,
            Verb::Patch => Method::PATCH,
            Verb::Delete => Method::DELETE,
        };
        Request::builder()
            .method(method)
            .uri(&self.path)
            .header(header::CONTENT_TYPE, self.content_type)
            .body(Body::from(self.body.clone()))
    }
}
