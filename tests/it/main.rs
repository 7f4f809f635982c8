//! All integration tests in one binary, because linking is slow.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]

mod admission;
mod agent;
mod architecture;
mod bounded_process;
#[path = "../browser/mod.rs"]
mod browser;
mod cases;
mod catalogue;
mod cli;
mod completions;
mod control_plane;
mod controller;
mod crash;
mod custom_resources;
mod deploy;
mod docs;
mod documented_limits;
mod example;
mod explain;
mod fix;
mod fleet_story;
mod forge;
mod fuzz_seeds;
mod generated_crds;
mod git_fetch;
mod git_history;
mod git_hosts;
mod git_servers;
#[path = "../harness/gitea.rs"]
mod gitea;
#[path = "../harness/mod.rs"]
mod harness;
#[path = "../hostile/mod.rs"]
mod hostile;
mod hostile_inputs;
mod hostile_ssh;
mod hub;
mod hub_contract;
mod hub_program;
mod immutable_fields;
mod import;
mod init;
mod leader_election;
mod moves;
mod object_checks;
mod ocm_agent;
#[path = "../harness/ocm_agent/mod.rs"]
mod ocm_agent_double;
mod output_schemas;
mod page;
mod plain_hub;
mod published_facts;
mod pull_request_plan;
mod removed_works;
mod rendered_content;
mod rendered_folder;
mod rendering;
mod report;
mod review;
mod schema_oracle;
mod schemas;
mod shared_mirror;
mod signatures;
mod soak;
mod state;
mod status_branch;
mod status_views;
mod sync;
mod threads;
mod tutorial;
mod two_repositories;
mod validate;
mod work_commands;

use gitwork_simulation::{contract, memory_repository};
mod yaml_oracle;

use harness::git_server;
