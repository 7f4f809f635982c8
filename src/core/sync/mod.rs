//! The state of one source between passes: what Git and the hub have, the operators' guards, and
//! which effects of the plan are due.
//!
//! - [`state`]: all facts of a source, and the plans that follow from them.
//! - [`observed_hub`]: the works on the hub.
//! - [`removal_history`]: what Git's history shows of removed works.
//! - [`guards`]: directives, the record, rewinds and windows.
//! - [`hub`]: what a hub reports.

pub mod guards;
pub mod hub;
pub mod observed_hub;
pub mod removal_history;
mod retries;
pub mod state;
