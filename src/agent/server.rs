//! Requests to one API server: raw objects in and out, each with a deadline, all counted.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, header};
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::sleep;

use super::deletion::{Deletion, DeletionTarget};
use super::metrics::AgentMetrics;
use super::throttle::{RateLimit, Throttle};
use gitwork_agent_core::identity::FIELD_MANAGER;
use gitwork_agent_core::object::Object;
use gitwork_kube::api_status::ApiStatus;
use gitwork_kube::connection::{ApiConnection, ApiResponse, RequestError, RequestLimits};
use gitwork_kube::list_page::escape_query;
use gitwork_kube::watch_stream::{WatchEnd, WatchStream};
use gitwork_retry::operation_error::{ErrorClass, OperationError};

/// Objects on one page of a list: little to hold at a time, and still 200 pages for 50,000.
pub const LIST_PAGE: u32 = 250;

const LIMITS: RequestLimits = RequestLimits {
    // The API server's own limit is 60 s, but only lists of all objects take that long.
    timeout: Duration::from_secs(35),
    // A page of works of the largest size that etcd stores by default (1.5 MiB).
    response_bytes_max: LIST_PAGE as usize * 1536 * 1024,
    // The API server accepts requests of up to 3 MiB.
    event_bytes_max: 8 * 1024 * 1024,
};

/// Attempts after a 429. Then the pass fails, and its backoff applies.
const OVERLOAD_RETRIES: u32 = 3;
/// The longest wait before one of them, whatever the API server asks for.
const OVERLOAD_WAIT_SECONDS_MAX: u64 = 5;

const JSON: &str = "application/json";
const METADATA_ONLY: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Why a request failed. The messages contain no content of objects but what the API server quotes
/// in its status.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The API server answered with a failure.
    #[error("{}", message(.0))]
    Status(Box<ApiStatus>),
    /// The whole response did not come in time. A write may have taken place.
    #[error("no answer from the API server within {} s", LIMITS.timeout.as_secs())]
    Timeout,
    /// The connection failed, for this reason. A write may have taken place.
    #[error("cannot reach the API server: {0}")]
    Connection(String),
    /// The response is not what the request asks for, which is this.
    #[error("the API server's answer is not what was asked for: {0}")]
    InvalidResponse(&'static str),
    /// An open watch ended early.
    #[error("{0}")]
    Watch(Box<WatchEnd>),
}

impl OperationError for ApiError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Status(status) => status.retry_class().into(),
            Self::Watch(end) => end.class(),
            Self::Timeout | Self::Connection(_) | Self::InvalidResponse(_) => ErrorClass::TRANSIENT,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Status(status) => status.code_name(),
            Self::Watch(end) => end.reason(),
            Self::Timeout => "Timeout",
            Self::Connection(_) => "Network",
            Self::InvalidResponse(_) => "InvalidResponse",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Status(status) if status.is_unauthorized() => {
                vec!["renew the credentials of the kubeconfig".to_owned()]
            }
            _ => Vec::new(),
        }
    }
}

/// The whole message as the API server has it: OCM's agent copies it into the status, too.
fn message(status: &ApiStatus) -> String {
    if status.message.is_empty() { status.text() } else { status.message.clone() }
}

impl ApiError {
    /// The status of a failed response.
    pub fn status(&self) -> Option<&ApiStatus> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }
    /// The HTTP status code; 0 if there is no response.
    pub fn code(&self) -> u16 {
        self.status().map_or(0, |status| status.code)
    }
    /// The object, its namespace or its kind does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(ApiStatus::is_not_found)
    }
    /// The precondition of a write failed: the object changed, or another one has its name.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(ApiStatus::is_conflict)
    }
    /// The name of a create is taken.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(ApiStatus::is_already_exists)
    }
    /// The request is denied, by RBAC or by admission.
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(ApiStatus::is_forbidden)
    }
    /// The version to watch from is too old.
    pub fn is_expired(&self) -> bool {
        match self {
            Self::Watch(end) => **end == WatchEnd::Expired,
            _ => self.status().is_some_and(ApiStatus::is_expired),
        }
    }
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Timeout(_) => Self::Timeout,
            RequestError::Connection(problem) => Self::Connection(problem),
            RequestError::TooLarge { .. } => {
                Self::InvalidResponse("a response within the size limit")
            }
        }
    }
}

impl From<WatchEnd> for ApiError {
    fn from(end: WatchEnd) -> Self {
        match end {
            WatchEnd::Failed(status) => Self::Status(Box::new(status)),
            WatchEnd::Broken(problem) => Self::Connection(problem),
            other => Self::Watch(Box::new(other)),
        }
    }
}

/// One API server. Clones share the connection.
#[derive(Clone)]
pub struct ApiServer {
    connection: ApiConnection,
    /// `hub`, `cluster` or `lease`: a label of the metrics.
    name: &'static str,
    throttle: Arc<Throttle>,
    metrics: Arc<AgentMetrics>,
}

/// One request.
struct ServerRequest<'a> {
    method: Method,
    path: &'a str,
    accept: &'static str,
    content_type: &'static str,
    body: Vec<u8>,
    /// The user to send it as, if not the agent itself.
    impersonate: Option<&'a str>,
}

impl<'a> ServerRequest<'a> {
    fn get(path: &'a str, accept: &'static str) -> Self {
        Self { accept, ..Self::write(Method::GET, path, Vec::new()) }
    }

    fn write(method: Method, path: &'a str, body: Vec<u8>) -> Self {
        Self { method, path, accept: JSON, content_type: JSON, body, impersonate: None }
    }

    fn to_http(&self) -> Result<Request<Vec<u8>>, ApiError> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.path)
            .header(header::ACCEPT, self.accept)
            .header(header::CONTENT_TYPE, self.content_type);
        if let Some(user) = self.impersonate {
            request = request.header("Impersonate-User", user);
        }
        request
            .body(self.body.clone())
            .map_err(|_| ApiError::InvalidResponse("a name that fits a URL"))
    }
}

impl ApiServer {
    /// An API server behind `client`. `name`: its label in the metrics.
    pub fn new(
        client: Client,
        name: &'static str,
        rate: Option<RateLimit>,
        metrics: Arc<AgentMetrics>,
    ) -> Self {
        let connection = ApiConnection::new(client, LIMITS);
        Self { connection, name, throttle: Arc::new(Throttle::new(rate)), metrics }
    }

    /// Replaces the client, from the next request on: credentials have changed.
    pub fn set_client(&self, client: Client) {
        self.connection.set_client(client);
    }

    /// Reads an object; `None` if it does not exist.
    pub async fn get(&self, path: &str) -> Result<Option<Object>, ApiError> {
        absent_is_none(self.send(ServerRequest::get(path, JSON)).await)
    }

    /// Reads only the metadata of an object; `None` if it does not exist.
    pub async fn get_metadata(&self, path: &str) -> Result<Option<Object>, ApiError> {
        absent_is_none(self.send(ServerRequest::get(path, METADATA_ONLY)).await)
    }

    /// Reads one page of a list, of whole objects or of their metadata.
    pub async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        metadata_only: bool,
    ) -> Result<T, ApiError> {
        let accept = if metadata_only { METADATA_LIST } else { JSON };
        self.send(ServerRequest::get(path, accept)).await
    }

    /// Creates an object and gives it as stored.
    pub async fn create(&self, collection: &str, object: &Object) -> Result<Object, ApiError> {
        let path = format!("{collection}?fieldManager={FIELD_MANAGER}");
        self.send(ServerRequest::write(Method::POST, &path, body(object)?)).await
    }

    /// Checks as `user` whether an object could be created; creates nothing.
    pub async fn dry_run_create_as(
        &self,
        collection: &str,
        object: &Object,
        user: &str,
    ) -> Result<Object, ApiError> {
        let path = format!("{collection}?dryRun=All&fieldManager={FIELD_MANAGER}");
        let request = ServerRequest::write(Method::POST, &path, body(object)?);
        self.send(ServerRequest { impersonate: Some(user), ..request }).await
    }

    /// Sends a review, such as a SubjectAccessReview, and gives it with its status.
    pub async fn review(&self, path: &str, review: &Value) -> Result<Value, ApiError> {
        self.send(ServerRequest::write(Method::POST, path, review.to_string().into_bytes())).await
    }

    /// Replaces an object, bound to its resourceVersion, and gives it as stored.
    pub async fn replace(&self, path: &str, object: &Object) -> Result<Object, ApiError> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}");
        self.send(ServerRequest::write(Method::PUT, &path, body(object)?)).await
    }

    /// Sends a JSON merge patch (RFC 7396) and gives the object as stored.
    pub async fn merge_patch(&self, path: &str, patch: &Value) -> Result<Object, ApiError> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}");
        let content_type = "application/merge-patch+json";
        let request = ServerRequest::write(Method::PATCH, &path, patch.to_string().into_bytes());
        self.send(ServerRequest { content_type, ..request }).await
    }

    /// Applies an object server-side as `manager` and gives it as stored.
    pub async fn apply(
        &self,
        path: &str,
        object: &Object,
        manager: &str,
        force: bool,
    ) -> Result<Object, ApiError> {
        let path = format!("{path}?fieldManager={}&force={force}", escape_query(manager));
        let content_type = "application/apply-patch+yaml";
        let request = ServerRequest::write(Method::PATCH, &path, body(object)?);
        self.send(ServerRequest { content_type, ..request }).await
    }

    /// Deletes in the background the object that `target` names, and no other. That it does not
    /// exist is no error.
    pub async fn delete(
        &self,
        path: &str,
        target: &DeletionTarget<'_>,
    ) -> Result<Deletion, ApiError> {
        let body = target.options().to_string().into_bytes();
        let sent = self.send::<Object>(ServerRequest::write(Method::DELETE, path, body));
        Ok(absent_is_none(sent.await)?.map_or(Deletion::Gone, |body| target.outcome(body)))
    }

    /// Opens a watch, of whole objects or of their metadata. The stream ends `open_for` later, if
    /// not earlier.
    pub async fn watch(
        &self,
        path: &str,
        metadata_only: bool,
        open_for: Duration,
    ) -> Result<WatchStream, ApiError> {
        let accept = if metadata_only { METADATA_ONLY } else { JSON };
        let request = ServerRequest::get(path, accept).to_http()?;
        let opened = match self.connection.open_watch(request, open_for).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(response)) => Err(failure(&response)),
            Err(error) => Err(error.into()),
        };
        self.count("WATCH", &opened);
        opened
    }

    async fn send<T: DeserializeOwned>(&self, request: ServerRequest<'_>) -> Result<T, ApiError> {
        let mut tries = 0;
        loop {
            let answer = self.send_once(&request).await;
            let Some(wait) = answer.as_ref().err().and_then(overload) else { return answer };
            self.throttle.overloaded(self.name);
            tries += 1;
            if tries > OVERLOAD_RETRIES {
                return answer;
            }
            // The API server did not act on the request, so it can be sent again.
            sleep(wait).await;
        }
    }

    async fn send_once<T: DeserializeOwned>(
        &self,
        request: &ServerRequest<'_>,
    ) -> Result<T, ApiError> {
        let http_request = request.to_http()?;
        let slot = self.throttle.enter().await;
        let answer = match self.connection.send(http_request).await {
            Ok(response) => read(&response),
            Err(error) => Err(error.into()),
        };
        drop(slot);
        self.count(request.method.as_str(), &answer);
        answer
    }

    fn count<T>(&self, verb: &str, answer: &Result<T, ApiError>) {
        let code = answer.as_ref().map_or_else(ApiError::code, |_| 200);
        self.metrics.request(self.name, verb, code);
    }
}

/// The wait before a request is sent again that the API server had no room for.
fn overload(error: &ApiError) -> Option<Duration> {
    let status = error.status().filter(|status| status.code == 429)?;
    let seconds = status.retry_after_seconds.unwrap_or(1).clamp(1, OVERLOAD_WAIT_SECONDS_MAX);
    Some(Duration::from_secs(seconds))
}

fn read<T: DeserializeOwned>(response: &ApiResponse) -> Result<T, ApiError> {
    if !response.status.is_success() {
        return Err(failure(response));
    }
    serde_json::from_slice(&response.body)
        .map_err(|_| ApiError::InvalidResponse("JSON of an object"))
}

fn failure(response: &ApiResponse) -> ApiError {
    ApiError::Status(Box::new(response.api_status()))
}

fn absent_is_none<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn body(object: &Object) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(object).map_err(|_| ApiError::InvalidResponse("an object that can be sent"))
}

#[cfg(test)]
mod tests;
