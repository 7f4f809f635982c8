//! All integration tests in one binary: linking is what costs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]

mod git_fetch;
mod git_history;
#[path = "../harness/git_server/mod.rs"]
mod git_server;
mod git_servers;
mod memory;
mod rendering;
mod tidy;
