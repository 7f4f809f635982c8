//! The connection to the hub's API server: requests with a time limit, and credentials that are
//! read again when they rotate.

use futures::future::join_all;
use http::{Request, StatusCode};
use kube::Client;
use serde::Deserialize;
use tokio::sync::OnceCell;

use crate::client::Connect;
use crate::credentials::{HubCredentials, HubCredentialsError};
use crate::request::ApiRequest;
use crate::response::{self, RequestTarget};
use crate::{HubError, limits, unavailable};
use gitwork_kube::connection::{
    ApiConnection, ApiResponse, RequestError, RequestLimits, ResponseBody,
};
use gitwork_kube::watch_stream::WatchStream;
use gitwork_retry::operation_error::describe;

const LIMITS: RequestLimits = RequestLimits {
    timeout: limits::HUB_CALL,
    response_bytes_max: limits::HUB_ANSWER_BYTES_MAX,
    event_bytes_max: limits::HUB_EVENT_BYTES_MAX,
};

/// The first minor version of Kubernetes 1 whose API server makes whole lists from memory by
/// default, and pages after the first one from etcd (feature `ConsistentListFromCache`).
const LISTS_FROM_MEMORY: u32 = 31;

/// The connection to one API server.
pub(crate) struct HubConnection {
    api: ApiConnection,
    /// Whether whole lists cost the API server less than pages, once that is known.
    lists_from_memory: OnceCell<bool>,
    /// `None` if the client never changes.
    credentials: Option<HubCredentials>,
}

impl HubConnection {
    /// A connection with `client`. If the API server rejects the credentials, `connect` makes
    /// another client.
    pub fn new(client: Client, connect: Option<Connect>) -> Self {
        let credentials = connect.map(|connect| HubCredentials::new(connect, limits::HUB_CALL));
        let api = ApiConnection::new(client, LIMITS);
        Self { api, lists_from_memory: OnceCell::new(), credentials }
    }

    /// For requests whose failures have another error type.
    pub fn api(&self) -> &ApiConnection {
        &self.api
    }

    /// Sends a request and reads the whole response, within `limits::HUB_CALL`.
    pub async fn send(&self, request: &ApiRequest) -> Result<ApiResponse, HubError> {
        let response = self.send_once(request).await?;
        if response.status == StatusCode::UNAUTHORIZED && self.renew().await? {
            // The API server did nothing for an unknown user.
            return self.send_once(request).await;
        }
        Ok(response)
    }

    async fn send_once(&self, request: &ApiRequest) -> Result<ApiResponse, HubError> {
        self.api.send(request.to_http()?).await.map_err(no_response)
    }

    /// Opens a watch: the head of the response comes within `limits::HUB_CALL`, the caller reads
    /// the events. `None`: the resourceVersion expired (410).
    pub async fn open(&self, request: &ApiRequest) -> Result<Option<WatchStream>, HubError> {
        let mut may_renew = true;
        loop {
            let open_for = limits::HUB_WATCH_OPEN;
            let opened = self.api.open_watch(request.to_http()?, open_for).await;
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
            return Err(response::error(
                &response,
                request.verb,
                RequestTarget::All(request.kind()),
                None,
            ));
        }
    }

    /// Opens a list whose text is read in parts, all within `limits::HUB_LIST`.
    pub async fn open_list(&self, request: &ApiRequest) -> Result<ResponseBody, HubError> {
        let opened = self.api.open_response(request.to_http()?, limits::HUB_LIST).await;
        opened.map_err(no_response)?.map_err(|response| {
            response::error(&response, request.verb, RequestTarget::All(request.kind()), None)
        })
    }

    /// Whether a whole list costs the API server less than its pages. An API server that does not
    /// say what it is gets requests for pages.
    pub async fn lists_from_memory(&self) -> bool {
        let ask = || async {
            let response = self.ask_version().await?;
            let version: Option<ServerVersion> = serde_json::from_slice(&response.body).ok();
            Ok::<_, HubError>(version.is_some_and(|version| version.lists_from_memory()))
        };
        self.lists_from_memory.get_or_try_init(ask).await.is_ok_and(|is_so| *is_so)
    }

    /// Opens this many connections, by a small request over each.
    pub async fn connect_ahead(&self, connections: usize) {
        join_all((0..connections).map(|_| self.ask_version())).await;
    }

    async fn ask_version(&self) -> Result<ApiResponse, HubError> {
        let request = Request::get("/version").body(Vec::new());
        let request = request.map_err(|error| unavailable(error.to_string()))?;
        self.api.send(request).await.map_err(no_response)
    }

    /// Reads the credentials again. Gives whether to send the request again.
    async fn renew(&self) -> Result<bool, HubError> {
        let Some(credentials) = &self.credentials else { return Ok(false) };
        credentials.renew(&self.api).await.map_err(|error| match error {
            HubCredentialsError::Late => {
                unavailable("cannot read the credentials again in time".into())
            }
            HubCredentialsError::Client(error) => {
                HubError::Forbidden { message: describe(&error), hint: None }
            }
        })?;
        Ok(true)
    }
}

/// What an API server says of itself (`/version`). A minor version may end in `+`.
#[derive(Deserialize)]
struct ServerVersion {
    major: String,
    minor: String,
}

impl ServerVersion {
    fn lists_from_memory(&self) -> bool {
        let minor = self.minor.trim_end_matches(|c: char| !c.is_ascii_digit());
        let is_later = self.major != "1" && self.major.parse::<u32>().is_ok();
        is_later || minor.parse::<u32>().is_ok_and(|minor| minor >= LISTS_FROM_MEMORY)
    }
}

pub(crate) fn no_response(error: RequestError) -> HubError {
    match error {
        RequestError::Connection(message) => unavailable(message),
        other => unavailable(other.to_string()),
    }
}
