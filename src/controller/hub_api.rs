//! Requests to the hub's API server, each with a time limit. Every error names the operation and
//! its object.

use std::sync::Arc;
use std::time::Duration;

use gitwork_hub::client::{ClientError, Connect};
use gitwork_hub::credentials::{HubCredentials, HubCredentialsError};
use gitwork_hub::limits::HUB_CALL;
use gitwork_kube::api_status::ApiStatus;
use gitwork_kube::connection::{ApiConnection, ApiResponse, RequestError, RequestLimits};
use gitwork_kube::watch_stream::{WatchEnd, WatchStream};
use gitwork_retry::RetryClass;
use gitwork_retry::operation_error::{ErrorClass, OperationError};
use http::{Method, Request, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::controller_metrics::ControllerMetrics;
use crate::limits;

const LIMITS: RequestLimits = RequestLimits {
    timeout: HUB_CALL,
    response_bytes_max: limits::RESPONSE_BYTES_MAX,
    event_bytes_max: limits::EVENT_BYTES_MAX,
};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HubOperation {
    /// Reads one object.
    Read,
    /// Lists objects.
    List,
    /// Watches objects.
    Watch,
    /// Creates an object.
    Create,
    /// Changes an object.
    Update,
    /// Deletes an object.
    Delete,
}

impl HubOperation {
    /// Its name in messages and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    fn method(self) -> Method {
        match self {
            Self::Read | Self::List | Self::Watch => Method::GET,
            Self::Create => Method::POST,
            Self::Update => Method::PATCH,
            Self::Delete => Method::DELETE,
        }
    }
}

/// A request failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {} {subject}: {cause}", .operation.as_str())]
pub struct HubRequestError {
    /// The operation.
    pub operation: HubOperation,
    /// The object, or the kind.
    pub subject: String,
    /// Why.
    pub cause: HubRequestCause,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum HubRequestCause {
    /// The API server answered with a failure.
    #[error("{}", .0.text())]
    Status(Box<ApiStatus>),
    /// There is no answer. A write may have taken place.
    #[error("{0}")]
    NoAnswer(String),
    /// A watch ended early.
    #[error("{0}")]
    Watch(Box<WatchEnd>),
    /// The credentials cannot be read again.
    #[error("{0}")]
    Credentials(Box<ClientError>),
    /// The name of a new object is taken by another owner.
    #[error("another owner has a ManifestWork of this name")]
    NameTaken,
}

impl HubRequestError {
    /// The failure that the API server reported.
    pub fn status(&self) -> Option<&ApiStatus> {
        match &self.cause {
            HubRequestCause::Status(status) => Some(status),
            _ => None,
        }
    }

    /// What it means for the next try.
    pub fn retry_class(&self) -> RetryClass {
        match &self.cause {
            HubRequestCause::NameTaken => RetryClass::Rejected,
            HubRequestCause::Credentials(_) => RetryClass::Blocked,
            // The namespace is missing.
            HubRequestCause::Status(status)
                if status.is_not_found() && self.operation == HubOperation::Create =>
            {
                RetryClass::Blocked
            }
            HubRequestCause::Status(status) => status.retry_class(),
            HubRequestCause::NoAnswer(_) | HubRequestCause::Watch(_) => {
                RetryClass::Unavailable { retry_after_seconds: None }
            }
        }
    }

    /// Whether the resourceVersion is too old.
    pub fn is_expired(&self) -> bool {
        match &self.cause {
            HubRequestCause::Watch(end) => **end == WatchEnd::Expired,
            _ => self.status().is_some_and(ApiStatus::is_expired),
        }
    }
}

impl OperationError for HubRequestError {
    fn class(&self) -> ErrorClass {
        self.retry_class().into()
    }

    fn reason(&self) -> &'static str {
        match &self.cause {
            HubRequestCause::Status(status) => status.code_name(),
            HubRequestCause::NoAnswer(_) => "HubUnavailable",
            HubRequestCause::Watch(end) => end.reason(),
            HubRequestCause::Credentials(error) => error.reason(),
            HubRequestCause::NameTaken => "NameTaken",
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match &self.cause {
            HubRequestCause::NameTaken => "delete or rename that ManifestWork",
            HubRequestCause::Status(status) if status.is_not_found() => match self.operation {
                HubOperation::Create => "check that the cluster's namespace exists",
                HubOperation::List | HubOperation::Watch => {
                    "install the CRD: gitwork crds | kubectl apply --server-side -f -"
                }
                _ => return Vec::new(),
            },
            HubRequestCause::Status(status) if status.denied_verb().is_some() => {
                "grant it, as deploy/controller.yaml does"
            }
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

/// The connection to the hub.
pub struct HubApi {
    connection: ApiConnection,
    credentials: HubCredentials,
    metrics: Arc<ControllerMetrics>,
}

/// One request; it can be sent twice.
#[derive(Clone)]
pub(crate) struct HubRequest {
    pub operation: HubOperation,
    pub path: String,
    /// The object, for messages.
    pub subject: String,
    pub content_type: &'static str,
    pub body: Option<Value>,
}

impl HubRequest {
    /// A request without a body.
    pub fn new(operation: HubOperation, path: String, subject: impl Into<String>) -> Self {
        let content_type = "application/json";
        Self { operation, path, subject: subject.into(), content_type, body: None }
    }

    /// With a body.
    pub fn with_body(self, content_type: &'static str, body: Value) -> Self {
        Self { content_type, body: Some(body), ..self }
    }

    fn failed(&self, cause: HubRequestCause) -> HubRequestError {
        HubRequestError { operation: self.operation, subject: self.subject.clone(), cause }
    }

    fn to_http(&self) -> Result<Request<Vec<u8>>, HubRequestError> {
        let body = self.body.as_ref().map(|body| body.to_string().into_bytes());
        let request = Request::builder()
            .method(self.operation.method())
            .uri(&self.path)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, self.content_type)
            .body(body.unwrap_or_default());
        request.map_err(|error| self.failed(HubRequestCause::NoAnswer(error.to_string())))
    }
}

impl HubApi {
    /// Connects.
    pub(crate) async fn connect(
        connect: Connect,
        metrics: Arc<ControllerMetrics>,
    ) -> Result<Self, ClientError> {
        let credentials = HubCredentials::new(connect, HUB_CALL);
        let connection = ApiConnection::new(credentials.read().await?, LIMITS);
        Ok(Self { connection, credentials, metrics })
    }

    /// Sends a request. The answer is an object, or a `Status` after a deletion.
    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        request: &HubRequest,
    ) -> Result<T, HubRequestError> {
        let answer = self.send_renewing(request).await;
        let result = answer.and_then(|response| {
            if !response.status.is_success() {
                let status = Box::new(response.api_status());
                return Err(request.failed(HubRequestCause::Status(status)));
            }
            serde_json::from_slice(&response.body).map_err(|error| {
                let problem = format!("the answer cannot be read: {error}");
                request.failed(HubRequestCause::NoAnswer(problem))
            })
        });
        self.metrics.request(request.operation.as_str(), result.is_ok());
        result
    }

    async fn send_renewing(&self, request: &HubRequest) -> Result<ApiResponse, HubRequestError> {
        let no_answer =
            |error: RequestError| request.failed(HubRequestCause::NoAnswer(error.to_string()));
        let response = self.connection.send(request.to_http()?).await.map_err(no_answer)?;
        if response.status != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        // The API server did nothing for an unknown user.
        self.renew().await.map_err(|cause| request.failed(cause))?;
        self.connection.send(request.to_http()?).await.map_err(no_answer)
    }

    /// Opens a watch, which ends `open_for` later, if not earlier.
    pub(crate) async fn watch(
        &self,
        request: &HubRequest,
        open_for: Duration,
    ) -> Result<WatchStream, HubRequestError> {
        let opened = self.connection.open_watch(request.to_http()?, open_for).await;
        let opened = match opened {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(response)) => {
                let status = Box::new(response.api_status());
                if status.is_unauthorized() {
                    self.renew().await.map_err(|cause| request.failed(cause))?;
                }
                Err(request.failed(HubRequestCause::Status(status)))
            }
            Err(error) => Err(request.failed(HubRequestCause::NoAnswer(error.to_string()))),
        };
        self.metrics.request(request.operation.as_str(), opened.is_ok());
        opened
    }

    async fn renew(&self) -> Result<(), HubRequestCause> {
        self.credentials.renew(&self.connection).await.map_err(|error| match error {
            HubCredentialsError::Late => HubRequestCause::NoAnswer(error.to_string()),
            HubCredentialsError::Client(error) => HubRequestCause::Credentials(Box::new(error)),
        })
    }
}
