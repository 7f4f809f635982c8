//! `summary.json`: the whole for machines.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::report::harmless;
use crate::core::status::State;
use crate::core::status::source::{SourceStatus, cut};

/// Works that are named; past it, they are counted.
const PROBLEMS_MAX: usize = 200;
/// Characters of the summary line.
const LINE_CHARS_MAX: usize = 500;

/// `summary.json` of the status branch. Fields are only ever added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The source's id on the hub.
    pub source: String,
    /// The commit that this is about.
    pub commit: Option<String>,
    /// `pending`, `success` or `failure`, as on the commit.
    pub state: String,
    /// The line that stands on the commit.
    pub summary: String,
    pub clusters: ClusterCounts,
    /// Works by their state.
    pub works: BTreeMap<String, usize>,
    /// Errors in Git.
    pub errors: usize,
    /// The first of them, with its place.
    pub first_error: Option<String>,
    /// Works that are not as they should be.
    pub problems: Vec<Problem>,
    /// Problems that are not named because there are too many.
    pub problems_left_out: usize,
}

/// Clusters, each as its worst work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCounts {
    pub total: usize,
    /// Clusters that have taken all of their works.
    pub applied: usize,
    /// Clusters that the hub has lost touch with; they are in no other count.
    pub unreachable: usize,
    /// The reachable ones by the state of their worst work.
    pub states: BTreeMap<String, usize>,
}

/// One work that is not as it should be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    pub cluster: String,
    pub work: String,
    pub state: String,
    pub message: Option<String>,
}

impl Summary {
    pub fn of(status: &SourceStatus) -> Self {
        let clusters = status.clusters();
        let mut works: BTreeMap<State, usize> = BTreeMap::new();
        let mut problems = Vec::new();
        let mut problems_left_out = 0;
        for (key, work) in &status.works {
            *works.entry(work.state).or_default() += 1;
            if !(work.state.is_failure() || work.state == State::Held) {
                continue;
            }
            if problems.len() == PROBLEMS_MAX {
                problems_left_out += 1;
                continue;
            }
            problems.push(Problem {
                cluster: key.cluster.to_string(),
                work: key.work.to_string(),
                state: work.state.to_string(),
                message: work.message().map(|message| harmless(&message)),
            });
        }
        let counted = State::ALL.iter().map(|state| (state.to_string(), clusters.count(*state)));
        Self {
            source: status.source.to_string(),
            commit: status.commit.map(|commit| commit.to_string()),
            state: match status.verdict_of(&clusters) {
                crate::core::status::Verdict::Pending => "pending",
                crate::core::status::Verdict::Success => "success",
                crate::core::status::Verdict::Failure => "failure",
            }
            .into(),
            summary: harmless(&status.line_of(&clusters, LINE_CHARS_MAX)),
            clusters: ClusterCounts {
                total: clusters.len(),
                applied: clusters.applied(),
                unreachable: clusters.unreachable(),
                states: counted.filter(|(_, count)| *count > 0).collect(),
            },
            works: works.into_iter().map(|(state, count)| (state.to_string(), count)).collect(),
            errors: status.errors,
            first_error: status
                .first_error
                .as_deref()
                .map(|error| cut(&harmless(error), LINE_CHARS_MAX)),
            problems,
            problems_left_out,
        }
    }

    pub fn json(&self) -> String {
        // Texts and numbers only: nothing in here can fail to be JSON.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}
