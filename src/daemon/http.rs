//! `/healthz`, `/readyz` and `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::metrics::Metrics;
use gitwork_runtime::connection::{Bounded, ConnectionTimeout};
use gitwork_runtime::limits;

/// The state behind the probes.
#[derive(Debug)]
pub struct Health {
    sources: usize,
    /// Sources that were read and whose works on the hub are known.
    ready: AtomicUsize,
}

impl Health {
    /// No source is ready yet.
    pub fn new(sources: usize) -> Self {
        Self { sources, ready: AtomicUsize::new(0) }
    }
    /// Counts one more ready source. Call it once for each.
    pub fn source_is_ready(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
    }
    /// Whether all sources are ready.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed) >= self.sources
    }
}

#[derive(Clone)]
struct Served {
    metrics: Arc<Metrics>,
    health: Arc<Health>,
}

/// A listener for [`serve`]; the address may have port 0.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves until `stop` is true.
pub async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    mut stop: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(scrape))
        .with_state(Served { metrics, health });
    let stopped = async move {
        // An error means that the sender is gone, which is a stop too.
        let _stopped = stop.wait_for(|stop| *stop).await;
    };
    let timeout = ConnectionTimeout::Idle(limits::PROBE_IDLE);
    let listener = Bounded::new(listener, limits::PROBE_CONNECTIONS_MAX, timeout);
    axum::serve(listener, router).with_graceful_shutdown(stopped).await
}

async fn readyz(State(served): State<Served>) -> impl IntoResponse {
    if served.health.is_ready() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "a source or the hub has not been read yet\n")
    }
}

async fn scrape(State(served): State<Served>) -> impl IntoResponse {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], served.metrics.encode())
}
