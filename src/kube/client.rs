//! Builds the client of an API server. Hub and agent differ in its name and its time-outs only.

use std::time::Duration;

use http::{HeaderValue, Request, Response, header};
use http_body_util::BodyExt;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Builder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::{Body, ClientBuilder, ConfigExt, DynBody};
use tower::util::{BoxService, ServiceExt};
use tower::{BoxError, ServiceBuilder};

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
    /// Connections that are kept open without a request. Each takes some 30 KB, and the API server
    /// keeps it for minutes.
    pub idle_connections_max: usize,
}

/// How long a connection without a request stays open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

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
    if config.proxy_url.is_some() {
        return ClientBuilder::try_from(config);
    }
    let service = service(&config, options)?;
    Ok(ClientBuilder::new(service, config.default_namespace))
}

/// The service that kube builds for a configuration without a proxy, but for its connections: it
/// sends what there is at once, as a short write would wait for the server's acknowledgement
/// (RFC 896), and it closes connections that are no longer needed.
fn service(config: &Config, options: &ClientOptions) -> Result<BaseService, kube::Error> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client = Builder::new(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(options.idle_connections_max)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    let boxed = service.map_response(|response: Response<_>| {
        response.map(|body| Box::new(BodyExt::map_err(body, BoxError::from)) as Box<DynBody>)
    });
    Ok(boxed.boxed())
}
