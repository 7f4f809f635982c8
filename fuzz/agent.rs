//! The pure part of the agent.

#[path = "../src/agent/core/mod.rs"]
pub mod core;
