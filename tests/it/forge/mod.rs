//! Commit statuses, written to a local server that checks each request against what the forge documents.

mod contract;
pub mod reporting;
pub mod server;
mod wire;
