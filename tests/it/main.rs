//! All integration tests in one binary: linking is what costs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]

mod control_plane;
mod custom_resources;
#[path = "../harness/mod.rs"]
mod harness;
mod memory;
mod rendering;
mod tidy;
mod wire;
