//! The connection to the hub's API server: requests with a time limit, and credentials that are
//! read again when they rotate.

use std::sync::{Arc, PoisonError, RwLock};

use http::{Method, Request, StatusCode, header};
use kube::Client;
use kube::client::Body;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::client::{ClientError, Connect};
use crate::response::{self, HttpResponse, RequestTarget, Verb};
use crate::{HubError, NAMESPACE, limits};
use gitwork_core::model::name::WorkKey;
use gitwork_core::model::work::MANAGER;
use gitwork_kube::api_status::retry_after_seconds;
use gitwork_kube::connection_error;

/// The path of the ManifestWorks of all namespaces.
const WORKS: &str = "/apis/work.open-cluster-management.io/v1/manifestworks";

/// A hub behind an API server. Clones share the connection.
#[derive(Clone)]
pub struct KubeHub {
    connection: Arc<Connection>,
    namespace: Arc<str>,
}

struct Connection {
    client: RwLock<Client>,
    /// Makes a client from the current credentials; `None` if the client never changes.
    connect: Option<Connect>,
    /// When the credentials were last read again.
    renewed: Mutex<Option<Instant>>,
}

impl KubeHub {
    /// A hub behind `client`, whose credentials do not expire or renew themselves.
    pub fn new(client: Client) -> Self {
        Self::over(client, None)
    }

    /// A hub behind the client that `connect` makes. When the API server rejects the credentials,
    /// `connect` is called again, so that a rotated kubeconfig needs no restart.
    pub async fn connect(connect: Connect) -> Result<Self, ClientError> {
        let client = connect().await?;
        Ok(Self::over(client, Some(connect)))
    }

    fn over(client: Client, connect: Option<Connect>) -> Self {
        let connection =
            Connection { client: RwLock::new(client), connect, renewed: Mutex::new(None) };
        Self { connection: Arc::new(connection), namespace: NAMESPACE.into() }
    }

    /// The same hub, with gitwork's own objects in `namespace`.
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: namespace.into(), ..self }
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Sends a request and reads the whole response, within `limits::HUB_CALL`.
    pub(super) async fn send(&self, request: &ApiRequest) -> Result<HttpResponse, HubError> {
        let response = self.send_once(request).await?;
        if response.status == StatusCode::UNAUTHORIZED && self.renew().await? {
            // The API server did nothing for an unknown user.
            return self.send_once(request).await;
        }
        Ok(response)
    }

    async fn send_once(&self, request: &ApiRequest) -> Result<HttpResponse, HubError> {
        let response = async {
            let response = self.begin(request).await?;
            let status = response.status();
            let retry_after_seconds = retry_after_seconds(response.headers());
            let body = axum::body::Body::new(response.into_body());
            let body = axum::body::to_bytes(body, limits::HUB_ANSWER_BYTES_MAX).await;
            let describe = |error| unavailable(connection_error::describe(&error));
            let body = body.map_err(describe)?.to_vec();
            Ok(HttpResponse { status, retry_after_seconds, body })
        };
        timeout(limits::HUB_CALL, response).await.unwrap_or_else(|_| Err(no_answer()))
    }

    /// Opens a watch: the head of the response comes within `limits::HUB_CALL`, the caller reads
    /// the body. `None`: the resourceVersion expired (410).
    pub(super) async fn open(
        &self,
        request: &ApiRequest,
    ) -> Result<Option<axum::body::BodyDataStream>, HubError> {
        for may_renew in [true, false] {
            let response = timeout(limits::HUB_CALL, self.begin(request)).await;
            let response = response.map_err(|_| no_answer())??;
            let status = response.status();
            let retry_after_seconds = retry_after_seconds(response.headers());
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
            let response = HttpResponse { status, retry_after_seconds, body };
            return Err(response::error(&response, request.verb, RequestTarget::Works, None));
        }
        Err(unavailable("the credentials are not accepted".into()))
    }

    async fn begin(&self, request: &ApiRequest) -> Result<http::Response<Body>, HubError> {
        let request = request.to_http().map_err(|error| unavailable(error.to_string()))?;
        let client = self.connection.client.read().unwrap_or_else(PoisonError::into_inner).clone();
        client.send(request).await.map_err(|error| unavailable(connection_error::describe(&error)))
    }

    /// Reads the credentials again, unless that just happened. Gives whether to send the request
    /// again.
    async fn renew(&self) -> Result<bool, HubError> {
        let Some(connect) = &self.connection.connect else { return Ok(false) };
        let mut renewed = self.connection.renewed.lock().await;
        if renewed.is_some_and(|at| at.elapsed() < limits::HUB_RECONNECT) {
            // Another call has read them again meanwhile, or the new ones are rejected too.
            return Ok(true);
        }
        *renewed = Some(Instant::now());
        let client = timeout(limits::HUB_CALL, connect()).await;
        let client = client
            .map_err(|_| unavailable("cannot read the credentials again in time".into()))?
            .map_err(|error| HubError::Forbidden { message: error.to_string() })?;
        *self.connection.client.write().unwrap_or_else(PoisonError::into_inner) = client;
        tracing::info!("the hub did not accept the credentials; read them again");
        Ok(true)
    }
}

fn no_answer() -> HubError {
    unavailable(format!("no answer within {} s", limits::HUB_CALL.as_secs()))
}

/// There is no valid response from the hub; a write may have taken place.
pub(super) fn unavailable(message: String) -> HubError {
    HubError::Unavailable { message, retry_after_seconds: None }
}

/// One request; it can be sent more than once.
pub(super) struct ApiRequest {
    pub verb: Verb,
    pub path: String,
    pub body: Vec<u8>,
    pub content_type: &'static str,
}

impl ApiRequest {
    /// A list or watch of ManifestWorks.
    pub fn of_works(verb: Verb, query: &str) -> Self {
        let path = format!("{WORKS}?{query}");
        Self { verb, path, body: Vec::new(), content_type: "application/json" }
    }

    /// A request for one ManifestWork. Names are DNS names and need no escaping.
    pub fn of_work(key: &WorkKey, verb: Verb) -> Self {
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

    fn to_http(&self) -> Result<Request<Body>, http::Error> {
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
