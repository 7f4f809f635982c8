//! The sync daemon: one engine for each source keeps the hub in step with Git.

pub mod engine;
pub mod http;
pub mod leadership;
pub mod limits;
pub mod metrics;
pub mod page;
pub mod reader;
pub mod reporters;
pub mod source_report;
pub mod status_publisher;
pub mod transitions;
pub mod webhook;
