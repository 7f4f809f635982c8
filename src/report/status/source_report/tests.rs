use std::collections::BTreeSet;

use super::*;
use crate::status::source::HeldChanges;
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{ClusterName, SourceId, WorkName};
use gitwork_core::plan::Guard;

const NOON: &str = "2026-11-20T12:00:00Z";

fn key(cluster: &str, work: &str) -> WorkKey {
    WorkKey { cluster: ClusterName::parse(cluster).unwrap(), work: WorkName::parse(work).unwrap() }
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
        why: why.map(Into::into),
        code: why.map(|_| "Because"),
        uid: None,
        path: None,
        commit: None,
        view: Default::default(),
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
        facts: None,
        rollouts: Vec::new(),
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

fn apply(all: &[ReportedSource], trees: &mut Vec<WorkTree>) {
    let reported = ReportedWorks::of(all);
    trees.iter_mut().for_each(|tree| reported.mark(tree));
    reported.add_missing(trees);
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
fn works_between_which_objects_move_are_reported_after_those_that_are_held() {
    let moving = |state: State| WorkState {
        code: Some("MovesObjects"),
        ..self::state(state, Some("data moves from shop to shop2"))
    };
    let one = reported(vec![
        (key("a", "giver"), moving(State::Pending)),
        (key("b", "held"), moving(State::Held)),
        (key("c", "pending"), state(State::Pending, Some("changed in Git"))),
    ]);
    let shown: Vec<(&str, &str)> =
        one.works.iter().map(|work| (work.work.as_str(), work.state.as_str())).collect();
    assert_eq!(shown, [("held", "held"), ("giver", "pending")]);
    assert_eq!(one.works[1].reason.as_deref(), Some("MovesObjects"));
    let all = [ReportedSource { source: "fleet".into(), report: one }];
    let mut trees = vec![self::shown("a", "giver", "fleet")];
    trees[0].work.state = State::Applied;
    apply(&all, &mut trees);
    let giver = &trees[0].work;
    assert_eq!((giver.state, giver.reported), (State::Pending, true));
    assert_eq!(giver.message.as_deref(), Some("data moves from shop to shop2"));
}

#[test]
fn report_is_bounded_and_counts_omitted_works() {
    let why = "x".repeat(1_000);
    let works = (0..10_000).map(|n| (key("a", &format!("w{n}")), state(State::Held, Some(&why))));
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
    let now =
        SourceReport::of(None, Some("no network"), &info(), Some(&before), NOON.parse().unwrap());
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
    let works = ReportedWorks::of(&all);
    let taken = works.missing(&("a".into(), "taken".into())).unwrap().work;
    assert_eq!((taken.state, taken.reported), (State::Failed, true));
    assert_eq!(works.missing(&("z".into(), "z".into())), None);
    let mut other = shown("a", "taken", "other");
    works.mark(&mut other);
    assert_eq!(other, shown("a", "taken", "other"));
    // An unknown state of a newer version is ignored.
    let strange = ReportedWork { state: "gone".into(), ..all[0].report.works[0].clone() };
    let mut tree = shown("a", "web", "fleet");
    strange.mark(&mut tree);
    assert_eq!(tree, shown("a", "web", "fleet"));
}
