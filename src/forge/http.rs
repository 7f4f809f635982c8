//! One HTTP exchange with a forge. Each uses a new connection: there are only a few per minute, and
//! a new token, CA bundle or address needs no restart.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::{Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::legacy::{Client, Error as HttpError};
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::file::{FileError, read_bounded};
use crate::limits;
use gitwork_core::model::operation_error::{ErrorClass, OperationError, describe};
use gitwork_report::forge::request::authorization;
use gitwork_report::forge::response::{ForgeResponse, Rejection};
use gitwork_report::forge::{ForgeTarget, HttpRequest};

/// Why there is no response. The message never holds the token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForgeError {
    /// A file with a token, a key or certificates is not usable.
    #[error(transparent)]
    File(#[from] FileError),
    /// The proxy is no http URL.
    #[error("the proxy must be an http URL, as in http://proxy.example:3128")]
    Proxy,
    /// The URL of the request is not valid.
    #[error("{url} is not a valid address")]
    Address { url: String },
    /// No complete response within [`limits::FORGE_CALL`].
    #[error("{host} did not answer within {} s", limits::FORGE_CALL.as_secs())]
    TimedOut { host: String },
    /// No connection, or it broke.
    #[error("cannot connect to {host}: {problem}")]
    Connection { host: String, problem: String },
    /// The response has no end, or is larger than [`limits::FORGE_ANSWER_BYTES_MAX`].
    #[error(
        "the response of {host} broke off or is longer than {} bytes",
        limits::FORGE_ANSWER_BYTES_MAX
    )]
    HalfAnswer { host: String },
}

impl OperationError for ForgeError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::File(error) => error.class(),
            Self::Proxy | Self::Address { .. } => ErrorClass::NeedsAction,
            Self::TimedOut { .. } | Self::Connection { .. } | Self::HalfAnswer { .. } => {
                ErrorClass::TRANSIENT
            }
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::File(error) => error.reason(),
            Self::Proxy => "Proxy",
            Self::Address { .. } => "Address",
            Self::TimedOut { .. } => "Timeout",
            Self::Connection { .. } => "Network",
            Self::HalfAnswer { .. } => "Server",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Address { .. } => vec!["check `apiUrl`".to_owned()],
            _ => Vec::new(),
        }
    }
}

impl From<ForgeError> for Rejection {
    fn from(error: ForgeError) -> Self {
        let message = describe(&error);
        if error.needs_action() {
            return Self::Blocked { message };
        }
        Self::Later { after: None, message }
    }
}

/// The connection settings of a forge.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    /// A file with the certificate authorities, in PEM; `None`: the system's.
    pub ca_file: Option<PathBuf>,
    /// `http://[user:password@]host:port`.
    pub proxy: Option<String>,
}

/// A complete response.
pub(crate) struct Received {
    /// The HTTP status code.
    pub status: u16,
    headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    /// The relevant parts. `secret` is the credential of the request.
    pub fn response<'a>(&'a self, secret: &'a str) -> ForgeResponse<'a> {
        let header = |name: &str| self.headers.get(name).and_then(|value| value.to_str().ok());
        ForgeResponse {
            status: self.status,
            retry_after: header("retry-after"),
            limit_remaining: header("x-ratelimit-remaining"),
            limit_reset: header("x-ratelimit-reset"),
            body: &self.body,
            secret,
        }
    }
}

impl Http {
    /// Sends a request with this authorization header, within `limits::FORGE_CALL`.
    pub async fn exchange(
        &self,
        request: &HttpRequest,
        login: (&'static str, HeaderValue),
    ) -> Result<Received, ForgeError> {
        let (uri, request) = built(request, login)?;
        let host = uri.authority().map_or_else(String::new, ToString::to_string);
        let tls = tls_config(self.ca_file.as_deref()).await?;
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_connect_timeout(Some(limits::FORGE_CONNECT));
        let https =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        let call = async {
            match &self.proxy {
                Some(proxy) => {
                    let tunnel = tunnel(proxy, http)?;
                    send(https.wrap_connector(tunnel), request, &host).await
                }
                None => send(https.wrap_connector(http), request, &host).await,
            }
        };
        let answered = tokio::time::timeout(limits::FORGE_CALL, call).await;
        answered.map_err(|_| ForgeError::TimedOut { host: host.clone() })?
    }
}

/// The authorization header; `None` if the token has characters that a header must not have.
pub(crate) fn authorization_header(
    target: &ForgeTarget,
    token: &str,
) -> Option<(&'static str, HeaderValue)> {
    let (name, value) = authorization(target.provider, token);
    let mut value = HeaderValue::from_str(&value).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

fn built(
    request: &HttpRequest,
    login: (&'static str, HeaderValue),
) -> Result<(Uri, Request<Full<Bytes>>), ForgeError> {
    let address = || ForgeError::Address { url: request.url.clone() };
    let uri: Uri = request.url.parse().map_err(|_| address())?;
    let mut built = Request::builder().method(request.method).uri(uri.clone());
    for (name, value) in &request.headers {
        built = built.header(*name, value);
    }
    let body = Full::new(Bytes::from(request.body.to_string()));
    Ok((uri, built.header(login.0, login.1).body(body).map_err(|_| address())?))
}

async fn send<C>(
    connector: C,
    request: Request<Full<Bytes>>,
    host: &str,
) -> Result<Received, ForgeError>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let failed = |error: HttpError| {
        let problem = causes(&error);
        ForgeError::Connection { host: host.to_owned(), problem }
    };
    let answer = client.request(request).await.map_err(failed)?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, limits::FORGE_ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|_| ForgeError::HalfAnswer { host: host.to_owned() })?;
    Ok(Received { status: head.status.as_u16(), headers: head.headers, body: body.to_bytes() })
}

/// The innermost cause. hyper's own message is too general.
fn causes(error: &HttpError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}

/// A connection through a proxy with CONNECT.
fn tunnel(proxy: &str, http: HttpConnector) -> Result<Tunnel<HttpConnector>, ForgeError> {
    let rest = proxy.strip_prefix("http://").ok_or(ForgeError::Proxy)?.trim_end_matches('/');
    let (credentials, place) = match rest.rsplit_once('@') {
        Some((credentials, place)) => (Some(credentials), place),
        None => (None, rest),
    };
    let uri: Uri = format!("http://{place}").parse().map_err(|_| ForgeError::Proxy)?;
    let tunnel = Tunnel::new(uri, http);
    let Some(credentials) = credentials else { return Ok(tunnel) };
    let value = format!("Basic {}", STANDARD.encode(credentials));
    let mut value = HeaderValue::from_str(&value).map_err(|_| ForgeError::Proxy)?;
    value.set_sensitive(true);
    Ok(tunnel.with_auth(value))
}

/// The trusted certificate authorities: those of the file, or the system's.
async fn tls_config(ca_file: Option<&Path>) -> Result<ClientConfig, ForgeError> {
    let roots = match ca_file {
        Some(file) => bundle(file)?,
        None => {
            // About 150 files on a typical system.
            let loaded = tokio::task::spawn_blocking(|| {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                roots
            });
            loaded.await.unwrap_or_else(|_| RootCertStore::empty())
        }
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| ForgeError::Connection {
        host: "TLS".into(),
        problem: error.to_string(),
    })?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn bundle(file: &Path) -> Result<RootCertStore, FileError> {
    const PURPOSE: &str = "CA bundle";
    let text = read_bounded(file, PURPOSE, limits::CA_BUNDLE_BYTES_MAX)?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate =
            certificate.map_err(|error| FileError::new(file, PURPOSE, error.to_string()))?;
        roots.add(certificate).map_err(|error| FileError::new(file, PURPOSE, error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(FileError::new(file, PURPOSE, "it has no PEM certificate"));
    }
    Ok(roots)
}
