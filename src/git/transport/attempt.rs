//! One attempt to talk to a remote: its credentials, its bounds, and the first thing that went wrong.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::git::error::{FetchError, MirrorError};
use crate::git::remote::{Address, ProxyAddress, Remote};

/// How long and how much one attempt may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub total: Duration,
    /// Without a byte from the server.
    pub stall: Duration,
    /// Received, after TLS or SSH is taken off.
    pub bytes_max: u64,
}

/// One attempt. libgit2 knows error texts only, so the typed error waits here until libgit2 has returned.
pub struct Attempt {
    pub remote: Remote,
    pub address: Address,
    pub proxy: Option<ProxyAddress>,
    bounds: Bounds,
    deadline: Instant,
    cancel: Arc<AtomicBool>,
    received: AtomicU64,
    failure: Mutex<Option<FetchError>>,
}

impl Attempt {
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
        Ok(Arc::new(Self {
            remote: remote.clone(),
            address,
            proxy,
            bounds,
            deadline: Instant::now() + bounds.total,
            cancel: Arc::clone(cancel),
            received: AtomicU64::new(0),
            failure: Mutex::new(None),
        }))
    }

    pub fn url(&self) -> String {
        self.remote.url.clone()
    }

    pub fn stall(&self) -> Duration {
        self.bounds.stall
    }

    /// Whether the attempt may go on.
    pub fn check(&self) -> Result<(), FetchError> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(FetchError::Cancelled { url: self.url() });
        }
        if Instant::now() >= self.deadline {
            return Err(FetchError::Timeout { url: self.url(), limit: self.bounds.total });
        }
        self.check_bytes(self.received.load(Ordering::Relaxed))
    }

    pub fn check_bytes(&self, received: u64) -> Result<(), FetchError> {
        if received > self.bounds.bytes_max {
            return Err(FetchError::TooLarge { url: self.url(), limit: self.bounds.bytes_max });
        }
        Ok(())
    }

    /// Like [`Self::check`], for callbacks of libgit2 that can only say yes or no.
    pub fn may_go_on(&self) -> bool {
        match self.check() {
            Ok(()) => true,
            Err(error) => {
                self.fail(error);
                false
            }
        }
    }

    /// Counts bytes that came from the server.
    pub fn count(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// How long to wait before looking at the deadline and the cancel flag again.
    pub fn slice(&self) -> Duration {
        let left = self.deadline.saturating_duration_since(Instant::now());
        left.clamp(Duration::from_millis(1), Duration::from_millis(100))
    }

    /// Keeps the first error, and answers what to give to libgit2 in its place. The text is constant: git2
    /// panics on one with a NUL byte in it.
    pub fn fail(&self, error: FetchError) -> io::Error {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        io::Error::other("the connection of this fetch has failed")
    }

    /// The typed error, if there was one, in place of libgit2's.
    pub fn explain(&self, error: git2::Error) -> FetchError {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.unwrap_or_else(|| match error.code() {
            git2::ErrorCode::Owner => FetchError::ForeignOwner { url: self.url() },
            _ => FetchError::Git { url: self.url(), source: error },
        })
    }
}
