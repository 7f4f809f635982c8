//! Our own transports below libgit2's smart protocol.
//!
//! libgit2's HTTP knows no client certificates and one set of trusted authorities for the whole process,
//! and its SSH reads `known_hosts` of the home folder only; neither has a deadline for one fetch. So libgit2
//! is given a URL of our own scheme, and reads and writes through the connection made here.

mod attempt;
mod http;
mod known_hosts;
mod register;
mod ssh;
mod tcp;
mod tls;

pub use attempt::{Attempt, Bounds};
pub use register::{SCHEME_URL, with_attempt};
