//! All clusters and works of all sources, as a whole and as differences. Pure.
//!
//! Clusters and columns (a work of a source) have numbers. A number keeps its meaning until the
//! next
//! whole model, so a change needs three small numbers for each cell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use super::{PendingApproval, SourceInfo, shown};
use crate::limits;
use crate::model::name::{ClusterName, CommitId, WorkName};
use crate::report::status::source::{SourceStatus, WorkState};
use crate::report::status::{Clusters, RolloutVerdict, State};

/// The state of the page.
#[derive(Debug)]
pub struct PageModel {
    sources: Vec<Source>,
    clusters: Table<ClusterName>,
    columns: Table<(usize, WorkName)>,
    lost: BTreeSet<ClusterName>,
    version: u64,
}

#[derive(Debug)]
struct Source {
    info: SourceInfo,
    status: Option<Arc<SourceStatus>>,
    /// Why the source cannot be read.
    trouble: Option<String>,
    /// Whether this daemon is the leader for the source. A standby does not know all that the
    /// leader knows.
    leads: bool,
}

/// Names and their numbers.
#[derive(Debug)]
struct Table<T> {
    numbers: BTreeMap<T, usize>,
    names: Vec<T>,
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

/// Clusters named in the summary line of several sources.
const NAMES_SHOWN: usize = 3;

/// One cell: cluster, column, and the index of its state in `State::ALL`; -1 for a removed cell.
type Cell = (usize, usize, i8);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SourceRow<'a> {
    id: &'a str,
    repository: String,
    reference: String,
    /// Whether the source and the hub have been read.
    known: bool,
    commit: Option<CommitId>,
    commit_url: Option<String>,
    line: Option<String>,
    verdict: Option<RolloutVerdict>,
    works: usize,
    errors: usize,
    first_error: Option<String>,
    trouble: Option<String>,
    leads: bool,
    held: Vec<PendingApproval>,
}

/// The summary of all sources.
#[derive(Serialize)]
struct Sums {
    line: String,
    verdict: RolloutVerdict,
}

#[derive(Serialize)]
struct Whole<'a> {
    version: u64,
    /// The names of the states, by number.
    states: [State; 11],
    #[serde(flatten)]
    sums: Sums,
    sources: Vec<SourceRow<'a>>,
    clusters: &'a [ClusterName],
    columns: &'a [(usize, WorkName)],
    /// For each cluster: pairs of column and state.
    cells: Vec<Vec<usize>>,
    lost: Vec<usize>,
}

#[derive(Serialize)]
struct Difference<'a> {
    version: u64,
    #[serde(flatten)]
    sums: Sums,
    /// The source's number and its row.
    sources: Vec<(usize, SourceRow<'a>)>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    clusters: &'a [ClusterName],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    columns: &'a [(usize, WorkName)],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    cells: &'a [Cell],
    /// All lost clusters, if they changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<Vec<usize>>,
}

impl<T: Ord + Clone> Table<T> {
    fn new() -> Self {
        Self { numbers: BTreeMap::new(), names: Vec::new() }
    }
    fn number(&mut self, name: &T) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len();
        self.numbers.insert(name.clone(), number);
        self.names.push(name.clone());
        number
    }
    fn added_since(&self, count: usize) -> &[T] {
        self.names.get(count..).unwrap_or_default()
    }
}

impl PageModel {
    /// A model of sources without a state yet.
    pub fn new(sources: Vec<SourceInfo>) -> Self {
        let source = |info| Source { info, status: None, trouble: None, leads: true };
        Self {
            sources: sources.into_iter().map(source).collect(),
            clusters: Table::new(),
            columns: Table::new(),
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
    pub fn set_trouble(&mut self, number: usize, trouble: Option<&str>) -> ModelChange {
        let trouble = trouble.map(shown);
        match self.sources.get_mut(number) {
            Some(source) if source.trouble != trouble => source.trouble = trouble,
            _ => return ModelChange::Nothing,
        }
        let (clusters, columns) = (self.clusters.names.len(), self.columns.names.len());
        self.difference(number, (clusters, columns), &[], false)
    }

    /// Sets whether this daemon is the leader for the source with this number.
    pub fn set_leads(&mut self, number: usize, leads: bool) -> ModelChange {
        match self.sources.get_mut(number) {
            Some(source) if source.leads != leads => source.leads = leads,
            _ => return ModelChange::Nothing,
        }
        let (clusters, columns) = (self.clusters.names.len(), self.columns.names.len());
        self.difference(number, (clusters, columns), &[], false)
    }

    /// Sets the newest state of the source with this number.
    pub fn set_status(&mut self, number: usize, status: &Arc<SourceStatus>) -> ModelChange {
        let Some(source) = self.sources.get_mut(number) else { return ModelChange::Nothing };
        let before = source.status.replace(status.clone());
        if before.as_ref() == Some(status) {
            return ModelChange::Nothing;
        }
        let known = (self.clusters.names.len(), self.columns.names.len());
        let cells = self.cells(number, before.as_deref(), status);
        let lost = self.lost_clusters();
        let is_lost_new = lost != self.lost;
        self.lost = lost;
        if cells.iter().any(|(_, _, state)| *state < 0) && self.has_many_unused() {
            self.renumber();
            return ModelChange::Whole;
        }
        self.difference(number, known, &cells, is_lost_new)
    }

    /// The cells of works that differ. If the state is the same, details differ.
    fn cells(
        &mut self,
        number: usize,
        before: Option<&SourceStatus>,
        now: &SourceStatus,
    ) -> Vec<Cell> {
        let none = BTreeMap::new();
        let earlier = before.map_or(&none, |before| &before.works);
        let mut cells = Vec::new();
        for (key, work) in &now.works {
            if earlier.get(key) != Some(work) {
                let column = self.columns.number(&(number, key.work.clone()));
                cells.push((self.clusters.number(&key.cluster), column, index(work)));
            }
        }
        for key in earlier.keys().filter(|key| !now.works.contains_key(*key)) {
            let column = self.columns.number(&(number, key.work.clone()));
            cells.push((self.clusters.number(&key.cluster), column, -1));
        }
        cells
    }

    fn lost_clusters(&self) -> BTreeSet<ClusterName> {
        let statuses = self.sources.iter().filter_map(|source| source.status.as_ref());
        statuses.flat_map(|status| status.unreachable.iter().cloned()).collect()
    }

    /// The numbers of unreachable clusters with works.
    fn lost_numbers(&self) -> Vec<usize> {
        self.lost.iter().filter_map(|name| self.clusters.numbers.get(name).copied()).collect()
    }

    fn difference(
        &mut self,
        number: usize,
        known: (usize, usize),
        cells: &[Cell],
        is_lost_new: bool,
    ) -> ModelChange {
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
            clusters: self.clusters.added_since(known.0),
            columns: self.columns.added_since(known.1),
            cells,
            // A new cluster may have been unreachable before it had works.
            lost: (is_lost_new || self.clusters.names.len() > known.0).then(|| self.lost_numbers()),
        };
        match serde_json::to_string(&difference) {
            Ok(text) => ModelChange::Text(text.into()),
            Err(_) => ModelChange::Whole,
        }
    }

    fn has_many_unused(&self) -> bool {
        let statuses = || self.sources.iter().filter_map(|source| source.status.as_ref());
        let clusters: BTreeSet<&ClusterName> =
            statuses().flat_map(|status| status.works.keys().map(|key| &key.cluster)).collect();
        let columns = statuses().map(|status| {
            let works: BTreeSet<&WorkName> = status.works.keys().map(|key| &key.work).collect();
            works.len()
        });
        let is_many = |all: usize, used: usize| all > 2 * used + UNUSED_MAX;
        is_many(self.clusters.names.len(), clusters.len())
            || is_many(self.columns.names.len(), columns.sum())
    }

    fn renumber(&mut self) {
        self.version += 1;
        (self.clusters, self.columns) = (Table::new(), Table::new());
        for (number, source) in self.sources.iter().enumerate() {
            for key in source.status.iter().flat_map(|status| status.works.keys()) {
                self.clusters.number(&key.cluster);
                self.columns.number(&(number, key.work.clone()));
            }
        }
    }

    fn sums(&self) -> Sums {
        let known: Vec<&SourceStatus> =
            self.sources.iter().filter_map(|source| source.status.as_deref()).collect();
        let line = match known.as_slice() {
            [] => "nothing has been read yet".into(),
            [one] => shown(&one.line(limits::PAGE_LINE_CHARS_MAX)),
            all => {
                let works = all.iter().flat_map(|status| status.works.iter());
                let lost = |cluster| self.lost.contains(cluster);
                let works =
                    works.map(|(key, work)| (key.cluster.as_str(), work.state, lost(&key.cluster)));
                Clusters::new(works).line(NAMES_SHOWN)
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
        let mut cells = vec![Vec::new(); self.clusters.names.len()];
        for (number, source) in self.sources.iter().enumerate() {
            for (key, work) in source.status.iter().flat_map(|status| status.works.iter()) {
                let column = self.columns.numbers.get(&(number, key.work.clone()));
                let cluster = self.clusters.numbers.get(&key.cluster);
                let row = cluster.and_then(|cluster| cells.get_mut(*cluster));
                if let (Some(row), Some(column)) = (row, column) {
                    row.extend([*column, usize::try_from(index(work)).unwrap_or_default()]);
                }
            }
        }
        let whole = Whole {
            version: self.version,
            states: State::ALL,
            sums: self.sums(),
            sources: self.sources.iter().map(Source::row).collect(),
            clusters: &self.clusters.names,
            columns: &self.columns.names,
            cells,
            lost: self.lost_numbers(),
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
        match &self.status {
            _ if self.trouble.is_some() => RolloutVerdict::Failure,
            Some(status) => status.verdict(),
            None => RolloutVerdict::Pending,
        }
    }

    fn row(&self) -> SourceRow<'_> {
        let status = self.status.as_deref();
        let commit = status.and_then(|status| status.commit);
        let link = |commit| Some(self.info.pages.as_ref()?.commit(commit));
        SourceRow {
            id: self.info.id.as_str(),
            repository: shown(&self.info.repository),
            reference: shown(&self.info.reference),
            known: status.is_some(),
            commit,
            commit_url: commit.and_then(link),
            line: status.map(|status| shown(&status.line(limits::PAGE_LINE_CHARS_MAX))),
            verdict: status.map(SourceStatus::verdict),
            works: status.map_or(0, |status| status.works.len()),
            errors: status.map_or(0, |status| status.errors),
            first_error: status.and_then(|status| status.first_error.as_deref()).map(shown),
            trouble: self.trouble.clone(),
            leads: self.leads,
            held: status
                .iter()
                .flat_map(|status| &status.held)
                .map(|held| PendingApproval::of(held, &self.info))
                .collect(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::model::name::{SourceId, WorkKey};
    use crate::report::forge::WebPages;
    use crate::report::status::view::StatusView;

    pub fn key(cluster: &str, work: &str) -> WorkKey {
        WorkKey {
            cluster: ClusterName::parse(cluster).unwrap(),
            work: WorkName::parse(work).unwrap(),
        }
    }

    pub fn work(state: State) -> WorkState {
        WorkState {
            state,
            since: Timestamp::UNIX_EPOCH,
            why: None,
            code: None,
            uid: None,
            path: None,
            commit: None,
            view: StatusView::default(),
        }
    }

    pub fn status(works: Vec<(WorkKey, WorkState)>) -> SourceStatus {
        SourceStatus {
            source: SourceId::parse("fleet").unwrap(),
            commit: CommitId::parse(&"ab".repeat(20)),
            works: works.into_iter().collect(),
            unreachable: BTreeSet::new(),
            record_generation: 0,
            errors: 0,
            first_error: None,
            findings: Vec::new(),
            held: Vec::new(),
        }
    }

    pub fn info() -> SourceInfo {
        let repository = "https://github.com/acme/fleet";
        let arguments = ["--repo", repository, "--source-id", "fleet"];
        SourceInfo {
            id: SourceId::parse("fleet").unwrap(),
            repository: repository.into(),
            reference: "branch main".into(),
            arguments: arguments.map(str::to_owned).to_vec(),
            pages: WebPages::of(None, repository),
        }
    }

    fn other(id: &str) -> SourceInfo {
        SourceInfo { id: SourceId::parse(id).unwrap(), ..info() }
    }

    fn read(change: ModelChange) -> Value {
        match change {
            ModelChange::Text(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn whole(model: &PageModel) -> Value {
        serde_json::from_str(&model.whole()).unwrap()
    }

    /// The cells by name, as a browser shows them.
    fn cells(whole: &Value) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut found = BTreeMap::new();
        for (cluster, row) in whole["cells"].as_array().unwrap().iter().enumerate() {
            for pair in row.as_array().unwrap().chunks(2) {
                let column = &whole["columns"][pair[0].as_u64().unwrap() as usize];
                let state = &whole["states"][pair[1].as_u64().unwrap() as usize];
                let cluster = text(&whole["clusters"][cluster]);
                found.insert(format!("{cluster}/{}", text(&column[1])), text(state));
            }
        }
        found
    }

    #[test]
    fn change_lists_only_differing_cells() {
        let mut model = PageModel::new(vec![info()]);
        assert_eq!(whole(&model)["line"], "nothing has been read yet");
        let (a, b) = (key("edge-1", "web"), key("edge-2", "web"));
        let first =
            status(vec![(a.clone(), work(State::Applied)), (b.clone(), work(State::Pending))]);
        let reported = read(model.set_status(0, &Arc::new(first.clone())));
        assert_eq!(reported["clusters"], json!(["edge-1", "edge-2"]));
        assert_eq!(reported["columns"], json!([[0, "web"]]));
        assert_eq!(reported["cells"], json!([[0, 0, 8], [1, 0, 5]]));
        assert_eq!(model.set_status(0, &Arc::new(first.clone())), ModelChange::Nothing);

        let mut next = first;
        next.works.insert(b.clone(), work(State::Failed));
        next.unreachable.insert(a.cluster.clone());
        let reported = read(model.set_status(0, &Arc::new(next.clone())));
        assert_eq!((&reported["cells"], &reported["lost"]), (&json!([[1, 0, 0]]), &json!([0])));
        assert_eq!((reported.get("clusters"), reported.get("columns")), (None, None));
        assert_eq!(
            reported["line"],
            "0/2 clusters applied, 1 failed: edge-2, 1 unreachable: edge-1"
        );
        assert_eq!(reported["version"], model.version());

        next.works.remove(&a);
        let reported = read(model.set_status(0, &Arc::new(next)));
        assert_eq!(reported["cells"], json!([[0, 0, -1]]));
        assert_eq!(reported.get("lost"), None);
        assert_eq!(cells(&whole(&model)), [("edge-2/web".into(), "failed".into())].into());
    }

    #[test]
    fn several_sources_have_columns_of_their_own_and_one_line() {
        let mut model = PageModel::new(vec![other("a"), other("b")]);
        let (one, two) = (key("edge-1", "web"), key("edge-1", "db"));
        let first = status(vec![(one, work(State::Applied))]);
        let reported = read(model.set_status(0, &Arc::new(first)));
        assert_eq!(reported["verdict"], "pending", "the other one is not known");
        let reported =
            read(model.set_status(1, &Arc::new(status(vec![(two, work(State::Failed))]))));
        assert_eq!(reported["columns"], json!([[1, "db"]]));
        assert_eq!(reported["line"], "0/1 cluster applied, 1 failed: edge-1");
        assert_eq!(reported["sources"][0][0], 1, "only the source that changed");
        assert_eq!(model.set_status(2, &Arc::new(status(vec![]))), ModelChange::Nothing);
    }

    #[test]
    fn unreadable_source_shows_error_and_keeps_last_state() {
        let mut model = PageModel::new(vec![info()]);
        let first = status(vec![(key("edge-1", "web"), work(State::Applied))]);
        model.set_status(0, &Arc::new(first));
        let reported = read(model.set_trouble(0, Some("no route\u{1b}")));
        assert_eq!(reported["sources"][0][1]["trouble"], "no route\\u{1b}");
        assert_eq!((&reported["verdict"], reported.get("cells")), (&json!("failure"), None));
        assert_eq!(model.set_trouble(0, Some("no route\u{1b}")), ModelChange::Nothing);
        assert_eq!(read(model.set_trouble(0, None))["verdict"], "success");
        assert_eq!(cells(&whole(&model)).len(), 1);
    }

    #[test]
    fn source_of_another_leader_is_marked() {
        let mut model = PageModel::new(vec![info()]);
        assert_eq!(whole(&model)["sources"][0]["leads"], true);
        let reported = read(model.set_leads(0, false));
        assert_eq!(reported["sources"][0][1]["leads"], false);
        assert_eq!(model.set_leads(0, false), ModelChange::Nothing);
        assert_eq!(model.set_leads(1, false), ModelChange::Nothing);
        assert_eq!(whole(&model)["sources"][0]["leads"], false);
    }

    #[test]
    fn unused_numbers_are_dropped() {
        let mut model = PageModel::new(vec![info()]);
        let works = |from: usize| {
            let all =
                (from..from + 600).map(|n| (key(&format!("c-{n}"), "web"), work(State::Applied)));
            Arc::new(status(all.collect()))
        };
        for round in 0..3 {
            assert!(
                matches!(model.set_status(0, &works(600 * round)), ModelChange::Text(_)),
                "{round}"
            );
        }
        let before = model.version();
        let mut change = model.set_status(0, &works(600 * 3));
        if change != ModelChange::Whole {
            change = model.set_status(0, &works(600 * 4));
        }
        assert_eq!(change, ModelChange::Whole);
        assert!(model.version() > before);
        assert_eq!(model.clusters.names.len(), 600);
        assert_eq!(cells(&whole(&model)).len(), 600);
    }

    #[test]
    fn ten_thousand_works_are_few_bytes_and_one_of_them_is_very_few() {
        let mut model = PageModel::new(vec![info()]);
        let mut all = BTreeMap::new();
        for cluster in 0..1_000 {
            for name in [
                "agents",
                "cert-manager",
                "dns",
                "ingress",
                "logs",
                "metrics",
                "mesh",
                "policies",
                "shop",
                "web",
            ] {
                all.insert(key(&format!("edge-{cluster:04}"), name), work(State::Available));
            }
        }
        let first = status(all.into_iter().collect());
        model.set_status(0, &Arc::new(first.clone()));
        let size = model.whole().len();
        assert!(size < 80_000, "the whole has {size} bytes");
        let mut next = first;
        next.works.insert(key("edge-0500", "web"), work(State::Failed));
        let ModelChange::Text(change) = model.set_status(0, &Arc::new(next)) else {
            panic!("a change")
        };
        assert!(change.len() < 700, "one changed work has {} bytes: {change}", change.len());
    }
}
