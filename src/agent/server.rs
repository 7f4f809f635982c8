//! Requests to one API server: raw objects in and out, each with a deadline, all counted.

use std::error::Error;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use kube::core::Status;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::metrics::AgentMetrics;
use gitwork_agent_core::identity::{FIELD_MANAGER, WORK_GROUP};
use gitwork_agent_core::manifest::ResourceMapping;
use gitwork_agent_core::object::Object;

/// No answer takes this long where the API server is well: its own limit is 60 s, for lists of all.
const REQUEST: Duration = Duration::from_secs(35);
const JSON: &str = "application/json";
const METADATA_ONLY: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// What went wrong with a request. No form holds content of objects but what the API server says in
/// its status.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("{}", .0.message)]
    Status(Box<Status>),
    #[error("no answer from the API server within {} s", REQUEST.as_secs())]
    Timeout,
    #[error("cannot reach the API server: {0}")]
    Connection(String),
    #[error("the API server's answer is not what was asked for: {0}")]
    Answer(&'static str),
}

impl ApiError {
    pub fn code(&self) -> u16 {
        match self {
            Self::Status(status) => status.code,
            _ => 0,
        }
    }
    fn reason(&self) -> &str {
        match self {
            Self::Status(status) => &status.reason,
            _ => "",
        }
    }
    pub fn is_not_found(&self) -> bool {
        self.code() == 404
    }
    /// Of an update that was bound to an older version, or of a deletion of another object.
    pub fn is_conflict(&self) -> bool {
        self.code() == 409 && self.reason() == "Conflict"
    }
    pub fn is_already_exists(&self) -> bool {
        self.reason() == "AlreadyExists"
    }
    pub fn is_forbidden(&self) -> bool {
        self.code() == 403
    }
    /// The version to watch from is too old.
    pub fn is_expired(&self) -> bool {
        self.code() == 410
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Status(status),
            kube::Error::SerdeError(_) => Self::Answer("JSON of an object"),
            other => Self::Connection(deepest(&other)),
        }
    }
}

/// The last cause: the outer ones say that something failed, the last one what.
fn deepest(error: &dyn Error) -> String {
    let mut cause = error;
    for _ in 0..16 {
        match cause.source() {
            Some(deeper) => cause = deeper,
            None => break,
        }
    }
    gitwork_api::truncate::truncate_chars(&cause.to_string(), 300).into_owned()
}

/// At most so many requests a second, where an operator asks for it.
pub struct RateLimit {
    per_second: f64,
    burst: f64,
    bucket: Mutex<(Instant, f64)>,
}

impl RateLimit {
    pub fn new(per_second: f64, burst: f64) -> Self {
        Self { per_second, burst, bucket: Mutex::new((Instant::now(), burst)) }
    }

    /// Waits for its turn; those who wait go in order.
    async fn apply_order(&self) {
        let mut bucket = self.bucket.lock().await;
        let now = Instant::now();
        let (since, tokens) = *bucket;
        let tokens =
            self.burst.min(tokens + now.duration_since(since).as_secs_f64() * self.per_second);
        *bucket = (now, tokens - 1.0);
        if tokens < 1.0 {
            sleep(Duration::from_secs_f64((1.0 - tokens) / self.per_second)).await;
        }
    }
}

/// One API server.
#[derive(Clone)]
pub struct ApiServer {
    client: Arc<RwLock<Client>>,
    /// `hub` or `cluster`: a label of the metrics.
    name: &'static str,
    limit: Option<Arc<RateLimit>>,
    metrics: Arc<AgentMetrics>,
}

/// The path of a collection, or of an object in it.
pub fn path(mapping: &ResourceMapping, namespace: &str, name: Option<&str>) -> String {
    let mut path = if mapping.group.is_empty() {
        format!("/api/{}", segment(&mapping.version))
    } else {
        format!("/apis/{}/{}", segment(&mapping.group), segment(&mapping.version))
    };
    if mapping.namespaced && !namespace.is_empty() {
        path.push_str("/namespaces/");
        path.push_str(&segment(namespace));
    }
    path.push('/');
    path.push_str(&segment(&mapping.resource));
    if let Some(name) = name {
        path.push('/');
        path.push_str(&segment(name));
    }
    path
}

/// The resource of a kind of OCM's work API.
pub fn work_mapping(resource: &str, namespaced: bool) -> ResourceMapping {
    ResourceMapping {
        group: WORK_GROUP.into(),
        version: "v1".into(),
        resource: resource.into(),
        namespaced,
    }
}

/// One segment of a path: whatever a manifest names, it stays one.
fn segment(text: &str) -> String {
    use std::fmt::Write;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_' | b':')
            || (byte == b'.' && text != "." && text != "..")
        {
            encoded.push(char::from(byte));
        } else {
            let _infallible = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

impl ApiServer {
    pub fn new(
        client: Client,
        name: &'static str,
        limit: Option<RateLimit>,
        metrics: Arc<AgentMetrics>,
    ) -> Self {
        Self { client: Arc::new(RwLock::new(client)), name, limit: limit.map(Arc::new), metrics }
    }

    pub fn client(&self) -> Client {
        self.client.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From the next request on: credentials have changed.
    pub fn set_client(&self, client: Client) {
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = client;
    }

    /// An object, or `None` where it is not there.
    pub async fn get(&self, path: &str) -> Result<Option<Object>, ApiError> {
        absent_is_none(self.send(Method::GET, path, JSON, JSON, None, None).await)
    }

    /// Only the metadata of an object.
    pub async fn get_metadata(&self, path: &str) -> Result<Option<Object>, ApiError> {
        absent_is_none(self.send(Method::GET, path, METADATA_ONLY, JSON, None, None).await)
    }

    /// A page of a list, of metadata only or whole.
    pub async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        metadata_only: bool,
    ) -> Result<T, ApiError> {
        let accept = if metadata_only { METADATA_LIST } else { JSON };
        self.send(Method::GET, path, accept, JSON, None, None).await
    }

    pub async fn create(&self, collection: &str, object: &Object) -> Result<Object, ApiError> {
        let path = format!("{collection}?fieldManager={FIELD_MANAGER}");
        self.send(Method::POST, &path, JSON, JSON, Some(body(object)?), None).await
    }

    /// Tries a creation as somebody else, without doing it.
    pub async fn dry_run_create_as(
        &self,
        collection: &str,
        object: &Object,
        user: &str,
    ) -> Result<Object, ApiError> {
        let path = format!("{collection}?dryRun=All&fieldManager={FIELD_MANAGER}");
        self.send(Method::POST, &path, JSON, JSON, Some(body(object)?), Some(user)).await
    }

    /// Sends a review, such as a SubjectAccessReview.
    pub async fn review(&self, path: &str, review: &Value) -> Result<Value, ApiError> {
        self.send(Method::POST, path, JSON, JSON, Some(review.to_string().into_bytes()), None).await
    }

    pub async fn replace(&self, path: &str, object: &Object) -> Result<Object, ApiError> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}");
        self.send(Method::PUT, &path, JSON, JSON, Some(body(object)?), None).await
    }

    pub async fn merge_patch(&self, path: &str, patch: &Value) -> Result<Object, ApiError> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}");
        let patch = patch.to_string().into_bytes();
        self.send(Method::PATCH, &path, JSON, "application/merge-patch+json", Some(patch), None)
            .await
    }

    pub async fn apply(
        &self,
        path: &str,
        object: &Object,
        manager: &str,
        force: bool,
    ) -> Result<Object, ApiError> {
        let path = format!("{path}?fieldManager={}&force={force}", segment(manager));
        let content_type = "application/apply-patch+yaml";
        self.send(Method::PATCH, &path, JSON, content_type, Some(body(object)?), None).await
    }

    /// Deletes in the background the object with this uid, and no other. That there is none is no
    /// error.
    pub async fn delete(&self, path: &str, uid: &str) -> Result<(), ApiError> {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1",
            "propagationPolicy": "Background", "preconditions": {"uid": uid}});
        let sent = self.send::<Value>(
            Method::DELETE,
            path,
            JSON,
            JSON,
            Some(options.to_string().into_bytes()),
            None,
        );
        absent_is_none(sent.await).map(|_deleted| ())
    }

    /// A GET request for a watch, which is sent by the client itself.
    pub fn watch_request(path: &str, metadata_only: bool) -> Result<Request<Vec<u8>>, ApiError> {
        let accept = if metadata_only { METADATA_ONLY } else { JSON };
        Request::get(path)
            .header(http::header::ACCEPT, accept)
            .body(Vec::new())
            .map_err(|_| ApiError::Answer("a name that fits a URL"))
    }

    pub fn count(&self, verb: &str, code: u16) {
        self.metrics.request(self.name, verb, code);
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        content_type: &str,
        body: Option<Vec<u8>>,
        impersonate: Option<&str>,
    ) -> Result<T, ApiError> {
        let verb = method.as_str().to_owned();
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::ACCEPT, accept)
            .header(http::header::CONTENT_TYPE, content_type);
        if let Some(user) = impersonate {
            request = request.header("Impersonate-User", user);
        }
        let request = request
            .body(body.unwrap_or_default())
            .map_err(|_| ApiError::Answer("a name that fits a URL"))?;
        if let Some(limit) = &self.limit {
            limit.apply_order().await;
        }
        let answer = match timeout(REQUEST, self.client().request::<T>(request)).await {
            Ok(answer) => answer.map_err(ApiError::from),
            Err(_) => Err(ApiError::Timeout),
        };
        self.count(&verb, answer.as_ref().map_or_else(ApiError::code, |_| 200));
        answer
    }
}

fn absent_is_none<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn body(object: &Object) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(object).map_err(|_| ApiError::Answer("an object that can be sent"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_segment() {
        let mapping = |group: &str, namespaced| ResourceMapping {
            group: group.into(),
            version: "v1".into(),
            resource: "widgets".into(),
            namespaced,
        };
        for (mapping, namespace, name, expected) in [
            (mapping("", true), "ns", Some("a"), "/api/v1/namespaces/ns/widgets/a"),
            (mapping("x.io", false), "ns", Some("system:a"), "/apis/x.io/v1/widgets/system:a"),
            (mapping("x.io", true), "ns", None, "/apis/x.io/v1/namespaces/ns/widgets"),
            (
                mapping("", true),
                "ns",
                Some("../secrets/x?y"),
                "/api/v1/namespaces/ns/widgets/..%2Fsecrets%2Fx%3Fy",
            ),
            (mapping("", true), "..", Some("a"), "/api/v1/namespaces/%2E%2E/widgets/a"),
        ] {
            assert_eq!(path(&mapping, namespace, name), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_limit_lets_a_burst_through_and_then_so_many_a_second() {
        let limit = RateLimit::new(10.0, 5.0);
        let start = Instant::now();
        for _ in 0..25 {
            limit.apply_order().await;
        }
        let passed = start.elapsed().as_secs_f64();
        assert!((1.9..2.2).contains(&passed), "{passed}");
    }
}
