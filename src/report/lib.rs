//! Output for people and other programs: statuses, explanations, reviews, and the status page.

pub mod explain;
pub mod forge;
pub mod outputs;
pub mod page;
pub mod review;
pub mod status;
pub mod status_branch;

#[cfg(test)]
#[path = "../core/render/test_repository.rs"]
#[allow(dead_code, reason = "these tests do not use all of it")]
mod test_repository;
