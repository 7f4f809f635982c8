use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::config::source_rules::SourceRules;
use crate::model::name::{ObjectId, SourceId};
use crate::render::desired::{Frozen, Suspended};

fn commit(number: u8) -> CommitId {
    ObjectId([number; 20])
}

fn desired(head: u8) -> Desired {
    Desired {
        source: SourceId::parse("fleet").unwrap(),
        commit: Some(commit(head)),
        works: BTreeMap::new(),
        frozen: Frozen::default(),
        rules: SourceRules::default(),
        approved: Approvals::default(),
        suspended: Suspended::default(),
        diagnostics: Vec::new(),
    }
}

fn stored(record: Record) -> Option<StoredRecord> {
    Some(StoredRecord { record, resource_version: "1".into() })
}

fn policy(guards: &mut Guards, desired: &Desired, now: &str) -> PlanPolicy {
    let mut policy = PlanPolicy::default();
    let now = now.parse().unwrap();
    guards.apply(&mut policy, desired, &BTreeSet::new(), now, &|_| None);
    policy
}

#[expect(clippy::disallowed_methods, reason = "an Instant has no other constructor")]
fn test_now() -> Instant {
    Instant::now()
}

const NOON: &str = "2026-11-20T12:00:00Z";

#[test]
fn a_clock_that_jumps_opens_and_closes_windows_and_nothing_else() {
    let windows: ChangeWindows =
        serde_yaml::from_str("{allow: [{start: '09:00', end: '17:00'}]}").unwrap();
    let options = GuardOptions { windows, ..GuardOptions::default() };
    let mut guards = Guards::new(options, 0);
    guards.set_record(None, false);
    let mut policies = Vec::new();
    for (now, open) in [
        (NOON, true),
        ("2026-11-20T20:00:00Z", false),
        ("1970-01-01T00:00:00Z", false),
        ("2100-02-28T16:59:59Z", true),
        (NOON, true),
    ] {
        let mut policy = policy(&mut guards, &desired(1), now);
        assert_eq!(policy.closed.take().is_none(), open, "{now}");
        policies.push(policy);
    }
    policies.dedup();
    assert_eq!(policies.len(), 1, "all else is the same");
}

#[test]
fn a_hub_whose_record_is_older_than_what_is_remembered_was_restored() {
    let record = |record_generation| stored(Record { record_generation, ..Record::default() });
    for (known, found, has_works, restored) in [
        (0, None, true, false),
        (3, record(3), true, false),
        (3, record(4), true, false),
        (3, record(2), false, true),
        (3, None, true, true),
        // A hub without any data of the source is new.
        (3, None, false, false),
    ] {
        let mut guards = Guards::new(GuardOptions::default(), known);
        guards.set_record(found.clone(), has_works);
        let policy = policy(&mut guards, &desired(1), NOON);
        assert_eq!(policy.restored.is_some(), restored, "{known} {found:?} {has_works}");
        let plan = Plan::default();
        let next = guards.record_to_write(&desired(1), &BTreeSet::new(), &plan, true);
        assert_eq!(next.as_ref().is_some_and(|next| next.restored), restored, "{next:?}");
        assert!(next.is_none_or(|next| next.record_generation > known));
    }
}

#[test]
fn what_is_remembered_elsewhere_judges_the_hub_once_it_is_known() {
    let mut guards = Guards::new(GuardOptions::default(), 2);
    let record = || stored(Record { record_generation: 2, ..Record::default() });
    guards.set_record(record(), true);
    guards.set_directives(Some(Directives::default()), test_now());
    assert!(
        !guards.observe_record_generation(0)
            && !guards.observe_record_generation(2)
            && guards.is_known()
    );
    assert!(policy(&mut guards, &desired(1), NOON).restored.is_none());
    assert!(guards.observe_record_generation(3) && !guards.is_known(), "the hub is asked again");
    guards.set_record(record(), true);
    assert!(policy(&mut guards, &desired(1), NOON).restored.is_some());
}

#[test]
fn on_a_restored_hub_a_rewind_is_held_whatever_the_policy() {
    for (rewind, restored, held) in [
        (RewindPolicy::Hold, false, true),
        (RewindPolicy::Warn, false, false),
        (RewindPolicy::Follow, false, false),
        (RewindPolicy::Warn, true, true),
        (RewindPolicy::Follow, true, true),
    ] {
        let options = GuardOptions { rewind, ..GuardOptions::default() };
        let mut guards = Guards::new(options, 0);
        let record = Record { commit: Some(commit(9)), restored, ..Record::default() };
        guards.set_record(stored(record), true);
        let desired = desired(1);
        let looked_up = guards.unknown_commits(&desired, &BTreeSet::new());
        assert_eq!(looked_up, [commit(9)].into());
        guards.record_ancestry(commit(1), &looked_up, &looked_up.clone());
        let policy = policy(&mut guards, &desired, NOON);
        assert_eq!(policy.held_rewind.is_some(), held, "{rewind:?} {restored}");
        assert_eq!(guards.followed().is_some(), !held && rewind == RewindPolicy::Warn);
    }
}

#[test]
fn rewind_counts_only_after_a_read_of_git_that_follows_the_abandoned_commit() {
    let mut guards = Guards::new(GuardOptions::default(), 0);
    let (desired, newer) = (desired(1), BTreeSet::from([commit(9)]));
    let record = Record { commit: Some(commit(9)), ..Record::default() };
    guards.set_record(stored(record), true);
    guards.record_ancestry(commit(1), &newer, &newer);
    // Another process may have read Git after this one, and applied what it found.
    policy(&mut guards, &desired, NOON);
    assert!(guards.doubts_read());
    let known =
        |commits: BTreeSet<_>| AppliedCommits { on_works: Arc::new(commits), recorded: None };
    guards.read_after(known([commit(7)].into()));
    policy(&mut guards, &desired, NOON);
    assert!(guards.doubts_read(), "of another commit that is no news");
    guards.read_after(known(newer.clone()));
    policy(&mut guards, &desired, NOON);
    assert!(!guards.doubts_read());
    assert_eq!(guards.followed(), Some(&newer));
    // An approval names both ends: it needs no second look.
    let rewind = Rewind { source: desired.source.clone(), from: newer, to: commit(1) };
    let mut directives = Directives::default();
    directives.approvals.rewinds.insert(rewind);
    guards.set_directives(Some(directives), test_now());
    guards.read_after(AppliedCommits::default());
    policy(&mut guards, &desired, NOON);
    assert!(!guards.doubts_read());
}

#[test]
fn a_commit_that_cannot_be_read_brings_no_rules_for_the_next() {
    let nothing_is_held = |frozen: Frozen| {
        let desired = Desired { frozen, ..desired(1) };
        Guards::is_nothing_held(&PlanPolicy::default(), &desired, &Plan::default())
    };
    assert!(nothing_is_held(Frozen::default()));
    assert!(!nothing_is_held(Frozen { source: true, ..Frozen::default() }));
    assert!(!nothing_is_held(Frozen { deletes: true, ..Frozen::default() }));
}

#[test]
fn sync_request_counts_once_and_not_if_made_before_the_start() {
    let mut guards = Guards::new(GuardOptions::default(), 0);
    let directives = |text: &str| {
        let reconcile = Some(text.to_owned());
        Some(Directives { reconcile, ..Directives::default() })
    };
    let now = test_now();
    assert!(guards.wants_directives(now) && !guards.is_known());
    // Whether the directives changed, and whether a sync is requested.
    let set = |guards: &mut Guards, found| {
        guards.reset_changed();
        let wanted = guards.set_directives(found, now);
        (guards.has_changed(), wanted)
    };
    assert_eq!(set(&mut guards, None), (false, false));
    assert!(!guards.wants_directives(now + Duration::from_secs(1)));
    assert!(guards.wants_directives(now + limits::DIRECTIVES_RETRY));
    assert_eq!(set(&mut guards, directives("one")), (true, false));
    assert_eq!(set(&mut guards, directives("one")), (false, false));
    assert_eq!(set(&mut guards, directives("two")), (true, true));
    // What cannot be read changes nothing of what is known.
    assert_eq!(set(&mut guards, None), (false, false));
    assert_eq!(set(&mut guards, directives("two")), (false, false));
}
