//! `/healthz`, `/readyz` and `/metrics` over HTTP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::connection::{Bounded, ConnectionTimeout};
use crate::limits;

/// What the probes answer.
#[derive(Clone)]
pub struct Probes {
    /// Whether the program is ready.
    pub is_ready: Arc<dyn Fn() -> bool + Send + Sync>,
    /// What is missing while it is not, as a line.
    pub unready: &'static str,
    /// The metrics, as [`metrics_text`] writes them.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Listens on an address for [`serve`], and logs the address: the port may be 0.
///
/// # Errors
/// The address is taken, or not one of this machine.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "listening for probes and scrapes");
    Ok(listener)
}

/// Serves the probes until `stop` ends, or until the future is dropped.
///
/// # Errors
/// The listener fails.
pub async fn serve(
    listener: TcpListener,
    probes: Probes,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readiness))
        .route("/metrics", get(scrape))
        .with_state(probes);
    let timeout = ConnectionTimeout::Idle(limits::PROBE_IDLE);
    let listener = Bounded::new(listener, limits::PROBE_CONNECTIONS_MAX, timeout);
    axum::serve(listener, router).with_graceful_shutdown(stop).await
}

async fn readiness(State(probes): State<Probes>) -> impl IntoResponse {
    match (probes.is_ready)() {
        true => (StatusCode::OK, "ok\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, probes.unready),
    }
}

async fn scrape(State(probes): State<Probes>) -> impl IntoResponse {
    metrics_response((probes.metrics)())
}

/// The response to a scrape.
pub fn metrics_response(text: String) -> impl IntoResponse {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], text)
}

/// The metrics in OpenMetrics' text format.
pub fn metrics_text(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing into a String does not fail.
    let _written = encode(&mut text, registry);
    text
}
