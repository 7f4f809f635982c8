//! All integration tests in one binary: linking is what costs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]

mod agent;
mod before_merge;
#[path = "../browser/mod.rs"]
mod browser;
mod catalogue;
mod cli;
#[path = "../contract/mod.rs"]
mod contract;
mod control_plane;
mod crash;
mod custom_resources;
mod departed;
mod deploy;
mod docs;
mod example;
mod explain;
mod forge;
mod fuzz_seeds;
mod git_fetch;
mod git_history;
#[path = "../harness/git_server/mod.rs"]
mod git_server;
mod git_servers;
#[path = "../harness/gitea.rs"]
mod gitea;
#[path = "../harness/mod.rs"]
mod harness;
mod hub;
mod hub_contract;
mod leading;
mod memory;
mod page;
mod rendering;
mod report;
mod review;
mod schemas;
mod signatures;
#[path = "../simulation/mod.rs"]
mod simulation;
mod soak;
mod state;
mod status_branch;
mod sync;
mod tidy;
mod views;
mod wire;
mod yaml_oracle;
