//! The state of one source between passes: what Git and the hub have, the operators' guards, and which
//! effects of the plan are due.

pub mod guards;
pub mod hub;
pub mod state;
