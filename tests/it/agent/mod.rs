//! The agent on a real hub and a real managed cluster. Tests named `gotcha_…` follow the list of what an
//! implementation gets wrong.

mod apply;
mod canary;
mod conditions;
mod deploy;
mod end;
mod executor;
mod faults;
mod fixture;
mod places;
mod process;
mod status;
