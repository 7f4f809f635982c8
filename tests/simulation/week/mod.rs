//! The week of `shared/cases/fleet.md` as one story: the engine's real loop in virtual time, with
//! the repository of `tests/cases/fleet` and its 200 clusters.
//!
//! - `clusters`: the clusters, as the hub describes them.
//! - `repository`: the files and their commits.
//! - `workloads`: agents and workloads on the clusters.
//! - `history`: what happened, and the rules of the story.
//! - `people`: what operators do.
//! - `days`: the days, with what is required at the end of each.

pub mod clusters;
mod days;
mod history;
mod people;
mod repository;
mod workloads;
mod world;

pub use days::run;
