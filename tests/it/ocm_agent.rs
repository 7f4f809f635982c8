//! The double of OCM's work agent does what upstream's agent does, in every order of its
//! controllers. Each test names the part of upstream that it follows.

mod deletion;
mod moves;
pub mod world;

use std::time::Duration;

use serde_json::{Value, json};

use crate::ocm_agent_double::{Choice, OrderChooser};
use world::{World, condition_of, in_each_order};

/// OCM's work agent, ManifestWork controller and available-status controller.
#[tokio::test]
async fn applies_and_reports_a_work() {
    in_each_order(async |mut world: World| {
        let manifests = vec![world.config_map("a", "1"), world.config_map("b", "1")];
        world.create("web", manifests, json!({})).await;
        world.settle().await;
        let work = world.work("web").await;
        assert_eq!(
            work["metadata"]["finalizers"],
            json!(["cluster.open-cluster-management.io/manifest-work-cleanup"])
        );
        for (kind, reason) in
            [("Applied", "AppliedManifestWorkComplete"), ("Available", "ResourcesAvailable")]
        {
            let condition = condition_of(&work["status"]["conditions"], kind);
            assert_eq!(condition["status"], "True", "{work}");
            assert_eq!(condition["reason"], reason);
            assert_eq!(condition["observedGeneration"], work["metadata"]["generation"]);
        }
        let manifest = &work["status"]["resourceStatus"]["manifests"][1];
        assert_eq!(
            manifest["resourceMeta"],
            json!({"ordinal": 1, "group": "", "version": "v1", "kind": "ConfigMap",
                "resource": "configmaps", "name": "b", "namespace": world.namespace})
        );
        assert_eq!(condition_of(&manifest["conditions"], "Applied")["status"], "True");
        assert_eq!(condition_of(&manifest["conditions"], "Available")["status"], "True");
        let applied = world.applied("web").await.unwrap();
        assert_eq!(applied["spec"]["manifestWorkName"], "web");
        assert_eq!(world.recorded("web").await, ["configmaps/a", "configmaps/b"]);
        assert_eq!(world.owners("a").await, ["web"]);
        let live = world.live("a").await.unwrap();
        assert_eq!(live["metadata"]["managedFields"][0]["manager"], "work-agent");
    })
    .await;
}

/// OCM's work agent, ManifestWork controller: kinds are looked up before anything is applied, and
/// what fails comes back soon.
#[tokio::test]
async fn a_custom_object_is_applied_after_its_definition() {
    in_each_order(async |mut world: World| {
        let group = format!("{}.example.com", world.namespace);
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition", "metadata": {"name": format!("toys.{group}")},
            "spec": {"group": group, "scope": "Namespaced",
                "names": {"kind": "Toy", "plural": "toys"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
        let toy = json!({"apiVersion": format!("{group}/v1"), "kind": "Toy",
            "metadata": {"name": "bear", "namespace": world.namespace}});
        world.create("toys", vec![toy, definition], json!({})).await;
        world.until_applied("toys").await;
        world.settle().await;
        assert_eq!(world.recorded("toys").await.len(), 2);
        assert!(world.agent.trace().iter().any(|line| line.contains("a resource type \"Toy\"")));
        world.delete("toys").await;
        world.settle().await;
        assert!(world.work_opt("toys").await.is_none());
    })
    .await;
}

/// OCM's work agent, `Update`: the content is that of the manifest, keys of other managers in the
/// metadata stay.
#[tokio::test]
async fn update_restores_the_content() {
    in_each_order(async |mut world: World| {
        world.create("web", vec![world.config_map("a", "1")], json!({})).await;
        world.settle().await;
        let edit = json!({"data": {"key": "drift"}, "metadata": {"labels": {"theirs": "1"}}});
        world.edit("a", edit).await;
        world.settle().await;
        assert_eq!(world.value("a").await, "drift", "only the next resync applies again");
        world.resync().await;
        assert_eq!(world.value("a").await, "1");
        assert_eq!(world.live("a").await.unwrap()["metadata"]["labels"]["theirs"], "1");
    })
    .await;
}

/// OCM's work agent, `CreateOnly` beside the other strategies: it adds its owner to an object that
/// another work has written, reports Applied, and never writes content.
#[tokio::test]
async fn create_only_adds_its_owner_and_writes_no_content() {
    for strategy in ["Update", "ServerSideApply"] {
        in_each_order(async |mut world: World| {
            world.create("b", vec![world.config_map("x", "of b")], world.strategy(strategy)).await;
            world.settle().await;
            let uid = world.uid("x").await;
            let create_only = world.strategy("CreateOnly");
            world.create("a", vec![world.config_map("x", "of a")], create_only).await;
            world.settle().await;
            assert!(world.is_applied("a").await, "different content is no error");
            for _ in 0..2 {
                assert_eq!(world.value("x").await, "of b");
                assert_eq!(world.owners("x").await, ["a", "b"]);
                assert_eq!(world.uid("x").await, uid);
                world.resync().await;
            }
        })
        .await;
    }
}

/// OCM's work agent, `CreateOnly`: it creates what does not exist.
#[tokio::test]
async fn create_only_creates_an_absent_object() {
    in_each_order(async |mut world: World| {
        let create_only = world.strategy("CreateOnly");
        world.create("a", vec![world.config_map("x", "of a")], create_only).await;
        world.settle().await;
        assert_eq!(world.value("x").await, "of a");
        assert_eq!(world.owners("x").await, ["a"]);
    })
    .await;
}

/// OCM's work agent, `ReadOnly`: no request, no owner; the object is tracked all the same.
#[tokio::test]
async fn read_only_has_no_owner_and_is_tracked() {
    in_each_order(async |mut world: World| {
        let read_only = world.strategy("ReadOnly");
        world.create("a", vec![world.config_map("x", "of a")], read_only).await;
        world.settle().await;
        assert!(world.is_applied("a").await, "Applied, although there is no object");
        assert!(world.live("x").await.is_none());
        assert!(world.recorded("a").await.is_empty());
        world.create("b", vec![world.config_map("x", "of b")], json!({})).await;
        world.settle().await;
        world.resync().await;
        assert_eq!(world.recorded("a").await, ["configmaps/x"]);
        assert_eq!(world.owners("x").await, ["b"]);
        world.delete("a").await;
        world.settle().await;
        assert_eq!(world.value("x").await, "of b");
    })
    .await;
}

/// OCM's work agent, config lookup: each field comes from the first entry that matches and has it.
#[tokio::test]
async fn first_matching_entry_with_a_field_counts() {
    in_each_order(async |mut world: World| {
        world.create("b", vec![world.config_map("x", "of b")], json!({})).await;
        world.settle().await;
        let identifier = |name: &str| {
            json!({"group": "", "resource": "configmaps", "namespace": world.namespace,
                "name": name})
        };
        let rule = json!([{"type": "JSONPaths",
            "jsonPaths": [{"name": "key", "path": ".data.key"}]}]);
        let configs = json!({"manifestConfigs": [
            {"resourceIdentifier": identifier("x"), "updateStrategy": {"type": "CreateOnly"}},
            {"resourceIdentifier": identifier("*"), "updateStrategy": {"type": "Update"},
                "feedbackRules": rule}]});
        world.create("a", vec![world.config_map("x", "of a")], configs).await;
        world.settle().await;
        assert_eq!(world.value("x").await, "of b", "the strategy is that of the first entry");
        let work = world.work("a").await;
        let manifest = &work["status"]["resourceStatus"]["manifests"][0];
        assert_eq!(
            manifest["statusFeedback"]["values"][0]["fieldValue"]["string"], "of b",
            "the feedback is that of the second"
        );
    })
    .await;
}

/// The rule by which a ConfigMap of [`World::config_map`] with the value `done` is complete.
fn complete_rule(world: &World) -> Value {
    json!([{"resourceIdentifier": {"group": "", "resource": "configmaps", "name": "*",
            "namespace": world.namespace},
        "conditionRules": [{"type": "CEL", "condition": "Complete",
            "celExpressions": ["object.data.key == 'done'"]}]}])
}

/// OCM's work agent, "Complete and TTL": a complete manifest is applied no more, in neither
/// content nor owner, and is still tracked. It is deleted if it leaves the work.
#[tokio::test]
async fn complete_manifest_is_left_as_it_is() {
    in_each_order(async |mut world: World| {
        let configs = json!({"manifestConfigs": complete_rule(&world)});
        let [done, open] = [world.config_map("x", "done"), world.config_map("y", "open")];
        world.create("a", vec![done, open.clone()], configs).await;
        world.settle().await;
        let work = world.work("a").await;
        let of_x = &work["status"]["resourceStatus"]["manifests"][0]["conditions"];
        assert_eq!(condition_of(of_x, "Complete")["status"], "True");
        assert_eq!(condition_of(&work["status"]["conditions"], "Complete")["status"], "False");
        let changed = json!({"deleteOption": {"propagationPolicy": "Orphan"},
            "workload": {"manifests": [world.config_map("x", "other"), open]}});
        world.patch_spec("a", changed).await;
        world.settle().await;
        assert!(world.is_applied("a").await);
        assert_eq!(world.value("x").await, "done");
        assert_eq!(world.owners("x").await, ["a"], "the orphan option does not reach it");
        assert!(world.owners("y").await.is_empty(), "it reaches the other");
        assert_eq!(world.recorded("a").await, ["configmaps/x", "configmaps/y"]);
        world.write_manifests("a", vec![world.config_map("y", "open")]).await;
        world.settle().await;
        assert!(world.live("x").await.is_none(), "it still had its owner");
    })
    .await;
}

/// OCM's work agent, "Complete and TTL": nothing happens to a complete work, whatever is written.
#[tokio::test]
async fn complete_work_is_frozen() {
    in_each_order(async |mut world: World| {
        let configs = json!({"manifestConfigs": complete_rule(&world)});
        let manifests = vec![world.config_map("x", "done"), world.config_map("y", "done")];
        world.create("a", manifests, configs).await;
        world.settle().await;
        world.write_manifests("a", vec![world.config_map("y", "other")]).await;
        world.settle().await;
        assert!(!world.is_applied("a").await, "Applied is of the old generation");
        assert_eq!(world.value("y").await, "done");
        assert_eq!(world.value("x").await, "done", "nor is anything deleted");
    })
    .await;
}

/// Kills between any two requests lead to the same end.
#[tokio::test]
async fn kills_change_nothing_in_the_end() {
    for seed in 0..6 {
        let order = OrderChooser::seeded(seed).with_restarts(12, seed);
        let mut world = World::start(order).await;
        let manifests = vec![world.config_map("a", "1"), world.config_map("b", "1")];
        world.create("web", manifests, json!({})).await;
        world.settle().await;
        world.write_manifests("web", vec![world.config_map("b", "2")]).await;
        world.settle().await;
        assert!(world.live("a").await.is_none());
        assert_eq!(world.recorded("web").await, ["configmaps/b"]);
        assert_eq!(world.value("b").await, "2");
        assert!(world.agent.trace().iter().filter(|line| *line == "start").count() > 1);
    }
}

/// OCM's work agent, ManifestWork controller: the status of the work is written before
/// `appliedResources`. What a kill between the two leaves unrecorded is not deleted when it leaves
/// the work; it goes with the work, by Kubernetes' garbage collection.
#[tokio::test]
async fn object_that_is_not_recorded_stays_until_its_work_goes() {
    let mut world = World::start(OrderChooser::explicit([])).await;
    world.order = OrderChooser::by(|choices: &[Choice]| {
        let records = |choice: &Choice| {
            choice.label.contains("PATCH") && choice.label.ends_with("-web/status")
        };
        choices.iter().position(|choice| !records(choice)).unwrap_or(0)
    });
    let manifests = vec![world.config_map("a", "1"), world.config_map("b", "1")];
    world.create("web", manifests, json!({})).await;
    world.until_applied("web").await;
    world.agent.restart().await;
    assert!(world.recorded("web").await.is_empty());
    world.write_manifests("web", vec![world.config_map("b", "1")]).await;
    world.order = OrderChooser::explicit([]);
    world.settle().await;
    assert_eq!(world.recorded("web").await, ["configmaps/b"]);
    assert_eq!(world.owners("a").await, ["web"]);
    world.delete("web").await;
    let maps = world.config_maps();
    let is_gone = async || maps.get_opt("a").await.unwrap().is_none().then_some(());
    world.agent.step_until(&mut world.order, "garbage collection", is_gone).await;
}

/// OCM's work agent, eviction: an AppliedManifestWork without a work goes after the grace period.
#[tokio::test]
async fn applied_work_without_its_work_is_evicted() {
    in_each_order(async |mut world: World| {
        world.create("web", vec![world.config_map("a", "1")], json!({})).await;
        world.settle().await;
        world.remove_finalizers("web").await;
        world.delete("web").await;
        world.settle().await;
        let applied = world.applied("web").await.unwrap();
        assert!(applied["status"]["evictionStartTime"].is_string(), "{applied}");
        world.agent.pass_time(Duration::from_mins(50));
        world.settle().await;
        assert_eq!(world.owners("a").await, ["web"]);
        world.agent.pass_time(Duration::from_mins(11));
        world.settle().await;
        assert!(world.applied("web").await.is_none());
        assert!(world.live("a").await.is_none());
    })
    .await;
}
