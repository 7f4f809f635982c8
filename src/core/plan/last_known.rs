//! The last state that Git had for works that it no longer has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::Budgets;
use crate::model::name::{CommitId, WorkKey};
use crate::model::work::DeletionPolicy;

/// The last state in Git of a work that it no longer has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastKnownState {
    /// The commit that removed the work.
    pub removed_by: Option<CommitId>,
    /// The final `deleteOption`.
    pub delete_option: DeletionPolicy,
    /// The final `prune`; `false` means that the work is released and not deleted.
    pub prune: bool,
    /// The budgets of gitwork.yaml before the removal: a commit that removes a work cannot loosen
    /// the budget for its own deletions.
    pub budgets: Option<Budgets>,
    /// The works that Git has now and did not have before the removal; `None` if unknown.
    pub added_since: Option<Arc<BTreeSet<WorkKey>>>,
}

/// The last known states of works that the hub has and Git does not. For a work without an entry
/// no history is known: the deleteOption and prune on the hub count.
pub type LastKnownStates = BTreeMap<WorkKey, LastKnownState>;
