use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::status::State;
use crate::status::view::StatusView;
use gitwork_core::config::AdoptionPolicy;
use gitwork_core::config::window::Closed;
use gitwork_core::model::approval::Rewind;
use gitwork_core::model::diagnostic::{Code, Location, Scope, Span};
use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::{RepoPath, WorkName};
use gitwork_core::model::object_digest::ObjectDigest;
use gitwork_core::plan::budget::Excess;
use gitwork_core::plan::conflicting_manager::ConflictingManager;
use gitwork_core::plan::drift_backoff::{Contention, Contentions};
use gitwork_core::plan::moves::{MoveProgress, ObjectMove};
use gitwork_core::plan::name_holder::NameHolder;
use gitwork_core::plan::observed::{Observed, ObservedWork};
use gitwork_core::plan::{Effect, Plan, PlanStep, Reason};
use gitwork_core::render::desired::{Desired, Frozen};

fn key(cluster: &str, work: &str) -> WorkKey {
    WorkKey { cluster: ClusterName::parse(cluster).unwrap(), work: WorkName::parse(work).unwrap() }
}

fn source() -> SourceId {
    SourceId::parse("fleet").unwrap()
}

fn desired(frozen: Frozen, diagnostics: Vec<Diagnostic>) -> Desired {
    Desired {
        delivered: BTreeMap::new(),
        source: source(),
        commit: Some(CommitId::parse(&"ab".repeat(20)).unwrap()),
        works: Default::default(),
        frozen,
        rules: Default::default(),
        approved: Default::default(),
        suspended: Default::default(),
        needed_facts: None,
        rollouts: BTreeMap::new(),
        later: BTreeMap::new(),
        facts: None,
        diagnostics,
    }
}

fn on_hub(key: &WorkKey, owner: &str, applied: &str, generation: i64) -> ObservedWork {
    ObservedWork::from_manifest_work(json!({
        "metadata": {
            "namespace": key.cluster.as_str(), "name": key.work.as_str(), "uid": "u",
            "resourceVersion": "1", "generation": 2, "labels": { "gitwork.dev/source": owner },
        },
        "spec": { "workload": { "manifests": [{}] } },
        "status": { "conditions": [{
            "type": "Applied", "status": applied, "observedGeneration": generation,
            "lastTransitionTime": "2026-01-02T03:04:05Z", "message": "agent",
        }] },
    }))
    .unwrap()
}

fn step(key: &WorkKey, effect: Option<Effect>, reason: Reason) -> PlanStep {
    PlanStep { key: key.clone(), path: None, effect, reason }
}

fn now(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn delete() -> Effect {
    Effect::Delete { uid: "u".into(), resource_version: "1".into() }
}

/// The state of one work with this step and this object on the hub.
fn one(there: Option<ObservedWork>, step: PlanStep, failed: Option<FailedWrite>) -> WorkState {
    let key = step.key.clone();
    let mut observed = Observed::default();
    observed.works.extend(there.map(|work| (key.clone(), work)));
    let failed_writes = failed.into_iter().map(|failed| (key.clone(), failed)).collect();
    let plan = Plan { commit: None, steps: vec![step].into() };
    let inputs = StatusInputs {
        desired: &desired(Frozen::default(), Vec::new()),
        observed: &observed,
        plan: &plan,
        contentions: &Contentions::new(),
        record_generation: 0,
        failed_writes: &failed_writes,
        unreachable: &BTreeSet::new(),
        rollouts: &[],
        now: now(0),
    };
    SourceStatus::of(&inputs, None).works.remove(&key).unwrap()
}

/// The status of a source of which the hub has nothing.
fn without_hub(desired: &Desired, now: Timestamp, before: Option<&SourceStatus>) -> SourceStatus {
    let inputs = StatusInputs {
        desired,
        observed: &Observed::default(),
        plan: &Plan::default(),
        contentions: &Contentions::new(),
        record_generation: 0,
        failed_writes: &BTreeMap::new(),
        unreachable: &BTreeSet::new(),
        rollouts: &[],
        now,
    };
    SourceStatus::of(&inputs, before)
}

#[test]
fn only_this_commits_content_at_its_generation_counts() {
    let key = key("edge-1", "web");
    let there = |applied, generation| Some(on_hub(&key, "fleet", applied, generation));
    let up_to_date = || step(&key, None, Reason::UpToDate);
    assert_eq!(one(there("True", 2), up_to_date(), None).state, State::Applied);
    assert_eq!(one(there("True", 1), up_to_date(), None).state, State::Pending);
    assert_eq!(one(there("False", 2), up_to_date(), None).state, State::Failed);
    assert_eq!(one(there("False", 1), up_to_date(), None).state, State::Pending);
    // Applied, but the content of an older commit.
    let release = Effect::Release { resource_version: "1".into() };
    let stale = step(&key, Some(release), Reason::PruneOff { by: None });
    assert_eq!(one(there("True", 2), stale, None).state, State::Deleting);
    let since = one(there("True", 2), up_to_date(), None).since;
    assert_eq!(since.to_string(), "2026-01-02T03:04:05Z");
}

#[test]
fn steps_without_effect_give_state_and_reason() {
    let key = key("edge-1", "web");
    let ours = || Some(on_hub(&key, "fleet", "True", 2));
    for (reason, expected) in [
        (Reason::Suspended, State::Suspended),
        (
            Reason::HeldByBudget {
                uid: "u".into(),
                hash: Digest::of(b"a plan"),
                works: 3,
                excess: Excess::Everything.into(),
            },
            State::Held,
        ),
        (
            Reason::HeldByRewind {
                rewind: Arc::new(Rewind {
                    source: source(),
                    from: [CommitId::parse(&"cd".repeat(20)).unwrap()].into(),
                    to: CommitId::parse(&"ab".repeat(20)).unwrap(),
                }),
                hash: Digest::of(b"a rewind"),
            },
            State::Held,
        ),
        (
            Reason::HeldByWindow {
                version: "v".into(),
                hash: Digest::of(b"changes"),
                closed: Closed { until: None, unknown_zone: None }.into(),
            },
            State::Held,
        ),
        (Reason::SuspendedOnHub { suspension: Arc::default() }, State::Suspended),
        (Reason::WaitingForAgent { generation: 2 }, State::Deleting),
        (Reason::WaitingToRelease { generation: 2 }, State::Pending),
        (Reason::BeingDeleted { wanted: true }, State::Deleting),
        (
            Reason::Conflict {
                owner: None,
                holder: NameHolder::Work { adoption: AdoptionPolicy::Never },
            },
            State::Failed,
        ),
        (Reason::ChangedByServer, State::Degraded),
        (Reason::Frozen, State::Frozen),
        (Reason::UnknownMembership, State::Frozen),
    ] {
        let reported = reason.to_string();
        let work = one(ours(), step(&key, None, reason), None);
        assert_eq!((work.state, work.message()), (expected, Some(reported)));
    }
    // The status of another source's work is not this source's state.
    let foreign = Some(on_hub(&key, "other", "False", 2));
    let conflict = Reason::Conflict {
        owner: None,
        holder: NameHolder::Work { adoption: AdoptionPolicy::Annotated },
    };
    let work = one(foreign, step(&key, None, conflict), None);
    assert_eq!(work.view, StatusView::default().into());
}

#[test]
fn work_with_moving_objects_is_pending_or_held_unless_its_agent_fails() {
    let (from, to) = (key("edge-1", "shop"), key("edge-1", "shop2"));
    let reason = |progress| {
        let moving = ObjectMove {
            digest: ObjectDigest::new("", "ConfigMap", "shop", "data"),
            object: Identity {
                group: String::new(),
                resource: "configmaps".into(),
                namespace: "shop".into(),
                name: "data".into(),
            },
            from: from.clone(),
            to: to.clone(),
            progress,
        };
        Reason::MovesObjects { moves: [moving].into() }
    };
    let applying =
        |failure: Option<&str>| MoveProgress::Applying { failure: failure.map(str::to_owned) };
    let suspended = MoveProgress::Suspended { why: "shop2: suspended in Git".into() };
    let complete = MoveProgress::Held { why: "shop2: the work is Complete".into() };
    for (progress, applied, expected) in [
        (applying(None), "True", State::Pending),
        (applying(Some("field is immutable")), "True", State::Held),
        (suspended, "True", State::Suspended),
        (complete, "True", State::Held),
        (MoveProgress::Unreadable, "True", State::Held),
        (MoveProgress::Orphaning { failure: None }, "False", State::Failed),
    ] {
        let reason = reason(progress);
        let message = match expected {
            State::Failed => "agent".to_owned(),
            _ => reason.to_string(),
        };
        let work = one(Some(on_hub(&from, "fleet", applied, 2)), step(&from, None, reason), None);
        assert_eq!((work.state, work.message()), (expected, Some(message)));
        let code = (expected != State::Failed).then_some("MovesObjects");
        assert_eq!(work.code, code);
    }
}

#[test]
fn contended_work_is_degraded_before_and_after_each_repair() {
    let key = key("edge-1", "web");
    let contention = Arc::new(Contention {
        manager: Arc::new(ConflictingManager::Deleter),
        times: 7,
        wait: Duration::from_secs(4),
        content: Digest::of(b"git"),
        waits: false,
    });
    let contentions = Contentions::from([(key.clone(), contention.clone())]);
    for (reason, applied, expected) in [
        (Reason::UpToDate, "True", State::Degraded),
        (Reason::BackedOff { contention: contention.clone() }, "True", State::Degraded),
        (Reason::BeingDeleted { wanted: true }, "True", State::Degraded),
        // A worse state takes precedence, as does one unrelated to the conflict.
        (Reason::UpToDate, "False", State::Failed),
        (Reason::Frozen, "True", State::Frozen),
        (Reason::Suspended, "True", State::Suspended),
    ] {
        let mut observed = Observed::default();
        observed.works.insert(key.clone(), on_hub(&key, "fleet", applied, 2));
        let plan = Plan { commit: None, steps: vec![step(&key, None, reason.clone())].into() };
        let inputs = StatusInputs {
            desired: &desired(Frozen::default(), Vec::new()),
            observed: &observed,
            plan: &plan,
            contentions: &contentions,
            record_generation: 0,
            failed_writes: &BTreeMap::new(),
            unreachable: &BTreeSet::new(),
            rollouts: &[],
            now: now(0),
        };
        let work = SourceStatus::of(&inputs, None).works.remove(&key).unwrap();
        assert_eq!(work.state, expected, "{reason:?}");
        let reported = work.code == Some(Reason::BACKED_OFF)
            && work.why == Some(contention.to_string().into())
            && work.uid.is_some();
        assert_eq!(reported, expected == State::Degraded, "{reason:?}");
    }
}

#[test]
fn rejected_write_fails_and_unanswered_write_stays_pending() {
    let key = key("edge-1", "web");
    let refused = |is_transient| Some(FailedWrite { message: "no namespace".into(), is_transient });
    let removed = || step(&key, Some(delete()), Reason::RemovedFromGit { by: None });
    assert_eq!(one(None, removed(), None).state, State::Deleting);
    assert_eq!(one(None, removed(), refused(true)).state, State::Deleting);
    let work = one(None, removed(), refused(false));
    assert_eq!((work.state, work.why.as_deref()), (State::Failed, Some("no namespace")));
}

#[test]
fn unreadable_works_are_listed_even_if_never_on_hub() {
    let key = key("edge-7", "web");
    let file = RepoPath::parse("clusters/edge-7/web/a.yaml").unwrap();
    let at = Location::at(&file, Span { line: 3, column: 1, length: 1 });
    let error = Diagnostic::new(Code::YamlSyntax, at, Scope::Work(key.clone()), "bad");
    let frozen = Frozen { works: [key.clone()].into(), ..Frozen::default() };
    let desired = desired(frozen, vec![error]);
    let status = without_hub(&desired, now(0), None);
    let reported = "clusters/edge-7/web/a.yaml:3: bad";
    assert_eq!(status.works.get(&key).unwrap().message().as_deref(), Some(reported));
    assert_eq!(status.verdict(), RolloutVerdict::Failure);
    let line = format!("0/1 cluster applied, 1 frozen: edge-7, 1 error in Git: {reported}");
    assert_eq!(status.line(200), line);
    assert_eq!(status.line(60), "0/1 cluster applied, 1 frozen: edge-7, 1 error in Git");
    assert_eq!(status.line(50), "0/1 cluster applied, 1 frozen, 1 error in Git");
    assert_eq!(status.line(10), "0/1 clust…");
    // A state keeps the time at which it began.
    let later = without_hub(&desired, now(60), Some(&status));
    assert_eq!(later.works.get(&key).unwrap().since, now(0));
    assert_eq!(later, status);
}

/// Works of a group that wait on many clusters: the line says which group, and why they wait.
#[test]
fn line_names_the_groups_of_many_clusters_and_the_reason_of_a_hold() {
    let desired = desired(Frozen::default(), Vec::new());
    let mut status = without_hub(&desired, now(0), None);
    let mut add = |cluster: &str, path: &str, state| {
        let path = RepoPath::parse(path).unwrap();
        let frozen = Frozen { works: [key(cluster, path.name())].into(), ..Frozen::default() };
        let desired = tests::desired(frozen, Vec::new());
        let mut one = without_hub(&desired, now(0), None).works;
        let work = one.remove(&key(cluster, path.name())).unwrap();
        let work = WorkState { state, path: Some(path.clone()), ..work };
        status.works.insert(key(cluster, path.name()), work);
    };
    for number in 0..4 {
        add(&format!("store-{number}"), "groups/stores/tills", State::Held);
        add(&format!("store-{number}"), "groups/all/base", State::Available);
    }
    add("dc-1", "groups/all/base", State::Failed);
    let line = "0/5 clusters applied, 4 held: store-0, store-1, store-2 and 1 more (group \
                stores), 1 failed: dc-1";
    assert_eq!(status.line(200), line);
    status.held = vec![HeldChanges {
        guard: Guard::Budget,
        hash: Digest::of(b"a plan"),
        works: 4,
        reason: "it is too much".into(),
    }];
    assert_eq!(status.line(200), format!("{line}; 4 deletions held: it is too much"));
    let short = "0/5 clusters applied, 4 held (group stores), 1 failed; 4 deletions held: it is \
                 too much";
    assert_eq!(status.line(100), short);
    // The reason says more than the states.
    let shorter = "0/5 clusters applied; 4 deletions held: it is too much";
    assert_eq!(status.line(80), shorter);
    assert_eq!(status.line(53), "0/5 clusters applied, 4 held (group stores), 1 failed");
    status.held[0].reason = "it is far too much, ".repeat(9);
    let cut = status.line(100);
    assert!(
        cut.starts_with("0/5 clusters applied; 4 deletions held: it is far too much, it"),
        "{cut}"
    );
    assert_eq!(cut.chars().count(), 100);
    // Three are named, and a work of no group says nothing of groups.
    let all = SourceStatus { held: Vec::new(), ..status.clone() };
    for (path, expected) in [
        ("clusters/store-3/tills", "4 held: store-0, store-1, store-2 and 1 more, 1"),
        ("groups/more/tills", "4 held: store-0, store-1, store-2 and 1 more (groups more, stores)"),
    ] {
        let mut other = all.clone();
        let path = RepoPath::parse(path);
        other.works.get_mut(&key("store-3", "tills")).unwrap().path = path;
        assert!(other.line(200).contains(expected), "{}", other.line(200));
    }
    let mut few = all;
    few.works.remove(&key("store-3", "tills"));
    assert!(few.line(200).contains("3 held: store-0, store-1, store-2, 1 failed"));
}

#[test]
fn a_source_without_works_is_done() {
    let desired = desired(Frozen::default(), Vec::new());
    let status = without_hub(&desired, now(0), None);
    assert_eq!((status.verdict(), status.line(100)), (RolloutVerdict::Success, "no works".into()));
}
