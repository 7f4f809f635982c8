//! A forge on loopback: it records every request and sends the responses that a test sets (default:
//! 201).

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use gitwork_core::config::commit_status::{CommitStatusConfig, Provider};
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_forge::ForgeClient;
use gitwork_report::forge::{CommitState, CommitStatus, ForgeTarget};
use gitwork_runtime::clock::WallClock;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

pub const TOKEN: &str = "CANARY-token-1234";

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    /// With its query.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Value,
}

/// One answer to be given.
#[derive(Debug, Clone)]
pub struct Scripted {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

#[derive(Debug, Default)]
struct Script {
    seen: Vec<Seen>,
    answers: VecDeque<Scripted>,
    is_silent: bool,
}

#[derive(Clone)]
pub struct Forge {
    pub address: SocketAddr,
    script: Arc<Mutex<Script>>,
}

impl Forge {
    pub async fn start() -> Self {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
    }

    pub async fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::<Mutex<Script>>::default();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&script));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, script }
    }

    pub fn answer_next(&self, status: u16, headers: &[(&'static str, &str)], body: &str) {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let scripted = Scripted { status, headers, body: body.to_owned() };
        self.script.lock().unwrap().answers.push_back(scripted);
    }

    /// Takes requests from now on, or no longer, without an answer.
    pub fn be_silent(&self, is_silent: bool) {
        self.script.lock().unwrap().is_silent = is_silent;
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.script.lock().unwrap().seen.clone()
    }

    /// Waits until so many requests have come.
    pub async fn wait_for(&self, requests: usize) -> Vec<Seen> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let seen = self.seen();
            if seen.len() >= requests {
                return seen;
            }
            assert!(Instant::now() < deadline, "{requests} requests were to come: {seen:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 1024 * 1024).await.unwrap();
    let seen = Seen {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        headers: head.headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let (is_silent, scripted) = {
        let mut script = script.lock().unwrap();
        script.seen.push(seen);
        (script.is_silent, script.answers.pop_front())
    };
    if is_silent {
        return std::future::pending().await;
    }
    let Some(scripted) = scripted else {
        return (StatusCode::CREATED, "{}").into_response();
    };
    let mut response =
        (StatusCode::from_u16(scripted.status).unwrap(), scripted.body).into_response();
    for (name, value) in scripted.headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

/// A client with its token file.
pub struct Client {
    pub forge: ForgeClient,
    pub token: PathBuf,
    _folder: TempDir,
}

/// A client for a forge at this place. `more` are further settings.
pub fn client(provider: Provider, api_url: &str, more: &Value) -> Client {
    let folder = tempfile::tempdir().unwrap();
    let (config, token) = config(&folder, provider, api_url, more);
    let target = ForgeTarget::of(&config, "file:///elsewhere").unwrap();
    let forge = ForgeClient::new(target, &config, &RepoPath::root(), WallClock::system()).unwrap();
    Client { forge, token, _folder: folder }
}

/// TargetSettings for a forge at this place, and their token file.
pub fn config(
    folder: &TempDir,
    provider: Provider,
    api_url: &str,
    more: &Value,
) -> (CommitStatusConfig, PathBuf) {
    gitwork_crypto();
    let token = folder.path().join("token");
    std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let mut config = json!({
        "provider": provider.as_str(), "repository": "acme/fleet", "apiUrl": api_url,
        "tokenFile": token.to_str().unwrap(),
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        config[name] = value.clone();
    }
    (serde_json::from_value(config).unwrap(), token)
}

/// The programs install this at their start.
fn gitwork_crypto() {
    // An error means that another test has done it.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

pub fn commit(number: u8) -> CommitId {
    CommitId::parse(&format!("{number:02x}").repeat(20)).unwrap()
}

pub fn status(state: CommitState) -> CommitStatus {
    let description = "97/100 clusters applied".into();
    CommitStatus { part: None, commit: commit(0xab), state, description }
}
