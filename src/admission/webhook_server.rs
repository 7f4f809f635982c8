//! The HTTPS server: connections, bounded in number, size and time.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gitwork_retry::log_error;
use gitwork_retry::operation_error::{ErrorClass, OperationError};
use http::{HeaderValue, header};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use crate::admission_metrics::AdmissionMetrics;
use crate::limits;
use crate::webhook_service::WebhookService;

/// After an error of `accept`, such as too many open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// No connection was accepted.
#[derive(Debug, thiserror::Error)]
#[error("cannot accept a connection")]
struct AcceptError(#[source] io::Error);

impl OperationError for AcceptError {
    fn class(&self) -> ErrorClass {
        ErrorClass::TRANSIENT
    }

    fn reason(&self) -> &'static str {
        "Accept"
    }
}

/// What every connection needs.
#[derive(Clone)]
pub(crate) struct WebhookServer {
    pub tls: TlsAcceptor,
    pub service: Arc<WebhookService>,
    pub metrics: Arc<AdmissionMetrics>,
    /// Whether the program is about to end: clients are asked to connect to another replica.
    pub is_ending: Arc<AtomicBool>,
}

impl WebhookServer {
    /// Serves until `stop` ends. Then it answers the requests that it has, within a bound of time.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let places = Arc::new(Semaphore::new(limits::CONNECTIONS_MAX));
        let (sender, closing) = watch::channel(false);
        let accept = async {
            loop {
                // Nobody closes the semaphore.
                let Ok(place) = places.clone().acquire_owned().await else { continue };
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let (server, closing) = (self.clone(), closing.clone());
                        tokio::spawn(
                            async move { server.connection(stream, place, closing).await },
                        );
                    }
                    Err(error) => {
                        log_error!(warn, &AcceptError(error), "waiting before the next one");
                        sleep(ACCEPT_RETRY).await;
                    }
                }
            }
        };
        tokio::select! {
            () = stop => {}
            () = accept => {}
        }
        drop(listener);
        sender.send_replace(true);
        let all = u32::try_from(limits::CONNECTIONS_MAX).unwrap_or(u32::MAX);
        if timeout(limits::SHUTDOWN_DRAIN, places.acquire_many(all)).await.is_err() {
            tracing::warn!("some requests were not answered before the end");
        }
    }

    /// Serves one connection.
    async fn connection(
        self,
        stream: TcpStream,
        _place: OwnedSemaphorePermit,
        mut closing: watch::Receiver<bool>,
    ) {
        let _counted = self.metrics.connection();
        let setup = Instant::now() + limits::CONNECTION_SETUP;
        // Answers are short: one that waits for an acknowledgement delays a write by 40 ms.
        let _set = stream.set_nodelay(true);
        let Ok(Ok(stream)) = tokio::time::timeout_at(setup, self.tls.accept(stream)).await else {
            return;
        };
        let has_request = AtomicBool::new(false);
        let begun = Instant::now();
        let service = service_fn(|request| {
            has_request.store(true, Ordering::Relaxed);
            let (service, is_ending) = (self.service.clone(), self.is_ending.clone());
            async move {
                let mut response = service.answer(request).await;
                // A client that does not know may send its next request while this side closes.
                if is_ending.load(Ordering::Relaxed) || begun.elapsed() >= limits::CONNECTION_LIFE {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(header::CONNECTION, close);
                }
                Ok::<_, Infallible>(response)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits::KEEP_ALIVE)
            .max_headers(limits::HEADERS_MAX)
            .max_buf_size(limits::HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        tokio::select! {
            // A client that breaks a connection off is its own business.
            _ended = connection.as_mut() => return,
            () = silent(setup, &has_request) => return,
            () = sleep(limits::CONNECTION_LIFE + limits::KEEP_ALIVE) => {}
            _ = closing.wait_for(|is_closing| *is_closing) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ended = timeout(limits::REQUEST, connection).await;
    }
}

/// Ends at `setup` if there was no request until then.
async fn silent(setup: Instant, has_request: &AtomicBool) {
    sleep_until(setup).await;
    if has_request.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}
