//! All integration tests in one binary: linking is what costs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]

mod agent;
#[path = "../contract/mod.rs"]
mod contract;
mod control_plane;
mod custom_resources;
mod deploy;
#[path = "../harness/mod.rs"]
mod harness;
mod hub;
mod hub_contract;
mod memory;
mod rendering;
mod report;
mod review;
#[path = "../simulation/mod.rs"]
mod simulation;
mod tidy;
mod wire;
