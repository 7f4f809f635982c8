//! Forges: commit statuses over HTTP. What to send, and when, is decided in [`crate::core::forge`].
//!
//! - [`client`]: one request and its answer, within time and size.
//! - [`reporter`]: the task that keeps a source's commit statuses as its clusters are.

pub mod client;
pub mod reporter;

pub use client::{ForgeClient, ForgeError};
pub use reporter::CommitStatusReporter;
