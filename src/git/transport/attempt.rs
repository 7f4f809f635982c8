//! One attempt to talk to a remote: its credentials, its bounds, and its first error.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::address::{Address, ProxyAddress};
use crate::error::{FetchError, MirrorError};
use crate::remote::Remote;

/// Bounds of one attempt.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Time for the whole attempt.
    pub total: Duration,
    /// Time without a byte from the server.
    pub stall: Duration,
    /// Bytes received from the server, those of TLS and SSH included.
    pub bytes_max: u64,
}

/// One attempt. libgit2 passes on error texts only, so the typed error is kept here until libgit2
/// returns.
pub struct RemoteAttempt {
    pub remote: Remote,
    pub address: Address,
    pub proxy: Option<ProxyAddress>,
    bounds: Bounds,
    deadline: Instant,
    cancel: Arc<AtomicBool>,
    received: AtomicU64,
    /// When bytes were last sent or received.
    moved: Mutex<Instant>,
    failure: Mutex<Option<FetchError>>,
}

impl RemoteAttempt {
    pub fn new(
        remote: &Remote,
        bounds: Bounds,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Arc<Self>, FetchError> {
        let address = Address::parse(&remote.url).map_err(MirrorError::from)?;
        let proxy = match &remote.proxy {
            Some(url) => Some(ProxyAddress::parse(url).map_err(MirrorError::from)?),
            None => None,
        };
        let now = Instant::now();
        Ok(Arc::new(Self {
            remote: remote.clone(),
            address,
            proxy,
            bounds,
            deadline: now + bounds.total,
            cancel: Arc::clone(cancel),
            received: AtomicU64::new(0),
            moved: Mutex::new(now),
            failure: Mutex::new(None),
        }))
    }

    /// The remote's URL.
    pub fn url(&self) -> String {
        self.remote.url.clone()
    }

    /// The longest allowed silence of the server.
    pub fn stall(&self) -> Duration {
        self.bounds.stall
    }

    /// Fails if the attempt is cancelled, past its deadline or past its byte limit.
    pub fn check(&self) -> Result<(), FetchError> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(FetchError::Cancelled { url: self.url() });
        }
        if Instant::now() >= self.deadline {
            return Err(FetchError::Timeout { url: self.url(), limit: self.bounds.total });
        }
        self.check_bytes(self.received.load(Ordering::Relaxed))
    }

    /// Fails if `received` is past the byte limit.
    pub fn check_bytes(&self, received: u64) -> Result<(), FetchError> {
        if received > self.bounds.bytes_max {
            return Err(FetchError::TooLarge { url: self.url(), limit: self.bounds.bytes_max });
        }
        Ok(())
    }

    /// Like [`Self::check`], for callbacks of libgit2 that return a boolean.
    pub fn may_continue(&self) -> bool {
        match self.check() {
            Ok(()) => true,
            Err(error) => {
                self.fail(error);
                false
            }
        }
    }

    /// Counts bytes received from the server. Fails past the byte limit.
    pub fn count(&self, bytes: usize) -> Result<(), FetchError> {
        self.note_progress();
        let bytes = bytes as u64;
        self.check_bytes(self.received.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes))
    }

    /// Notes that bytes were sent or received.
    pub fn note_progress(&self) {
        *self.moved.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Fails if nothing was sent or received for too long, in a step that began at `started`: what
    /// libgit2 needs between two steps is not the server's silence.
    pub fn check_silence(&self, host: &str, started: Instant) -> Result<(), FetchError> {
        let moved = *self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = self.bounds.stall;
        if moved.max(started).elapsed() < limit {
            return Ok(());
        }
        Err(FetchError::Stalled { url: self.url(), host: host.to_owned(), limit })
    }

    /// How long to block before the next check of the deadline and of the cancel flag.
    pub fn slice(&self) -> Duration {
        let left = self.deadline.saturating_duration_since(Instant::now());
        left.clamp(Duration::from_millis(1), Duration::from_millis(100))
    }

    /// Keeps the first error, and returns a replacement for libgit2. Its text is constant, because
    /// git2 panics on a text with a NUL byte.
    pub fn fail(&self, error: FetchError) -> io::Error {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        io::Error::other("the connection of this fetch has failed")
    }

    /// The typed error behind an error of libgit2.
    pub fn explain(&self, error: git2::Error) -> FetchError {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.unwrap_or_else(|| match error.code() {
            git2::ErrorCode::Owner => FetchError::ForeignOwner { url: self.url() },
            _ => FetchError::Git { url: self.url(), source: error },
        })
    }
}
