//! `/healthz`, `/readyz` and `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpListener;
use tokio::sync::watch;

use super::metrics::Metrics;
use gitwork_runtime::probes;
use gitwork_runtime::probes::Probes;

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
    let probes = Probes {
        is_ready: Arc::new(move || health.is_ready()),
        unready: "a source or the hub has not been read yet\n",
        metrics: Arc::new(move || metrics.encode()),
    };
    let stopped = async move {
        // An error means that the sender is gone, which is a stop too.
        let _stopped = stop.wait_for(|stop| *stop).await;
    };
    probes::serve(listener, probes, stopped).await
}
