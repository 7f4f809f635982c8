//! Requests to one API server over a client that can be replaced. Each request has a time limit,
//! and each response a limit in bytes.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyDataStream, BodyExt, LengthLimitError, Limited};
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, timeout, timeout_at};

use crate::api_status::{ApiStatus, retry_after_seconds};
use crate::connection_error;
use crate::watch_stream::WatchStream;

/// How often other tasks come first before a request. A connection is free again some turns of its
/// own task after its response was read; a request on the same thread before that opens another
/// one. With 32 requests at a time, `run --once` had 60 to 78 connections, and has 34 with this.
const TURNS_BEFORE_REQUEST: usize = 3;

/// The limits of all requests over one connection.
#[derive(Debug, Clone, Copy)]
pub struct RequestLimits {
    /// One request with its whole response. For a watch: until the head of the response is there.
    pub timeout: Duration,
    /// The body of one response, in bytes.
    pub response_bytes_max: usize,
    /// One event of a watch, in bytes.
    pub event_bytes_max: usize,
}

/// Why there is no response. A write may have taken place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The whole response did not come within the limit.
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The connection failed, for this reason.
    #[error("{0}")]
    Connection(String),
    /// The body of the response is larger than the limit.
    #[error("the response is larger than {limit_bytes} bytes")]
    TooLarge {
        /// See [`RequestLimits::response_bytes_max`].
        limit_bytes: usize,
    },
}

/// One response, with its whole body.
#[derive(Debug, Clone)]
pub struct ApiResponse {
    /// The HTTP status code.
    pub status: StatusCode,
    /// The header `Retry-After`, in seconds.
    pub retry_after_seconds: Option<u64>,
    /// The body: an object, or a `Status` object after a failure.
    pub body: Bytes,
}

impl ApiResponse {
    /// The `Status` object of a failed response.
    pub fn api_status(&self) -> ApiStatus {
        ApiStatus::of_response(self.status.as_u16(), self.retry_after_seconds, &self.body)
    }
}

/// The connection to one API server. Clones share the client.
#[derive(Clone)]
pub struct ApiConnection {
    client: Arc<RwLock<Client>>,
    limits: RequestLimits,
}

impl ApiConnection {
    /// A connection over `client`. Every request has these limits.
    pub fn new(client: Client, limits: RequestLimits) -> Self {
        Self { client: Arc::new(RwLock::new(client)), limits }
    }

    /// Replaces the client, from the next request on: its credentials have changed.
    pub fn set_client(&self, client: Client) {
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = client;
    }

    /// Sends a request and reads the whole response, whatever its status code.
    pub async fn send(&self, request: Request<Vec<u8>>) -> Result<ApiResponse, RequestError> {
        let response = async { read(self.begin(request).await?, self.limits).await };
        self.within_timeout(response).await
    }

    /// Opens a watch. The stream ends `open_for` after the head of the response, if not earlier.
    /// `Ok(Err(_))`: the API server rejected the watch with this response.
    pub async fn open_watch(
        &self,
        mut request: Request<Vec<u8>>,
        open_for: Duration,
    ) -> Result<Result<WatchStream, ApiResponse>, RequestError> {
        // Kubernetes 1.37 and later compress each event of a watch by itself, which decoders of
        // whole bodies cannot read.
        let identity = HeaderValue::from_static("identity");
        request.headers_mut().insert(header::ACCEPT_ENCODING, identity);
        let response = self.within_timeout(self.begin(request)).await?;
        if response.status().is_success() {
            let (body, deadline) = (response.into_body(), Instant::now() + open_for);
            let events = body.into_data_stream();
            return Ok(Ok(WatchStream::new(events, deadline, self.limits.event_bytes_max)));
        }
        self.within_timeout(read(response, self.limits)).await.map(Err)
    }

    /// Sends a request whose response may be large: its body is read in parts. All of it comes
    /// within `limit`. `Ok(Err(_))`: the API server rejected the request with this response.
    pub async fn open_response(
        &self,
        request: Request<Vec<u8>>,
        limit: Duration,
    ) -> Result<Result<ResponseBody, ApiResponse>, RequestError> {
        let deadline = Instant::now() + limit;
        let response = timeout_at(deadline, self.begin(request)).await;
        let response = response.unwrap_or(Err(RequestError::Timeout(limit)))?;
        if response.status().is_success() {
            let parts = response.into_body().into_data_stream();
            return Ok(Ok(ResponseBody { parts, deadline, limit }));
        }
        self.within_timeout(read(response, self.limits)).await.map(Err)
    }

    async fn begin(&self, request: Request<Vec<u8>>) -> Result<Response<Body>, RequestError> {
        for _ in 0..TURNS_BEFORE_REQUEST {
            tokio::task::yield_now().await;
        }
        let client = self.client.read().unwrap_or_else(PoisonError::into_inner).clone();
        let response = client.send(request.map(Body::from)).await;
        response.map_err(|error| RequestError::Connection(connection_error::describe(&error)))
    }

    async fn within_timeout<T>(
        &self,
        request: impl Future<Output = Result<T, RequestError>>,
    ) -> Result<T, RequestError> {
        let limit = self.limits.timeout;
        timeout(limit, request).await.unwrap_or(Err(RequestError::Timeout(limit)))
    }
}

/// The body of a response that is read in parts.
pub struct ResponseBody {
    parts: BodyDataStream<Body>,
    deadline: Instant,
    limit: Duration,
}

impl ResponseBody {
    /// The next part; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<Bytes>, RequestError> {
        let part = timeout_at(self.deadline, self.parts.next()).await;
        let part = part.map_err(|_| RequestError::Timeout(self.limit))?;
        let described = |error| RequestError::Connection(connection_error::describe(&error));
        part.transpose().map_err(described)
    }
}

async fn read(
    response: Response<Body>,
    limits: RequestLimits,
) -> Result<ApiResponse, RequestError> {
    let status = response.status();
    let retry_after_seconds = retry_after_seconds(response.headers());
    let limit_bytes = limits.response_bytes_max;
    let body = Limited::new(response.into_body(), limit_bytes).collect().await;
    let body = body.map_err(|error| {
        if error.is::<LengthLimitError>() {
            return RequestError::TooLarge { limit_bytes };
        }
        RequestError::Connection(connection_error::describe(&*error))
    });
    Ok(ApiResponse { status, retry_after_seconds, body: body?.to_bytes() })
}
