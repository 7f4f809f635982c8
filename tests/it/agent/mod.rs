//! The agent on a real hub and a real managed cluster. Tests named `gotcha_…` follow the list of
//! what an implementation gets wrong.

mod apply;
mod conditions;
mod death;
mod deletion;
mod deploy;
mod executor;
mod faults;
pub mod fixture;
mod outages;
mod process;
mod secrets;
mod status;
mod swap;
mod takeover;
mod update;
