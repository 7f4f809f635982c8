//! From a commit to ManifestWorks on a real API server: the engine, a real Git server, a real hub.

mod adoption;
mod budget;
mod content_limit;
mod deletes;
mod drift;
mod drift_backoff;
mod events;
mod faults;
pub mod fixture;
mod group_order;
mod groups;
mod guards;
mod held_changes;
mod large_groups;
mod malformed_root;
mod order;
pub mod program;
mod proof;
mod rollouts;
mod secrets;
mod signatures;
mod status_reporting;
mod transient;
mod writes;
