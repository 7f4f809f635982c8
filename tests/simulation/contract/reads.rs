//! Reads: one work, lists, and watches.

use super::writes::condition;
use super::*;
use gitwork_core::model::works_by_cluster::WorksByCluster;

pub async fn defaults_of_the_hub_are_no_difference(case: &Case<'_>) {
    let mut spec = spec("one");
    spec["deleteOption"] = json!({});
    let (group, resource) = ("", "configmaps");
    spec["manifestConfigs"] = json!([{
        "resourceIdentifier":
            {"group": group, "resource": resource, "namespace": "default", "name": "a"},
        "updateStrategy": {"type": "ServerSideApply", "serverSideApply": {"force": false}},
    }]);
    let body = case.body(spec);
    assert_eq!(case.create(&body).await.digest, body.digest);
}

pub async fn number_formats_of_the_hub_are_no_difference(case: &Case<'_>) {
    let mut spec = spec("one");
    // A manifest is any JSON. Go reads a number as int64 if possible, else as float64. Beyond 15
    // digits serde_json may read a float as the next one; such a work is reported as changed by the
    // server.
    let numbers = r#"[0, -0.0, 1.0, -3.0, 0.1, 1e3, 1e21, 1e-7, 1e19, 9007199254740993,
        9223372036854775807, 9223372036854775808, -9223372036854775808, 123456789.125]"#;
    let numbers: Value = serde_json::from_str(numbers).unwrap();
    spec["workload"]["manifests"][0]["numbers"] = numbers;
    spec["workload"]["manifests"][0]["others"] =
        json!([null, {}, [], "", {"null": null}, "<&>\u{2028}é\u{1F600}"]);
    let body = case.body(spec);
    let work = case.create(&body).await;
    let stored = case.raw().await["spec"]["workload"]["manifests"][0].clone();
    assert_eq!(work.digest, body.digest, "{stored}");
}

pub async fn dropped_empty_metadata_is_no_difference(case: &Case<'_>) {
    let mut spec = spec("one");
    let metadata = json!({
        "namespace": "default", "name": "a", "labels": {}, "annotations": {"x": ""},
        "finalizers": [], "ownerReferences": [], "generateName": "", "creationTimestamp": null,
    });
    spec["workload"]["manifests"][0]["metadata"] = metadata;
    spec["workload"]["manifests"][0]["data"] = json!({});
    let body = case.body(spec);
    let work = case.create(&body).await;
    let stored = case.raw().await["spec"]["workload"]["manifests"][0].clone();
    let kept = json!({"namespace": "default", "name": "a", "annotations": {"x": ""}});
    assert_eq!((&stored["metadata"], &stored["data"]), (&kept, &json!({})));
    assert_eq!(work.digest, body.digest);
}

pub async fn manual_edit_is_observed(case: &Case<'_>) {
    let body = case.body_with(spec("one"), &[("team", "a")], &[("example.io/note", "x")]);
    case.create(&body).await;
    let edits = [
        json!({"spec": {"executor": {"subject": {"type": "ServiceAccount",
            "serviceAccount": {"namespace": "default", "name": "x"}}}}}),
        json!({"spec": {"executor": null}, "metadata": {"labels": {"team": "b"}}}),
        json!({"metadata": {"labels": {"team": null}}}),
        json!({"metadata": {"labels": {"team": "a", "app.kubernetes.io/managed-by": "me"}}}),
        json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "gitwork"},
            "annotations": {"example.io/note": "y"}}}),
    ];
    for edit in edits {
        case.fixture.patch(&case.key, edit.clone()).await;
        let work = case.get().await.unwrap();
        assert_ne!(work.digest, body.digest, "{edit}");
        assert_eq!(work.written, Some(body.digest), "{edit}");
    }
    let edit = json!({"metadata": {"annotations": {"example.io/note": "x"}}});
    case.fixture.patch(&case.key, edit).await;
    assert_eq!(case.get().await.map(|work| work.digest), Some(body.digest), "put back by hand");
}

pub async fn agent_progress_is_observed(case: &Case<'_>) {
    let there = case.create(&case.body(spec("one"))).await;
    assert!(!there.agent.seen && there.agent.has_settled(), "no agent has seen it");
    case.fixture.patch(&case.key, json!({"metadata": {"finalizers": [AGENT_FINALIZER]}})).await;
    let seen = case.get().await.unwrap();
    assert_eq!(seen.generation, 1, "metadata makes no new generation");
    assert!(seen.agent.seen && !seen.agent.has_settled());
    // Another generation than the work has says nothing about it.
    for (applied, generation, settled, orphaned) in
        [("True", 2, false, false), ("False", 1, true, false), ("True", 1, true, true)]
    {
        let status = json!({"status": {"conditions": [condition("Applied", applied, generation)]}});
        case.fixture.patch_status(&case.key, status).await;
        let work = case.get().await.unwrap();
        assert_eq!(work.generation, 1, "a status makes no new generation");
        assert_eq!((work.agent.has_settled(), work.agent.has_orphaned()), (settled, orphaned));
        assert_eq!(work.digest, there.digest, "the agent's marks are no difference");
    }
}

pub async fn list_has_one_source_or_all(case: &Case<'_>) {
    let ours = case.create(&case.body(spec("one"))).await;
    let foreign = Case { key: case.other_key(), source: case.source.clone(), ..*case };
    let theirs = foreign.create_foreign(json!({"gitwork.dev/source": "another"}), json!({})).await;
    let listed = case.hub().list(Some(&case.source)).await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&ours));
    let all = case.hub().list(None).await.unwrap();
    assert!(all.contains(&ours) && all.contains(&theirs), "{all:?}");
}

fn is_changed<'a>(key: &'a WorkKey, text: &'a ObservedWork) -> impl Fn(&HubEvent) -> bool + 'a {
    move |event| matches!(event, HubEvent::Changed(work) if work.key == *key && **work == *text)
}

fn is_gone(key: &WorkKey) -> impl Fn(&HubEvent) -> bool + '_ {
    move |event| matches!(event, HubEvent::Gone(gone) if gone == key)
}

pub async fn watch_begins_with_whole_state_and_follows_it(case: &Case<'_>) {
    let first = case.create(&case.body(spec("one"))).await;
    let mut events = case.hub().watch(&case.source);
    let listed = event(&mut events, "the list", |e| matches!(e, HubEvent::Listed(_))).await;
    assert_eq!(listed, HubEvent::Listed([first.clone()].into_iter().collect()));

    let second = Case { key: case.other_key(), source: case.source.clone(), ..*case };
    let created = second.create(&case.body(spec("two"))).await;
    event(&mut events, "created", is_changed(&second.key, &created)).await;
    let updated = case.done(&update(&first, &case.body(spec("three")))).await;
    event(&mut events, "updated", is_changed(&case.key, &updated)).await;
    case.fixture.patch(&case.key, json!({"metadata": {"finalizers": [AGENT_FINALIZER]}})).await;
    let seen = case.get().await.unwrap();
    event(&mut events, "patched by another", is_changed(&case.key, &seen)).await;
    case.fixture.delete(&case.key).await;
    let deleting = case.get().await.unwrap();
    event(&mut events, "being deleted", is_changed(&case.key, &deleting)).await;
    case.fixture.patch(&case.key, json!({"metadata": {"finalizers": []}})).await;
    event(&mut events, "deleted", is_gone(&case.key)).await;
}

pub async fn watch_reports_work_leaving_the_source(case: &Case<'_>) {
    let there = case.create(&case.body(spec("one"))).await;
    let mut events = case.hub().watch(&case.source);
    event(&mut events, "the list", |e| matches!(e, HubEvent::Listed(_))).await;
    case.done(&Effect::Release { resource_version: there.resource_version }).await;
    event(&mut events, "released", is_gone(&case.key)).await;
    let back = json!({"metadata": {"labels": {"gitwork.dev/source": case.source.as_str()}}});
    case.fixture.patch(&case.key, back).await;
    let work = case.get().await.unwrap();
    event(&mut events, "labelled again", is_changed(&case.key, &work)).await;
}

pub async fn watch_excludes_other_sources(case: &Case<'_>) {
    let mut events = case.hub().watch(&case.source);
    let listed = event(&mut events, "the list", |e| matches!(e, HubEvent::Listed(_))).await;
    assert_eq!(listed, HubEvent::Listed(WorksByCluster::new()));
    case.create_foreign(json!({"gitwork.dev/source": "another"}), json!({})).await;
    let ours = Case { key: case.other_key(), source: case.source.clone(), ..*case };
    let work = ours.create(&case.body(spec("one"))).await;
    let first = event(&mut events, "any change", |e| !matches!(e, HubEvent::Interrupted(_))).await;
    assert_eq!(
        first,
        HubEvent::Changed(Box::new(work)),
        "the other source's event came first, and is left out"
    );
}
