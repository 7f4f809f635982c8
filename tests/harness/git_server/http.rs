//! `git http-backend` behind axum, over plain HTTP or TLS.

use std::io::{self, Seek, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{ChildStdout, Command};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto};
use tokio_rustls::server::TlsStream;

use super::certificates::{Authority, Identity};

/// The most that is read at once of what Git writes.
const OUTPUT_BYTES: usize = 64 * 1024;

/// The authentication of a server.
#[derive(Clone)]
pub enum Access {
    Everybody,
    /// The exact value of the header `Authorization`.
    Authorization(String),
}

/// The faults of a server, from the next request on.
#[derive(Clone)]
pub enum Fault {
    None,
    /// Every request gets this status.
    Status(u16),
    /// Requests get no response.
    Stall,
    /// Packs are never sent, but everything before them is.
    StallPack,
    /// Requests are redirected to the same path at another server.
    Redirect(String),
    /// Requests get a page, as a forge's sign-in does.
    Page,
}

pub struct Builder {
    root: PathBuf,
    identity: Option<Identity>,
    client_authority: Option<String>,
}

/// A running server; it stops when dropped.
pub struct GitServer {
    base: String,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
}

struct Shared {
    root: PathBuf,
    access: Mutex<Access>,
    fault: Mutex<Fault>,
    requests: Mutex<Vec<String>>,
}

impl GitServer {
    /// Serves the repositories below a folder over plain HTTP.
    pub fn http(root: &Path) -> Builder {
        Builder { root: root.to_owned(), identity: None, client_authority: None }
    }

    /// Serves them over TLS with a certificate of `authority`.
    pub fn https(root: &Path, authority: &Authority) -> Builder {
        GitServer::http(root).identity(authority.server())
    }

    /// The URL of a repository below the root.
    pub fn url(&self, repository: &str) -> String {
        format!("{}/{repository}", self.base)
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    pub fn set_access(&self, access: Access) {
        *self.shared.access.lock().unwrap() = access;
    }

    pub fn set_fault(&self, fault: Fault) {
        *self.shared.fault.lock().unwrap() = fault;
    }

    /// Method, path and status of every request so far.
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

impl Builder {
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Requires a client certificate of this authority.
    pub fn clients_of(mut self, authority: &Authority) -> Self {
        self.client_authority = Some(authority.pem().to_owned());
        self
    }

    pub fn start(self) -> GitServer {
        let tls = self.identity.as_ref().map(|identity| self.tls(identity));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let shared = Arc::new(Shared {
            root: self.root,
            access: Mutex::new(Access::Everybody),
            fault: Mutex::new(Fault::None),
            requests: Mutex::default(),
        });
        let app = Router::new().fallback(serve).with_state(Arc::clone(&shared));
        let (stop, stopped) = oneshot::channel();
        thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                let serving = async {
                    match tls {
                        Some(tls) => axum::serve(TlsListener { listener, tls }, app).await,
                        None => axum::serve(listener, app).await,
                    }
                };
                tokio::select! {
                    result = serving => result.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        let base = format!("{scheme}://127.0.0.1:{port}");
        GitServer { base, shared, stop: Some(stop) }
    }

    fn tls(&self, identity: &Identity) -> TlsAcceptor {
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = match &self.client_authority {
            None => config.with_no_client_auth(),
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                config.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        TlsAcceptor::from(Arc::new(config.with_single_cert(vec![certificate], key).unwrap()))
    }
}

struct TlsListener {
    listener: TcpListener,
    tls: TlsAcceptor,
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.listener.accept().await else { continue };
            let handshake = tokio::time::timeout(Duration::from_secs(5), self.tls.accept(stream));
            if let Ok(Ok(stream)) = handshake.await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let line = format!("{} {}", request.method(), request.uri());
    let response = shared.answer(request).await;
    shared.requests.lock().unwrap().push(format!("{line} {}", response.status().as_u16()));
    response
}

impl Shared {
    async fn answer(&self, request: Request) -> Response {
        let fault = self.fault.lock().unwrap().clone();
        match fault {
            Fault::Status(status) => return StatusCode::from_u16(status).unwrap().into_response(),
            Fault::Stall => return std::future::pending().await,
            Fault::StallPack if request.method() == "POST" => {
                return std::future::pending().await;
            }
            Fault::Redirect(base) => {
                let target = format!("{base}{}", request.uri());
                return (StatusCode::FOUND, [(header::LOCATION, target)]).into_response();
            }
            Fault::Page => return axum::response::Html("<p>Sign in").into_response(),
            Fault::None | Fault::StallPack => {}
        }
        let access = self.access.lock().unwrap().clone();
        if let Access::Authorization(wanted) = access
            && request.headers().get(header::AUTHORIZATION).is_none_or(|v| *v != *wanted)
        {
            let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"test\"")];
            return (StatusCode::UNAUTHORIZED, challenge).into_response();
        }
        self.backend(request).await.unwrap()
    }

    /// Runs `git http-backend`, a CGI program (RFC 3875), and passes on what it writes as it comes.
    async fn backend(&self, request: Request) -> anyhow::Result<Response> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, 64 << 20).await?;
        let text = |name| {
            parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
        };
        let mut input = tempfile::tempfile()?;
        input.write_all(&body)?;
        input.rewind()?;
        let mut git = Command::new("git")
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("PATH_INFO", parts.uri.path())
            .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
            .env("REQUEST_METHOD", parts.method.as_str())
            .env("CONTENT_TYPE", text(header::CONTENT_TYPE))
            .env("CONTENT_LENGTH", body.len().to_string())
            .env("HTTP_CONTENT_ENCODING", text(header::CONTENT_ENCODING))
            .env("REMOTE_USER", "test")
            .env("GIT_CONFIG_COUNT", "2")
            .env("GIT_CONFIG_KEY_0", "http.receivepack")
            .env("GIT_CONFIG_VALUE_0", "true")
            .env("GIT_CONFIG_KEY_1", "safe.directory")
            .env("GIT_CONFIG_VALUE_1", "*")
            .stdin(Stdio::from(input))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let mut output = BufReader::with_capacity(OUTPUT_BYTES, git.stdout.take().unwrap());
        let head = read_head(&mut output).await?;
        let rest = stream::try_unfold((output, git), |(mut output, mut git)| async {
            let part = Bytes::copy_from_slice(output.fill_buf().await?);
            if part.is_empty() {
                git.wait().await?;
                return Ok::<_, io::Error>(None);
            }
            output.consume(part.len());
            Ok(Some((part, (output, git))))
        });
        respond(&head, Body::from_stream(rest))
    }
}

/// The lines before the first empty one.
async fn read_head(output: &mut BufReader<ChildStdout>) -> anyhow::Result<String> {
    let mut head = String::new();
    while output.read_line(&mut head).await? > "\r\n".len() {}
    Ok(head)
}

fn respond(head: &str, body: Body) -> anyhow::Result<Response> {
    let mut status = StatusCode::OK;
    let mut headers = HeaderMap::new();
    for line in head.lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        if name.eq_ignore_ascii_case("status") {
            status = value.split(' ').next().unwrap_or_default().parse()?;
        } else {
            headers.insert(header::HeaderName::from_bytes(name.as_bytes())?, value.parse()?);
        }
    }
    Ok((status, headers, body).into_response())
}
