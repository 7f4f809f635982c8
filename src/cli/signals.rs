//! The signals that the daemon handles.

use std::collections::BTreeMap;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use gitwork_core::model::name::SourceId;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};

/// The handler of a signal was not installed.
#[derive(Debug, thiserror::Error)]
#[error("cannot handle signals")]
pub struct SignalError(#[source] pub io::Error);

impl OperationError for SignalError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "Signals"
    }
}

/// Handlers of SIGTERM, SIGINT and SIGHUP.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Installs the handlers.
    pub fn install() -> Result<Self, SignalError> {
        let signal = |kind| signal(kind).map_err(SignalError);
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Ends with SIGTERM or SIGINT. SIGHUP triggers a fetch of every source.
    pub async fn until_end(mut self, hints: &BTreeMap<SourceId, mpsc::Sender<()>>) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return tracing::info!("SIGTERM: stopping"),
                _ = self.interrupt.recv() => return tracing::info!("interrupted: stopping"),
                _ = self.hang_up.recv() => {
                    if !hints.is_empty() {
                        tracing::info!("SIGHUP: fetching now");
                    }
                    // A full channel means that a hint is already waiting.
                    for hint in hints.values() {
                        let _sent = hint.try_send(());
                    }
                }
            }
        }
    }
}
