//! Guards, from the plan to the result on the hub.

use std::sync::Arc;

use gitwork_core::config::window::Closed;
use gitwork_core::model::approval::{Approval, Rewind};
use gitwork_core::model::name::ObjectId;
use gitwork_core::plan::Guard;
use gitwork_core::plan::directives::Suspension;
use serde_json::json;

use super::git_work::GitWork;
use super::world::World;
use super::*;

fn changed(key: &WorkKey, text: &str) -> GitWork {
    GitWork { text: text.into(), ..GitWork::of(key) }
}

/// A world with a work on each of two clusters, and one work that stays.
async fn fleet() -> (World, WorkKey, WorkKey) {
    let (web, db) = (key("edge-1", "web"), key("edge-2", "db"));
    let mut world = World::with(&web, GitWork::of(&web)).await;
    world.push(&db, GitWork::of(&db));
    world.sync(&db).await;
    world.agents.settle(&world.hub);
    (world, web, db)
}

/// A user edits a work on the hub.
fn edit(world: &World, key: &WorkKey) {
    let patch = json!({"spec": {"workload": {"manifests": []}}});
    world.hub.user_patches(key, &patch).unwrap();
}

fn text_on_hub(world: &World, key: &WorkKey) -> String {
    let objects = world.hub.objects();
    objects[key]["spec"]["workload"]["manifests"][0]["data"]["text"].as_str().unwrap().to_owned()
}

fn closed() -> Option<Closed> {
    let until = "2026-11-23T09:00:00Z".parse().unwrap();
    Some(Closed { until: Some(until), unknown_zone: None })
}

#[tokio::test]
async fn closed_window_holds_changes_but_corrects_drift_and_applies_approved_fix() {
    let (mut world, web, db) = fleet().await;
    world.policy.closed = closed();
    world.push(&web, changed(&web, "fix"));
    world.drop_work(&db, None);
    let new = key("edge-2", "new");
    world.push(&new, GitWork::of(&new));
    for key in [&web, &db, &new] {
        assert_eq!(world.sync(key).await, "hold HeldByWindow", "{key}");
    }
    let stays = key("edge-3", "stays");
    edit(&world, &stays);
    assert_eq!(world.sync(&stays).await, "update EditedOnHub");
    assert_eq!(world.sync(&stays).await, "keep UpToDate");

    // The approval covers just these three works with just this content.
    world.observe();
    let plan = world.plan(&world.desired());
    let hold = plan.holds(&world.source).remove(0);
    assert_eq!((hold.guard, hold.works), (Guard::Window, 3));
    assert!(hold.reason.contains("until 2026-11-23T09:00:00Z"), "{}", hold.reason);
    world.add_approval(hold.approval, false);
    world.push(&new, changed(&new, "another"));
    assert_eq!(world.sync(&new).await, "hold HeldByWindow");
    assert_eq!(text_on_hub(&world, &web), "fix");
    assert_eq!(world.sync(&db).await, "wait BeingDeleted");
    assert!(!world.is_on_hub(&new));
    world.policy.closed = None;
    assert_eq!(world.sync(&new).await, "create NewInGit");
}

#[tokio::test]
async fn held_rewind_only_corrects_drift_until_its_approval() {
    let (mut world, web, db) = fleet().await;
    let from = [ObjectId([1; 20]), ObjectId([2; 20])].into();
    let rewind = Rewind { source: world.source.clone(), from, to: ObjectId([3; 20]) };
    world.policy.held_rewind = Some(Arc::new(rewind.clone()));
    world.push(&web, changed(&web, "older"));
    world.drop_work(&db, None);
    for key in [&web, &db] {
        assert_eq!(world.sync(key).await, "hold HeldByRewind", "{key}");
    }
    let stays = key("edge-3", "stays");
    edit(&world, &stays);
    assert_eq!(world.sync(&stays).await, "update EditedOnHub");
    edit(&world, &web);
    assert_eq!(world.sync(&web).await, "hold HeldByRewind", "what it was is not known any more");
    let holds = world.plan(&world.desired()).holds(&world.source);
    let approvals: Vec<&Approval> = holds.iter().map(|hold| &hold.approval).collect();
    assert_eq!(approvals, [&Approval::Rewind(rewind)]);
}

#[tokio::test]
async fn suspended_works_are_neither_written_nor_deleted() {
    let (mut world, web, db) = fleet().await;
    let by = Suspension { by: "ann".into(), at: "now".into(), reason: None };
    world.policy.suspensions.clusters.insert(web.cluster.clone(), Arc::new(by));
    world.suspended.clusters.insert(db.cluster.clone());
    world.drop_work(&web, None);
    world.push(&db, changed(&db, "two"));
    let new = key("edge-1", "new");
    world.push(&new, GitWork::of(&new));
    edit(&world, &db);
    assert_eq!(world.sync(&web).await, "hold SuspendedOnHub");
    assert_eq!(world.sync(&new).await, "hold SuspendedOnHub");
    assert_eq!(world.sync(&db).await, "hold Suspended");
    assert!(world.is_on_hub(&web) && !world.is_on_hub(&new));
    // The rest of the source still syncs.
    let stays = key("edge-3", "stays");
    world.push(&stays, changed(&stays, "two"));
    assert_eq!(world.sync(&stays).await, "update ChangedInGit");
    world.policy.suspensions.clusters.clear();
    world.suspended.clusters.clear();
    assert_eq!(world.sync(&db).await, "update EditedOnHub");
    assert_eq!(text_on_hub(&world, &db), "two");
    assert!(world.is_on_hub(&new));
}

#[tokio::test]
async fn restored_hub_gets_creations_and_updates_but_no_deletions() {
    let (mut world, web, db) = fleet().await;
    let approval = Approval::Restored { source: world.source.clone(), record_generation: 7 };
    world.policy.restored = Some(Arc::new(approval));
    world.push(&web, changed(&web, "two"));
    world.drop_work(&db, None);
    let released = key("edge-3", "stays");
    world.push(&released, GitWork { prune: false, ..GitWork::of(&released) });
    world.drop_work(&released, None);
    let new = key("edge-1", "new");
    world.push(&new, GitWork::of(&new));
    assert_eq!(world.sync(&web).await, "update ChangedInGit");
    assert_eq!(world.sync(&db).await, "hold HeldByRestore");
    assert_eq!(world.sync(&released).await, "hold HeldByRestore");
    // Works created meanwhile do not count as kept once the deletions are judged.
    let objects = world.hub.objects();
    assert!(
        objects[&new]["metadata"]["annotations"].get("gitwork.dev/created-during-hold").is_some()
    );
    world.policy.restored = None;
    assert_eq!(world.sync(&released).await, "release PruneOff");
}

#[tokio::test]
async fn works_created_during_suspension_of_deletions_do_not_count_as_kept() {
    let (web, stays) = (key("edge-1", "web"), key("edge-3", "stays"));
    let mut world = World::with(&web, GitWork::of(&web)).await;
    // Another path: all works go, and others are created on another cluster.
    let new: Vec<WorkKey> = (0..30).map(|n| key("edge-2", &format!("new-{n}"))).collect();
    for key in [&web, &stays] {
        world.drop_work(key, None);
    }
    new.iter().for_each(|key| world.push(key, GitWork::of(key)));
    assert_eq!(world.sync(&web).await, "hold HeldByBudget");
    let both = ["edge-1", "edge-3"].map(|name| ClusterName::parse(name).unwrap());
    world.suspended.clusters = both.into();
    for _ in 0..3 {
        assert_eq!(world.sync(&web).await, "hold Suspended");
        world.restart();
    }
    world.suspended.clusters.clear();
    assert_eq!(world.sync(&web).await, "hold HeldByBudget");
    assert_eq!(world.sync(&stays).await, "hold HeldByBudget");
}
