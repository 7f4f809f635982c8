//! The state of one source between passes: what Git and the hub have, the operators' guards, and
//! which effects of the plan are due.
//!
//! - [`state`]: composes the parts, and plans.
//! - [`facts`]: what Git, the hub and operators say. Its parts are [`observed_hub`],
//!   [`git_history`], [`operator_directives`] and [`source_record`].
//! - [`guards`]: the policy of the next plan, which follows from the facts. [`rewind_guard`] is
//!   the part that judges rewinds.
//! - [`rollouts`]: the waves of groups, which is the other part of that policy.
//! - `confirmed_works`: works that were read again, because writes of others rely on them.
//! - [`retries`]: when failed effects and look-ups are tried again.
//! - `last_plan`: the last plan, and the rules that it breaks.
//! - [`hub`]: what a hub reports.
//! - [`observed_facts`]: what watches show of clusters and Placements, for groups.
//!
//! ```
//! use std::time::Instant;
//!
//! use gitwork_core::model::name::SourceId;
//! use gitwork_sync::guards::GuardOptions;
//! use gitwork_sync::state::SyncState;
//!
//! let (source, now) = (SourceId::parse("fleet").unwrap(), Instant::now());
//! let mut state = SyncState::new(source, GuardOptions::default(), 0, now);
//! assert!(state.plan(now).is_none(), "neither Git nor the hub is known");
//! ```

mod confirmed_works;
pub mod facts;
pub mod git_history;
pub mod guards;
pub mod hub;
mod last_plan;
pub mod observed_facts;
pub mod observed_hub;
pub mod operator_directives;
pub mod retries;
pub mod rewind_guard;
pub mod rollouts;
pub mod source_record;
pub mod state;
pub mod verification_base;
mod work_counts;
mod works_to_read;

#[cfg(test)]
#[path = "../core/render/test_repository.rs"]
#[allow(dead_code, reason = "these tests do not use all of it")]
mod test_repository;
