//! What a source's clusters come to, told where its commits are: commit statuses over HTTP, and the status branch. What to send, and when, is decided in [`crate::core::forge`].
//!
//! - [`branch`]: the task that keeps a source's status branch as its clusters are.
//! - [`client`]: one request and its answer, within time and size.
//! - [`reporter`]: the task that keeps a source's commit statuses as its clusters are.

pub mod branch;
pub mod client;
pub mod reporter;

pub use branch::StatusBranchReporter;
pub use client::{ForgeClient, ForgeError};
pub use reporter::CommitStatusReporter;
