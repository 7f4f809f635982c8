//! The agent on a real hub and a real managed cluster.

mod apply;
mod conditions;
mod death;
mod deletion;
pub mod deploy;
mod executor;
mod faults;
pub mod fixture;
mod outages;
pub mod process;
mod secrets;
mod status;
mod swap;
mod update;
