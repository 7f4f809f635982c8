//! `(snapshot, plan, status) -> explanation`. Traces a work or an object back to its file, line and
//! settings in Git, and forward to the reason why it is, or is not, on its cluster. Pure.
//!
//! - [`target`]: parses the argument of `gitwork explain`.
//! - [`gitwork_core::render::origin`]: finds the file, line and settings in Git.
//! - [`conclusion`]: finds the reason.
//! - [`size`]: bounds the output.

pub mod conclusion;
mod explanation;
mod git_side;
mod print;
pub mod size;
pub mod target;
#[cfg(test)]
mod tests;

pub use conclusion::{ClusterReachability, Conclusion, ExplainInputs};
pub use explanation::{Explanation, HubSide};
pub use git_side::{CommitNote, GitProblem, GitSide};
pub use print::text;
pub use target::{ExplainTarget, ObjectQuery, TargetError};
