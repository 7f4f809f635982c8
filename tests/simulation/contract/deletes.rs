//! Deletions, and the changes before them.

use super::*;

pub async fn setting_delete_option_changes_nothing_else(case: &Case<'_>) {
    let mut with_ttl = spec("one");
    let rule = json!({"resource": "configmaps", "namespace": "default", "name": "a"});
    with_ttl["deleteOption"] = json!({
        "propagationPolicy": "SelectivelyOrphan",
        "ttlSecondsAfterFinished": 60,
        "selectivelyOrphans": {"orphaningRules": [rule]},
    });
    let body = case.body_with(with_ttl, &[("team", "a")], &[]);
    let there = case.create(&body).await;
    assert!(matches!(there.delete_option, DeletionPolicy::SelectivelyOrphan(_)));
    let before = case.raw().await;
    let resource_version = there.resource_version.clone();
    let effect =
        Effect::SetDeleteOption { delete_option: DeletionPolicy::Orphan, resource_version };
    let after = case.done(&effect).await;
    assert_eq!(after.delete_option, DeletionPolicy::Orphan);
    assert_eq!(after.generation, 2, "the agent is to see it");
    let raw = case.raw().await;
    let expected = json!({"propagationPolicy": "Orphan", "ttlSecondsAfterFinished": 60});
    assert_eq!(raw["spec"]["deleteOption"], expected);
    assert_eq!(raw["spec"]["workload"], before["spec"]["workload"]);
    assert_eq!(raw["metadata"]["labels"], before["metadata"]["labels"]);

    // Back to an option that names objects: its patch needs a map that does not exist.
    let rules = there.delete_option.clone();
    let resource_version = after.resource_version;
    let effect = Effect::SetDeleteOption { delete_option: rules.clone(), resource_version };
    assert_eq!(case.done(&effect).await.delete_option, rules);
    assert_eq!(case.get().await.map(|work| work.digest), Some(body.digest));
}

fn delete(there: &ObservedWork) -> Effect {
    Effect::Delete { uid: there.uid.clone(), resource_version: there.resource_version.clone() }
}

pub async fn deletion_without_agent_is_immediate(case: &Case<'_>) {
    let there = case.create(&case.body(spec("one"))).await;
    assert_eq!(case.execute(&delete(&there)).await, Ok(None));
    assert_eq!(case.get().await, None);
    assert_eq!(case.fixture.read(&case.key).await, None);
}

pub async fn deletion_waits_for_agent(case: &Case<'_>) {
    case.create(&case.body(spec("one"))).await;
    case.fixture.patch(&case.key, json!({"metadata": {"finalizers": [AGENT_FINALIZER]}})).await;
    let there = case.get().await.unwrap();
    assert!(there.agent.seen);
    let after = case.done(&delete(&there)).await;
    assert!(after.deleting && after.is_ours(&case.source));
    assert_eq!(case.get().await, Some(after), "it is there until the agent lets go");
    case.fixture.patch(&case.key, json!({"metadata": {"finalizers": []}})).await;
    assert_eq!(case.get().await, None);
}

pub async fn recreated_work_is_not_deleted_for_the_old_one(case: &Case<'_>) {
    let old = case.create(&case.body(spec("one"))).await;
    case.fixture.delete(&case.key).await;
    let new = case.create(&case.body(spec("one"))).await;
    assert_ne!(old.uid, new.uid);
    let answer = case.execute(&delete(&old)).await;
    assert!(matches!(answer, Err(HubError::Stale { .. })), "{answer:?}");
    let mixed = Effect::Delete { uid: old.uid, resource_version: new.resource_version.clone() };
    let answer = case.execute(&mixed).await;
    assert!(matches!(answer, Err(HubError::Stale { .. })), "{answer:?}");
    assert_eq!(case.get().await, Some(new));
}
