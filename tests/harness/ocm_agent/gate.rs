//! A run of a controller that stops before each of its requests, so that anything can happen in
//! between. One of upstream's workers may be delayed there for any time.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

/// Where a run waits before a request.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<GateState>>);

#[derive(Default)]
struct GateState {
    /// The request that waits.
    request: Option<String>,
    is_open: bool,
}

impl Gate {
    /// Waits until the scheduler lets the request go.
    pub async fn pass(&self, request: String) {
        self.0.lock().unwrap().request = Some(request);
        poll_fn(|_| {
            let mut state = self.0.lock().unwrap();
            if !state.is_open {
                return Poll::Pending;
            }
            *state = GateState::default();
            Poll::Ready(())
        })
        .await;
    }

    /// The request that waits.
    pub fn waiting(&self) -> Option<String> {
        self.0.lock().unwrap().request.clone()
    }

    fn let_one_go(&self) {
        let mut state = self.0.lock().unwrap();
        state.is_open = state.request.is_some();
    }
}

/// One controller at work on one key. Dropping it is what a kill of the process does: the last
/// request has taken effect, and nothing follows.
pub struct Run<T> {
    gate: Gate,
    future: Pin<Box<dyn Future<Output = T> + Send>>,
}

impl<T> Run<T> {
    /// A run that has not begun.
    pub fn new(gate: Gate, future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { gate, future: Box::pin(future) }
    }

    /// The request that the run is about to send.
    pub fn request(&self) -> String {
        self.gate.waiting().unwrap_or_default()
    }

    /// Lets the run go on to its next request. Returns the outcome if it ends before one.
    pub async fn advance(&mut self) -> Option<T> {
        self.gate.let_one_go();
        poll_fn(|context| match self.future.as_mut().poll(context) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending if self.gate.waiting().is_some() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}
