//! What leaves a work, is orphaned, or goes with its work.

use serde_json::json;

use super::world::{World, condition_of, in_each_order};

/// OCM's work agent, `status.appliedResources` and DeleteAppliedResources.
#[tokio::test]
async fn what_left_a_work_is_deleted() {
    in_each_order(async |mut world: World| {
        let manifests = vec![world.config_map("a", "1"), world.config_map("b", "1")];
        world.create("web", manifests, json!({})).await;
        world.settle().await;
        world.write_manifests("web", vec![world.config_map("b", "1")]).await;
        world.settle().await;
        assert!(world.live("a").await.is_none());
        assert_eq!(world.recorded("web").await, ["configmaps/b"]);
    })
    .await;
}

/// OCM's work agent, `status.appliedResources`: one manifest of an unknown kind stops the deletion
/// of what left the work.
#[tokio::test]
async fn unknown_kind_stops_the_deletion() {
    in_each_order(async |mut world: World| {
        world.create("web", vec![world.config_map("a", "1")], json!({})).await;
        world.settle().await;
        let unknown = json!({"apiVersion": "nowhere.example.com/v1", "kind": "Nothing",
            "metadata": {"name": "x", "namespace": world.namespace}});
        world.write_manifests("web", vec![unknown]).await;
        world.settle().await;
        assert_eq!(world.value("a").await, "1");
        assert_eq!(world.recorded("web").await, ["configmaps/a"]);
        let work = world.work("web").await;
        let condition = condition_of(&work["status"]["conditions"], "Applied");
        assert_eq!(condition["status"], "False");
        assert_eq!(condition["observedGeneration"], work["metadata"]["generation"]);
    })
    .await;
}

/// OCM's work agent, DeleteAppliedResources: the last AppliedManifestWork that owns an object
/// deletes it, the others only drop their reference.
#[tokio::test]
async fn object_of_two_works_goes_with_the_last() {
    in_each_order(async |mut world: World| {
        for work in ["one", "two"] {
            let manifests = vec![world.config_map("a", "1"), world.config_map(work, "1")];
            world.create(work, manifests, json!({})).await;
        }
        world.settle().await;
        assert_eq!(world.owners("a").await, ["one", "two"]);
        let uid = world.uid("a").await;
        world.write_manifests("one", vec![world.config_map("one", "1")]).await;
        world.settle().await;
        assert_eq!(world.owners("a").await, ["two"]);
        assert_eq!(world.uid("a").await, uid);
        assert_eq!(world.recorded("one").await, ["configmaps/one"]);
        world.write_manifests("two", vec![world.config_map("two", "1")]).await;
        world.settle().await;
        assert!(world.live("a").await.is_none());
    })
    .await;
}

/// OCM's work agent, "Work deletion", with another owner: the object stays.
#[tokio::test]
async fn deleted_work_leaves_objects_of_other_works() {
    in_each_order(async |mut world: World| {
        for work in ["one", "two"] {
            world.create(work, vec![world.config_map("a", "1")], json!({})).await;
        }
        world.settle().await;
        let uid = world.uid("a").await;
        world.delete("one").await;
        world.settle().await;
        assert!(world.work_opt("one").await.is_none());
        assert_eq!(world.owners("a").await, ["two"]);
        assert_eq!(world.uid("a").await, uid);
    })
    .await;
}

/// OCM's work agent, DeleteAppliedResources: owners of other kinds do not protect an object.
#[tokio::test]
async fn owner_of_another_kind_does_not_keep_an_object() {
    in_each_order(async |mut world: World| {
        let manifests = vec![world.config_map("a", "1"), world.config_map("b", "1")];
        world.create("web", manifests, json!({})).await;
        world.settle().await;
        let (a, b) = (world.live("a").await.unwrap(), world.live("b").await.unwrap());
        let mut owners = a["metadata"]["ownerReferences"].as_array().unwrap().clone();
        owners.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "b",
            "uid": b["metadata"]["uid"]}));
        world.edit("a", json!({"metadata": {"ownerReferences": owners}})).await;
        world.write_manifests("web", vec![world.config_map("b", "1")]).await;
        world.settle().await;
        assert!(world.live("a").await.is_none());
    })
    .await;
}

/// OCM's work agent, DeleteAppliedResources: an object with another uid than the recorded one is
/// forgotten.
#[tokio::test]
async fn recreated_object_is_not_deleted() {
    in_each_order(async |mut world: World| {
        let manifests = vec![world.config_map("a", "1"), world.config_map("b", "1")];
        world.create("web", manifests, json!({})).await;
        world.settle().await;
        let owners = world.live("a").await.unwrap()["metadata"]["ownerReferences"].clone();
        world.config_maps().delete("a", &kube::api::DeleteParams::default()).await.unwrap();
        let mut recreated = world.config_map("a", "theirs");
        recreated["metadata"]["ownerReferences"] = owners;
        let recreated = serde_json::from_value(recreated).unwrap();
        world.config_maps().create(&kube::api::PostParams::default(), &recreated).await.unwrap();
        world.write_manifests("web", vec![world.config_map("b", "1")]).await;
        world.settle().await;
        assert_eq!(world.value("a").await, "theirs");
        assert_eq!(world.recorded("web").await, ["configmaps/b"]);
    })
    .await;
}

/// OCM's work agent, owner reference convention: the pass that applies an orphaned manifest
/// removes the owner. The object is still tracked, and stays if it leaves the work after that.
#[tokio::test]
async fn orphaned_object_loses_its_owner_and_stays() {
    in_each_order(async |mut world: World| {
        let manifests = vec![world.config_map("a", "1"), world.config_map("b", "1")];
        world.create("web", manifests, json!({})).await;
        world.settle().await;
        world.patch_spec("web", world.orphaning("a")).await;
        world.settle().await;
        assert!(world.is_applied("web").await);
        assert!(world.owners("a").await.is_empty());
        assert_eq!(world.owners("b").await, ["web"]);
        assert_eq!(world.recorded("web").await, ["configmaps/a", "configmaps/b"]);
        world.write_manifests("web", vec![world.config_map("b", "1")]).await;
        world.settle().await;
        assert_eq!(world.recorded("web").await, ["configmaps/b"]);
        assert_eq!(world.value("a").await, "1");
        world.delete("web").await;
        world.settle().await;
        assert_eq!(world.value("a").await, "1");
        assert!(world.live("b").await.is_none());
    })
    .await;
}

/// OCM's work agent, "Orphan timing": a rule that comes with the removal is too late.
#[tokio::test]
async fn orphaning_rule_with_the_removal_is_too_late() {
    in_each_order(async |mut world: World| {
        let manifests = vec![world.config_map("a", "1"), world.config_map("b", "1")];
        world.create("web", manifests, json!({})).await;
        world.settle().await;
        let mut spec = world.orphaning("a");
        spec["workload"] = json!({"manifests": [world.config_map("b", "1")]});
        world.patch_spec("web", spec).await;
        world.settle().await;
        assert!(world.live("a").await.is_none());
    })
    .await;
}

/// OCM's work agent, "Work deletion": the work goes after the last object is really gone.
#[tokio::test]
async fn foreground_deletion_waits_for_the_objects() {
    in_each_order(async |mut world: World| {
        let mut held = world.config_map("held", "1");
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let create_only = world.strategy("CreateOnly");
        world.create("web", vec![world.config_map("a", "1"), held], create_only).await;
        world.settle().await;
        world.delete("web").await;
        let (applied, name) = (world.applied_works(), world.agent.applied_name("web"));
        let waits_for_one = async || {
            let applied = applied.get(&name).await.unwrap();
            let left = applied.data["status"]["appliedResources"].as_array().map(Vec::len);
            (left == Some(1)).then_some(())
        };
        world.agent.step_until(&mut world.order, "an object to go", waits_for_one).await;
        assert!(world.live("a").await.is_none());
        let work = world.work("web").await;
        let deleting = condition_of(&work["status"]["conditions"], "Deleting");
        assert_eq!(deleting["reason"], "WorkDeleting");
        assert_eq!(world.recorded("web").await, ["configmaps/held"]);
        world.edit("held", json!({"metadata": {"finalizers": null}})).await;
        world.settle().await;
        assert!(world.work_opt("web").await.is_none());
        assert!(world.applied("web").await.is_none());
    })
    .await;
}
