//! The loop that keeps a hub in step with Git, one engine for each source.

pub mod bulletin;
pub mod engine;
pub mod http;
pub mod metrics;
pub mod reader;
pub mod reporters;
pub mod state;
