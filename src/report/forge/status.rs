//! One commit status.

use serde::{Deserialize, Serialize};

use gitwork_core::model::name::CommitId;

/// The state of a commit. Each forge has its own word for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommitState {
    /// The rollout of the commit is not finished.
    Pending,
    /// All reachable clusters have applied the commit.
    Success,
    /// Git has an error, or a reachable cluster needs attention.
    Failure,
    /// A newer commit arrived before this one was applied everywhere. Neither success nor failure.
    Superseded,
}

/// The name of a context for some of the clusters: a cluster, or a group of clusters.
pub type Part = String;

/// A status that a forge shows as pending. gitwork stores these on the hub. So its next process can
/// close those of commits that a newer one has overtaken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OpenStatus {
    /// The commit that the status belongs to.
    pub commit: CommitId,
    /// `None` for the whole source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

/// One commit status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitStatus {
    /// `None` for the whole source.
    pub part: Option<Part>,
    /// The commit that the status belongs to.
    pub commit: CommitId,
    /// The result so far.
    pub state: CommitState,
    /// One line for people. Shortened to the forge's limit when it is written.
    pub description: String,
}
