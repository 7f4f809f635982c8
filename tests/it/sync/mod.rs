//! From a commit to ManifestWorks on a real API server: the engine, a real Git server, a real hub.

mod adoption;
mod budget;
mod canary;
mod deletes;
mod drift;
mod events;
mod fights;
pub mod fixture;
mod guards;
pub mod program;
mod signatures;
mod telling;
mod trouble;
mod waiting;
mod writes;
