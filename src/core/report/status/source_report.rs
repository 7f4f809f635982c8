//! The daemon's report on a source, stored on the hub for clients that read only the hub: held
//! changes, and works that differ from Git for a reason that no agent reports. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::source::{SourceStatus, WorkState};
use super::tree::WorkTree;
use super::{State, WorkStatus};
use crate::limits;
use crate::model::name::{CommitId, WorkKey};
use crate::plan::record;
use crate::plan::record::RecordError;
use crate::report::page;
use crate::report::page::SourceInfo;
use crate::text::truncate::truncate_chars;

/// The report on one source. It holds names and reasons, and no content of works.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceReport {
    /// When the reported state began.
    pub at: Option<Timestamp>,
    /// The planned commit.
    pub commit: Option<CommitId>,
    /// Why the source cannot be read, or why its newest commit is not applied.
    #[serde(rename = "trouble", skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Changes that wait for approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<ReportedHold>,
    /// Works that are held, suspended, frozen, in conflict or rejected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub works: Vec<ReportedWork>,
    /// Works left out because of the report's size limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub works_left_out: usize,
}

/// Changes that one guard holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedHold {
    /// The guard: `budget`, `rewind`, `restore` or `window`.
    pub guard: String,
    /// The hash for `gitwork approve`.
    pub hash: String,
    pub works: usize,
    pub reason: String,
    /// The command that approves the changes.
    pub command: String,
}

/// One work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedWork {
    pub cluster: String,
    pub work: String,
    pub state: String,
    /// The reason in one word, as in `gitwork plan -o json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// A source and its report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportedSource {
    pub source: String,
    #[serde(flatten)]
    pub report: SourceReport,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Whether the hub alone does not show the reason of the work's state.
fn is_hidden(work: &WorkState) -> bool {
    let is_open = matches!(work.state, State::Held | State::Suspended);
    work.why.is_some() && (is_open || work.state.is_failure())
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

    fn is(&self, cluster: &str, work: &str) -> bool {
        self.cluster == cluster && self.work == work
    }

    fn state(&self) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == self.state)
    }

    /// A work that the hub does not have.
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
        WorkTree { work, conditions: Vec::new(), objects: Vec::new() }
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
        for (key, work) in status.works.iter().filter(|(_, work)| is_hidden(work)) {
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
        let Self { at: _, commit: _, error, holds, works, works_left_out } = self;
        *error == other.error
            && *holds == other.holds
            && *works == other.works
            && *works_left_out == other.works_left_out
    }

    /// The report as stored on the hub.
    pub fn text(&self) -> String {
        record::to_text(self)
    }

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
            let what = crate::text::style::count(*works, "work");
            lines.push(format!(
                "source {source}: {what} held ({guard}){at}: {reason}; to approve only these: \
                 {command}"
            ));
        }
        if reported.works_left_out > 0 {
            let left = reported.works_left_out;
            lines.push(format!(
                "source {source}: {left} more works are held, suspended or refused: `gitwork \
                 plan` lists them"
            ));
        }
        lines
    }

    fn is_of(&self, tree: &WorkTree) -> bool {
        tree.work.source.as_ref() == Some(&self.source)
    }

    /// The works in the report, as cluster and name.
    pub fn keys(&self) -> BTreeSet<(String, String)> {
        self.report.works.iter().map(|work| (work.cluster.clone(), work.work.clone())).collect()
    }
}

/// Adds the reports to the works of the hub, and adds works that the hub does not have.
pub fn apply(all: &[ReportedSource], trees: &mut Vec<WorkTree>) {
    for one in all {
        let key = |cluster: &str, work: &str| format!("{cluster}/{work}");
        let works = one.report.works.iter();
        let mut left: BTreeMap<String, &ReportedWork> =
            works.map(|work| (key(&work.cluster, &work.work), work)).collect();
        for tree in trees.iter_mut().filter(|tree| one.is_of(tree)) {
            if let Some(work) = left.remove(&key(&tree.work.cluster, &tree.work.work)) {
                work.mark(tree);
            }
        }
        for work in left.into_values() {
            let mut tree = work.alone(&one.source);
            work.mark(&mut tree);
            trees.push(tree);
        }
    }
    trees.sort_by(|a, b| (&a.work.cluster, &a.work.work).cmp(&(&b.work.cluster, &b.work.work)));
}

/// One work from the hub with its report; `None` if neither has it.
pub fn one(
    all: &[ReportedSource],
    key: &(String, String),
    there: Option<&WorkTree>,
) -> Option<WorkTree> {
    let reported = all.iter().find_map(|one| {
        let work = one.report.works.iter().find(|work| work.is(&key.0, &key.1))?;
        // A work of another source with this name is shown unchanged.
        there.is_none_or(|tree| one.is_of(tree)).then_some((one, work))
    });
    let mut tree = match (there, reported) {
        (Some(tree), _) => tree.clone(),
        (None, Some((one, work))) => work.alone(&one.source),
        (None, None) => return None,
    };
    if let Some((_, work)) = reported {
        work.mark(&mut tree);
    }
    Some(tree)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::digest::Digest;
    use crate::model::name::{ClusterName, SourceId, WorkName};
    use crate::plan::Guard;
    use crate::report::status::source::HeldChanges;
    use crate::report::status::view::StatusView;

    const NOON: &str = "2026-11-20T12:00:00Z";

    fn key(cluster: &str, work: &str) -> WorkKey {
        WorkKey {
            cluster: ClusterName::parse(cluster).unwrap(),
            work: WorkName::parse(work).unwrap(),
        }
    }

    fn info() -> SourceInfo {
        SourceInfo {
            id: SourceId::parse("fleet").unwrap(),
            repository: "https://git.example/fleet.git".into(),
            reference: "branch main".into(),
            arguments: vec!["--source-id".into(), "fleet".into()],
            pages: None,
        }
    }

    fn state(state: State, why: Option<&str>) -> WorkState {
        WorkState {
            state,
            since: NOON.parse().unwrap(),
            why: why.map(str::to_owned),
            code: why.map(|_| "Because"),
            uid: None,
            path: None,
            commit: None,
            view: StatusView::default(),
        }
    }

    fn status(works: Vec<(WorkKey, WorkState)>) -> SourceStatus {
        SourceStatus {
            source: info().id,
            commit: None,
            record_generation: 0,
            works: works.into_iter().collect(),
            unreachable: BTreeSet::new(),
            errors: 0,
            first_error: None,
            findings: Vec::new(),
            held: vec![HeldChanges {
                guard: Guard::Budget,
                hash: Digest::of(b"plan"),
                works: 2,
                reason: "too many".into(),
            }],
        }
    }

    fn reported(works: Vec<(WorkKey, WorkState)>) -> SourceReport {
        SourceReport::of(Some(&status(works)), None, &info(), None, NOON.parse().unwrap())
    }

    fn shown(cluster: &str, work: &str, source: &str) -> WorkTree {
        ReportedWork { cluster: cluster.into(), work: work.into(), ..ReportedWork::default() }
            .alone(source)
    }

    #[test]
    fn report_has_only_works_that_hub_does_not_explain() {
        let one = reported(vec![
            (key("a", "applied"), state(State::Applied, None)),
            (key("a", "pending"), state(State::Pending, Some("changed in Git"))),
            (key("a", "agent-failed"), state(State::Failed, None)),
            (key("a", "held"), state(State::Held, Some("removed from Git"))),
            (key("b", "refused"), state(State::Failed, Some("the hub refuses it"))),
            (key("b", "suspended"), state(State::Suspended, Some("suspended"))),
        ]);
        let names: Vec<&str> = one.works.iter().map(|work| work.work.as_str()).collect();
        assert_eq!(names, ["held", "refused", "suspended"]);
        let hash = Digest::of(b"plan");
        let source = ReportedSource { source: "fleet".into(), report: one.clone() };
        assert_eq!(
            source.lines(),
            [format!(
                "source fleet: 2 works held (budget) since 2026-11-20T12:00:00Z: too many; to \
                 approve only these: \
                 gitwork approve {hash} --source-id fleet"
            )]
        );
        assert_eq!(SourceReport::read(&one.text()), Ok(one.clone()));
        let later = SourceReport { at: None, commit: None, ..one.clone() };
        assert!(
            one.is_same_except_time(&later)
                && !one.is_same_except_time(&SourceReport { error: Some("x".into()), ..later })
        );
    }

    #[test]
    fn report_is_bounded_and_counts_omitted_works() {
        let why = "x".repeat(1_000);
        let works =
            (0..10_000).map(|n| (key("a", &format!("w{n}")), state(State::Held, Some(&why))));
        let one = reported(works.collect());
        assert!(one.text().len() <= limits::REPORT_BYTES_MAX, "{}", one.text().len());
        assert_eq!(one.works.len() + one.works_left_out, 10_000);
        assert!(one.works.len() > 100, "{}", one.works.len());
        let lines = ReportedSource { source: "fleet".into(), report: one }.lines();
        assert!(lines.last().unwrap().contains("more works are held"), "{lines:?}");
        let huge = "x".repeat(limits::RECORD_BYTES_MAX + 1);
        assert!(matches!(SourceReport::read(&huge), Err(RecordError::TooLarge { .. })));
        assert!(matches!(SourceReport::read("7"), Err(RecordError::Form(_))));
    }

    #[test]
    fn unknown_state_keeps_previous_report() {
        let before = reported(vec![(key("a", "held"), state(State::Held, Some("why")))]);
        let now = SourceReport::of(
            None,
            Some("no network"),
            &info(),
            Some(&before),
            NOON.parse().unwrap(),
        );
        assert_eq!((&now.works, &now.holds), (&before.works, &before.holds));
        let lines = ReportedSource { source: "fleet".into(), report: now }.lines();
        assert_eq!(lines.first().map(String::as_str), Some("source fleet: no network"));
    }

    #[test]
    fn report_marks_works_and_adds_works_missing_on_hub() {
        let all = [ReportedSource {
            source: "fleet".into(),
            report: reported(vec![
                (key("a", "web"), state(State::Held, Some("removed"))),
                (key("a", "taken"), state(State::Failed, Some("the name is taken"))),
                (key("b", "new"), state(State::Suspended, Some("suspended"))),
            ]),
        }];
        let mut trees = vec![shown("a", "web", "fleet"), shown("a", "taken", "other")];
        trees[0].work.manifests = 3;
        apply(&all, &mut trees);
        let reported: Vec<String> = trees
            .iter()
            .map(|tree| {
                let work = &tree.work;
                let source = work.source.as_deref().unwrap_or_default();
                format!("{}/{} {source} {} {}", work.cluster, work.work, work.state, work.manifests)
            })
            .collect();
        let expected = [
            "a/taken other pending 0",
            "a/taken fleet failed 0",
            "a/web fleet held 3",
            "b/new fleet suspended 0",
        ];
        assert_eq!(reported, expected);
        let taken = ("a".to_owned(), "taken".to_owned());
        let other = shown("a", "taken", "other");
        assert_eq!(one(&all, &taken, Some(&other)), Some(other));
        assert_eq!(one(&all, &taken, None).unwrap().work.state, State::Failed);
        assert_eq!(one(&all, &("z".into(), "z".into()), None), None);
        // An unknown state of a newer version is ignored.
        let strange = ReportedWork { state: "gone".into(), ..all[0].report.works[0].clone() };
        let mut tree = shown("a", "web", "fleet");
        strange.mark(&mut tree);
        assert_eq!(tree, shown("a", "web", "fleet"));
    }
}
