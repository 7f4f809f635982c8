//! `/healthz`, `/readyz` and `/metrics`, over TLS with a certificate made at the start: what the
//! probes of a klusterlet's work agent expect.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Agent;
use super::metrics::AgentMetrics;
use gitwork_retry::log_error;
use gitwork_retry::operation_error::{ErrorClass, OperationError};
use gitwork_runtime::connection::{Bounded, ConnectionTimeout};
use gitwork_runtime::limits;
use gitwork_runtime::probes::metrics_response;

/// Time limit of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Handshakes under way and connections that wait to be served.
const WAITING_MAX: usize = 32;

/// Why health and metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {error}")]
    Listen { address: SocketAddr, error: std::io::Error },
    /// No self-signed certificate can be made, or rustls rejects the certificate.
    #[error("cannot make a certificate to serve with: {0}")]
    Certificate(String),
    /// A file of `--config` has no usable certificate or key.
    #[error("cannot serve with the certificate {path}: {problem}")]
    CertificateFile { path: PathBuf, problem: String },
    /// No more connections can be accepted.
    #[error("cannot accept connections: {0}")]
    Accept(std::io::Error),
}

impl OperationError for ServeError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Listen { .. } => "Listen",
            Self::Certificate(_) | Self::CertificateFile { .. } => "ServingCertificate",
            Self::Accept(_) => "Accept",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Listen { .. } => {
                vec!["if the port is in use, choose another address with --listen".to_owned()]
            }
            _ => Vec::new(),
        }
    }
}

/// The running agent. There is none until this process is the leader.
pub type Current = Arc<std::sync::Mutex<Option<Arc<Agent>>>>;

/// Binds the address, to serve with a certificate and key of files or, without, of its own. What is
/// served from then on depends on `current`.
pub async fn bind(
    address: SocketAddr,
    files: Option<(&Path, &Path)>,
) -> Result<TlsListener, ServeError> {
    let acceptor = acceptor(files)?;
    let listener =
        TcpListener::bind(address).await.map_err(|error| ServeError::Listen { address, error })?;
    let local = listener.local_addr().map_err(|error| ServeError::Listen { address, error })?;
    let (sender, connections) = mpsc::channel(WAITING_MAX);
    tokio::spawn(accept(listener, acceptor, sender));
    Ok(TlsListener { connections, local })
}

/// Serves for ever.
pub async fn serve(listener: TlsListener, current: Current, metrics: Arc<AgentMetrics>) {
    let ready = current.clone();
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(move || readiness(ready.clone())))
        .route("/metrics", get(move || scrape(metrics.clone())));
    let timeout = ConnectionTimeout::Idle(limits::PROBE_IDLE);
    let listener = Bounded::new(listener, limits::PROBE_CONNECTIONS_MAX, timeout);
    if let Err(error) = axum::serve(listener, router).await {
        log_error!(warn, &ServeError::Accept(error), "stopped serving health and metrics");
    }
}

/// A standby that waits for the Lease is ready.
async fn readiness(current: Current) -> impl IntoResponse {
    let agent = super::mutex::lock(&current).clone();
    match agent {
        Some(agent) if !agent.is_ready() => {
            (StatusCode::SERVICE_UNAVAILABLE, "works are not listed yet")
        }
        _ => (StatusCode::OK, "ok"),
    }
}

async fn scrape(metrics: Arc<AgentMetrics>) -> impl IntoResponse {
    metrics_response(metrics.text())
}

fn acceptor(files: Option<(&Path, &Path)>) -> Result<TlsAcceptor, ServeError> {
    let failed = |error: &dyn std::fmt::Display| ServeError::Certificate(error.to_string());
    let (chain, key) = match files {
        Some((certificate, key)) => from_files(certificate, key)?,
        None => own_certificate().map_err(|e| failed(&e))?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| failed(&e))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|e| failed(&e))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn own_certificate() -> Result<Identity, rcgen::Error> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    Ok((vec![made.cert.der().clone()], key))
}

fn from_files(certificate: &Path, key: &Path) -> Result<Identity, ServeError> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| ServeError::CertificateFile {
        path: path.to_path_buf(),
        problem: error.to_string(),
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| failed(certificate, &error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, &error))?;
    Ok((chain, key))
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    sender: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    loop {
        // Reserve a slot first: further connections wait in the kernel.
        let Ok(place) = sender.clone().reserve_owned().await else { return };
        let Ok((stream, address)) = listener.accept().await else {
            // Usually too many open files: wait until some are closed.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(stream)).await {
                place.send((stream, address));
            }
        });
    }
}

/// Connections whose handshake is done.
pub struct TlsListener {
    connections: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    local: SocketAddr,
}

impl TlsListener {
    /// The bound address, with the port that the kernel chose if port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.local
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.connections.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.local)
    }
}
