//! Registers gitwork's URL scheme with libgit2, once for the process.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream, Transport};

use super::attempt::RemoteAttempt;
use super::http::HttpTransport;
use super::ssh::SshTransport;
use crate::address::Address;
use crate::error::FetchError;

/// The URL for libgit2; the real one is in the attempt.
pub const SCHEME_URL: &str = "gitwork://mirror";

thread_local! {
    /// libgit2 creates a transport in the connecting thread, and can pass it no argument.
    static CURRENT: RefCell<Option<Arc<RemoteAttempt>>> = const { RefCell::new(None) };
}

/// Runs `work`; transports created in it belong to this attempt.
pub fn with_attempt<T>(
    attempt: &Arc<RemoteAttempt>,
    work: impl FnOnce() -> Result<T, FetchError>,
) -> Result<T, FetchError> {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            CURRENT.set(None);
        }
    }
    registered().map_err(|e| attempt.explain(e))?;
    CURRENT.set(Some(Arc::clone(attempt)));
    let _reset = Reset;
    work()
}

#[expect(unsafe_code, reason = "git2 has no safe way to register a transport")]
fn registered() -> Result<(), git2::Error> {
    // `git2::Error` is not `Clone`; its message is all that a later caller needs.
    static ONCE: OnceLock<Result<(), git2::Error>> = OnceLock::new();
    let outcome = ONCE.get_or_init(|| {
        // SAFETY: git2 requires that no transport is created while the list of transports changes.
        // This is the only change in the process, `OnceLock` makes it happen once, and every fetch
        // waits here for it before it creates its transport.
        unsafe { git2::transport::register("gitwork", make) }
    });
    outcome.as_ref().copied().map_err(|error| git2::Error::from_str(error.message()))
}

fn make(remote: &git2::Remote<'_>) -> Result<Transport, git2::Error> {
    let attempt = CURRENT
        .with_borrow(Clone::clone)
        .ok_or_else(|| git2::Error::from_str("no fetch is running in this thread"))?;
    match &attempt.address {
        Address::Http(address) => {
            let address = address.clone();
            Transport::smart(remote, true, HttpTransport::new(attempt, address))
        }
        Address::Ssh { .. } => Transport::smart(remote, false, SshTransport::new(attempt)),
        Address::Local(_) => Transport::smart(remote, false, Unsupported),
    }
}

/// The transport of an attempt, for what gitwork does without libgit2.
pub fn subtransport(attempt: &Arc<RemoteAttempt>) -> Box<dyn SmartSubtransport> {
    let attempt = Arc::clone(attempt);
    match &attempt.address {
        Address::Http(address) => {
            let address = address.clone();
            Box::new(HttpTransport::new(attempt, address))
        }
        Address::Ssh { .. } => Box::new(SshTransport::new(attempt)),
        Address::Local(_) => Box::new(Unsupported),
    }
}

/// Local paths use libgit2's own transport.
struct Unsupported;

impl SmartSubtransport for Unsupported {
    fn action(&self, _: &str, _: Service) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        Err(git2::Error::from_str("gitwork has no transport for local paths"))
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}
