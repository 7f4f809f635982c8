//! The daemon's report on a source, stored on the hub for clients that read only the hub: held
//! changes, and works that differ from Git for a reason that no agent reports. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::source::{SourceStatus, WorkState};
use super::tree::WorkTree;
use super::{State, WorkStatus};
use crate::page;
use crate::page::SourceInfo;
use gitwork_core::limits;
use gitwork_core::model::name::{CommitId, WorkKey};
use gitwork_core::plan::record;
use gitwork_core::plan::record::RecordError;
use gitwork_core::plan::rollout_progress::GroupProgress;
use gitwork_core::text::truncate::truncate_chars;

/// The report on one source. It holds names and reasons, and no content of works.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceReport {
    /// When the reported state began.
    #[schemars(with = "Option<String>")]
    pub at: Option<Timestamp>,
    /// The planned commit.
    pub commit: Option<CommitId>,
    /// Why the source cannot be read, or why its newest commit is not applied.
    #[serde(rename = "trouble", skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Changes that wait for approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<ReportedHold>,
    /// How far the rollouts of groups have come; those that have not ended come first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rollouts: Vec<GroupProgress>,
    /// Works that are held, suspended, frozen, in conflict, rejected, or between which objects
    /// move.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub works: Vec<ReportedWork>,
    /// Works left out because of the report's size limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub works_left_out: usize,
}

/// Changes that one guard holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedHold {
    /// The guard: `budget`, `rewind`, `restore` or `window`.
    pub guard: String,
    /// The hash for `gitwork approve`.
    pub hash: String,
    /// How many works wait.
    pub works: usize,
    /// Why they wait, for people.
    pub reason: String,
    /// The command that approves the changes.
    pub command: String,
}

/// One work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedWork {
    /// The managed cluster.
    pub cluster: String,
    /// The name of the ManifestWork.
    pub work: String,
    /// A word of [`State::as_str`]; a newer daemon may write others.
    pub state: String,
    /// The reason in one word, as in `gitwork plan -o json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason, for people.
    pub message: String,
    /// When the state began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// The work folder in Git.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// A source and its report.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReportedSource {
    /// The source id.
    pub source: String,
    /// The report, as fields of the same object.
    #[serde(flatten)]
    pub report: SourceReport,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl ReportedWork {
    fn of(key: &WorkKey, work: &WorkState) -> Self {
        Self {
            cluster: key.cluster.to_string(),
            work: key.work.to_string(),
            state: work.state.as_str().to_owned(),
            reason: work
                .reason()
                .map(|reason| truncate_chars(&reason, limits::STATUS_TEXT_CHARS_MAX).into_owned()),
            message: work.message().unwrap_or_default(),
            since: Some(work.since),
            path: work.path.as_ref().map(ToString::to_string),
        }
    }

    fn state(&self) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == self.state)
    }

    /// The work of a source, if the hub does not have it.
    fn alone(&self, source: &str) -> WorkTree {
        let work = WorkStatus {
            cluster: self.cluster.clone(),
            work: self.work.clone(),
            state: State::Pending,
            since: None,
            message: None,
            reason: None,
            manifests: 0,
            manifests_applied: 0,
            source: Some(source.to_owned()),
            commit: None,
            path: self.path.clone(),
            unreachable: false,
            reported: false,
        };
        let mut tree = WorkTree { work, conditions: Vec::new(), objects: Vec::new() };
        self.mark(&mut tree);
        tree
    }

    fn mark(&self, tree: &mut WorkTree) {
        let Some(state) = self.state() else { return };
        tree.work.state = state;
        tree.work.reason.clone_from(&self.reason);
        tree.work.message =
            Some(truncate_chars(&self.message, limits::STATUS_TEXT_CHARS_MAX).into_owned());
        tree.work.since = self.since.map(|since| since.to_string());
        tree.work.reported = true;
    }
}

impl SourceReport {
    /// The report on this state. `before` is used while `status` is unknown.
    pub fn of(
        status: Option<&SourceStatus>,
        error: Option<&str>,
        info: &SourceInfo,
        before: Option<&Self>,
        now: Timestamp,
    ) -> Self {
        let error =
            error.map(|why| truncate_chars(why, limits::HUB_MESSAGE_CHARS_MAX).into_owned());
        let mut reported = match status {
            None => before.cloned().unwrap_or_default(),
            Some(status) => Self {
                at: None,
                commit: status.commit,
                error: None,
                holds: status.held.iter().map(|held| ReportedHold::of(held, info)).collect(),
                rollouts: status.reported_rollouts(),
                works: Vec::new(),
                works_left_out: 0,
            },
        };
        (reported.at, reported.error) = (Some(now), error);
        if let Some(status) = status {
            reported.add_works(status);
        }
        reported
    }

    fn add_works(&mut self, status: &SourceStatus) {
        let mut left = limits::REPORT_BYTES_MAX.saturating_sub(self.text().len());
        let mut hidden: Vec<(&WorkKey, &WorkState)> =
            status.works.clusters().flat_map(|(_, cluster)| cluster.hidden()).collect();
        // Those that wait for nobody come last.
        hidden.sort_by_key(|(_, work)| work.state == State::Pending);
        for (key, work) in hidden {
            let work = ReportedWork::of(key, work);
            let bytes = serde_json::to_string(&work).map_or(usize::MAX, |text| text.len() + 1);
            if bytes < left && self.works_left_out == 0 {
                left -= bytes;
                self.works.push(work);
            } else {
                self.works_left_out += 1;
            }
        }
    }

    /// Whether both reports are equal, apart from time and commit.
    pub fn is_same_except_time(&self, other: &Self) -> bool {
        let Self { at: _, commit: _, error, holds, rollouts, works, works_left_out } = self;
        *error == other.error
            && *holds == other.holds
            && *rollouts == other.rollouts
            && *works == other.works
            && *works_left_out == other.works_left_out
    }

    /// The report as stored on the hub.
    pub fn text(&self) -> String {
        record::to_text(self)
    }

    /// Parses the text that [`Self::text`] writes. Absent fields have their defaults.
    pub fn read(text: &str) -> Result<Self, RecordError> {
        record::from_text(text)
    }
}

impl ReportedHold {
    fn of(held: &super::source::HeldChanges, info: &SourceInfo) -> Self {
        let page::PendingApproval { guard, hash, works, why, command } =
            page::PendingApproval::of(held, info);
        Self { guard: guard.to_owned(), hash, works, reason: why, command }
    }
}

impl ReportedSource {
    /// One line for each held change or error, with the next step for the user.
    pub fn lines(&self) -> Vec<String> {
        let (source, reported) = (&self.source, &self.report);
        let at = reported.at.map_or_else(String::new, |at| format!(" since {at:.0}"));
        let mut lines = Vec::new();
        lines.extend(reported.error.iter().map(|why| format!("source {source}: {why}")));
        for hold in &reported.holds {
            let ReportedHold { guard, works, reason, command, .. } = hold;
            let what = gitwork_core::text::style::count(*works, "work");
            lines.push(format!(
                "source {source}: {what} held ({guard}){at}: {reason}; to approve only these: \
                 {command}"
            ));
        }
        let open = reported.rollouts.iter().filter(|rollout| !rollout.has_ended());
        lines.extend(open.map(|rollout| format!("source {source}: {rollout}")));
        if reported.works_left_out > 0 {
            let left = reported.works_left_out;
            lines.push(format!(
                "source {source}: {left} more works are held, suspended, moving or refused: \
                 `gitwork plan` lists them"
            ));
        }
        lines
    }
}

/// The works that reports name, by cluster and name.
#[derive(Debug, Clone, Default)]
pub struct ReportedWorks {
    /// Each with its source. Sources can want works of one name.
    works: BTreeMap<(String, String), Vec<(String, ReportedWork)>>,
}

impl ReportedWorks {
    /// The works of these reports.
    pub fn of(all: &[ReportedSource]) -> Self {
        let mut works: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for one in all {
            for work in &one.report.works {
                let key = (work.cluster.clone(), work.work.clone());
                works.entry(key).or_default().push((one.source.clone(), work.clone()));
            }
        }
        Self { works }
    }

    /// Cluster and name of each work.
    pub fn keys(&self) -> impl Iterator<Item = &(String, String)> {
        self.works.keys()
    }

    fn of_name(&self, key: &(String, String)) -> &[(String, ReportedWork)] {
        self.works.get(key).map_or(&[], Vec::as_slice)
    }

    /// Adds what its source reports to a work of the hub.
    pub fn mark(&self, tree: &mut WorkTree) {
        if self.works.is_empty() {
            return;
        }
        let key = (tree.work.cluster.clone(), tree.work.work.clone());
        let own = self.of_name(&key).iter().find(|(source, _)| is_of(tree, source));
        if let Some((_, work)) = own {
            work.mark(tree);
        }
    }

    /// The work of this name, which the hub does not have.
    pub fn missing(&self, key: &(String, String)) -> Option<WorkTree> {
        self.of_name(key).first().map(|(source, work)| work.alone(source))
    }

    /// Sorts the works of the hub, and adds those that it does not have.
    pub fn add_missing(&self, trees: &mut Vec<WorkTree>) {
        trees.sort_by(|a, b| key_of(a).cmp(&key_of(b)));
        let mut missing = Vec::new();
        for (key, works) in &self.works {
            let found = trees.binary_search_by(|tree| key_of(tree).cmp(&(&key.0, &key.1)));
            let there = found.ok().and_then(|index| trees.get(index));
            let others =
                works.iter().filter(|(source, _)| !there.is_some_and(|tree| is_of(tree, source)));
            missing.extend(others.map(|(source, work)| work.alone(source)));
        }
        if !missing.is_empty() {
            trees.append(&mut missing);
            trees.sort_by(|a, b| key_of(a).cmp(&key_of(b)));
        }
    }
}

fn key_of(tree: &WorkTree) -> (&String, &String) {
    (&tree.work.cluster, &tree.work.work)
}

fn is_of(tree: &WorkTree, source: &str) -> bool {
    tree.work.source.as_deref() == Some(source)
}

#[cfg(test)]
mod tests;
