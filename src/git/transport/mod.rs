//! Transports for libgit2's smart protocol.
//!
//! libgit2's HTTP has no client certificates and one set of trusted authorities for the whole
//! process. Its SSH reads `known_hosts` of the home folder only. Neither has a deadline for one
//! fetch, and both need OpenSSL. So libgit2 is built without them, gets a URL with gitwork's own
//! scheme, and uses the connections of this module: HTTP/1.1 of hyper, TLS of rustls, and SSH of
//! russh.

mod attempt;
mod connection;
mod http;
mod http_error;
mod known_hosts;
mod private_key;
mod register;
mod runtime;
mod short_p256_key;
mod ssh;
mod ssh_host;
mod ssh_refusal;
mod ssh_session;
mod tcp;
mod tls;

pub use attempt::{Bounds, RemoteAttempt};
pub use register::{SCHEME_URL, subtransport, with_attempt};
