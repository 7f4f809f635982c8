//! Deletion, orphans, shared objects, eviction, and restarts.

use std::time::Duration;

use http::Method;
use kube::api::{DeleteParams, DynamicObject, PatchParams, PostParams};
use serde_json::json;

use super::fixture::{DEADLINE, Fixture, kind, owners};
use crate::harness::eventually;
use crate::harness::faults::{Fault, Seen};

#[tokio::test]
async fn foreground_deletion_waits_for_the_objects() {
    let fixture = Fixture::start().await;
    let mut held = fixture.config_map("held", "1");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    fixture.create("web", vec![fixture.config_map("a", "1"), held], json!({})).await;
    fixture.wait_recorded("web", &["configmaps/a", "configmaps/held"]).await;
    fixture.delete("web").await;
    fixture.is_gone(&fixture.config_maps(), "a").await;
    fixture.wait_recorded("web", &["configmaps/held"]).await;
    let work = fixture.condition("web", "Deleting", "True").await;
    let deleting = super::fixture::condition_of(&work["status"]["conditions"], "Deleting").unwrap();
    assert_eq!(
        (&deleting["reason"], &deleting["message"]),
        (&json!("WorkDeleting"), &json!("ManifestWork is being deleted"))
    );
    fixture.edit("held", json!({"metadata": {"finalizers": null}})).await;
    fixture.is_gone(&fixture.applied(), &fixture.applied_name("web")).await;
    fixture.is_gone(&fixture.works(), "web").await;
}

#[tokio::test]
async fn objects_that_only_their_work_owns_are_deleted_without_being_read() {
    let fixture = Fixture::start().await;
    let objects = vec![fixture.config_map("a", "1"), fixture.config_map("b", "1")];
    fixture.create("web", objects, json!({})).await;
    fixture.wait_recorded("web", &["configmaps/a", "configmaps/b"]).await;
    fixture.condition("web", "Available", "True").await;
    let before = fixture.faults.seen().len();
    fixture.delete("web").await;
    fixture.is_gone(&fixture.works(), "web").await;
    let seen = fixture.faults.seen();
    for name in ["a", "b"] {
        fixture.is_gone(&fixture.config_maps(), name).await;
        let path = format!("/configmaps/{name}");
        let mut requests = seen.iter().skip(before).filter(|seen| seen.path.ends_with(&path));
        let first = requests.next().map(|seen| &seen.method);
        assert_eq!(first, Some(&Method::DELETE), "{name}");
        let second = requests.find(|seen| seen.method == Method::DELETE);
        assert_eq!(second, None, "{name} is deleted once");
    }
}

/// The response to the deletion of an AppliedManifestWork comes after the event that it is gone.
#[tokio::test]
async fn work_is_gone_although_a_response_comes_late() {
    let fixture = Fixture::start().await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.create("later", vec![fixture.config_map("b", "1")], json!({})).await;
    for name in ["web", "later"] {
        fixture.condition(name, "Available", "True").await;
    }
    let is_held =
        |seen: &Seen| seen.method == Method::DELETE && seen.path.contains("/appliedmanifestworks/");
    fixture.faults.next(1, Fault::HoldAnswer, is_held);
    fixture.delete("web").await;
    fixture.is_gone(&fixture.applied(), &fixture.applied_name("web")).await;
    // One watch reports the ends of both: this one comes second.
    fixture.delete("later").await;
    fixture.is_gone(&fixture.works(), "later").await;
    assert!(fixture.works().get("web").await.is_ok(), "the response has not come yet");
    fixture.faults.release();
    fixture.is_gone(&fixture.works(), "web").await;
}

/// The agent's last version of the object has one owner. A second one came since, and the agent has
/// not seen it.
#[tokio::test]
async fn object_that_changed_unseen_is_read_before_it_is_deleted() {
    let fixture = Fixture::start().await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.create("other", vec![fixture.config_map("b", "1")], json!({})).await;
    fixture.wait_recorded("web", &["configmaps/a"]).await;
    fixture.wait_recorded("other", &["configmaps/b"]).await;
    fixture.condition("web", "Available", "True").await;
    let is_watch = |seen: &Seen| seen.is_watch() && seen.path.ends_with("/configmaps");
    fixture.faults.next(usize::MAX, Fault::Stall, is_watch);
    fixture.faults.cut_watches();
    eventually("the watch to be interrupted", DEADLINE, || async {
        let stalled = fixture.faults.count(|seen| is_watch(seen) && seen.fault.is_some());
        if stalled > 0 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await
    .unwrap();
    let maps = fixture.config_maps();
    let owners_of = async |name: &str| maps.get(name).await.unwrap().metadata.owner_references;
    let both = [owners_of("a").await.unwrap(), owners_of("b").await.unwrap()].concat();
    let other = both[1].uid.clone();
    fixture.edit("a", json!({"metadata": {"ownerReferences": both}})).await;
    fixture.delete("web").await;
    fixture.is_gone(&fixture.works(), "web").await;
    let left = maps.get("a").await.unwrap();
    assert_eq!((owners(&left), left.metadata.deletion_timestamp), (vec![other], None));
    let rejected = fixture
        .faults
        .count(|seen| seen.method == Method::DELETE && seen.path.ends_with("/configmaps/a"));
    assert_eq!(rejected, 1, "the API server rejected the deletion of another version");
}

#[tokio::test]
async fn orphaned_objects_lose_their_owner_first_and_stay() {
    let fixture = Fixture::start().await;
    fixture
        .create("web", vec![fixture.config_map("a", "1"), fixture.config_map("b", "1")], json!({}))
        .await;
    fixture.wait_recorded("web", &["configmaps/a", "configmaps/b"]).await;
    let rule =
        json!({"group": "", "resource": "configmaps", "namespace": fixture.namespace, "name": "a"});
    fixture
        .patch_spec(
            "web",
            json!({"deleteOption": {"propagationPolicy": "SelectivelyOrphan",
        "selectivelyOrphans": {"orphaningRules": [rule]}}}),
        )
        .await;
    fixture.condition("web", "Applied", "True").await;
    assert!(owners(&fixture.config_maps().get("a").await.unwrap()).is_empty());
    assert_eq!(owners(&fixture.config_maps().get("b").await.unwrap()).len(), 1);
    assert_eq!(
        fixture.recorded("web").await,
        ["configmaps/a", "configmaps/b"],
        "orphans are recorded too"
    );
    fixture.delete("web").await;
    fixture.is_gone(&fixture.works(), "web").await;
    fixture.is_gone(&fixture.config_maps(), "b").await;
    fixture.is_kept("a", "1").await;
}

#[tokio::test]
async fn orphan_option_keeps_every_object() {
    let fixture = Fixture::start().await;
    fixture
        .create(
            "web",
            vec![fixture.config_map("a", "1")],
            json!({"deleteOption": {"propagationPolicy": "Orphan"}}),
        )
        .await;
    fixture.wait_recorded("web", &["configmaps/a"]).await;
    fixture.delete("web").await;
    fixture.is_gone(&fixture.works(), "web").await;
    fixture.is_kept("a", "1").await;
}

#[tokio::test]
async fn an_object_of_two_works_goes_with_the_last() {
    let fixture = Fixture::start().await;
    fixture.create("one", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.create("two", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.wait_recorded("one", &["configmaps/a"]).await;
    fixture.wait_recorded("two", &["configmaps/a"]).await;
    assert_eq!(owners(&fixture.config_maps().get("a").await.unwrap()).len(), 2);
    fixture.delete("one").await;
    fixture.is_gone(&fixture.works(), "one").await;
    let map = fixture.config_maps().get("a").await.unwrap();
    assert_eq!((owners(&map).len(), map.metadata.deletion_timestamp), (1, None));
    fixture.delete("two").await;
    fixture.is_gone(&fixture.works(), "two").await;
    fixture.is_gone(&fixture.config_maps(), "a").await;
}

#[tokio::test]
async fn two_works_that_claim_one_object_are_rate_limited() {
    let fixture = Fixture::start().await;
    fixture.create("one", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.create("two", vec![fixture.config_map("a", "2")], json!({})).await;
    let found = |work: &serde_json::Value| {
        let conditions = &work["status"]["resourceStatus"]["manifests"][0]["conditions"];
        let applied = super::fixture::condition_of(conditions, "Applied")?;
        applied["message"]
            .as_str()?
            .contains("another client keeps changing this object")
            .then_some(())
    };
    fixture.work("one", "the conflict to be reported", found).await;
}

#[tokio::test]
async fn a_recreated_object_is_not_deleted() {
    let mut fixture = Fixture::start().await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.wait_recorded("web", &["configmaps/a"]).await;
    let applied = fixture.applied().get(&fixture.applied_name("web")).await.unwrap();
    fixture.kill().await;
    let maps = fixture.config_maps();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    fixture.is_gone(&maps, "a").await;
    // Another client recreates it with our owner reference and another uid.
    let mut map = DynamicObject::new("a", &kind("v1", "ConfigMap"));
    map.metadata.owner_references = Some(vec![
        serde_json::from_value(json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork",
        "name": applied.metadata.name, "uid": applied.metadata.uid}))
        .unwrap(),
    ]);
    map.data = json!({"data": {"key": "theirs"}});
    maps.create(&PostParams::default(), &map).await.unwrap();
    // The garbage collector deletes it later, as its owner goes. The agent does not ask for that.
    let keep = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    fixture.edit("a", keep).await;
    fixture.delete("web").await;
    fixture.run();
    fixture.is_gone(&fixture.works(), "web").await;
    let deletions = fixture
        .faults
        .count(|seen| seen.method == Method::DELETE && seen.path.ends_with("/configmaps/a"));
    assert_eq!(deletions, 0);
    fixture.edit("a", json!({"metadata": {"finalizers": null}})).await;
}

#[tokio::test]
async fn applied_work_without_its_work_is_evicted_after_the_grace_period() {
    let mut fixture =
        Fixture::start_with(|settings| settings.eviction_grace = Duration::from_secs(2)).await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.wait_recorded("web", &["configmaps/a"]).await;
    fixture.kill().await;
    fixture
        .works()
        .patch(
            "web",
            &PatchParams::default(),
            &kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}})),
        )
        .await
        .unwrap();
    fixture.delete("web").await;
    fixture.is_gone(&fixture.works(), "web").await;
    fixture.run();
    let applied = fixture.applied();
    let name = fixture.applied_name("web");
    eventually("the eviction to start", DEADLINE, || async {
        match applied.get_opt(&name).await.map_err(|error| error.to_string())? {
            Some(found) if found.data["status"]["evictionStartTime"].is_string() => Ok(()),
            Some(found) => Err(found.data["status"].to_string()),
            None => Ok(()),
        }
    })
    .await
    .unwrap();
    fixture.is_gone(&applied, &name).await;
    fixture.is_gone(&fixture.config_maps(), "a").await;
}

#[tokio::test]
async fn a_work_of_another_agent_is_left_alone() {
    let mut fixture =
        Fixture::start_with(|settings| settings.eviction_grace = Duration::from_secs(1)).await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.wait_recorded("web", &["configmaps/a"]).await;
    fixture.kill().await;
    // The same hub for another agent, of another cluster namespace.
    let old = fixture.applied_name("web");
    fixture.settings.agent_id = "another".into();
    fixture.cluster_name = "nowhere".into();
    fixture.settings.cluster_name = "nowhere".into();
    fixture.run();
    let second = Fixture::start().await;
    second.create("web", vec![second.config_map("b", "1")], json!({})).await;
    second.wait_recorded("web", &["configmaps/b"]).await;
    let found = fixture.applied().get(&old).await.unwrap();
    assert_eq!(found.data["status"]["evictionStartTime"], json!(null));
    fixture.value("a", "1").await;
}

#[tokio::test]
async fn restart_changes_nothing() {
    let mut fixture = Fixture::start().await;
    fixture
        .create("web", vec![fixture.config_map("a", "1"), fixture.config_map("b", "1")], json!({}))
        .await;
    fixture.condition("web", "Available", "True").await;
    fixture.wait_recorded("web", &["configmaps/a", "configmaps/b"]).await;
    fixture.kill().await;
    let before = fixture.works().get("web").await.unwrap();
    fixture.edit("a", json!({"data": {"key": "drift"}})).await;
    fixture.config_maps().delete("b", &DeleteParams::default()).await.unwrap();
    fixture.run();
    fixture.value("a", "1").await;
    fixture.value("b", "1").await;
    fixture.condition("web", "Available", "True").await;
    let after = fixture.works().get("web").await.unwrap();
    assert_eq!(before.data["status"], after.data["status"], "no status is written again");
}
