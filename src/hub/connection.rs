//! The connection to the hub's API server: requests with a time limit, and credentials that are
//! read again when they rotate.

use http::StatusCode;
use kube::Client;

use crate::client::Connect;
use crate::credentials::{HubCredentials, HubCredentialsError};
use crate::request::ApiRequest;
use crate::response::{self, RequestTarget};
use crate::{HubError, limits, unavailable};
use gitwork_kube::connection::{ApiConnection, ApiResponse, RequestError, RequestLimits};
use gitwork_kube::watch_stream::WatchStream;
use gitwork_retry::operation_error::describe;

const LIMITS: RequestLimits = RequestLimits {
    timeout: limits::HUB_CALL,
    response_bytes_max: limits::HUB_ANSWER_BYTES_MAX,
    event_bytes_max: limits::HUB_EVENT_BYTES_MAX,
};

/// The connection to one API server.
pub(crate) struct HubConnection {
    api: ApiConnection,
    /// `None` if the client never changes.
    credentials: Option<HubCredentials>,
}

impl HubConnection {
    /// A connection with `client`. If the API server rejects the credentials, `connect` makes
    /// another client.
    pub fn new(client: Client, connect: Option<Connect>) -> Self {
        let credentials = connect.map(|connect| HubCredentials::new(connect, limits::HUB_CALL));
        Self { api: ApiConnection::new(client, LIMITS), credentials }
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

fn no_response(error: RequestError) -> HubError {
    match error {
        RequestError::Connection(message) => unavailable(message),
        other => unavailable(other.to_string()),
    }
}
