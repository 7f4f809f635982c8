//! The parts of gitwork that are pure, from the same files as the package builds them.

#[path = "agent.rs"]
pub mod agent;
#[path = "../src/api/mod.rs"]
pub mod api;
#[path = "../src/core/mod.rs"]
pub mod core;
#[path = "../src/limits.rs"]
pub mod limits;
