//! Reports the state of a source's clusters at its repository: commit statuses over HTTP, and the
//! status branch. [`gitwork_report::forge`] decides on content and schedule.
//!
//! - [`ForgeClient`] writes one commit status, or one check run of a GitHub App.
//! - [`CommitStatusReporter`] is the task that keeps a source's commit statuses up to date.
//! - [`Contexts`] selects the clusters and groups with their own status.
//! - [`StatusBranchReporter`] is the task that keeps a source's status branch up to date.
//! - [`file`] reads files with tokens and keys.
//!
//! ```no_run
//! use gitwork_core::config::commit_status::CommitStatusConfig;
//! use gitwork_core::model::name::{CommitId, RepoPath};
//! use gitwork_report::forge::{CommitState, CommitStatus, ForgeTarget};
//! use gitwork_forge::ForgeClient;
//! use gitwork_runtime::clock::WallClock;
//!
//! # async fn write(
//! #     config: CommitStatusConfig,
//! #     commit: CommitId,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let target = ForgeTarget::of(&config, "https://github.com/acme/fleet.git")?;
//! let client = ForgeClient::new(target, &config, &RepoPath::root(), WallClock::system())?;
//! let status = CommitStatus {
//!     part: None,
//!     commit,
//!     state: CommitState::Success,
//!     description: "12 works available on 3 clusters".to_owned(),
//! };
//! client.write(&status, None).await?;
//! # Ok(())
//! # }
//! ```

mod app;
mod branch;
mod client;
pub mod contexts;
pub mod file;
mod http;
pub mod limits;
pub mod reporter;

pub use branch::StatusBranchReporter;
pub use client::ForgeClient;
pub use contexts::Contexts;
pub use reporter::CommitStatusReporter;
