//! `(desired, observed, removed works, policy) -> plan`: what to do on the hub, and why. Pure.
//!
//! A plan is a value: each step names its work, the write with its precondition, and the reason.
//! The executor has no choice left. Planning has six steps:
//!
//! 1. [`hazards`] that follow from the inputs alone: blocked works, suspensions, rewinds;
//! 2. [`moves`]: objects that stand in another work than on the hub, and what that needs meanwhile;
//! 3. `candidates`: the change that each work needs, if no hazard forbade it;
//! 4. hazards that depend on all candidates: the deletion budget and closed change windows;
//! 5. [`order`]: works that wait for others;
//! 6. the plan: each candidate, or the reason of the hazard that forbids it ([`planner`]).
//!
//! [`lint`] checks a plan against the rules without the planner's code. These always hold, and
//! `tests/simulation` checks them over random worlds: no step touches a work of another source;
//! Git asked for each deletion; to execute a plan and to plan again comes to an end.

pub mod action;
pub mod added_works;
pub mod adoption;
pub mod awaited;
pub mod backoff;
mod blocked;
pub mod budget;
mod candidates;
pub mod cascading_deletion;
pub mod cluster_inputs;
pub mod conflicting_manager;
mod deletion_budget;
pub mod directives;
pub mod drift_backoff;
pub mod effect;
pub mod folder_removal;
mod foreign_objects;
pub mod guard;
pub mod hazards;
pub mod held;
pub mod immutable;
pub mod incremental;
pub mod inputs;
pub mod last_known;
pub mod lint;
pub mod member_changes;
#[cfg(test)]
mod membership_tests;
pub mod moves;
pub mod name_holder;
pub mod observed;
pub mod order;
pub mod planner;
pub mod policy;
mod print;
pub mod reason;
pub mod record;
pub mod removed_set;
pub mod replica_sets;
pub mod request;
pub mod rewind;
pub mod rollout_progress;
pub mod rollouts;
pub mod step;
#[cfg(test)]
mod step_tests;
mod summary;
pub(crate) mod update_strategies;
pub mod work_spec;

pub use action::Action;
pub use candidates::removed_candidates;
pub use cluster_inputs::DesiredChange;
pub use effect::{Effect, MetadataChange};
pub use foreign_objects::{ForeignObject, foreign_objects};
pub use guard::Guard;
pub use hazards::Hazards;
pub use held::{HeldDeletions, Hold};
pub use inputs::PlanInputs;
pub use last_known::{AddedSince, LastKnownState, LastKnownStates};
pub use member_changes::MemberChange;
pub use planner::plan;
pub use policy::PlanPolicy;
pub use print::{Remarks, markdown, text};
pub use reason::Reason;
pub use step::{ClusterSteps, Plan, PlanStep, PlanSteps};
pub use summary::{ActionCounts, PlanSummary, StepSummary};
