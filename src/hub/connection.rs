//! The connection to the hub's API server: requests with a time limit, and credentials that are
//! read again when they rotate.

use std::sync::Arc;

use http::{Method, Request, StatusCode, header};
use kube::Client;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::client::{ClientError, Connect};
use crate::response::{self, RequestTarget, Verb};
use crate::{HubError, NAMESPACE, limits};
use gitwork_core::model::name::WorkKey;
use gitwork_core::model::work::MANAGER;
use gitwork_kube::connection::{ApiConnection, ApiResponse, RequestError, RequestLimits};
use gitwork_kube::watch_stream::WatchStream;

/// The path of the ManifestWorks of all namespaces.
const WORKS: &str = "/apis/work.open-cluster-management.io/v1/manifestworks";

const LIMITS: RequestLimits = RequestLimits {
    timeout: limits::HUB_CALL,
    response_bytes_max: limits::HUB_ANSWER_BYTES_MAX,
    event_bytes_max: limits::HUB_EVENT_BYTES_MAX,
};

/// A hub behind an API server. Clones share the connection.
#[derive(Clone)]
pub struct KubeHub {
    connection: Arc<Connection>,
    namespace: Arc<str>,
}

struct Connection {
    api: ApiConnection,
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
        let api = ApiConnection::new(client, LIMITS);
        let connection = Connection { api, connect, renewed: Mutex::new(None) };
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
    pub(super) async fn send(&self, request: &ApiRequest) -> Result<ApiResponse, HubError> {
        let response = self.send_once(request).await?;
        if response.status == StatusCode::UNAUTHORIZED && self.renew().await? {
            // The API server did nothing for an unknown user.
            return self.send_once(request).await;
        }
        Ok(response)
    }

    async fn send_once(&self, request: &ApiRequest) -> Result<ApiResponse, HubError> {
        self.connection.api.send(request.to_http()?).await.map_err(no_response)
    }

    /// Opens a watch: the head of the response comes within `limits::HUB_CALL`, the caller reads
    /// the events. `None`: the resourceVersion expired (410).
    pub(super) async fn open(&self, request: &ApiRequest) -> Result<Option<WatchStream>, HubError> {
        let mut may_renew = true;
        loop {
            let open_for = limits::HUB_WATCH_OPEN;
            let opened = self.connection.api.open_watch(request.to_http()?, open_for).await;
            let response = match opened.map_err(no_response)? {
                Ok(events) => return Ok(Some(events)),
                Err(response) => response,
            };
            if response.status == StatusCode::GONE {
                return Ok(None);
            }
            let is_unauthorized = response.status == StatusCode::UNAUTHORIZED;
            if is_unauthorized && std::mem::take(&mut may_renew) && self.renew().await? {
                continue;
            }
            return Err(response::error(&response, request.verb, RequestTarget::Works, None));
        }
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
        self.connection.api.set_client(client);
        tracing::info!("the hub did not accept the credentials; read them again");
        Ok(true)
    }
}

fn no_response(error: RequestError) -> HubError {
    match error {
        RequestError::Connection(message) => unavailable(message),
        other => unavailable(other.to_string()),
    }
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

    fn to_http(&self) -> Result<Request<Vec<u8>>, HubError> {
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
            .body(self.body.clone())
            .map_err(|error| unavailable(error.to_string()))
    }
}
