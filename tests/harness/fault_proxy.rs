//! Faults between a program and its servers. An HTTP proxy knows each request by its name. It holds
//! the request, loses it or its response, or responds in the server's place. It is for programs
//! that run as processes of their own; [`super::faults`] does the same within this process.

use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::{Body, Bytes, to_bytes};
use futures::stream::{self, StreamExt};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::Client;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::faults;

/// Larger than any request or response of a test.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The server never sees it, and it gets no response. The test is notified and kills the
    /// program.
    KillBefore,
    /// The server acts on it, and it gets no response. The test is notified and kills the program.
    KillAfter,
    /// The server never sees it. The proxy responds with this status code.
    Answer { code: u16, retry_after_seconds: Option<u64> },
    /// The server never sees it. The connection closes.
    Close,
    /// The server acts on it. The connection closes before the response.
    LoseAnswer,
    /// The server acts on it. The connection closes after half of the response, or after half of
    /// the first event of a watch.
    HalfAnswer,
    /// The server never sees it. The connection stays open without a response.
    Stall,
}

impl Fault {
    pub fn kills(self) -> bool {
        matches!(self, Self::KillBefore | Self::KillAfter)
    }

    /// Whether the server acts on a request with this fault.
    fn is_late(self) -> bool {
        matches!(self, Self::KillAfter | Self::LoseAnswer | Self::HalfAnswer)
    }
}

/// One of several requests with the same name. The first has number 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub name: String,
    pub number: usize,
}

/// A request as received.
#[derive(Debug, Clone)]
pub struct Call {
    pub target: Target,
    pub method: Method,
    pub path: String,
    /// The phase of the test at that time.
    pub phase: usize,
    pub fault: Option<Fault>,
    /// For a deletion: the object before it; `None` if there was none.
    pub before: Option<Value>,
}

/// Returns the name of a request from its method, path with query, and body.
pub type Namer = Arc<dyn Fn(&Method, &str, &[u8]) -> String + Send + Sync>;

/// The server behind the proxy.
#[derive(Clone)]
pub enum Upstream {
    /// A Kubernetes API server, with this client's credentials.
    ApiServer(Client),
    /// A plain HTTP server: `http://HOST:PORT`.
    Http(String),
}

#[derive(Default)]
struct State {
    faults: BTreeMap<Target, Fault>,
    calls: Vec<Call>,
    numbers: BTreeMap<String, usize>,
    phase: usize,
}

struct Shared {
    namer: Namer,
    state: Mutex<State>,
    /// The number of requests held until the program dies, past and present.
    held: watch::Sender<usize>,
    http: HttpClient<HttpConnector, Body>,
}

/// The requests of one program to all its servers, and their faults. It serves until the test's
/// runtime ends.
#[derive(Clone)]
pub struct FaultProxy {
    shared: Arc<Shared>,
}

impl FaultProxy {
    pub fn new(namer: Namer) -> Self {
        let http = HttpClient::builder(TokioExecutor::new()).build_http();
        let (state, held) = (Mutex::default(), watch::Sender::new(0));
        Self { shared: Arc::new(Shared { namer, state, held, http }) }
    }

    /// Serves `upstream` on a new port, and returns the address: `http://127.0.0.1:PORT`.
    pub async fn serve(&self, upstream: Upstream) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                tokio::spawn(connection(Arc::clone(&shared), upstream.clone(), stream));
            }
        });
        address
    }

    /// A kubeconfig, as YAML, for the address of an API server. It has no credentials: the proxy
    /// adds them.
    pub fn kubeconfig(address: &str) -> String {
        serde_yaml::to_string(&json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": address}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        }))
        .unwrap()
    }

    /// Adds a fault for each of these requests, once each.
    pub fn set_faults(&self, faults: BTreeMap<Target, Fault>) {
        self.state().faults = faults;
    }

    /// The faults that no request has met.
    pub fn faults_left(&self) -> BTreeMap<Target, Fault> {
        self.state().faults.clone()
    }

    /// Sets the phase of the test, which later requests record.
    pub fn set_phase(&self, phase: usize) {
        self.state().phase = phase;
    }

    /// All requests so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    pub fn count(&self) -> usize {
        self.state().calls.len()
    }

    /// The number of requests held until the program dies.
    pub fn held(&self) -> watch::Receiver<usize> {
        self.shared.held.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }
}

/// Closes the connection without a response.
#[derive(Debug, thiserror::Error)]
#[error("a fault of the test")]
struct Closed;

async fn connection(shared: Arc<Shared>, upstream: Upstream, stream: TcpStream) {
    let service = service_fn(|request| answer(Arc::clone(&shared), upstream.clone(), request));
    // An error is a requested fault, or the end of a program.
    let _ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    shared: Arc<Shared>,
    upstream: Upstream,
    request: Request<Incoming>,
) -> Result<Response<Body>, Closed> {
    let (head, body) = request.into_parts();
    let body = to_bytes(Body::new(body), BODY_BYTES_MAX).await.map_err(|_| Closed)?;
    let path = head.uri.path_and_query().map_or("/", PathAndQuery::as_str).to_owned();
    let is_watch = path.contains("watch=1") || path.contains("watch=true");
    let (index, fault) = shared.note(&head.method, &path, &body);
    match fault {
        Some(Fault::KillBefore) => return shared.hold().await,
        Some(Fault::Stall) => return pending().await,
        Some(Fault::Close) => return Err(Closed),
        Some(Fault::Answer { code, retry_after_seconds }) => {
            return Ok(failure(code, retry_after_seconds));
        }
        _ => {}
    }
    if let (Upstream::ApiServer(client), &Method::DELETE) = (&upstream, &head.method) {
        let get = Request::get(&path).body(Vec::new()).map_err(|_| Closed)?;
        let object = client.request::<Value>(get).await.ok();
        shared.state.lock().unwrap().calls[index].before = object;
    }
    let answer = shared.send(&upstream, head, &path, body).await?;
    if !fault.is_some_and(Fault::is_late) {
        return Ok(answer);
    }
    if is_watch && fault == Some(Fault::HalfAnswer) {
        return Ok(answer.map(|body| {
            let halves = body.into_data_stream().take(1);
            let halves = halves.map(|event| event.map(|bytes| bytes.slice(..bytes.len() / 2)));
            Body::from_stream(halves.chain(stream::iter([Err(axum::Error::new(Closed))])))
        }));
    }
    let (mut head, body) = answer.into_parts();
    let body = to_bytes(body, BODY_BYTES_MAX).await.map_err(|_| Closed)?;
    match fault {
        Some(Fault::KillAfter) => shared.hold().await,
        Some(Fault::HalfAnswer) => {
            head.headers.insert(header::CONTENT_LENGTH, body.len().into());
            let half = Ok(body.slice(..body.len() / 2));
            let parts = [half, Err(io::Error::from(io::ErrorKind::ConnectionReset))];
            Ok(Response::from_parts(head, Body::from_stream(stream::iter(parts))))
        }
        _ => Err(Closed),
    }
}

impl Shared {
    /// Records the request, and returns its index and its fault.
    fn note(&self, method: &Method, path: &str, body: &[u8]) -> (usize, Option<Fault>) {
        let name = (self.namer)(method, path, body);
        let mut state = self.state.lock().unwrap();
        let number = state.numbers.entry(name.clone()).or_default();
        *number += 1;
        let target = Target { name, number: *number };
        let (phase, fault) = (state.phase, state.faults.remove(&target));
        let (method, path) = (method.clone(), path.to_owned());
        state.calls.push(Call { target, method, path, phase, fault, before: None });
        (state.calls.len() - 1, fault)
    }

    /// Notifies the test that it must kill the program now. Its death closes the connection, which
    /// ends this future.
    async fn hold(&self) -> Result<Response<Body>, Closed> {
        self.held.send_modify(|held| *held += 1);
        pending().await
    }

    async fn send(
        &self,
        upstream: &Upstream,
        head: http::request::Parts,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Body>, Closed> {
        let request = |uri: String| {
            let mut request = Request::builder().method(head.method.clone()).uri(uri);
            if let Some(headers) = request.headers_mut() {
                *headers = end_to_end(&head.headers);
            }
            request
        };
        let answer = match upstream {
            Upstream::ApiServer(client) => {
                let body = kube::client::Body::from(body.to_vec());
                let request = request(path.to_owned()).body(body).map_err(|_| Closed)?;
                client.send(request).await.map_err(|_| Closed)?.map(Body::new)
            }
            Upstream::Http(base) => {
                let request = request(format!("{base}{path}")).body(Body::from(body));
                let request = request.map_err(|_| Closed)?;
                self.http.request(request).await.map_err(|_| Closed)?.map(Body::new)
            }
        };
        let (mut head, body) = answer.into_parts();
        head.headers = end_to_end(&head.headers);
        head.version = http::Version::HTTP_11;
        Ok(Response::from_parts(head, body))
    }
}

/// The headers that are not specific to one connection.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in
        [header::HOST, header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH]
    {
        headers.remove(name);
    }
    headers
}

fn failure(code: u16, retry_after_seconds: Option<u64>) -> Response<Body> {
    let mut answer =
        Response::builder().status(code).header(header::CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after_seconds {
        answer = answer.header(header::RETRY_AFTER, seconds);
    }
    answer.body(Body::from(faults::status(code))).unwrap()
}
