//! `summary.json`: the whole state for programs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::State;
use crate::status::source::SourceStatus;
use crate::status::work_states::ClusterStates;
use gitwork_core::plan::rollout_progress::GroupProgress;
use gitwork_core::text::escape::{escape_untrusted, json_text};
use gitwork_core::text::truncate::truncate_chars;

/// Works listed as problems. The others are counted.
const PROBLEMS_MAX: usize = 200;
/// Characters of the summary line.
const LINE_CHARS_MAX: usize = 500;

/// `summary.json` of the status branch. Later versions only add fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusSummary {
    /// The source id.
    pub source: String,
    /// The commit of this status.
    pub commit: Option<String>,
    /// How often the source's record on the hub was written. A hub with a lower count was restored
    /// from a backup.
    #[serde(default, rename = "moves")]
    pub record_generation: u64,
    /// `pending`, `success` or `failure`, as in the commit status.
    pub state: String,
    /// The summary line, as in the commit status.
    pub summary: String,
    /// Clusters with a work of the source.
    pub clusters: ClusterCounts,
    /// Works by state.
    pub works: BTreeMap<String, usize>,
    /// The number of errors in Git.
    pub errors: usize,
    /// The first error, with its location.
    pub first_error: Option<String>,
    /// How far the rollouts of groups have come; those that have not ended come first. As many as
    /// have room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rollouts: Vec<GroupProgress>,
    /// Works that need attention.
    pub problems: Vec<WorkProblem>,
    /// Problems left out because of the limit.
    pub problems_left_out: usize,
}

/// Counts of clusters by their worst work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCounts {
    /// All clusters with a work of the source.
    pub total: usize,
    /// Clusters that have applied all of their works.
    pub applied: usize,
    /// Clusters that the hub cannot reach. No other count contains them.
    pub unreachable: usize,
    /// Reachable clusters by the state of their worst work.
    pub states: BTreeMap<String, usize>,
}

/// One work that needs attention.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkProblem {
    pub cluster: String,
    pub work: String,
    pub state: String,
    pub message: Option<String>,
}

impl StatusSummary {
    /// Summarizes a status. Lists at most 200 problems.
    pub fn of(status: &SourceStatus) -> Self {
        let clusters = status.clusters();
        let mut problems = Vec::new();
        let mut problems_left_out = 0;
        let is_problem = |state: State| state.is_failure() || state == State::Held;
        let has_problem = |one: &&ClusterStates| {
            State::ALL.into_iter().any(|state| is_problem(state) && one.count(state) > 0)
        };
        let found = status.works.clusters().map(|(_, cluster)| cluster).filter(has_problem);
        let found = found.flat_map(ClusterStates::iter);
        for (key, work) in found.filter(|(_, work)| is_problem(work.state)) {
            if problems.len() == PROBLEMS_MAX {
                problems_left_out += 1;
                continue;
            }
            problems.push(WorkProblem {
                cluster: key.cluster.to_string(),
                work: key.work.to_string(),
                state: work.state.to_string(),
                message: work.message().map(|message| escape_untrusted(&message)),
            });
        }
        let counted = State::ALL.iter().map(|state| (state.to_string(), clusters.count(*state)));
        let works = State::ALL.iter().map(|state| (state.to_string(), status.works.count(*state)));
        Self {
            source: status.source.to_string(),
            commit: status.commit.map(|commit| commit.to_string()),
            record_generation: status.record_generation,
            state: match status.verdict_of(&clusters) {
                crate::status::RolloutVerdict::Pending => "pending",
                crate::status::RolloutVerdict::Success => "success",
                crate::status::RolloutVerdict::Failure => "failure",
            }
            .into(),
            summary: escape_untrusted(&status.line_of(&clusters, LINE_CHARS_MAX)),
            clusters: ClusterCounts {
                total: clusters.len(),
                applied: clusters.applied(),
                unreachable: clusters.unreachable(),
                states: counted.filter(|(_, count)| *count > 0).collect(),
            },
            works: works.filter(|(_, count)| *count > 0).collect(),
            errors: status.errors,
            first_error: status
                .first_error
                .as_deref()
                .map(|error| truncate_chars(&escape_untrusted(error), LINE_CHARS_MAX).into_owned()),
            rollouts: status.reported_rollouts(),
            problems,
            problems_left_out,
        }
    }

    /// The text of the file: indented JSON with a final line break.
    pub fn json(&self) -> String {
        json_text(self)
    }
}
