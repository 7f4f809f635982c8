//! The loop that keeps a hub in step with Git, one engine for each source.

pub mod bulletin;
pub mod engine;
pub mod guards;
pub mod http;
pub mod leading;
pub mod metrics;
pub mod page;
pub mod reader;
pub mod reporters;
pub mod state;
pub mod told;
pub mod transitions;
pub mod webhook;
