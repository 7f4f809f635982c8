use super::*;
use crate::facts::tests::{commit, desired, facts, stored, test_now};
use gitwork_core::model::name::RepoPath;
use gitwork_core::plan::directives::Directives;
use gitwork_core::render::desired::Frozen;

const NOON: &str = "2026-11-20T12:00:00Z";

fn policy(guards: &mut Guards, facts: &SourceFacts, now: &str) -> PlanPolicy {
    guards.update(facts, now.parse().unwrap(), &|_| None);
    guards.policy().clone()
}

/// The record to write before a plan without changes.
fn record(guards: &Guards, facts: &SourceFacts) -> Option<Record> {
    guards.record_to_write(facts, &Plan::default(), &GroupRecords::new())
}

#[test]
fn a_clock_that_jumps_opens_and_closes_windows_and_nothing_else() {
    let windows: ChangeWindows =
        serde_yaml::from_str("{allow: [{start: '09:00', end: '17:00'}]}").unwrap();
    let mut guards = Guards::new(GuardOptions { windows, ..GuardOptions::default() });
    let facts = facts(1);
    let mut policies = Vec::new();
    for (now, open) in [
        (NOON, true),
        ("2026-11-20T20:00:00Z", false),
        ("1970-01-01T00:00:00Z", false),
        ("2100-02-28T16:59:59Z", true),
        (NOON, true),
    ] {
        let mut policy = policy(&mut guards, &facts, now);
        assert_eq!(policy.closed.take().is_none(), open, "{now}");
        policies.push(policy);
    }
    policies.dedup();
    assert_eq!(policies.len(), 1, "all else is the same");
}

#[test]
fn deletions_on_a_restored_hub_are_held_until_an_operator_confirms() {
    let mut facts = facts(1);
    let mut guards = Guards::new(GuardOptions::default());
    facts.record.observe_generation(3);
    facts.record.set_read(None, true);
    assert!(policy(&mut guards, &facts, NOON).restored.is_some());
    let written = record(&guards, &facts).unwrap();
    assert!(written.restored && written.record_generation > 3, "{written:?}");

    let approval = written.record_generation;
    facts.record.set_written(stored(written).unwrap());
    assert!(policy(&mut guards, &facts, NOON).restored.is_some());
    assert_eq!(record(&guards, &facts), None);
    let mut directives = Directives::default();
    directives.approvals.restored.insert(approval);
    facts.directives.set(Some(directives), test_now());
    assert!(policy(&mut guards, &facts, NOON).restored.is_none());
    let confirmed = record(&guards, &facts).unwrap();
    assert!(!confirmed.restored, "{confirmed:?}");
}

#[test]
fn another_origin_is_held_until_an_operator_approves_it_on_the_hub() {
    let of = |name: &str| SourceOrigin::new(name, &RepoPath::root());
    let guards = |origin: Option<SourceOrigin>| {
        Guards::new(GuardOptions { origin, ..GuardOptions::default() })
    };
    let mut facts = facts(1);
    let (mut a, mut b) = (guards(Some(of("a"))), guards(Some(of("b"))));
    assert_eq!(record(&a, &facts), None, "the hub has nothing of it");
    facts.record.set_read(stored(Record::default()), true);
    assert!(policy(&mut a, &facts, NOON).other_origin.is_none());
    let written = record(&a, &facts).unwrap();
    assert_eq!(written.origin, Some(of("a")));
    facts.record.set_written(stored(written).unwrap());
    assert!(policy(&mut a, &facts, NOON).other_origin.is_none());
    assert_eq!(record(&a, &facts), None);
    assert!(policy(&mut guards(None), &facts, NOON).other_origin.is_none());

    let held = policy(&mut b, &facts, NOON).other_origin.unwrap();
    let source = desired(1).source;
    assert_eq!(*held, Approval::Origin { source: source.clone(), from: of("a"), to: of("b") });
    assert!(!b.is_nothing_held(&desired(1), &Plan::default()));
    assert_eq!(record(&b, &facts), None);
    // The other repository cannot approve itself.
    let mut directives = Directives::default();
    directives.approvals.add(&source, Arc::unwrap_or_clone(held));
    let in_git = Desired { approved: directives.approvals.clone(), ..desired(1) };
    facts.set_desired(&Arc::new(in_git));
    assert!(policy(&mut b, &facts, NOON).other_origin.is_some());
    facts.directives.set(Some(directives), test_now());
    assert!(policy(&mut b, &facts, NOON).other_origin.is_none());
    let written = record(&b, &facts).unwrap();
    assert_eq!(written.origin, Some(of("b")));
    facts.record.set_written(stored(written).unwrap());
    assert!(policy(&mut b, &facts, NOON).other_origin.is_none());
    assert!(policy(&mut a, &facts, NOON).other_origin.is_some(), "the way back needs another one");
}

#[test]
fn source_in_a_folder_has_a_record_without_a_commit() {
    let mut facts = facts(1);
    facts.set_desired(&Arc::new(Desired { commit: None, ..desired(1) }));
    facts.record.set_read(stored(Record::default()), true);
    let origin = Some(SourceOrigin::new("/fleet", &RepoPath::root()));
    let guards = Guards::new(GuardOptions { origin, ..GuardOptions::default() });
    let written = record(&guards, &facts).unwrap();
    assert!(written.origin.is_some() && written.commit.is_none(), "{written:?}");
}

#[test]
fn on_a_restored_hub_a_rewind_is_held_although_the_policy_follows_it() {
    for restored in [false, true] {
        let mut facts = facts(1);
        let record = Record { commit: Some(commit(9)), restored, ..Record::default() };
        facts.record.set_read(stored(record), true);
        facts.history.set_ancestry(commit(1), &[commit(9)].into(), &[commit(9)].into());
        let rewind = RewindPolicy::Follow;
        let mut guards = Guards::new(GuardOptions { rewind, ..GuardOptions::default() });
        assert_eq!(policy(&mut guards, &facts, NOON).held_rewind.is_some(), restored);
    }
}

#[test]
fn a_commit_that_cannot_be_read_brings_no_rules_for_the_next() {
    let guards = Guards::new(GuardOptions::default());
    let nothing_is_held = |frozen: Frozen| {
        guards.is_nothing_held(&Desired { frozen, ..desired(1) }, &Plan::default())
    };
    assert!(nothing_is_held(Frozen::default()));
    assert!(!nothing_is_held(Frozen { source: true, ..Frozen::default() }));
    assert!(!nothing_is_held(Frozen { deletes: true, ..Frozen::default() }));
}
