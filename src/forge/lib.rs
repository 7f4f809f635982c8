//! Reports the state of a source's clusters at its repository: commit statuses over HTTP, and the
//! status branch. [`gitwork_core::report::forge`] decides on content and schedule.
//!
//! - [`app`]: the login of a GitHub App.
//! - [`branch`]: the task that keeps a source's status branch up to date.
//! - [`client`]: writes one commit status or check run.
//! - [`contexts`]: the clusters and groups with their own status.
//! - [`file`]: files with tokens and keys.
//! - [`http`]: one request and its response, bounded in time and size.
//! - [`reporter`]: the task that keeps a source's commit statuses up to date.

pub mod app;
pub mod branch;
pub mod client;
pub mod contexts;
pub mod file;
pub mod http;
pub mod limits;
pub mod reporter;

pub use branch::StatusBranchReporter;
pub use client::ForgeClient;
pub use contexts::Contexts;
pub use http::ForgeError;
pub use reporter::CommitStatusReporter;
