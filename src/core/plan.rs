//! `(desired, observed, policy) -> plan`: what is to be done on the hub, and why. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::name::{CommitId, RepoPath, WorkKey};
use super::work::{DeleteOption, WorkBody};

/// What Git last said of a work that it no longer has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastStood {
    /// The commit that removed it.
    pub removed_by: Option<CommitId>,
    pub delete_option: DeleteOption,
    pub prune: bool,
}

/// The last word of Git on works that the hub has and Git does not. A work that is missing here has no known
/// history: the hub's own deleteOption stands.
pub type Departed = BTreeMap<WorkKey, LastStood>;

/// One thing to do to one ManifestWork. No choice is left for the executor.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Create; fails where the name is taken.
    Create { body: Arc<WorkBody> },
    /// Replace spec and our labels and annotations, if the hub still has `resource_version`.
    Update { body: Arc<WorkBody>, resource_version: String },
    /// As `Update`, for a foreign work whose operator has consented.
    Adopt { body: Arc<WorkBody>, resource_version: String },
    /// Write just this deleteOption ahead of a deletion.
    SetDeleteOption { delete_option: DeleteOption, resource_version: String },
    /// Delete, if it is still this object in this state.
    Delete { uid: String, resource_version: String },
    /// Take our labels and annotations off and leave the rest.
    Release { resource_version: String },
}

/// One line of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub key: WorkKey,
    /// The work folder, where Git has or had one.
    pub path: Option<RepoPath>,
    /// `None`: nothing is done now; the reason says why.
    pub effect: Option<Effect>,
    pub reason: Reason,
}

/// Why a step is in the plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// Git has it, the hub does not, and never had it from this source as far as we know.
    NewInGit,
    /// What the hub has is what gitwork wrote, and Git has moved on.
    ChangedInGit,
    /// What the hub has is not what gitwork wrote: edited by someone else.
    EditedOnHub,
    /// An operator consented to the take-over.
    AdoptionAllowed,
    /// Git dropped it.
    RemovedFromGit,
    /// Git dropped it and its last word on deleteOption differs from the hub's: that comes first.
    DeleteOptionFirst,
    /// Git dropped it, `prune: false`: released.
    PruneOff,
    // Below here: nothing is done.
    /// As it should be.
    UpToDate,
    /// Git dropped it; the agent has not yet seen the present generation with its deleteOption.
    WaitingForAgent {
        generation: i64,
    },
    /// The hub is deleting it; it is created anew once it is gone, where Git has it.
    BeingDeleted,
    /// The name is taken by a work of another source or of no gitwork.
    Conflict {
        owner: Option<String>,
    },
    /// The repository's state could not be read for it.
    Frozen,
    Suspended,
    /// The pass would delete every work of the source.
    HeldDeletesAll {
        works: usize,
    },
}

/// All steps, sorted by key; one for each work of desired and observed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub commit: Option<CommitId>,
    pub steps: Vec<Step>,
}
