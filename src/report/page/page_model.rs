//! All clusters and works of all sources, as a whole and as differences. Pure.
//!
//! Clusters and columns (a work of a source) have numbers. A number keeps its meaning until the
//! next whole model, so a change needs three small numbers for each cell.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::model_json::{Cell, Difference, OpenRollout, SourceRow, Sums, Whole};
use super::numbered::Numbered;
use super::{PendingApproval, SourceInfo};
use crate::status::source::{SourceStatus, WorkState};
use crate::status::work_states::{ChangedWork, ClusterStates, WorkStates};
use crate::status::{Clusters, RolloutVerdict, State};
use gitwork_core::limits;
use gitwork_core::model::name::{ClusterName, GroupName, WorkName};
use gitwork_core::plan::rollout_progress::GroupProgress;
use gitwork_core::text::escape::escape_lines;

/// The state of the page.
#[derive(Debug)]
pub struct PageModel {
    sources: Vec<Source>,
    clusters: Numbered<ClusterName>,
    columns: Numbered<(usize, WorkName)>,
    /// The groups that clusters have all their works from.
    groups: Numbered<String>,
    /// By cluster: the number of its groups, or -1 if it has works of its own.
    groups_of: Vec<isize>,
    lost: BTreeSet<ClusterName>,
    version: u64,
}

#[derive(Debug)]
struct Source {
    info: SourceInfo,
    status: Option<Arc<SourceStatus>>,
    /// Of the status.
    summary: Option<Summary>,
    /// Why the source cannot be read.
    source_error: Option<String>,
    /// Whether this daemon is the leader for the source. A standby does not know all that the
    /// leader knows.
    leads: bool,
}

/// What a status comes to.
#[derive(Debug)]
struct Summary {
    /// Escaped.
    line: String,
    verdict: RolloutVerdict,
}

/// The result of an update of the model.
#[derive(Debug, PartialEq)]
pub enum ModelChange {
    /// The page does not change.
    Nothing,
    /// JSON of the change from the previous version to the present one.
    Text(Arc<str>),
    /// Numbers changed their meaning: send the whole model.
    Whole,
}

/// Unused numbers are dropped if there are more than this many, and more than there are numbers in
/// use.
const UNUSED_MAX: usize = 1_000;

/// The number of no groups: the cluster has works of its own, or none.
const NO_GROUPS: isize = -1;

/// How many numbers a browser knows.
#[derive(Clone, Copy)]
struct Known {
    clusters: usize,
    columns: usize,
    groups: usize,
}

/// What changes beside a source's own row.
#[derive(Default)]
struct Changes {
    cells: Vec<Cell>,
    is_lost_new: bool,
    groups_of: Vec<(usize, isize)>,
}

/// Clusters named in the summary line of several sources.
const NAMES_SHOWN: usize = 3;

impl PageModel {
    /// A model of sources without a state yet.
    pub fn new(sources: Vec<SourceInfo>) -> Self {
        let source =
            |info| Source { info, status: None, summary: None, source_error: None, leads: true };
        Self {
            sources: sources.into_iter().map(source).collect(),
            clusters: Numbered::new(),
            columns: Numbered::new(),
            groups: Numbered::new(),
            groups_of: Vec::new(),
            lost: BTreeSet::new(),
            version: 1,
        }
    }

    /// Grows by one with every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A source by its id, with its state if it is known.
    pub fn source(&self, id: &str) -> Option<(&SourceInfo, Option<&SourceStatus>)> {
        let source = self.sources.iter().find(|source| source.info.id.as_str() == id)?;
        Some((&source.info, source.status.as_deref()))
    }

    /// Sets the error of the source with this number; `None` if it can be read.
    pub fn set_source_error(&mut self, number: usize, error: Option<&str>) -> ModelChange {
        let error = error.map(escape_lines);
        match self.sources.get_mut(number) {
            Some(source) if source.source_error != error => source.source_error = error,
            _ => return ModelChange::Nothing,
        }
        let known = self.known();
        self.difference(number, known, Changes::default())
    }

    /// Sets whether this daemon is the leader for the source with this number.
    pub fn set_leads(&mut self, number: usize, leads: bool) -> ModelChange {
        match self.sources.get_mut(number) {
            Some(source) if source.leads != leads => source.leads = leads,
            _ => return ModelChange::Nothing,
        }
        let known = self.known();
        self.difference(number, known, Changes::default())
    }

    fn known(&self) -> Known {
        let (clusters, columns) = (self.clusters.len(), self.columns.len());
        Known { clusters, columns, groups: self.groups.len() }
    }

    /// Sets the newest state of the source with this number.
    pub fn set_status(&mut self, number: usize, status: &Arc<SourceStatus>) -> ModelChange {
        let Some(source) = self.sources.get_mut(number) else { return ModelChange::Nothing };
        let before = source.status.replace(status.clone());
        if before.as_ref() == Some(status) {
            return ModelChange::Nothing;
        }
        source.summary = Some(Summary::of(status));
        let known = self.known();
        let cells = self.cells(number, before.as_deref(), status);
        let lost = self.lost_clusters();
        let is_lost_new = lost != self.lost;
        self.lost = lost;
        if cells.iter().any(|(_, _, state)| *state < 0) && self.has_many_unused() {
            self.renumber();
            return ModelChange::Whole;
        }
        let groups_of = self.changed_groups(&cells);
        self.difference(number, known, Changes { cells, is_lost_new, groups_of })
    }

    /// The changed clusters that have other groups than before.
    fn changed_groups(&mut self, cells: &[Cell]) -> Vec<(usize, isize)> {
        self.groups_of.resize(self.clusters.len(), NO_GROUPS);
        let changed: BTreeSet<usize> = cells.iter().map(|(cluster, _, _)| *cluster).collect();
        let mut changes = Vec::new();
        for cluster in changed {
            let groups = self.find_groups(cluster);
            if let Some(before) = self.groups_of.get_mut(cluster)
                && std::mem::replace(before, groups) != groups
            {
                changes.push((cluster, groups));
            }
        }
        changes
    }

    /// The number of a cluster's groups, if it has no other works.
    fn find_groups(&mut self, cluster: usize) -> isize {
        let Some(name) = self.clusters.names().get(cluster) else { return NO_GROUPS };
        let statuses = self.sources.iter().filter_map(|source| source.status.as_ref());
        let works = statuses.filter_map(|status| status.works.of_cluster(name));
        let groups: Option<Vec<BTreeSet<GroupName>>> = works.map(ClusterStates::groups).collect();
        let Some(groups) = groups else { return NO_GROUPS };
        let groups: BTreeSet<GroupName> = groups.into_iter().flatten().collect();
        let names: Vec<&str> = groups.iter().map(GroupName::as_str).collect();
        match names.is_empty() {
            true => NO_GROUPS,
            false => isize::try_from(self.groups.number(&names.join(", "))).unwrap_or(NO_GROUPS),
        }
    }

    /// The cells of works that differ. If the state is the same, details differ.
    fn cells(
        &mut self,
        number: usize,
        before: Option<&SourceStatus>,
        now: &SourceStatus,
    ) -> Vec<Cell> {
        let none = WorkStates::default();
        let earlier = before.map_or(&none, |before| &before.works);
        let changes = now.works.changes_since(earlier).into_iter();
        let cell = |change: ChangedWork<'_>| {
            let column = self.columns.number(&(number, change.key.work.clone()));
            let row = self.clusters.number(&change.key.cluster);
            (row, column, change.now.map_or(-1, index))
        };
        changes.map(cell).collect()
    }

    fn lost_clusters(&self) -> BTreeSet<ClusterName> {
        let statuses = self.sources.iter().filter_map(|source| source.status.as_ref());
        statuses.flat_map(|status| status.unreachable.iter().cloned()).collect()
    }

    /// The numbers of unreachable clusters with works.
    fn lost_numbers(&self) -> Vec<usize> {
        self.lost.iter().filter_map(|name| self.clusters.get(name)).collect()
    }

    fn difference(&mut self, number: usize, known: Known, changes: Changes) -> ModelChange {
        let Changes { cells, is_lost_new, groups_of } = changes;
        self.version += 1;
        let difference = Difference {
            version: self.version,
            sums: self.sums(),
            sources: self
                .sources
                .get(number)
                .map(|source| (number, source.row()))
                .into_iter()
                .collect(),
            clusters: self.clusters.added_since(known.clusters),
            columns: self.columns.added_since(known.columns),
            cells: &cells,
            // A new cluster may have been unreachable before it had works.
            lost: (is_lost_new || self.clusters.len() > known.clusters)
                .then(|| self.lost_numbers()),
            groups: self.groups.added_since(known.groups),
            groups_of: &groups_of,
        };
        match serde_json::to_string(&difference) {
            Ok(text) => ModelChange::Text(text.into()),
            Err(_) => ModelChange::Whole,
        }
    }

    fn has_many_unused(&self) -> bool {
        let statuses = || self.sources.iter().filter_map(|source| source.status.as_ref());
        let clusters: BTreeSet<&ClusterName> =
            statuses().flat_map(|status| status.works.clusters().map(|(name, _)| name)).collect();
        let columns = statuses().map(|status| {
            let works: BTreeSet<&WorkName> = status.works.keys().map(|key| &key.work).collect();
            works.len()
        });
        let is_many = |all: usize, used: usize| all > 2 * used + UNUSED_MAX;
        is_many(self.clusters.len(), clusters.len()) || is_many(self.columns.len(), columns.sum())
    }

    fn renumber(&mut self) {
        self.version += 1;
        (self.clusters, self.columns) = (Numbered::new(), Numbered::new());
        (self.groups, self.groups_of) = (Numbered::new(), Vec::new());
        for (number, source) in self.sources.iter().enumerate() {
            for key in source.status.iter().flat_map(|status| status.works.keys()) {
                self.clusters.number(&key.cluster);
                self.columns.number(&(number, key.work.clone()));
            }
        }
        self.groups_of = (0..self.clusters.len()).map(|at| self.find_groups(at)).collect();
    }

    fn sums(&self) -> Sums {
        let summaries = self.sources.iter().filter_map(|source| source.summary.as_ref());
        let line = match summaries.collect::<Vec<_>>().as_slice() {
            [] => "nothing has been read yet".into(),
            [one] => one.line.clone(),
            _ => {
                let statuses = self.sources.iter().filter_map(|source| source.status.as_ref());
                let clusters = statuses.flat_map(|status| status.works.clusters());
                let clusters = clusters
                    .map(|(name, works)| (name.as_str(), works.worst(), self.lost.contains(name)));
                Clusters::new(clusters).line(NAMES_SHOWN)
            }
        };
        let verdicts = || self.sources.iter().map(Source::verdict);
        let verdict = if verdicts().any(|verdict| verdict == RolloutVerdict::Failure) {
            RolloutVerdict::Failure
        } else if verdicts().any(|verdict| verdict == RolloutVerdict::Pending) {
            RolloutVerdict::Pending
        } else {
            RolloutVerdict::Success
        };
        Sums { line, verdict }
    }

    /// The whole model as JSON.
    pub fn whole(&self) -> String {
        let mut cells = vec![Vec::new(); self.clusters.len()];
        for (number, source) in self.sources.iter().enumerate() {
            for (key, work) in source.status.iter().flat_map(|status| status.works.iter()) {
                let column = self.columns.get(&(number, key.work.clone()));
                let cluster = self.clusters.get(&key.cluster);
                let row = cluster.and_then(|cluster| cells.get_mut(cluster));
                if let (Some(row), Some(column)) = (row, column) {
                    row.extend([column, usize::try_from(index(work)).unwrap_or_default()]);
                }
            }
        }
        let whole = Whole {
            version: self.version,
            states: State::ALL,
            sums: self.sums(),
            sources: self.sources.iter().map(Source::row).collect(),
            clusters: self.clusters.names(),
            columns: self.columns.names(),
            cells,
            lost: self.lost_numbers(),
            groups: self.groups.names(),
            groups_of: self.groups_of.clone(),
        };
        // Serialization of these types cannot fail.
        serde_json::to_string(&whole).unwrap_or_default()
    }
}

/// The index of a state in `State::ALL`.
fn index(work: &WorkState) -> i8 {
    let found = State::ALL.iter().position(|state| *state == work.state);
    found.and_then(|number| i8::try_from(number).ok()).unwrap_or_default()
}

impl Source {
    /// Unknown counts as pending, unreadable as failed.
    fn verdict(&self) -> RolloutVerdict {
        match &self.summary {
            _ if self.source_error.is_some() => RolloutVerdict::Failure,
            Some(summary) => summary.verdict,
            None => RolloutVerdict::Pending,
        }
    }

    fn row(&self) -> SourceRow<'_> {
        let status = self.status.as_deref();
        let commit = status.and_then(|status| status.commit);
        let link = |commit| Some(self.info.pages.as_ref()?.commit(commit));
        SourceRow {
            id: self.info.id.as_str(),
            repository: escape_lines(&self.info.repository),
            reference: escape_lines(&self.info.reference),
            known: status.is_some(),
            commit,
            commit_url: commit.and_then(link),
            line: self.summary.as_ref().map(|summary| summary.line.clone()),
            verdict: self.summary.as_ref().map(|summary| summary.verdict),
            works: status.map_or(0, |status| status.works.len()),
            errors: status.map_or(0, |status| status.errors),
            first_error: status.and_then(|status| status.first_error.as_deref()).map(escape_lines),
            source_error: self.source_error.clone(),
            leads: self.leads,
            held: status
                .iter()
                .flat_map(|status| &status.held)
                .map(|held| PendingApproval::of(held, &self.info))
                .collect(),
            rollouts: status.map(open_rollouts).unwrap_or_default(),
        }
    }
}

impl Summary {
    fn of(status: &SourceStatus) -> Self {
        let clusters = status.clusters();
        let line = status.line_of(&clusters, limits::PAGE_LINE_CHARS_MAX);
        Self { line: escape_lines(&line), verdict: status.verdict_of(&clusters) }
    }
}

/// The rollouts that have not ended, as many as a report has room for.
fn open_rollouts(status: &SourceStatus) -> Vec<OpenRollout> {
    let open = status.reported_rollouts().into_iter().filter(|rollout| !rollout.has_ended());
    let row = |progress: GroupProgress| OpenRollout {
        line: escape_lines(&progress.to_string()),
        progress,
    };
    open.map(row).collect()
}

#[cfg(test)]
pub(super) mod tests;
