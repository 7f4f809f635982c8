use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::hub::StoredRecord;
use crate::observed_hub::tests::key;
use gitwork_core::config::source_rules::SourceRules;
use gitwork_core::model::approval::Approvals;
use gitwork_core::model::cluster_revisions::ChangedClusters;
use gitwork_core::model::name::ObjectId;
use gitwork_core::model::works_by_cluster::WorksByCluster;
use gitwork_core::plan::directives::Directives;
use gitwork_core::plan::record::Record;
use gitwork_core::render::desired::{Frozen, Suspended};

pub(crate) fn commit(number: u8) -> CommitId {
    ObjectId([number; 20])
}

pub(crate) fn desired(head: u8) -> Desired {
    Desired {
        delivered: BTreeMap::new(),
        source: SourceId::parse("fleet").unwrap(),
        commit: Some(commit(head)),
        works: Default::default(),
        frozen: Frozen::default(),
        rules: SourceRules::default(),
        approved: Approvals::default(),
        suspended: Suspended::default(),
        needed_facts: None,
        rollouts: BTreeMap::new(),
        later: BTreeMap::new(),
        facts: None,
        diagnostics: Vec::new(),
    }
}

/// The facts of a source with this head, without works and without a record.
pub(crate) fn facts(head: u8) -> SourceFacts {
    let mut facts = SourceFacts::new(SourceId::parse("fleet").unwrap(), 0);
    facts.set_desired(&Arc::new(desired(head)));
    facts.set_event(HubEvent::Listed(WorksByCluster::new()));
    facts.record.set_read(None, false);
    facts
}

pub(crate) fn stored(record: Record) -> Option<StoredRecord> {
    Some(StoredRecord { record, resource_version: "1".into() })
}

#[expect(clippy::disallowed_methods, reason = "an Instant has no other constructor")]
pub(crate) fn test_now() -> Instant {
    Instant::now()
}

#[test]
fn every_change_of_a_part_gives_another_revision() {
    let mut facts = facts(1);
    let now = test_now();
    let mut last = facts.revision();
    let mut is_changed = |facts: &SourceFacts| {
        let before = std::mem::replace(&mut last, facts.revision());
        before != last
    };
    facts.directives.set(Some(Directives::default()), now);
    assert!(is_changed(&facts) && facts.is_ready());
    facts.directives.set(Some(Directives::default()), now);
    assert!(!is_changed(&facts));
    facts.set_event(HubEvent::Listed(WorksByCluster::new()));
    assert!(is_changed(&facts) && facts.record.is_due(now) && !facts.is_ready());
    facts.record.set_read(stored(Record::default()), false);
    assert!(is_changed(&facts));
    facts.set_desired(&Arc::new(desired(1)));
    assert!(is_changed(&facts) && facts.directives.is_due(now));
    facts.history.postpone(now);
    assert!(!is_changed(&facts));
}

#[test]
fn failed_ancestry_lookup_is_repeated_after_a_wait() {
    let mut facts = facts(1);
    let now = test_now();
    let commits = BTreeSet::from([commit(9)]);
    assert_eq!(facts.ancestry_lookup(now), AncestryLookup::Known, "nothing was applied");
    let record = Record { commit: Some(commit(9)), ..Record::default() };
    facts.record.set_read(stored(record), true);
    assert_eq!(facts.ancestry_lookup(now), AncestryLookup::Due(commits.clone()));
    facts.history.postpone(now);
    assert_eq!(facts.ancestry_lookup(now), AncestryLookup::Wait);
    let later = now + Duration::from_secs(30);
    assert_eq!(facts.ancestry_lookup(later), AncestryLookup::Due(commits.clone()));
    assert!(facts.history.due().is_none(), "the wait that has ended wakes nobody again");
    facts.history.set_ancestry(commit(1), &commits, &BTreeSet::new());
    assert!(facts.knows_ancestry());
    assert_eq!(facts.ancestry_lookup(later), AncestryLookup::Known);
}

#[test]
fn record_is_read_again_when_a_work_names_an_unknown_commit() {
    let named = |number: u8| {
        let work = json!({"metadata": {
            "namespace": "edge-1", "name": "web", "uid": "u", "resourceVersion": "2",
            "labels": {"gitwork.dev/source": "fleet"},
            "annotations": {"gitwork.dev/commit": commit(number).to_string()},
        }});
        HubEvent::Changed(Box::new(ObservedWork::from_manifest_work(work).unwrap()))
    };
    let mut facts = facts(1);
    let record = || stored(Record { commit: Some(commit(2)), ..Record::default() });
    facts.record.set_read(record(), true);
    for known in [1, 2] {
        facts.set_event(named(known));
        assert!(facts.record.is_known(), "{known}");
    }
    facts.set_event(named(9));
    assert!(facts.record.is_due(test_now()), "another process may have applied it");
    facts.record.set_read(record(), true);
    facts.set_event(named(9));
    assert!(facts.record.is_known(), "it was looked up, and the work proves nothing");
}

#[test]
fn foreign_work_whose_name_git_no_longer_has_is_forgotten() {
    let key = key(1, 1);
    let work = |owner: &str| {
        let metadata = json!({
            "namespace": key.cluster.as_str(), "name": key.work.as_str(), "uid": owner,
            "resourceVersion": "2", "labels": {"gitwork.dev/source": owner},
        });
        Some(ObservedWork::from_manifest_work(json!({ "metadata": metadata })).unwrap())
    };
    for (owner, stays) in [("fleet", true), ("other", false)] {
        let mut facts = facts(1);
        let revision = |facts: &SourceFacts| facts.hub.revisions().last();
        facts.hub.record_lookup(&key, work(owner));
        let before = revision(&facts);
        facts.set_desired(&Arc::new(desired(2)));
        let is_known = facts.hub.observed().unwrap().works.contains_key(&key);
        assert_eq!((is_known, revision(&facts) == before), (stays, stays), "{owner}");
    }
}

#[test]
fn known_change_counts_only_for_the_state_that_was_compared() {
    let first = Arc::new(desired(1));
    let suspended = Suspended { source: true, ..Suspended::default() };
    let second = Arc::new(Desired { suspended, ..desired(2) });
    let third = Arc::new(Desired { commit: Some(commit(3)), ..Desired::clone(&second) });
    let change = DesiredChange::between(&first, &second);
    let mut facts = facts(1);
    assert!(facts.replace_desired(&first, None).is_some());
    let mut seen = facts.desired_revisions.last();
    let mut changed = |facts: &SourceFacts| {
        let before = std::mem::replace(&mut seen, facts.desired_revisions.last());
        facts.desired_revisions.since(before)
    };
    let ReplacedDesired(before) = facts.replace_desired(&second, Some(&change)).unwrap();
    assert!(before.is_some_and(|before| Arc::ptr_eq(&before, &first)));
    assert_eq!(changed(&facts), ChangedClusters::All);
    // It is about another state: the two are compared again, and no cluster differs.
    assert!(facts.replace_desired(&third, Some(&change)).is_some());
    assert_eq!(changed(&facts), ChangedClusters::Some(BTreeSet::new()));
    assert!(facts.replace_desired(&third, Some(&change)).is_none());
}
