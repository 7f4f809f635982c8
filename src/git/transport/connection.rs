//! A connection to a host: over TCP or through an HTTP proxy, with TLS or without.

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{HOST, HeaderValue, PROXY_AUTHORIZATION};
use http::{Method, Request, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::attempt::RemoteAttempt;
use super::http_error::{broken, violated};
use super::tcp::{HangUp, TcpConnection};
use crate::address::{ProxyAddress, bracketed};
use crate::error::FetchError;
use crate::limits;

/// The bytes of a connection.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

/// A connection, which ends with the second part.
pub(super) type Connection = (Box<dyn ByteStream>, HangUp);

/// The host and the port as messages show them.
pub(super) fn shown(host: &str, port: u16) -> String {
    format!("{}:{port}", bracketed(host))
}

/// Connects to a host, through the proxy's CONNECT if there is one.
pub(super) async fn connect(
    attempt: Arc<RemoteAttempt>,
    host: &str,
    port: u16,
) -> Result<Connection, FetchError> {
    let target = shown(host, port);
    let Some(proxy) = attempt.proxy.clone() else {
        let (tcp, hang_up) = TcpConnection::open(attempt, (host, port), &target).await?;
        return Ok((Box::new(tcp), hang_up));
    };
    let (tcp, hang_up) = to_proxy(attempt, &proxy).await?;
    Ok((tunnel(tcp, &proxy, &target).await?, hang_up))
}

/// Connects to the proxy, for plain HTTP requests that the proxy makes itself.
pub(super) async fn to_proxy(
    attempt: Arc<RemoteAttempt>,
    proxy: &ProxyAddress,
) -> Result<Connection, FetchError> {
    let (tcp, hang_up) =
        TcpConnection::open(attempt, (&proxy.host, proxy.port), &named(proxy)).await?;
    Ok((Box::new(tcp), hang_up))
}

/// Starts TLS on a connection to a host.
pub(super) async fn secured(
    connection: Connection,
    config: ClientConfig,
    host: &str,
) -> Result<Connection, FetchError> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| FetchError::Tls {
        host: host.to_owned(),
        source: Box::new(rustls::Error::General("the host is not a valid name for TLS".into())),
    })?;
    let (stream, hang_up) = connection;
    let tls = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    Ok((Box::new(tls.map_err(|error| broken(host, &error))?), hang_up))
}

/// The value that logs in at the proxy.
pub(super) fn proxy_authorization(proxy: &ProxyAddress) -> Option<HeaderValue> {
    let credentials = proxy.credentials.as_ref()?;
    // Base64 is valid in a header.
    let mut value =
        HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(credentials))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Sends CONNECT (RFC 9110, section 9.3.6). `target` is `host:port`.
async fn tunnel(
    stream: Box<dyn ByteStream>,
    proxy: &ProxyAddress,
    target: &str,
) -> Result<Box<dyn ByteStream>, FetchError> {
    let failed = |error: hyper::Error| violated(&named(proxy), &error);
    let invalid = || FetchError::Connection {
        host: target.to_owned(),
        source: io::ErrorKind::InvalidInput.into(),
    };
    let uri = Uri::try_from(target).map_err(|_| invalid())?;
    let mut request = Request::builder().method(Method::CONNECT).uri(uri).header(HOST, target);
    if let Some(login) = proxy_authorization(proxy) {
        request = request.header(PROXY_AUTHORIZATION, login);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|_| invalid())?;
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(limits::HTTP_HEAD_BYTES_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    tokio::spawn(connection.with_upgrades());
    let response = sender.send_request(request).await.map_err(failed)?;
    if !response.status().is_success() {
        let (proxy, status) = (proxy.shown(), response.status().as_u16());
        return Err(FetchError::Proxy { proxy, host: target.to_owned(), status });
    }
    Ok(Box::new(TokioIo::new(hyper::upgrade::on(response).await.map_err(failed)?)))
}

/// The proxy in messages.
fn named(proxy: &ProxyAddress) -> String {
    format!("the proxy {}", proxy.shown())
}
