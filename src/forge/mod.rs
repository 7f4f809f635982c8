//! What a source's clusters come to, told where its commits are: commit statuses over HTTP, and the status branch. What to send, and when, is decided in [`crate::core::forge`].
//!
//! - [`app`]: how a GitHub App logs in.
//! - [`branch`]: the task that keeps a source's status branch as its clusters are.
//! - [`client`]: writes one status: a commit status, or a check run.
//! - [`contexts`]: which clusters have a status of their own.
//! - [`file`]: files with tokens and keys.
//! - [`http`]: one request and its answer, within time and size.
//! - [`reporter`]: the task that keeps a source's commit statuses as its clusters are.

pub mod app;
pub mod branch;
pub mod client;
pub mod contexts;
pub mod file;
pub mod http;
pub mod reporter;

pub use branch::StatusBranchReporter;
pub use client::ForgeClient;
pub use contexts::Contexts;
pub use http::ForgeError;
pub use reporter::CommitStatusReporter;
