//! The JSON of the page model: as a whole, and as the difference between two versions.

use serde::Serialize;

use super::PendingApproval;
use crate::status::{RolloutVerdict, State};
use gitwork_core::model::name::{ClusterName, CommitId, WorkName};
use gitwork_core::plan::rollout_progress::GroupProgress;

/// One cell: cluster, column, and the index of its state in `State::ALL`; -1 for a removed cell.
pub(super) type Cell = (usize, usize, i8);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SourceRow<'a> {
    pub(super) id: &'a str,
    pub(super) repository: String,
    pub(super) reference: String,
    /// Whether the source and the hub have been read.
    pub(super) known: bool,
    pub(super) commit: Option<CommitId>,
    pub(super) commit_url: Option<String>,
    pub(super) line: Option<String>,
    pub(super) verdict: Option<RolloutVerdict>,
    pub(super) works: usize,
    pub(super) errors: usize,
    pub(super) first_error: Option<String>,
    #[serde(rename = "trouble")]
    pub(super) source_error: Option<String>,
    pub(super) leads: bool,
    pub(super) held: Vec<PendingApproval>,
    /// The rollouts of groups that have not ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rollouts: Vec<OpenRollout>,
}

/// A rollout of a group, with its waves.
#[derive(Serialize)]
pub(super) struct OpenRollout {
    /// How far it has come, and what it waits for.
    pub(super) line: String,
    #[serde(flatten)]
    pub(super) progress: GroupProgress,
}

/// The summary of all sources.
#[derive(Serialize)]
pub(super) struct Sums {
    pub(super) line: String,
    pub(super) verdict: RolloutVerdict,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Whole<'a> {
    pub(super) version: u64,
    /// The names of the states, by number.
    pub(super) states: [State; 11],
    #[serde(flatten)]
    pub(super) sums: Sums,
    pub(super) sources: Vec<SourceRow<'a>>,
    pub(super) clusters: &'a [ClusterName],
    pub(super) columns: &'a [(usize, WorkName)],
    /// For each cluster: pairs of column and state.
    pub(super) cells: Vec<Vec<usize>>,
    pub(super) lost: Vec<usize>,
    /// The groups that clusters have all their works from, as `stores, tills`.
    pub(super) groups: &'a [String],
    /// For each cluster: the number of its groups in `groups`, or -1 if it has works of its own.
    pub(super) groups_of: Vec<isize>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Difference<'a> {
    pub(super) version: u64,
    #[serde(flatten)]
    pub(super) sums: Sums,
    /// The source's number and its row.
    pub(super) sources: Vec<(usize, SourceRow<'a>)>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) clusters: &'a [ClusterName],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) columns: &'a [(usize, WorkName)],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) cells: &'a [Cell],
    /// All lost clusters, if they changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lost: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) groups: &'a [String],
    /// Clusters whose groups changed, with the new number.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) groups_of: &'a [(usize, isize)],
}
