//! The runtime of all connections, and how a thread of libgit2 waits for it.
//!
//! libgit2 blocks, and may do so in a thread that belongs to another runtime. So the connections
//! have a runtime with one thread, and libgit2's thread only waits for results. The wait ends with
//! the attempt's bounds, whatever the connection does.

use std::io;
use std::sync::{OnceLock, mpsc};
use std::time::Instant;

use tokio::runtime::{Builder, Runtime};

use super::attempt::RemoteAttempt;
use crate::error::FetchError;

/// The runtime, created with the first connection of the process.
fn runtime() -> Result<&'static Runtime, &'static io::Error> {
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread().worker_threads(1).thread_name("git-io").enable_all().build()
    });
    runtime.as_ref()
}

impl RemoteAttempt {
    /// Runs one step of a connection to `host`, until it ends or the attempt has to.
    pub fn wait<T: Send + 'static>(
        &self,
        host: &str,
        step: impl Future<Output = Result<T, FetchError>> + Send + 'static,
    ) -> Result<T, FetchError> {
        self.check()?;
        let runtime = runtime().map_err(|error| FetchError::Connect {
            host: host.to_owned(),
            source: io::Error::new(error.kind(), error.to_string()),
        })?;
        let started = Instant::now();
        let (sender, receiver) = mpsc::sync_channel(1);
        let task = runtime.spawn(async move {
            // The receiver is gone if the attempt has ended.
            let _ = sender.send(step.await);
        });
        let outcome = loop {
            match receiver.recv_timeout(self.slice()) {
                Ok(outcome) => break outcome,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    if let Err(error) =
                        self.check().and_then(|()| self.check_silence(host, started))
                    {
                        break Err(error);
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let source = io::Error::other("its task failed");
                    break Err(FetchError::Connection { host: host.to_owned(), source });
                }
            }
        };
        task.abort();
        outcome
    }
}
