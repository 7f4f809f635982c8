//! Commit statuses and webhooks: on a real Gitea, and against a local server that checks each
//! request against what the forge documents.

mod checks;
mod contract;
pub mod daemon;
mod gitea;
mod metrics;
pub mod reporting;
mod restart;
pub mod server;
mod webhook;
mod wire;
