//! How libgit2 finds our transports: a scheme of our own, registered once for the process.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream, Transport};

use super::attempt::Attempt;
use super::http::HttpTransport;
use super::ssh::SshTransport;
use crate::git::error::FetchError;
use crate::git::remote::Address;

/// The URL that libgit2 is given; the real one is in the attempt.
pub const SCHEME_URL: &str = "gitwork://mirror";

thread_local! {
    /// libgit2 makes a transport in the thread that connects, and gives no way to pass it anything.
    static CURRENT: RefCell<Option<Arc<Attempt>>> = const { RefCell::new(None) };
}

/// Runs `work` with the attempt that a transport made in it belongs to.
pub fn with_attempt<T>(
    attempt: &Arc<Attempt>,
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
    static ONCE: OnceLock<Result<(), String>> = OnceLock::new();
    let outcome = ONCE.get_or_init(|| {
        // SAFETY: git2 asks that no transport is made while the list of them changes. This is the only
        // change in the process, `OnceLock` makes it happen once, and every fetch of ours waits here for it
        // before it makes its transport.
        unsafe { git2::transport::register("gitwork", make) }.map_err(|e| e.message().to_owned())
    });
    outcome.clone().map_err(|message| git2::Error::from_str(&message))
}

fn make(remote: &git2::Remote<'_>) -> Result<Transport, git2::Error> {
    let attempt = CURRENT
        .with_borrow(Clone::clone)
        .ok_or_else(|| git2::Error::from_str("no fetch is under way in this thread"))?;
    match &attempt.address {
        Address::Http(address) => {
            let address = address.clone();
            Transport::smart(remote, true, HttpTransport::new(attempt, address))
        }
        Address::Ssh { .. } => Transport::smart(remote, false, SshTransport::new(attempt)),
        Address::Local(_) => Transport::smart(remote, false, Unsupported),
    }
}

/// Paths are left to libgit2's own local transport.
struct Unsupported;

impl SmartSubtransport for Unsupported {
    fn action(&self, _: &str, _: Service) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        Err(git2::Error::from_str("a path has no transport of ours"))
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}
