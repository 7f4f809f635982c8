//! Builds the client of an API server. Hub and agent differ in its name and its time-outs only.

use std::time::Duration;

use http::{HeaderValue, Request, Response, header};
use kube::Config;
use kube::client::{Body, ClientBuilder, DynBody};
use tower::BoxError;
use tower::util::BoxService;

use crate::crypto::install_crypto;

/// The HTTP service below a client. A layer around it can count or change requests.
pub type BaseService = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// How a client names itself and how long it waits.
#[derive(Debug, Clone, Copy)]
pub struct ClientOptions {
    /// The `User-Agent`. The API server derives the default field manager from it.
    pub user_agent: &'static str,
    /// To set up a connection, TLS included.
    pub connect_timeout: Duration,
    /// Between two writes to a connection; `None` for no limit.
    pub write_timeout: Option<Duration>,
    /// Between two reads from a connection; `None` for no limit. It bounds silent watches.
    pub read_timeout: Option<Duration>,
}

/// A builder for a client of `config`.
///
/// kube's own retries are off: they keep one call busy for up to 1,000 s, and the callers retry
/// with a backoff of their own. `config.cluster_url` stays as it is.
pub fn client_builder(
    mut config: Config,
    options: &ClientOptions,
) -> Result<ClientBuilder<BaseService>, kube::Error> {
    install_crypto();
    config.default_retry = false;
    config.connect_timeout = Some(options.connect_timeout);
    if let Some(limit) = options.write_timeout {
        config.write_timeout = Some(limit);
    }
    if let Some(limit) = options.read_timeout {
        config.read_timeout = Some(limit);
        // Otherwise the idle time of a pooled connection counts against the next response.
        config.reset_reader_on_write = true;
    }
    config.headers.push((header::USER_AGENT, HeaderValue::from_static(options.user_agent)));
    ClientBuilder::try_from(config)
}
