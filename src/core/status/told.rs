//! What the daemon tells on the hub of a source, for who looks at the hub alone: what waits for somebody's word, and
//! the works that are not as Git wants them for a reason that no agent knows. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::source::{SourceStatus, WorkState, cut};
use super::tree::WorkTree;
use super::{State, WorkStatus};
use crate::core::name::{CommitId, WorkKey};
use crate::core::page::{self, SourceInfo};
use crate::core::record::{self, RecordError};
use crate::limits;

/// What is told of one source. It holds names and reasons, and nothing of what is in a work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Told {
    /// When it came to be so.
    pub at: Option<Timestamp>,
    /// The commit that is planned for.
    pub commit: Option<CommitId>,
    /// Why the source cannot be read, or its newest commit is not applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// What waits for approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<ToldHold>,
    /// Works that are held, suspended, frozen, in conflict or refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub works: Vec<ToldWork>,
    /// Works that are left out, as they would be too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub works_left_out: usize,
}

/// Changes that one guard holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToldHold {
    /// What holds: `budget`, `rewind`, `restore` or `window`.
    pub guard: String,
    /// What `gitwork approve` takes.
    pub hash: String,
    pub works: usize,
    pub reason: String,
    /// What lets it through.
    pub command: String,
}

/// One work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToldWork {
    pub cluster: String,
    pub work: String,
    pub state: String,
    /// In one word, as `gitwork plan -o json` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// What is told of a source, and of which.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToldSource {
    pub source: String,
    #[serde(flatten)]
    pub told: Told,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Whether the hub does not show by itself why a work is as it is.
fn is_hidden(work: &WorkState) -> bool {
    let is_open = matches!(work.state, State::Held | State::Suspended);
    work.why.is_some() && (is_open || work.state.is_failure())
}

impl ToldWork {
    fn of(key: &WorkKey, work: &WorkState) -> Self {
        Self {
            cluster: key.cluster.to_string(),
            work: key.work.to_string(),
            state: work.state.as_str().to_owned(),
            reason: work.reason().map(|reason| cut(&reason, limits::STATUS_TEXT_CHARS_MAX)),
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
            told: false,
        };
        WorkTree { work, conditions: Vec::new(), objects: Vec::new() }
    }

    fn mark(&self, tree: &mut WorkTree) {
        let Some(state) = self.state() else { return };
        tree.work.state = state;
        tree.work.reason.clone_from(&self.reason);
        tree.work.message = Some(cut(&self.message, limits::STATUS_TEXT_CHARS_MAX));
        tree.work.since = self.since.map(|since| since.to_string());
        tree.work.told = true;
    }
}

impl Told {
    /// What is to be told. `before` stands for what is not known yet.
    pub fn of(
        status: Option<&SourceStatus>,
        trouble: Option<&str>,
        info: &SourceInfo,
        before: Option<&Self>,
        now: Timestamp,
    ) -> Self {
        let trouble = trouble.map(|why| cut(why, limits::HUB_MESSAGE_CHARS_MAX));
        let mut told = match status {
            None => before.cloned().unwrap_or_default(),
            Some(status) => Self {
                at: None,
                commit: status.commit,
                trouble: None,
                holds: status.held.iter().map(|held| ToldHold::of(held, info)).collect(),
                works: Vec::new(),
                works_left_out: 0,
            },
        };
        (told.at, told.trouble) = (Some(now), trouble);
        if let Some(status) = status {
            told.add_works(status);
        }
        told
    }

    fn add_works(&mut self, status: &SourceStatus) {
        let mut left = limits::TOLD_BYTES_MAX.saturating_sub(self.text().len());
        for (key, work) in status.works.iter().filter(|(_, work)| is_hidden(work)) {
            let work = ToldWork::of(key, work);
            let bytes = serde_json::to_string(&work).map_or(usize::MAX, |text| text.len() + 1);
            if bytes < left && self.works_left_out == 0 {
                left -= bytes;
                self.works.push(work);
            } else {
                self.works_left_out += 1;
            }
        }
    }

    /// Whether it says the same, whenever that came to be.
    pub fn says(&self, other: &Self) -> bool {
        let Self { at: _, commit: _, trouble, holds, works, works_left_out } = self;
        *trouble == other.trouble
            && *holds == other.holds
            && *works == other.works
            && *works_left_out == other.works_left_out
    }

    /// As the hub keeps it.
    pub fn text(&self) -> String {
        record::to_text(self)
    }

    pub fn read(text: &str) -> Result<Self, RecordError> {
        record::from_text(text)
    }
}

impl ToldHold {
    fn of(held: &super::source::HeldChanges, info: &SourceInfo) -> Self {
        let page::Held { guard, hash, works, why, command } = page::Held::of(held, info);
        Self { guard: guard.to_owned(), hash, works, reason: why, command }
    }
}

impl ToldSource {
    /// What waits for somebody, for people: one line for each thing, with what to do.
    pub fn lines(&self) -> Vec<String> {
        let (source, told) = (&self.source, &self.told);
        let at = told.at.map_or_else(String::new, |at| format!(" since {at:.0}"));
        let mut lines = Vec::new();
        lines.extend(told.trouble.iter().map(|why| format!("source {source}: {why}")));
        for hold in &told.holds {
            let ToldHold { guard, works, reason, command, .. } = hold;
            let what = crate::core::report::count(*works, "work");
            lines.push(format!(
                "source {source}: {what} held ({guard}){at}: {reason}; to let just these through: {command}"
            ));
        }
        if told.works_left_out > 0 {
            let left = told.works_left_out;
            lines.push(format!(
                "source {source}: {left} more works are held, suspended or refused: `gitwork plan` names them"
            ));
        }
        lines
    }

    fn is_of(&self, tree: &WorkTree) -> bool {
        tree.work.source.as_ref() == Some(&self.source)
    }

    /// The works that it tells of.
    pub fn keys(&self) -> BTreeSet<(String, String)> {
        self.told.works.iter().map(|work| (work.cluster.clone(), work.work.clone())).collect()
    }
}

/// Sets in works that the hub shows what is told of them, and adds those that the hub does not have.
pub fn apply(all: &[ToldSource], trees: &mut Vec<WorkTree>) {
    for one in all {
        let key = |cluster: &str, work: &str| format!("{cluster}/{work}");
        let works = one.told.works.iter();
        let mut left: BTreeMap<String, &ToldWork> =
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

/// One work as the hub shows it, with what is told of it; `None` where neither knows it.
pub fn one(
    all: &[ToldSource],
    key: &(String, String),
    there: Option<&WorkTree>,
) -> Option<WorkTree> {
    let told = all.iter().find_map(|one| {
        let work = one.told.works.iter().find(|work| work.is(&key.0, &key.1))?;
        // A work of another source that has the name is shown as it is.
        there.is_none_or(|tree| one.is_of(tree)).then_some((one, work))
    });
    let mut tree = match (there, told) {
        (Some(tree), _) => tree.clone(),
        (None, Some((one, work))) => work.alone(&one.source),
        (None, None) => return None,
    };
    if let Some((_, work)) = told {
        work.mark(&mut tree);
    }
    Some(tree)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::digest::Digest;
    use crate::core::name::{ClusterName, SourceId, WorkName};
    use crate::core::plan::Guard;
    use crate::core::status::source::HeldChanges;
    use crate::core::status::view::StatusView;

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
            moves: 0,
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

    fn told(works: Vec<(WorkKey, WorkState)>) -> Told {
        Told::of(Some(&status(works)), None, &info(), None, NOON.parse().unwrap())
    }

    fn shown(cluster: &str, work: &str, source: &str) -> WorkTree {
        ToldWork { cluster: cluster.into(), work: work.into(), ..ToldWork::default() }.alone(source)
    }

    #[test]
    fn only_what_the_hub_does_not_show_by_itself_is_told() {
        let one = told(vec![
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
        let source = ToldSource { source: "fleet".into(), told: one.clone() };
        assert_eq!(
            source.lines(),
            [format!(
                "source fleet: 2 works held (budget) since 2026-11-20T12:00:00Z: too many; to let just these through: \
                 gitwork approve {hash} --source-id fleet"
            )]
        );
        assert_eq!(Told::read(&one.text()), Ok(one.clone()));
        let later = Told { at: None, commit: None, ..one.clone() };
        assert!(one.says(&later) && !one.says(&Told { trouble: Some("x".into()), ..later }));
    }

    #[test]
    fn it_is_bounded_and_says_what_is_left_out() {
        let why = "x".repeat(1_000);
        let works =
            (0..10_000).map(|n| (key("a", &format!("w{n}")), state(State::Held, Some(&why))));
        let one = told(works.collect());
        assert!(one.text().len() <= limits::TOLD_BYTES_MAX, "{}", one.text().len());
        assert_eq!(one.works.len() + one.works_left_out, 10_000);
        assert!(one.works.len() > 100, "{}", one.works.len());
        let lines = ToldSource { source: "fleet".into(), told: one }.lines();
        assert!(lines.last().unwrap().contains("more works are held"), "{lines:?}");
        let huge = "x".repeat(limits::RECORD_BYTES_MAX + 1);
        assert!(matches!(Told::read(&huge), Err(RecordError::TooLarge { .. })));
        assert!(matches!(Told::read("7"), Err(RecordError::Form(_))));
    }

    #[test]
    fn what_is_not_known_yet_stays_as_it_was_told() {
        let before = told(vec![(key("a", "held"), state(State::Held, Some("why")))]);
        let now = Told::of(None, Some("no network"), &info(), Some(&before), NOON.parse().unwrap());
        assert_eq!((&now.works, &now.holds), (&before.works, &before.holds));
        let lines = ToldSource { source: "fleet".into(), told: now }.lines();
        assert_eq!(lines.first().map(String::as_str), Some("source fleet: no network"));
    }

    #[test]
    fn works_are_marked_and_those_that_the_hub_does_not_have_are_added() {
        let all = [ToldSource {
            source: "fleet".into(),
            told: told(vec![
                (key("a", "web"), state(State::Held, Some("removed"))),
                (key("a", "taken"), state(State::Failed, Some("the name is taken"))),
                (key("b", "new"), state(State::Suspended, Some("suspended"))),
            ]),
        }];
        let mut trees = vec![shown("a", "web", "fleet"), shown("a", "taken", "other")];
        trees[0].work.manifests = 3;
        apply(&all, &mut trees);
        let told: Vec<String> = trees
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
        assert_eq!(told, expected);
        let taken = ("a".to_owned(), "taken".to_owned());
        let other = shown("a", "taken", "other");
        assert_eq!(one(&all, &taken, Some(&other)), Some(other));
        assert_eq!(one(&all, &taken, None).unwrap().work.state, State::Failed);
        assert_eq!(one(&all, &("z".into(), "z".into()), None), None);
        // A state that this version does not know is not shown as another one.
        let strange = ToldWork { state: "gone".into(), ..all[0].told.works[0].clone() };
        let mut tree = shown("a", "web", "fleet");
        strange.mark(&mut tree);
        assert_eq!(tree, shown("a", "web", "fleet"));
    }
}
