//! The engine's state of one source and the plans that follow from it; tests pass the time in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gitwork_core::model::name::WorkKey;
use gitwork_core::plan::directives::Directives;
use gitwork_core::plan::drift_backoff;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_core::plan::{Effect, LastKnownStates, Reason};
use gitwork_core::render::desired::Desired;
use gitwork_hub::execute::{ExecuteError, Outcome, Task};
use gitwork_hub::{HubError, HubEvent};
use gitwork_sync::guards::GuardOptions;
use gitwork_sync::state::SyncState;
use serde_json::{Value, json};

use crate::memory_repository::{files, render, source};

/// A source of `a/web` with this text in it.
fn desired(text: &str) -> Arc<Desired> {
    let manifest = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: default}}\ndata: \
            {{text: {text}}}\n"
    );
    Arc::new(render(&files(&[("clusters/a/web/x.yaml", &manifest)])))
}

fn key(desired: &Desired) -> WorkKey {
    desired.works.keys().next().unwrap().clone()
}

/// The source's work as the hub has it, changed by `edit`.
fn observed(desired: &Desired, edit: impl FnOnce(&mut Value)) -> ObservedWork {
    let work = desired.works.values().next().unwrap();
    let mut object = work.body.to_manifest_work(&work.key, None);
    object["metadata"]["uid"] = "u".into();
    object["metadata"]["resourceVersion"] = "1".into();
    object["metadata"]["generation"] = 1.into();
    edit(&mut object);
    ObservedWork::from_manifest_work(object).unwrap()
}

fn state(desired: &Arc<Desired>, works: Vec<ObservedWork>, now: Instant) -> SyncState {
    let mut state = SyncState::new(source(), GuardOptions::default(), 0, now);
    assert!(!state.wants_plan(now), "neither side is known");
    assert!(state.facts_mut().set_desired(desired) && !state.facts_mut().set_desired(desired));
    assert!(!state.wants_plan(now), "what the hub has is not known");
    state.facts_mut().set_event(HubEvent::Listed(works.into_iter().collect()));
    assert!(!state.wants_plan(now), "what operators say is not known");
    state.facts_mut().directives.set(Some(Directives::default()), now);
    state.set_record(None);
    assert!(state.wants_plan(now));
    state
}

/// The effects that a plan of now does.
fn due(state: &mut SyncState, now: Instant) -> Vec<Effect> {
    let plan = state.plan(now).unwrap();
    state.due(&plan, now).into_iter().map(|(_, effect)| effect.clone()).collect()
}

fn failed(key: &WorkKey, effect: &Effect, error: HubError) -> Outcome {
    let task = Task { key: key.clone(), effect: effect.clone(), commit: None };
    Outcome { task, result: Err(ExecuteError::Hub(error)), attempts: 1 }
}

fn refused() -> HubError {
    HubError::WriteRejected { key: "a/web".into(), message: "no".into() }
}

#[test]
fn rejected_work_backs_off_exponentially_and_a_fix_is_sent_at_once() {
    let start = Instant::now();
    let (broken, fixed) = (desired("broken"), desired("fixed"));
    let key = key(&broken);
    let mut state = state(&broken, Vec::new(), start);
    let mut now = start;
    let mut waits = Vec::new();
    for _ in 0..3 {
        let effects = due(&mut state, now);
        assert!(matches!(&effects[..], [Effect::Create { .. }]), "{effects:?}");
        state.set_outcome(&failed(&key, &effects[0], refused()), now, 1);
        assert!(due(&mut state, now).is_empty(), "not at once");
        let next = state.next_due().unwrap();
        assert!(!state.wants_plan(next - Duration::from_millis(1)) && state.wants_plan(next));
        waits.push(next - now);
        now = next;
    }
    assert!(waits.is_sorted() && waits[2] > waits[0] * 2, "{waits:?}");

    let effects = due(&mut state, now);
    state.set_outcome(&failed(&key, &effects[0], refused()), now, 1);
    assert!(state.facts_mut().set_desired(&fixed));
    let effects = due(&mut state, now);
    assert_eq!(effects.len(), 1, "the fix is tried at once");
    state.set_outcome(&failed(&key, &effects[0], refused()), now, 1);
    assert_eq!(state.next_due().unwrap() - now, waits[0], "and its backoff starts again");
}

#[test]
fn foreign_work_is_polled_until_its_name_is_free() {
    let start = Instant::now();
    let wanted = desired("x");
    let key = key(&wanted);
    let mut state = state(&wanted, Vec::new(), start);
    let effects = due(&mut state, start);
    state.set_outcome(
        &failed(&key, &effects[0], HubError::Exists { key: "a/web".into() }),
        start,
        1,
    );
    assert_eq!(state.take_lookups(start), vec![key.clone()]);
    assert!(state.take_lookups(start).is_empty(), "once");

    let foreign = || {
        observed(&wanted, |work| {
            work["metadata"]["labels"] = json!({ "gitwork.dev/source": "another" });
        })
    };
    let mut now = start;
    for _ in 0..2 {
        state.set_looked_up(&key, Ok(Some(foreign())), now, 1);
        assert!(due(&mut state, now).is_empty(), "nothing is done to what others have");
        assert!(state.take_lookups(now).is_empty());
        // The backoff of the failed write runs out before.
        while state.take_lookups(now).is_empty() {
            now = state.next_due().unwrap().max(now + Duration::from_millis(1));
        }
    }
    state.set_looked_up(&key, Err(HubError::CrdMissing), now, 1);
    assert!(due(&mut state, now).is_empty(), "what could not be looked up is not known to be free");
    let now = state.next_due().unwrap();
    assert_eq!(state.take_lookups(now), vec![key.clone()]);
    state.set_looked_up(&key, Ok(None), now, 1);
    assert!(matches!(&due(&mut state, now)[..], [Effect::Create { .. }]));
    assert!(state.take_lookups(now + Duration::from_secs(3_600)).is_empty());
}

/// The watch does not report deletions of works of other sources.
#[test]
fn name_released_by_another_source_is_polled_until_it_is_free() {
    let start = Instant::now();
    let wanted = desired("x");
    let key = key(&wanted);
    let mut state = state(&wanted, Vec::new(), start);
    let effects = due(&mut state, start);
    let exists = HubError::Exists { key: "a/web".into() };
    state.set_outcome(&failed(&key, &effects[0], exists), start, 1);
    assert_eq!(state.take_lookups(start), vec![key.clone()]);
    let going = observed(&wanted, |work| {
        work["metadata"]["labels"] = json!({ "gitwork.dev/source": "another" });
        work["metadata"]["annotations"] = json!({ "gitwork.dev/adopt": "fleet" });
        work["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    });
    state.set_looked_up(&key, Ok(Some(going)), start, 1);
    assert!(due(&mut state, start).is_empty(), "it is still there");
    let now = state.next_due().unwrap();
    assert_eq!(state.take_lookups(now), vec![key.clone()]);
    state.set_looked_up(&key, Ok(None), now, 1);
    assert!(matches!(&due(&mut state, now)[..], [Effect::Create { .. }]));
}

#[test]
fn late_response_does_not_restore_a_deleted_work() {
    let now = Instant::now();
    let wanted = desired("x");
    let key = key(&wanted);
    let edited = observed(&wanted, |work| work["spec"]["workload"] = json!({"manifests": []}));
    let mut state = state(&wanted, vec![edited], now);
    assert!(state.take_lookups(now).is_empty());
    let effects = due(&mut state, now);
    assert!(matches!(&effects[..], [Effect::Update { .. }]), "{effects:?}");
    // The work is written, another client deletes it, and the response to the write comes last.
    state.facts_mut().set_event(HubEvent::Gone(key.clone()));
    let task = Task { key: key.clone(), effect: effects[0].clone(), commit: None };
    let answer = Ok(Some(observed(&wanted, |_| {})));
    state.set_outcome(&Outcome { task, result: answer, attempts: 1 }, now, 1);
    assert!(matches!(&due(&mut state, now)[..], [Effect::Create { .. }]));
}

#[test]
fn work_missing_from_a_list_that_began_before_its_creation_is_fetched() {
    let now = Instant::now();
    let wanted = desired("x");
    let key = key(&wanted);
    for listed in [false, true] {
        let mut state = state(&wanted, vec![], now);
        let effects = due(&mut state, now);
        assert!(matches!(&effects[..], [Effect::Create { .. }]), "{effects:?}");
        // The work is created, another client deletes it, the watch restarts, and the response
        // comes last.
        if listed {
            state.facts_mut().set_event(HubEvent::Listed(Default::default()));
        }
        state.set_outcome(&answered(&wanted, &effects[0], 1), now, 1);
        let looks = state.take_lookups(now);
        assert_eq!(looks, if listed { vec![key.clone()] } else { vec![] });
        for key in looks {
            state.set_looked_up(&key, Ok(None), now, 1);
        }
        state.set_record(None);
        assert_eq!(due(&mut state, now).len(), usize::from(listed));
    }
}

#[test]
fn deletion_waits_for_the_final_delete_option_from_git() {
    let now = Instant::now();
    let before = desired("x");
    let other =
        ("clusters/b/other/x.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n");
    let after = Arc::new(render(&files(&[other])));
    let works = vec![observed(&before, |_| {}), observed(&after, |_| {})];
    let mut state = state(&after, works, now);
    let deletes =
        |effects: Vec<Effect>| effects.iter().any(|effect| matches!(effect, Effect::Delete { .. }));
    assert!(!deletes(due(&mut state, now)));
    let asked = state.facts_mut().removals_to_look_up(now);
    assert_eq!(asked.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>(), ["a/web"]);

    state.facts_mut().history.postpone(now);
    assert!(
        state.facts_mut().removals_to_look_up(now).is_empty(),
        "history that cannot be read is left alone"
    );
    let later = state.next_due().unwrap();
    assert_eq!(state.facts_mut().removals_to_look_up(later), asked);
    state.facts_mut().history.set_last_known(&asked, LastKnownStates::default());
    assert!(state.facts_mut().removals_to_look_up(later).is_empty());
    assert!(deletes(due(&mut state, later)), "the hub's own word stands");
}

#[test]
fn status_updates_need_no_plan_and_spec_edits_do() {
    let now = Instant::now();
    let wanted = desired("x");
    let mut state = state(&wanted, vec![observed(&wanted, |_| {})], now);
    assert!(due(&mut state, now).is_empty());
    let applied = observed(&wanted, |work| {
        let condition = json!({"type": "Applied", "status": "True", "observedGeneration": 1});
        work["status"] = json!({"conditions": [condition]});
        work["metadata"]["resourceVersion"] = "2".into();
    });
    state.facts_mut().set_event(HubEvent::Changed(Box::new(applied)));
    assert!(!state.wants_plan(now));
    let edited = observed(&wanted, |work| {
        work["spec"]["deleteOption"] = json!({"propagationPolicy": "Orphan"});
        work["metadata"]["resourceVersion"] = "3".into();
    });
    state.facts_mut().set_event(HubEvent::Changed(Box::new(edited)));
    assert!(state.wants_plan(now));
    assert!(matches!(&due(&mut state, now)[..], [Effect::Update { .. }]));
}

/// The hub's answer to a write of `wanted`, its `number`th.
fn answered(wanted: &Arc<Desired>, effect: &Effect, number: u32) -> Outcome {
    let key = key(wanted);
    let there = observed(wanted, |work| {
        work["metadata"]["resourceVersion"] = (2 * number + 1).to_string().into();
    });
    let task = Task { key, effect: effect.clone(), commit: None };
    Outcome { task, result: Ok(Some(there)), attempts: 1 }
}

#[test]
fn contended_work_backs_off_and_a_git_change_is_sent_at_once() {
    let mut now = Instant::now();
    let wanted = desired("x");
    let key = key(&wanted);
    let mut state = state(&wanted, vec![observed(&wanted, |_| {})], now);
    let edit = |state: &mut SyncState, number: u32| {
        let edited = observed(&wanted, |work| {
            work["spec"]["deleteOption"] = json!({"propagationPolicy": "Orphan"});
            work["metadata"]["resourceVersion"] = (2 * number).to_string().into();
        });
        state.facts_mut().set_event(HubEvent::Changed(Box::new(edited)));
    };
    let mut waits = Vec::new();
    for number in 1..=9 {
        edit(&mut state, number);
        assert!(state.wants_plan(now));
        state.update_contentions(now);
        let mut effects = due(&mut state, now);
        if effects.is_empty() {
            let plan = state.plan(now).unwrap();
            assert!(
                matches!(plan.steps.first().unwrap().reason, Reason::BackedOff { .. }),
                "{plan:?}"
            );
            assert_eq!(plan.counts().to_string(), "1 wait");
            let next = state.next_due().unwrap();
            assert!(!state.wants_plan(next - Duration::from_millis(1)) && state.wants_plan(next));
            waits.push((next - now).as_secs());
            now = next;
            state.update_contentions(now);
            effects = due(&mut state, now);
        }
        assert!(matches!(&effects[..], [Effect::Update { .. }]), "{number}: {effects:?}");
        state.set_outcome(&answered(&wanted, &effects[0], number), now, 1);
    }
    assert_eq!(waits, [1, 2, 4, 8], "after five at once");

    edit(&mut state, 10);
    state.update_contentions(now);
    assert!(due(&mut state, now).is_empty());
    let fixed = desired("fixed");
    assert!(state.facts_mut().set_desired(&fixed));
    state.update_contentions(now);
    assert_eq!(due(&mut state, now).len(), 1, "what Git changes goes out at once");

    // The other client stopped: no contention is reported, and no retry is due.
    assert!(state.guards().policy().contentions.contains_key(&key));
    let calm = now + drift_backoff::CALM;
    assert!(state.update_contentions(calm) && state.guards().policy().contentions.is_empty());
}
