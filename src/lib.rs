//! gitwork: GitOps for fleets of Kubernetes clusters through Open Cluster Management.
//!
//! `snapshot (Git tree) -> desired`, `(desired, observed, policy, now) -> plan`,
//! `plan -> effects -> outcomes -> status`: only the third arrow does IO.
//!
//! - [`core`]: the pure part. No network, no file system, no clock, no environment.
//! - [`api`]: OCM's kinds as Rust types, and the CRDs generated from them.
//! - [`git`]: repositories and directories, read into snapshots.
//! - [`forge`]: commit statuses on GitHub, GitLab and others.
//! - [`hub`]: the Kubernetes side of the hub, behind a trait.
//! - [`daemon`]: the loop that drives the three arrows for ever.
//! - [`agent`]: the work agent of a managed cluster.
//! - [`verification`]: which commits of a source may be applied.
//! - `connection`: bounds on those that connect to either program.
//! - [`cli`]: the commands of `gitwork`, thin over the same code.
#![deny(unsafe_code)]

pub mod agent;
pub mod api;
pub mod cli;
mod connection;
pub mod core;
pub mod daemon;
pub mod error;
pub mod forge;
pub mod git;
pub mod hub;
pub mod limits;
pub mod logs;
pub mod source;
pub mod verification;
