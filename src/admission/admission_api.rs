//! Requests to the hub's API server, each with a time limit. Every error names the operation and
//! its object.

use gitwork_admission_rules::{AccessAnswer, AccessQuestion};
use gitwork_hub::client::{ClientError, Connect};
use gitwork_hub::credentials::{HubCredentials, HubCredentialsError};
use gitwork_kube::api_status::ApiStatus;
use gitwork_kube::connection::{ApiConnection, RequestLimits};
use gitwork_retry::RetryClass;
use gitwork_retry::operation_error::{ErrorClass, OperationError};
use http::{Method, Request, StatusCode, header};
use serde_json::Value;

use crate::limits;

const LIMITS: RequestLimits = RequestLimits {
    timeout: limits::API_CALL,
    response_bytes_max: limits::RESPONSE_BYTES_MAX,
    event_bytes_max: limits::RESPONSE_BYTES_MAX,
};

/// A request to the API server failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {subject}: {failure}")]
pub struct AdmissionApiError {
    /// What the request does: read, create, replace, patch.
    pub verb: &'static str,
    /// The object.
    pub subject: String,
    /// Why.
    pub failure: ApiFailure,
}

/// Why a request to the API server failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiFailure {
    /// The API server answered with a failure.
    #[error("{}", .0.text())]
    Status(Box<ApiStatus>),
    /// There is no answer. A write may have taken place.
    #[error("{0}")]
    NoAnswer(String),
    /// The credentials cannot be read again.
    #[error("{0}")]
    Credentials(Box<ClientError>),
}

impl AdmissionApiError {
    /// The failure that the API server reported.
    pub(crate) fn status(&self) -> Option<&ApiStatus> {
        match &self.failure {
            ApiFailure::Status(status) => Some(status),
            _ => None,
        }
    }

    /// The object, or one of its parents, does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status().is_some_and(ApiStatus::is_not_found)
    }

    /// Another replica wrote first.
    pub(crate) fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409)
    }
}

impl OperationError for AdmissionApiError {
    fn class(&self) -> ErrorClass {
        let class = match &self.failure {
            ApiFailure::Status(status) => status.retry_class(),
            ApiFailure::Credentials(_) => RetryClass::Blocked,
            ApiFailure::NoAnswer(_) => RetryClass::Unavailable { retry_after_seconds: None },
        };
        class.into()
    }

    fn reason(&self) -> &'static str {
        match &self.failure {
            ApiFailure::Status(status) => status.code_name(),
            ApiFailure::NoAnswer(_) => "HubUnavailable",
            ApiFailure::Credentials(error) => error.reason(),
        }
    }

    fn hints(&self) -> Vec<String> {
        let status = self.status();
        if status.is_some_and(|status| status.denied_verb().is_some()) {
            return vec!["grant it, as deploy/admission.yaml does".to_owned()];
        }
        if self.verb == "create" && self.is_not_found() {
            return vec!["check that the namespace exists, or name another by --namespace".into()];
        }
        Vec::new()
    }
}

/// The connection to the API server.
pub(crate) struct AdmissionApi {
    connection: ApiConnection,
    credentials: HubCredentials,
}

/// One request; it can be sent twice.
pub(crate) struct ApiCall<'a> {
    pub verb: &'static str,
    pub path: &'a str,
    /// The object, for messages.
    pub subject: &'a str,
    pub body: Option<&'a Value>,
}

impl ApiCall<'_> {
    fn failed(&self, failure: ApiFailure) -> AdmissionApiError {
        AdmissionApiError { verb: self.verb, subject: self.subject.to_owned(), failure }
    }

    fn to_http(&self) -> Result<Request<Vec<u8>>, AdmissionApiError> {
        let (method, content_type) = match self.verb {
            "read" => (Method::GET, "application/json"),
            "replace" => (Method::PUT, "application/json"),
            "patch" => (Method::PATCH, "application/json-patch+json"),
            _ => (Method::POST, "application/json"),
        };
        let body = self.body.map(|body| body.to_string().into_bytes());
        let request = Request::builder()
            .method(method)
            .uri(self.path)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, content_type)
            .body(body.unwrap_or_default());
        request.map_err(|error| self.failed(ApiFailure::NoAnswer(error.to_string())))
    }
}

impl AdmissionApi {
    /// Connects.
    pub async fn connect(connect: Connect) -> Result<Self, ClientError> {
        let credentials = HubCredentials::new(connect, limits::API_CALL);
        let connection = ApiConnection::new(credentials.read().await?, LIMITS);
        Ok(Self { connection, credentials })
    }

    /// Sends a request. The answer is an object.
    pub async fn send(&self, call: &ApiCall<'_>) -> Result<Value, AdmissionApiError> {
        let no_answer = |error: String| call.failed(ApiFailure::NoAnswer(error));
        let send = || async {
            let response = self.connection.send(call.to_http()?).await;
            response.map_err(|error| no_answer(error.to_string()))
        };
        let mut response = send().await?;
        if response.status == StatusCode::UNAUTHORIZED {
            // The API server did nothing for an unknown user.
            self.renew().await.map_err(|failure| call.failed(failure))?;
            response = send().await?;
        }
        if !response.status.is_success() {
            return Err(call.failed(ApiFailure::Status(Box::new(response.api_status()))));
        }
        serde_json::from_slice(&response.body)
            .map_err(|error| no_answer(format!("the answer cannot be read: {error}")))
    }

    /// Asks whether a user may use an executor.
    pub async fn ask(&self, question: &AccessQuestion) -> Result<AccessAnswer, AdmissionApiError> {
        let review = question.subject_access_review();
        let call = ApiCall {
            verb: "create",
            path: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            subject: "a SubjectAccessReview",
            body: Some(&review),
        };
        Ok(AccessQuestion::answer(&self.send(&call).await?))
    }

    async fn renew(&self) -> Result<(), ApiFailure> {
        self.credentials.renew(&self.connection).await.map_err(|error| match error {
            HubCredentialsError::Late => ApiFailure::NoAnswer(error.to_string()),
            HubCredentialsError::Client(error) => ApiFailure::Credentials(Box::new(error)),
        })
    }
}
