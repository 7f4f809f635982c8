//! Writes: their effect, the fields that they keep, and their errors.

use super::*;

pub async fn created_work_reads_back_as_written(case: &Case<'_>) {
    let body = case.body_with(spec("one"), &[("team", "a")], &[("example.io/note", "x")]);
    let work = case.create(&body).await;
    assert_eq!(work.digest, body.digest, "there is nothing to write");
    assert_eq!(work.written, Some(body.digest));
    assert_eq!(work.generation, 1);
    assert!(work.is_ours(&case.source) && !work.deleting && work.prune);
    assert_eq!(work.commit, Some(COMMIT));
    assert_eq!(work.path.as_deref(), Some("clusters/a/web"));
    assert!(work.owned().labels.contains("team"), "{:?}", work.owned());
    assert_eq!(case.get().await, Some(work), "the answer is what is there");
    let raw = case.raw().await;
    assert_eq!(raw["spec"]["workload"], body.spec.value()["workload"]);
    assert_eq!(raw["metadata"]["labels"]["app.kubernetes.io/managed-by"], "gitwork");
}

pub async fn name_conflict_is_reported_and_changes_nothing(case: &Case<'_>) {
    case.create_foreign(json!({"owner": "x"}), json!({})).await;
    let before = case.raw().await;
    let answer = case.execute(&Effect::Create { body: case.body(spec("ours")) }).await;
    assert!(matches!(answer, Err(HubError::Exists { .. })), "{answer:?}");
    assert_eq!(case.raw().await, before);
}

pub async fn missing_cluster_namespace_is_reported(case: &Case<'_>) {
    let key = WorkKey {
        cluster: ClusterName::parse("contract-no-such-cluster").unwrap(),
        work: case.key.work.clone(),
    };
    let effect = Effect::Create { body: case.body(spec("x")) };
    let answer = case.hub().execute(&key, &effect, None).await;
    assert!(matches!(answer, Err(HubError::ClusterNamespaceMissing { .. })), "{answer:?}");
    assert_eq!(case.hub().get(&key).await, Ok(None), "to read there is no error: it has no work");
}

pub async fn invalid_work_is_rejected(case: &Case<'_>) {
    let mut bad = spec("x");
    bad["deleteOption"] = json!({"propagationPolicy": "Nonsense"});
    let answer = case.execute(&Effect::Create { body: case.body(bad.clone()) }).await;
    assert!(matches!(answer, Err(HubError::WriteRejected { .. })), "{answer:?}");
    assert_eq!(case.get().await, None);

    let there = case.create(&case.body(spec("good"))).await;
    let answer = case.execute(&update(&there, &case.body(bad))).await;
    assert!(matches!(answer, Err(HubError::WriteRejected { .. })), "{answer:?}");
    assert_eq!(case.get().await, Some(there));
}

pub async fn update_replaces_own_fields_and_keeps_foreign_fields(case: &Case<'_>) {
    let mut first = spec("one");
    first["deleteOption"] = json!({"propagationPolicy": "Orphan"});
    let first =
        case.body_with(first, &[("team", "a"), ("tier", "gold")], &[("example.io/note", "x")]);
    case.create(&first).await;
    let foreign = json!({"metadata": {
        "labels": {"foreign": "label"},
        "annotations": {"foreign": "annotation"},
        "finalizers": [AGENT_FINALIZER],
    }});
    case.fixture.patch(&case.key, foreign).await;
    let status = json!({"status": {"conditions": [condition("Applied", "True", 1)]}});
    case.fixture.patch_status(&case.key, status).await;

    let there = case.get().await.unwrap();
    assert_eq!(there.digest, first.digest, "what others add is no difference");
    let second = case.body_with(spec("two"), &[("team", "b")], &[]);
    let metadata = MetadataChange {
        remove_labels: ["tier".to_owned()].into(),
        // One key that exists and one that does not.
        remove_annotations: ["example.io/note".to_owned(), "gitwork.dev/prune".to_owned()].into(),
        ..MetadataChange::default()
    };
    let resource_version = there.resource_version.clone();
    let effect =
        Effect::Update { body: second.clone(), resource_version, metadata: metadata.into() };
    let after = case.done(&effect).await;
    assert_eq!(after.digest, second.digest);
    assert_eq!((after.generation, after.uid), (2, there.uid));
    assert_eq!(after.delete_option, DeletionPolicy::Foreground, "the old spec is gone as a whole");

    let raw = case.raw().await;
    assert_eq!(raw["spec"]["workload"]["manifests"][0]["data"]["text"], "two");
    assert_eq!(raw["metadata"]["finalizers"], json!([AGENT_FINALIZER]));
    assert_eq!(raw["metadata"]["annotations"]["foreign"], "annotation");
    assert_eq!(raw["metadata"]["annotations"].get("example.io/note"), None);
    let labels = &raw["metadata"]["labels"];
    assert_eq!((&labels["foreign"], &labels["team"]), (&json!("label"), &json!("b")));
    assert_eq!(labels.get("tier"), None);
    assert_eq!(raw["status"]["conditions"][0]["type"], "Applied", "the status is the agent's");
}

pub async fn update_without_change_leaves_no_trace(case: &Case<'_>) {
    let body = case.body(spec("same"));
    let there = case.create(&body).await;
    let after = case.done(&update(&there, &body)).await;
    assert_eq!(after, there, "not even the resourceVersion moves");
}

pub async fn stale_write_does_not_change_modified_work(case: &Case<'_>) {
    let there = case.create(&case.body(spec("one"))).await;
    case.fixture.patch(&case.key, json!({"metadata": {"labels": {"foreign": "now"}}})).await;
    let before = case.raw().await;
    for effect in preconditioned(&there, &case.body(spec("two"))) {
        let answer = case.execute(&effect).await;
        assert!(matches!(answer, Err(HubError::Stale { .. })), "{effect:?}: {answer:?}");
        assert_eq!(case.raw().await, before, "{effect:?}");
    }
}

pub async fn write_to_missing_work_fails(case: &Case<'_>) {
    let there = case.create(&case.body(spec("one"))).await;
    case.fixture.delete(&case.key).await;
    for effect in preconditioned(&there, &case.body(spec("two"))) {
        let answer = case.execute(&effect).await;
        let is_delete = matches!(effect, Effect::Delete { .. });
        match answer {
            Err(HubError::Stale { .. }) => {}
            // A work that is to be deleted and is gone counts as deleted.
            Ok(None) if is_delete => {}
            other => panic!("{effect:?}: {other:?}"),
        }
        assert_eq!(case.get().await, None, "{effect:?}");
    }
}

pub async fn adopted_work_is_owned_and_consent_is_removed(case: &Case<'_>) {
    let consent = json!({"gitwork.dev/adopt": case.source.as_str(), "foreign": "x"});
    let there = case.create_foreign(Value::Null, consent).await;
    assert_eq!(there.source, None);
    assert_eq!(there.adopt.as_deref(), Some(case.source.as_str()));
    assert!(there.labels_absent && !there.annotations_absent);
    let body = case.body(spec("ours"));
    let metadata = MetadataChange {
        remove_annotations: ["gitwork.dev/adopt".to_owned()].into(),
        labels_absent: true,
        ..MetadataChange::default()
    };
    let resource_version = there.resource_version.clone();
    let after = case
        .done(&Effect::Adopt { body: body.clone(), resource_version, metadata: metadata.into() })
        .await;
    assert!(after.is_ours(&case.source));
    assert_eq!((after.digest, after.adopt), (body.digest, None));
    assert_eq!(after.uid, there.uid, "adopted, not created again");
    assert_eq!(case.raw().await["metadata"]["annotations"]["foreign"], "x");
}

pub async fn released_work_keeps_its_content(case: &Case<'_>) {
    let body = case.body_with(spec("stays"), &[("team", "a")], &[("example.io/note", "x")]);
    case.create(&body).await;
    case.fixture.patch(&case.key, json!({"metadata": {"finalizers": [AGENT_FINALIZER]}})).await;
    let there = case.get().await.unwrap();
    let resource_version = there.resource_version.clone();
    let after = case.done(&Effect::Release { resource_version }).await;
    assert_eq!((after.source, after.written, after.path), (None, None, None));
    assert_eq!(after.generation, there.generation, "the agent has nothing to do");
    let raw = case.raw().await;
    assert_eq!(raw["spec"]["workload"]["manifests"][0]["data"]["text"], "stays");
    assert_eq!(raw["metadata"]["labels"], json!({"team": "a"}));
    assert_eq!(raw["metadata"]["annotations"], json!({"example.io/note": "x"}));
    assert_eq!(raw["metadata"]["finalizers"], json!([AGENT_FINALIZER]));
    let left = case.hub().list(Some(&case.source)).await.unwrap();
    assert_eq!(left, [], "it is the source's no more");
}

pub(super) fn condition(kind: &str, status: &str, generation: i64) -> Value {
    json!({
        "type": kind,
        "status": status,
        "observedGeneration": generation,
        "reason": "Contract",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}
