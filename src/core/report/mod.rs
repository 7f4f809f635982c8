//! Output for people and other programs: statuses, explanations, reviews, and the status page.

pub mod explain;
pub mod forge;
pub mod outputs;
pub mod page;
pub mod review;
pub mod status;
pub mod status_branch;
