//! The work agent of a managed cluster: applies the ManifestWorks of its cluster namespace on the
//! hub and reports their status. A drop-in for the work agent of OCM's klusterlet.
//!
//! `gitwork_agent_core` decides; this crate reads, watches and writes. Watches only record changes
//! and queue passes. A pass reads the latest state and acts; one work has one pass at a time.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use gitwork_agent::metrics::AgentMetrics;
//! use gitwork_agent::{Agent, AgentSettings};
//!
//! # async fn run(hub: kube::Client, cluster: kube::Client) {
//! let settings = AgentSettings::new("edge-1", "https://hub.example:6443");
//! let metrics = Arc::new(AgentMetrics::new());
//! let agent = Agent::new(settings, (hub, None), (cluster, None), metrics);
//! agent.run(async { tokio::signal::ctrl_c().await.unwrap() }).await;
//! # }
//! ```

mod agent;
mod applied_pass;
mod applied_works;
mod apply;
mod apply_error;
mod config;
mod deletion;
mod discovery;
mod error;
mod executor;
mod executor_access;
mod flag_values;
pub mod flags;
mod follow;
mod hub_works;
mod items;
mod kind_watches;
mod kubeconfig;
mod lease;
pub mod metrics;
mod mutex;
mod pass;
mod removal;
mod resource_path;
pub mod run;
mod schedule;
mod serve;
mod server;
mod shared;
mod state;
mod steps;
mod throttle;
mod tracking;
mod watch;

pub use agent::{Agent, AgentSettings};
