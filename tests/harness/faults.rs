//! Faults between a client and a real API server. A layer in kube's service stack loses requests
//! before and responses after the server has acted, responds in the server's place, stalls, and
//! cuts watches.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Instant;

use futures::future::{BoxFuture, FutureExt};
use gitwork_kube::client::BaseService;
use http::{Method, Request, Response, Uri, header};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use kube::client::{Body, DynBody};
use serde_json::json;
use tokio::sync::watch;
use tower::{BoxError, Layer, Service};

/// The fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The server never sees it, and the connection breaks.
    LoseRequest,
    /// The server acts on it, and the connection breaks before the response.
    LoseAnswer,
    /// The server never sees it. The layer responds with this status code.
    Answer { code: u16, retry_after_seconds: Option<u64> },
    /// The server acts on it. The response comes after [`Faults::release`].
    HoldAnswer,
    /// There is no response, and the connection stays open.
    Stall,
    /// Its `resourceVersion` becomes 1, which the server has compacted: a watch gets 410.
    Forgotten,
}

/// The properties of a request, for rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub fault: Option<Fault>,
    /// When it came.
    pub time: Instant,
    /// How many requests with this method and path were under way then.
    pub under_way: usize,
}

impl Seen {
    pub fn is_watch(&self) -> bool {
        self.query.contains("watch=1") || self.query.contains("watch=true")
    }
    pub fn is_watch_of_works(&self) -> bool {
        self.is_watch() && self.path.ends_with("/manifestworks")
    }
    pub fn is_list(&self) -> bool {
        self.method == Method::GET && !self.is_watch() && self.path.ends_with("/manifestworks")
    }
}

type Applies = Box<dyn Fn(&Seen) -> bool + Send>;

struct Rule {
    applies: Applies,
    fault: Fault,
    times: usize,
}

struct Seeded {
    random: fastrand::Rng,
    percent: u8,
    faults: Vec<Fault>,
}

#[derive(Default)]
struct State {
    rules: VecDeque<Rule>,
    seeded: Option<Seeded>,
    seen: Vec<Seen>,
    /// Requests under way by method and path.
    under_way: HashMap<(Method, String), usize>,
}

/// A request under way, until it is dropped.
struct UnderWay {
    state: Arc<Mutex<State>>,
    request: (Method, String),
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap();
        state.under_way.entry(self.request.clone()).and_modify(|count| *count -= 1);
    }
}

/// The faults of one client. Clones share their state.
#[derive(Clone)]
pub struct Faults {
    state: Arc<Mutex<State>>,
    /// The number of times that the watches were cut.
    cut: watch::Sender<u64>,
    /// Whether held responses may come.
    released: watch::Sender<bool>,
}

impl Faults {
    /// `None` without random faults.
    pub fn none() -> Self {
        let (cut, released) = (watch::Sender::new(0), watch::Sender::new(false));
        Self { state: Arc::default(), cut, released }
    }

    /// Adds `fault` for the next `times` requests that match `applies`.
    pub fn next(
        &self,
        times: usize,
        fault: Fault,
        applies: impl Fn(&Seen) -> bool + Send + 'static,
    ) {
        let rule = Rule { applies: Box::new(applies), fault, times };
        self.state.lock().unwrap().rules.push_back(rule);
    }

    /// From now on `percent` of all requests get one of `faults`, chosen by `seed`.
    pub fn seed(&self, seed: u64, percent: u8, faults: &[Fault]) {
        let random = fastrand::Rng::with_seed(seed);
        let seeded = Seeded { random, percent, faults: faults.to_vec() };
        self.state.lock().unwrap().seeded = Some(seeded);
    }

    /// Stops all faults.
    pub fn stop(&self) {
        let mut state = self.state.lock().unwrap();
        (state.rules, state.seeded) = (VecDeque::new(), None);
    }

    /// Lets held responses come.
    pub fn release(&self) {
        self.released.send_replace(true);
    }

    /// Breaks the connection of each open watch.
    pub fn cut_watches(&self) {
        self.cut.send_modify(|times| *times += 1);
    }

    /// All requests so far, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    /// The number of requests so far that match `wanted`.
    pub fn count(&self, wanted: impl Fn(&Seen) -> bool) -> usize {
        self.state.lock().unwrap().seen.iter().filter(|seen| wanted(seen)).count()
    }

    fn count_request(&self, seen: &Seen) -> UnderWay {
        let request = (seen.method.clone(), seen.path.clone());
        *self.state.lock().unwrap().under_way.entry(request.clone()).or_default() += 1;
        UnderWay { state: self.state.clone(), request }
    }

    fn choose(&self, request: &Request<Body>) -> Seen {
        let mut state = self.state.lock().unwrap();
        let mut seen = Seen {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            fault: None,
            time: Instant::now(),
            under_way: 0,
        };
        let request = (seen.method.clone(), seen.path.clone());
        seen.under_way = state.under_way.get(&request).copied().unwrap_or_default();
        let rule = state.rules.iter_mut().find(|rule| rule.times > 0 && (rule.applies)(&seen));
        seen.fault = match rule {
            Some(rule) => {
                rule.times -= 1;
                Some(rule.fault)
            }
            None => state.seeded.as_mut().and_then(|seeded| {
                let hit = seeded.random.u8(..100) < seeded.percent;
                if hit { seeded.random.choice(&seeded.faults).copied() } else { None }
            }),
        };
        state.seen.push(seen.clone());
        seen
    }
}

impl Layer<BaseService> for Faults {
    type Service = Faulty;

    fn layer(&self, inner: BaseService) -> Faulty {
        Faulty { inner, faults: self.clone() }
    }
}

/// A client's service behind the faults.
pub struct Faulty {
    inner: BaseService,
    faults: Faults,
}

type ServerResponse = Response<Box<DynBody>>;

impl Service<Request<Body>> for Faulty {
    type Response = ServerResponse;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<ServerResponse, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let seen = self.faults.choose(&request);
        let under_way = self.faults.count_request(&seen);
        let response = self.respond(request, &seen);
        async move {
            let _under_way = under_way;
            response.await
        }
        .boxed()
    }
}

impl Faulty {
    fn respond(
        &mut self,
        mut request: Request<Body>,
        seen: &Seen,
    ) -> BoxFuture<'static, Result<ServerResponse, BoxError>> {
        let is_watch = seen.is_watch();
        match seen.fault {
            Some(Fault::LoseRequest) => async { Err(broken()) }.boxed(),
            Some(Fault::Answer { code, retry_after_seconds }) => {
                async move { Ok(answer(code, retry_after_seconds)) }.boxed()
            }
            Some(Fault::Stall) => pending().boxed(),
            Some(Fault::LoseAnswer) => {
                let answer = self.inner.call(request);
                async { answer.await.and_then(|_| Err(broken())) }.boxed()
            }
            Some(Fault::HoldAnswer) => {
                let (answer, mut released) =
                    (self.inner.call(request), self.faults.released.subscribe());
                async move {
                    let answer = answer.await;
                    let _released_or_dropped = released.wait_for(|released| *released).await;
                    answer
                }
                .boxed()
            }
            Some(Fault::Forgotten) => {
                forget(request.uri_mut());
                self.pass_on(request, is_watch)
            }
            None => self.pass_on(request, is_watch),
        }
    }

    fn pass_on(
        &mut self,
        request: Request<Body>,
        is_watch: bool,
    ) -> BoxFuture<'static, Result<ServerResponse, BoxError>> {
        let mut cut = self.faults.cut.subscribe();
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await?;
            if !is_watch {
                return Ok(answer);
            }
            let cut = async move {
                if cut.changed().await.is_err() {
                    pending::<()>().await;
                }
            };
            Ok(answer.map(|body| Box::new(Cut { body, cut: cut.boxed() }) as Box<DynBody>))
        }
        .boxed()
    }
}

fn broken() -> BoxError {
    io::Error::new(io::ErrorKind::ConnectionReset, "a fault of the test").into()
}

/// The error of a failing API server.
pub fn status(code: u16) -> String {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": "a fault of the test",
    });
    status.to_string()
}

fn answer(code: u16, retry_after_seconds: Option<u64>) -> ServerResponse {
    let body: Box<DynBody> = Box::new(Whole(Some(status(code).into())));
    let mut answer = Response::builder().status(code);
    if let Some(seconds) = retry_after_seconds {
        answer = answer.header(header::RETRY_AFTER, seconds);
    }
    answer.body(body).unwrap()
}

/// Replaces the requested resourceVersion with the first one.
fn forget(uri: &mut Uri) {
    let (path, query) = (uri.path(), uri.query().unwrap_or_default());
    let parameters = query.split('&').map(|parameter| {
        if parameter.starts_with("resourceVersion=") { "resourceVersion=1" } else { parameter }
    });
    let changed = format!("{path}?{}", parameters.collect::<Vec<_>>().join("&"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(changed.parse().unwrap());
    *uri = Uri::from_parts(parts).unwrap();
}

/// A body in one piece.
struct Whole(Option<Bytes>);

impl HttpBody for Whole {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A body that breaks when its watch is cut.
struct Cut {
    body: Box<DynBody>,
    cut: BoxFuture<'static, ()>,
}

impl HttpBody for Cut {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.cut.poll_unpin(context).is_ready() {
            self.cut = pending().boxed();
            return Poll::Ready(Some(Err(broken())));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }
}
