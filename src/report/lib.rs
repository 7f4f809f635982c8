//! Output for people and other programs: statuses, explanations, reviews, and the status page.
//!
//! ```
//! use gitwork_report::explain::ExplainTarget;
//! use gitwork_report::status::State;
//!
//! let target = ExplainTarget::parse("edge-7/web/deployment/shop/web").unwrap();
//! assert_eq!(target.key.to_string(), "edge-7/web");
//! assert_eq!(State::Available.to_string(), "available");
//! ```

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
