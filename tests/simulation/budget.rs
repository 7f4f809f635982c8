//! The deletion budget, from the commit to the result on the hub.

use gitwork_core::config::Budgets;
use gitwork_core::model::work::DeletionPolicy;
use serde_json::json;

use super::git_work::{GitWork, folder};
use super::world::World;
use super::*;

/// A world with this number of works on one cluster and one work that stays on another, all
/// applied.
async fn fleet(works: usize) -> (World, Vec<WorkKey>) {
    let mut world = World::new(0);
    let keys: Vec<WorkKey> = (0..works).map(|n| key("edge-1", &format!("work-{n:03}"))).collect();
    for key in keys.iter().chain([&key("edge-2", "stays")]) {
        world.push(key, GitWork::of(key));
    }
    world.observe();
    world.pass().await;
    world.agents.settle(&world.hub);
    (world, keys)
}

/// Runs passes until nothing is left to do.
async fn settle(world: &mut World) {
    for _ in 0..4 {
        world.observe();
        world.pass().await;
        world.agents.settle(&world.hub);
    }
    world.observe();
}

fn left(world: &World, keys: &[WorkKey]) -> usize {
    keys.iter().filter(|key| world.is_on_hub(key)).count()
}

#[tokio::test]
async fn plan_over_budget_holds_deletions_until_approved_and_applies_the_rest() {
    let (mut world, keys) = fleet(30).await;
    for key in &keys[..11] {
        world.drop_work(key, None);
    }
    let changed = GitWork { text: "two".into(), ..GitWork::of(&keys[20]) };
    world.push(&keys[20], changed);
    assert_eq!(world.sync(&keys[20]).await, "update ChangedInGit");
    assert_eq!(world.sync(&keys[0]).await, "hold HeldByBudget");
    settle(&mut world).await;
    assert_eq!(left(&world, &keys), 30);

    world.approve(true);
    settle(&mut world).await;
    assert_eq!(left(&world, &keys), 19);
    world.check_rest().await;
}

#[tokio::test]
async fn deletions_within_budget_need_no_approval() {
    let (mut world, keys) = fleet(30).await;
    for key in &keys[..10] {
        world.drop_work(key, None);
    }
    settle(&mut world).await;
    assert_eq!(left(&world, &keys), 20);
}

/// The agent of a cluster may patch every ManifestWork there.
#[tokio::test]
async fn works_that_an_agent_labels_stay_and_hold_no_deletion() {
    let (mut world, keys) = fleet(30).await;
    let addons: Vec<WorkKey> = (0..20).map(|n| key("edge-3", &format!("addon-{n:02}"))).collect();
    for addon in &addons {
        let (namespace, name) = (addon.cluster.as_str(), addon.work.as_str());
        let metadata = json!({
            "namespace": namespace,
            "name": name,
            "labels": {"gitwork.dev/source": world.source.as_str()},
            "annotations": {"gitwork.dev/path": folder(&keys[0]).to_string()},
        });
        let spec = json!({"workload": {"manifests": []}});
        world.hub.user_creates(json!({"metadata": metadata, "spec": spec})).unwrap();
    }
    for key in &keys[..10] {
        world.drop_work(key, None);
    }
    let new = key("edge-2", "new");
    world.push(&new, GitWork::of(&new));
    settle(&mut world).await;
    assert_eq!((left(&world, &keys), left(&world, &addons)), (20, 20));
    assert_eq!(world.sync(&addons[0]).await, "hold NeverInGit");
    let annotations = &world.hub.objects()[&new]["metadata"]["annotations"];
    assert_eq!(annotations.get("gitwork.dev/created-during-hold"), None, "{annotations}");
    world.check_rest().await;
}

#[tokio::test]
async fn cluster_that_would_be_emptied_holds_only_its_own_deletions() {
    let (mut world, keys) = fleet(30).await;
    let others: Vec<WorkKey> = (0..2).map(|n| key("edge-3", &format!("other-{n}"))).collect();
    for key in &others {
        world.push(key, GitWork::of(key));
    }
    settle(&mut world).await;
    for key in others.iter().chain(&keys[..3]) {
        world.drop_work(key, None);
    }
    settle(&mut world).await;
    assert_eq!((left(&world, &keys), left(&world, &others)), (27, 2));
    assert_eq!(world.sync(&others[0]).await, "hold HeldByBudget");
    world.approve(false);
    settle(&mut world).await;
    assert_eq!(left(&world, &others), 0);
    world.check_rest().await;
}

#[tokio::test]
async fn one_approval_covers_several_passes_but_no_further_works() {
    let (mut world, keys) = fleet(30).await;
    for key in &keys[..11] {
        world.drop_work(key, Some(DeletionPolicy::Orphan));
    }
    world.observe();
    world.pass().await;
    world.approve(false);
    // One agent is faster than the others, so that fewer deletions are left.
    world.observe();
    world.pass().await;
    for _ in 0..3 {
        world.agents.step(&world.hub, &keys[0]);
        world.observe();
        world.pass().await;
    }
    assert_eq!(left(&world, &keys), 29);
    // A later commit drops eleven more. They are held, and the approved ones still go.
    for key in &keys[11..22] {
        world.drop_work(key, None);
    }
    assert_eq!(world.sync(&keys[11]).await, "hold HeldByBudget");
    settle(&mut world).await;
    assert_eq!(left(&world, &keys), 19);

    // Works created again under the same names are other works: the approval does not cover them.
    world.approve(false);
    settle(&mut world).await;
    assert_eq!(left(&world, &keys), 8);
    for key in &keys[..11] {
        world.push(key, GitWork::of(key));
    }
    settle(&mut world).await;
    for key in &keys[..11] {
        world.drop_work(key, None);
    }
    assert_eq!(world.sync(&keys[0]).await, "hold HeldByBudget");
}

#[tokio::test]
async fn works_created_with_deletions_do_not_count_as_kept_even_after_restart() {
    let mut world = World::with(&key("edge-1", "web"), GitWork::of(&key("edge-1", "web"))).await;
    let (web, stays) = (key("edge-1", "web"), key("edge-3", "stays"));
    // A wrong path: all works go, and others are created.
    world.drop_work(&web, None);
    world.drop_work(&stays, None);
    let new: Vec<WorkKey> = (0..30).map(|n| key("edge-2", &format!("new-{n}"))).collect();
    for key in &new {
        world.push(key, GitWork::of(key));
    }
    for _ in 0..3 {
        assert_eq!(world.sync(&web).await, "hold HeldByBudget");
        world.restart();
        world.agents.settle(&world.hub);
    }
    assert!(new.iter().all(|key| world.is_on_hub(key)), "all that is safe is applied");

    // The path is fixed: the works created with it go, and are held in turn. The works before it
    // are unchanged.
    world.push(&web, GitWork::of(&web));
    world.push(&stays, GitWork::of(&stays));
    for key in &new {
        world.drop_work(key, None);
    }
    assert_eq!(world.sync(&new[0]).await, "hold HeldByBudget");
    assert_eq!(world.sync(&web).await, "keep UpToDate");
}

#[tokio::test]
async fn works_being_deleted_do_not_count_as_kept_even_if_git_has_them() {
    let (mut world, keys) = fleet(1).await;
    let stays = key("edge-2", "stays");
    world.hub.user_deletes(&stays).unwrap();
    assert!(world.is_on_hub(&stays), "the agent has its finalizer on it");
    world.drop_work(&keys[0], None);
    assert_eq!(world.sync(&keys[0]).await, "hold HeldByBudget");
    assert_eq!(world.sync(&stays).await, "wait BeingDeleted");
}

#[tokio::test]
async fn removing_hold_marker_does_not_release_held_deletion() {
    let (mut world, keys) = fleet(1).await;
    let new = key("edge-3", "new");
    world.drop_work(&keys[0], None);
    world.drop_work(&key("edge-2", "stays"), None);
    world.push(&new, GitWork::of(&new));
    settle(&mut world).await;
    assert_eq!(world.sync(&keys[0]).await, "hold HeldByBudget");
    world.hub.user_patches(&new, &serde_json::json!({"metadata": {"annotations": null}})).unwrap();
    settle(&mut world).await;
    assert_eq!(world.sync(&keys[0]).await, "hold HeldByBudget");
    let annotations = &world.hub.objects()[&new]["metadata"]["annotations"];
    assert!(annotations.get("gitwork.dev/content-hash").is_some(), "{annotations}");
    assert!(annotations.get("gitwork.dev/created-during-hold").is_some(), "{annotations}");
}

#[tokio::test]
async fn git_history_shows_works_created_with_deletions_if_hub_does_not() {
    let (mut world, keys) = fleet(1).await;
    let new = key("edge-3", "new");
    world.drop_work(&keys[0], None);
    world.drop_work(&key("edge-2", "stays"), None);
    world.push(&new, GitWork::of(&new));
    // The list of a lagging API server has no works, so that there is nothing to delete.
    world.observed.works = Default::default();
    world.pass().await;
    world.observe();
    let annotations = &world.hub.objects()[&new]["metadata"]["annotations"];
    assert_eq!(annotations.get("gitwork.dev/created-during-hold"), None, "{annotations}");
    assert_eq!(world.sync(&keys[0]).await, "hold HeldByBudget");
    // Works that stay, and exist before the next commit drops others, count as kept.
    world.push(&keys[0], GitWork::of(&keys[0]));
    settle(&mut world).await;
    world.drop_work(&keys[0], None);
    settle(&mut world).await;
    assert_eq!(left(&world, &keys), 0);
}

#[tokio::test]
async fn renamed_work_counts_as_deleted_and_loses_its_marker_with_the_hold() {
    let (mut world, keys) = fleet(2).await;
    let renamed = key("edge-1", "renamed");
    world.drop_work(&keys[0], None);
    world.drop_work(&keys[1], None);
    world.push(&renamed, GitWork::of(&renamed));
    settle(&mut world).await;
    assert_eq!(
        world.sync(&keys[0]).await,
        "hold HeldByBudget",
        "the cluster would lose all it had"
    );
    let marked = |world: &World| {
        world.hub.objects()[&renamed]["metadata"]["annotations"]
            .get("gitwork.dev/created-during-hold")
            .is_some()
    };
    assert!(marked(&world));
    world.approve(true);
    settle(&mut world).await;
    assert_eq!(left(&world, &keys), 0);
    assert!(!marked(&world));
    world.check_rest().await;
}

#[tokio::test]
async fn commit_cannot_loosen_its_own_budget() {
    let (mut world, keys) = fleet(30).await;
    for key in &keys[..11] {
        world.drop_work(key, None);
    }
    // The same commit loosens its budget.
    let loose = Budgets {
        works: Some(1_000),
        percent: Some(100),
        cluster: Some(1_000),
        ..Budgets::default()
    };
    world.budgets = loose.clone();
    assert_eq!(world.sync(&keys[0]).await, "hold HeldByBudget");
    for key in &keys[..11] {
        world.push(key, GitWork::of(key));
    }
    assert_eq!(world.sync(&keys[0]).await, "keep UpToDate");
    // Later deletions are judged by it, within the operator's budget.
    for key in &keys[..11] {
        world.drop_work(key, None);
    }
    world.policy.budgets.works = Some(5);
    world.policy.budgets.percent = Some(5);
    assert_eq!(world.sync(&keys[0]).await, "hold HeldByBudget");
    world.policy.budgets = Budgets::default();
    world.policy.budgets_before = Some(Budgets::default());
    assert_eq!(world.sync(&keys[0]).await, "hold HeldByBudget");
    world.policy.budgets_before = None;
    assert_eq!(world.sync(&keys[0]).await, "delete RemovedFromGit");
}
