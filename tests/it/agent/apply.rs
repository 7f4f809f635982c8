//! Applying, tracking, and putting back what changes on the cluster.

use http::Method;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use serde_json::{Value, json};

use super::fixture::{DEADLINE, Fixture, kind, owners, stable};
use crate::harness::eventually;
use crate::harness::faults::{Fault, Seen};

fn strategy(fixture: &Fixture, strategy: &Value) -> Value {
    json!({"manifestConfigs": [{
        "resourceIdentifier": {"group": "", "resource": "configmaps",
            "namespace": fixture.namespace, "name": "*"},
        "updateStrategy": strategy,
    }]})
}

#[tokio::test]
async fn a_work_is_applied_recorded_and_reported() {
    let fixture = Fixture::start().await;
    let manifests = vec![fixture.config_map("b", "1"), fixture.config_map("a", "1")];
    fixture.create("web", manifests, json!({})).await;
    fixture.condition("web", "Applied", "True").await;
    let work = fixture.condition("web", "Available", "True").await;
    insta::assert_snapshot!("a_fresh_work", stable(&work, &fixture));
    assert_eq!(
        work["metadata"]["finalizers"],
        json!(["cluster.open-cluster-management.io/manifest-work-cleanup"])
    );
    fixture.wait_recorded("web", &["configmaps/a", "configmaps/b"]).await;
    let applied = fixture.applied().get(&fixture.applied_name("web")).await.unwrap();
    assert_eq!(
        applied.data["spec"],
        json!({"hubHash": fixture.settings.hub_hash, "agentID": fixture.settings.agent_id,
            "manifestWorkName": "web"})
    );
    let map = fixture.config_maps().get("a").await.unwrap();
    assert_eq!(owners(&map), [applied.metadata.uid.unwrap()]);
    let owner = &map.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.controller, owner.block_owner_deletion), (None, None));
}

#[tokio::test]
async fn every_write_uses_field_manager_work_agent() {
    let fixture = Fixture::start().await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.condition("web", "Applied", "True").await;
    fixture
        .patch_spec("web", json!({"workload": {"manifests": [fixture.config_map("a", "2")]}}))
        .await;
    fixture.value("a", "2").await;
    let managers: Vec<String> = fixture
        .config_maps()
        .get("a")
        .await
        .unwrap()
        .metadata
        .managed_fields
        .unwrap()
        .into_iter()
        .filter_map(|entry| entry.manager)
        .collect();
    assert!(managers.iter().all(|manager| manager == "work-agent"), "{managers:?}");
}

#[tokio::test]
async fn objects_removed_from_the_work_are_deleted() {
    let fixture = Fixture::start().await;
    let both = vec![fixture.config_map("a", "1"), fixture.config_map("b", "1")];
    fixture.create("web", both, json!({})).await;
    fixture.wait_recorded("web", &["configmaps/a", "configmaps/b"]).await;
    fixture
        .patch_spec("web", json!({"workload": {"manifests": [fixture.config_map("a", "2")]}}))
        .await;
    fixture.value("a", "2").await;
    fixture.is_gone(&fixture.config_maps(), "b").await;
    fixture.wait_recorded("web", &["configmaps/a"]).await;
    let work = fixture.condition("web", "Applied", "True").await;
    assert_eq!(work["status"]["resourceStatus"]["manifests"].as_array().unwrap().len(), 1);
}

/// At once: the waits end before the agent's full resync after four minutes.
#[tokio::test]
async fn edits_and_deletions_on_the_cluster_are_reverted_at_once() {
    let fixture = Fixture::start().await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.wait_recorded("web", &["configmaps/a"]).await;
    // The watch starts with the first object: what comes before it is found by its list.
    fixture.edit("a", json!({"data": {"key": "drift", "more": "1"}})).await;
    fixture.value("a", "1").await;
    fixture.edit("a", json!({"data": {"key": "drift", "more": "1"}})).await;
    fixture.value("a", "1").await;
    let map = fixture.config_maps().get("a").await.unwrap();
    assert_eq!(map.data["data"], json!({"key": "1"}));
    fixture.config_maps().delete("a", &DeleteParams::default()).await.unwrap();
    fixture.value("a", "1").await;
    fixture.condition("web", "Available", "True").await;
}

/// The response to the creation of an object comes after another client has changed it.
#[tokio::test]
async fn change_before_the_response_to_a_creation_is_corrected() {
    let fixture = Fixture::start().await;
    // The kind is watched before the object is created.
    fixture.create("first", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.condition("first", "Available", "True").await;
    let is_held = |seen: &Seen| seen.method == Method::POST && seen.path.ends_with("/configmaps");
    fixture.faults.next(1, Fault::HoldAnswer, is_held);
    fixture.create("web", vec![fixture.config_map("b", "1")], json!({})).await;
    fixture.value("b", "1").await;
    let change = json!({"data": {"key": "2"}});
    fixture.edit("b", change.clone()).await;
    // One watch reports both changes: this one comes second.
    fixture.edit("a", change).await;
    fixture.value("a", "1").await;
    fixture.faults.release();
    fixture.value("b", "1").await;
}

#[tokio::test]
async fn server_defaults_are_not_drift_and_replica_changes_are() {
    let fixture = Fixture::start().await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": fixture.namespace},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]}}}});
    fixture.create("web", vec![deployment], json!({})).await;
    fixture.condition("web", "Available", "True").await;
    let deployments = fixture.objects("apps/v1", "Deployment");
    eventually("the deployment to be ready", DEADLINE, || async {
        let found = deployments.get("web").await.map_err(|error| error.to_string())?;
        if found.data["status"]["readyReplicas"] == 1 {
            Ok(())
        } else {
            Err(found.data["status"].to_string())
        }
    })
    .await
    .unwrap();
    let generation = deployments.get("web").await.unwrap().metadata.generation;
    assert_eq!(generation, Some(1), "the agent does not write what only has defaults more");
    let patch = kube::api::Patch::Merge(json!({"spec": {"replicas": 3}}));
    deployments.patch("web", &kube::api::PatchParams::default(), &patch).await.unwrap();
    eventually("one replica again", DEADLINE, || async {
        let found = deployments.get("web").await.map_err(|error| error.to_string())?;
        let is_back = found.data["spec"]["replicas"] == 1 && found.metadata.generation > Some(2);
        if is_back { Ok(()) } else { Err(found.data["spec"]["replicas"].to_string()) }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn create_only_keeps_content_and_recreates_deleted_objects() {
    let fixture = Fixture::start().await;
    let config = strategy(&fixture, &json!({"type": "CreateOnly"}));
    fixture.create("web", vec![fixture.config_map("a", "1")], config).await;
    fixture.wait_recorded("web", &["configmaps/a"]).await;
    fixture
        .edit("a", json!({"data": {"key": "mine"}, "metadata": {"ownerReferences": null}}))
        .await;
    let maps = fixture.config_maps();
    eventually("the owner to be back", DEADLINE, || async {
        let map = maps.get("a").await.map_err(|error| error.to_string())?;
        if owners(&map).is_empty() { Err("none".into()) } else { Ok(()) }
    })
    .await
    .unwrap();
    fixture.value("a", "mine").await;
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    fixture.value("a", "1").await;
}

#[tokio::test]
async fn read_only_objects_are_recorded_and_never_deleted() {
    let fixture = Fixture::start().await;
    let config = strategy(&fixture, &json!({"type": "ReadOnly"}));
    fixture.create("web", vec![fixture.config_map("a", "1")], config).await;
    fixture.condition("web", "Applied", "True").await;
    fixture.condition("web", "Available", "False").await;
    let mut map = DynamicObject::new("a", &kind("v1", "ConfigMap"));
    map.data = json!({"data": {"key": "theirs"}});
    fixture.config_maps().create(&PostParams::default(), &map).await.unwrap();
    fixture.condition("web", "Available", "True").await;
    fixture.wait_recorded("web", &["configmaps/a"]).await;
    fixture.delete("web").await;
    fixture.is_gone(&fixture.works(), "web").await;
    fixture.is_kept("a", "theirs").await;
}

#[tokio::test]
async fn server_side_apply_reports_conflicts_and_forces() {
    let fixture = Fixture::start().await;
    let mut map = DynamicObject::new("a", &kind("v1", "ConfigMap"));
    map.data = json!({"data": {"key": "theirs"}});
    fixture
        .config_maps()
        .create(&PostParams { field_manager: Some("other".into()), ..PostParams::default() }, &map)
        .await
        .unwrap();
    let config = strategy(&fixture, &json!({"type": "ServerSideApply"}));
    fixture.create("web", vec![fixture.config_map("a", "1")], config).await;
    let condition = fixture.manifest_condition("web", 0, "Applied", "False").await;
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.starts_with("Failed to apply manifest: Apply failed with 1 conflict"),
        "{message}"
    );
    assert_eq!(condition["reason"], "AppliedManifestFailed");
    let forced = strategy(
        &fixture,
        &json!({"type": "ServerSideApply", "serverSideApply": {"force": true,
            "fieldManager": "work-agent-x"}}),
    );
    fixture.patch_spec("web", forced).await;
    fixture.condition("web", "Applied", "True").await;
    let map = fixture.config_maps().get("a").await.unwrap();
    assert_eq!(map.data["data"]["key"], "1");
    assert_eq!(owners(&map).len(), 1);
    let applied = map
        .metadata
        .managed_fields
        .unwrap()
        .into_iter()
        .find(|entry| entry.operation.as_deref() == Some("Apply"));
    let applied = applied.unwrap();
    assert_eq!(applied.manager.as_deref(), Some("work-agent-x"));
    assert!(!serde_json::to_string(&applied.fields_v1).unwrap().contains("ownerReferences"));
}

#[tokio::test]
async fn ignored_fields_are_left_to_the_cluster() {
    let fixture = Fixture::start().await;
    let config = strategy(
        &fixture,
        &json!({"type": "ServerSideApply", "serverSideApply":
        {"force": true, "ignoreFields": [{"condition": "OnSpokeChange",
            "jqPathExpressions": [".data.key"]}]}}),
    );
    fixture.create("web", vec![fixture.config_map("a", "1")], config).await;
    fixture.wait_recorded("web", &["configmaps/a"]).await;
    fixture.edit("a", json!({"data": {"key": "theirs"}})).await;
    fixture.create("other", vec![fixture.config_map("b", "1")], json!({})).await;
    fixture.wait_recorded("other", &["configmaps/b"]).await;
    fixture.value("a", "theirs").await;
    let mut changed = fixture.config_map("a", "1");
    changed["data"]["new"] = "1".into();
    fixture.patch_spec("web", json!({"workload": {"manifests": [changed]}})).await;
    fixture.value("a", "1").await;
}

#[tokio::test]
async fn crd_and_its_object_can_share_a_work() {
    let fixture = Fixture::start().await;
    let group = format!("{}.example.com", fixture.namespace);
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Gadget",
            "plural": "gadgets"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": any}}]}});
    let gadget = json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget",
        "metadata": {"name": "one", "namespace": fixture.namespace}, "spec": {"size": 1}});
    fixture.create("gadgets", vec![gadget, crd], json!({})).await;
    fixture.condition("gadgets", "Applied", "True").await;
    fixture.condition("gadgets", "Available", "True").await;
    fixture
        .wait_recorded(
            "gadgets",
            &[&format!("customresourcedefinitions/gadgets.{group}"), "gadgets/one"],
        )
        .await;
    fixture.delete("gadgets").await;
    fixture.is_gone(&fixture.works(), "gadgets").await;
    let crds: Api<DynamicObject> = Api::all_with(
        fixture.cluster.clone(),
        &kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    );
    fixture.is_gone(&crds, &format!("gadgets.{group}")).await;
}

#[tokio::test]
async fn missing_kind_keeps_stale_objects() {
    let fixture = Fixture::start().await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.wait_recorded("web", &["configmaps/a"]).await;
    let unknown = json!({"apiVersion": "nowhere.example.com/v1", "kind": "Nothing",
        "metadata": {"name": "x", "namespace": "y"}});
    fixture
        .patch_spec(
            "web",
            json!({"workload": {"manifests": [unknown.clone(), fixture.config_map("b", "1")]}}),
        )
        .await;
    fixture.value("b", "1").await;
    let condition = fixture.manifest_condition("web", 0, "Applied", "False").await;
    assert_eq!(
        condition["message"],
        "Failed to apply manifest: the server doesn't have a resource type \"Nothing\""
    );
    let work = fixture.condition("web", "Applied", "False").await;
    insta::assert_snapshot!("an_unknown_kind", stable(&work, &fixture));
    // One pass after the other: when the second one has applied, the first one has ended.
    fixture
        .patch_spec(
            "web",
            json!({"workload": {"manifests": [unknown, fixture.config_map("b", "2")]}}),
        )
        .await;
    fixture.value("b", "2").await;
    let kept = fixture.config_maps().get("a").await.unwrap();
    assert_eq!(kept.metadata.deletion_timestamp, None);
    assert_eq!(fixture.recorded("web").await, ["configmaps/a"]);
    fixture
        .patch_spec("web", json!({"workload": {"manifests": [fixture.config_map("b", "1")]}}))
        .await;
    fixture.is_gone(&fixture.config_maps(), "a").await;
}

#[tokio::test]
async fn namespace_created_later_is_noticed() {
    let fixture = Fixture::start().await;
    let later = format!("{}-later", fixture.namespace);
    let mut map = fixture.config_map("a", "1");
    map["metadata"]["namespace"] = later.as_str().into();
    fixture.create("web", vec![map, fixture.config_map("b", "1")], json!({})).await;
    let condition = fixture.manifest_condition("web", 0, "Applied", "False").await;
    assert!(condition["message"].as_str().unwrap().contains("not found"), "{condition}");
    fixture.value("b", "1").await;
    let namespaces: Api<DynamicObject> =
        Api::all_with(fixture.cluster.clone(), &kind("v1", "Namespace"));
    let mut namespace = DynamicObject::new(&later, &kind("v1", "Namespace"));
    namespace.data = json!({});
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    fixture.condition("web", "Applied", "True").await;
}

#[tokio::test]
async fn a_namespaced_manifest_needs_its_namespace() {
    let fixture = Fixture::start().await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let generated = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"generateName": "a-", "namespace": fixture.namespace}});
    fixture.create("web", vec![map, generated], json!({})).await;
    for (place, message) in [
        (0, "an empty namespace may not be set when a resource name is provided"),
        (1, "generateName must not be set in manifest"),
    ] {
        let condition = fixture.manifest_condition("web", place, "Applied", "False").await;
        assert_eq!(condition["message"], format!("Failed to apply manifest: {message}"));
    }
}

#[tokio::test]
async fn immutable_field_error_is_reported() {
    let fixture = Fixture::start().await;
    let mut frozen = fixture.config_map("a", "1");
    frozen["immutable"] = true.into();
    fixture.create("web", vec![frozen.clone()], json!({})).await;
    fixture.condition("web", "Applied", "True").await;
    frozen["data"]["key"] = "2".into();
    fixture.patch_spec("web", json!({"workload": {"manifests": [frozen]}})).await;
    let condition = fixture.manifest_condition("web", 0, "Applied", "False").await;
    assert!(condition["message"].as_str().unwrap().contains("immutable"), "{condition}");
}

#[tokio::test]
async fn failing_manifest_and_large_work_do_not_delay_other_works() {
    let fixture = Fixture::start().await;
    let many: Vec<Value> =
        (0..300).map(|n| fixture.config_map(&format!("many-{n}"), "1")).collect();
    fixture.create("large", many, json!({})).await;
    fixture.create("small", vec![fixture.config_map("small", "1")], json!({})).await;
    fixture.condition("small", "Applied", "True").await;
    let large = fixture.works().get("large").await.unwrap();
    let is_done =
        large.data.get("status").is_some_and(|status| status["conditions"][0]["status"] == "True");
    assert!(!is_done, "the small work was not held up by the large one");
    fixture.condition("large", "Applied", "True").await;
}
