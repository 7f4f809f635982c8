//! Transports for libgit2's smart protocol.
//!
//! libgit2's HTTP has no client certificates and one set of trusted authorities for the whole
//! process. Its SSH reads `known_hosts` of the home folder only. Neither has a deadline for one
//! fetch. So libgit2 gets a URL with gitwork's own scheme, and uses the connections of this module.

mod attempt;
mod http;
mod http_connection;
mod http_response;
mod known_hosts;
mod register;
mod ssh;
mod ssh_refusal;
mod tcp;
mod tls;

pub use attempt::{Bounds, RemoteAttempt};
pub use register::{SCHEME_URL, with_attempt};
