//! `/healthz`, `/readyz` and `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use gitwork_runtime::connection::{Bounded, ConnectionTimeout};
use gitwork_runtime::limits;
use tokio::net::TcpListener;

use crate::admission_metrics::AdmissionMetrics;

/// What the probes answer.
#[derive(Clone)]
pub(crate) struct Probes {
    pub metrics: Arc<AdmissionMetrics>,
    /// Whether API servers should send requests here.
    pub is_ready: Arc<AtomicBool>,
}

/// Listens on an address.
pub(crate) async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "listening for probes and scrapes");
    Ok(listener)
}

/// Serves the probes until the future is dropped.
pub(crate) async fn serve(listener: TcpListener, probes: Probes) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readiness))
        .route("/metrics", get(scrape))
        .with_state(probes);
    let timeout = ConnectionTimeout::Idle(limits::PROBE_IDLE);
    let listener = Bounded::new(listener, limits::PROBE_CONNECTIONS_MAX, timeout);
    axum::serve(listener, router).await
}

async fn readiness(State(probes): State<Probes>) -> impl IntoResponse {
    if probes.is_ready.load(Ordering::Relaxed) {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "no certificate that is announced, or shutting down\n")
    }
}

async fn scrape(State(probes): State<Probes>) -> impl IntoResponse {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], probes.metrics.encode())
}
