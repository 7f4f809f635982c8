//! The deletion budget, told from the commit to what is left on the hub.

use gitwork::core::config::Budgets;
use gitwork::core::work::DeleteOption;

use super::world::{GitWork, World};
use super::*;

/// A world with so many works on one cluster and one that stays on another, all applied.
async fn fleet(works: usize) -> (World, Vec<WorkKey>) {
    let mut world = World::new(0);
    let keys: Vec<WorkKey> = (0..works).map(|n| key("edge-1", &format!("work-{n:03}"))).collect();
    for key in keys.iter().chain([&key("edge-2", "stays")]) {
        world.push(key, GitWork::default());
    }
    world.observe();
    world.pass().await;
    world.agents.settle(&world.hub);
    (world, keys)
}

/// Passes until nothing is left to do.
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
async fn a_plan_over_its_budget_applies_the_rest_and_holds_the_deletions_until_approved() {
    let (mut world, keys) = fleet(30).await;
    for key in &keys[..11] {
        world.drop_work(key, None);
    }
    let changed = GitWork { text: "two".into(), ..GitWork::default() };
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
async fn deletions_within_the_budget_need_nobody() {
    let (mut world, keys) = fleet(30).await;
    for key in &keys[..10] {
        world.drop_work(key, None);
    }
    settle(&mut world).await;
    assert_eq!(left(&world, &keys), 20);
}

#[tokio::test]
async fn one_approval_is_enough_for_a_deletion_of_several_passes_and_for_no_work_more() {
    let (mut world, keys) = fleet(30).await;
    for key in &keys[..11] {
        world.drop_work(key, Some(DeleteOption::Orphan));
    }
    world.observe();
    world.pass().await;
    world.approve(false);
    // One agent is faster than the others, so that what is to delete becomes less.
    world.observe();
    world.pass().await;
    for _ in 0..3 {
        world.agents.step(&world.hub, &keys[0]);
        world.observe();
        world.pass().await;
    }
    assert_eq!(left(&world, &keys), 29);
    // A later commit drops eleven more: they are held, and what was approved still goes.
    for key in &keys[11..22] {
        world.drop_work(key, None);
    }
    assert_eq!(world.sync(&keys[11]).await, "hold HeldByBudget");
    settle(&mut world).await;
    assert_eq!(left(&world, &keys), 19);

    // The same names made anew are other works: the approval is not for them.
    world.approve(false);
    settle(&mut world).await;
    assert_eq!(left(&world, &keys), 8);
    for key in &keys[..11] {
        world.push(key, GitWork::default());
    }
    settle(&mut world).await;
    for key in &keys[..11] {
        world.drop_work(key, None);
    }
    assert_eq!(world.sync(&keys[0]).await, "hold HeldByBudget");
}

#[tokio::test]
async fn what_comes_with_the_deletions_does_not_count_as_kept_not_even_after_a_restart() {
    let mut world = World::with(&key("edge-1", "web"), GitWork::default()).await;
    let (web, stays) = (key("edge-1", "web"), key("edge-3", "stays"));
    // A wrong path: all works go, and others come.
    world.drop_work(&web, None);
    world.drop_work(&stays, None);
    let new: Vec<WorkKey> = (0..30).map(|n| key("edge-2", &format!("new-{n}"))).collect();
    for key in &new {
        world.push(key, GitWork::default());
    }
    for _ in 0..3 {
        assert_eq!(world.sync(&web).await, "hold HeldByBudget");
        world.restart();
        world.agents.settle(&world.hub);
    }
    assert!(new.iter().all(|key| world.is_on_hub(key)), "all that is safe is applied");

    // The path is mended: what came with it goes, held in its turn, and what was there is as it was.
    world.push(&web, GitWork::default());
    world.push(&stays, GitWork::default());
    for key in &new {
        world.drop_work(key, None);
    }
    assert_eq!(world.sync(&new[0]).await, "hold HeldByBudget");
    assert_eq!(world.sync(&web).await, "keep UpToDate");
}

#[tokio::test]
async fn what_is_being_deleted_does_not_count_as_kept_even_where_git_wants_it() {
    let (mut world, keys) = fleet(1).await;
    let stays = key("edge-2", "stays");
    world.hub.user_deletes(&stays).unwrap();
    assert!(world.is_on_hub(&stays), "the agent has its finalizer on it");
    world.drop_work(&keys[0], None);
    assert_eq!(world.sync(&keys[0]).await, "hold HeldByBudget");
    assert_eq!(world.sync(&stays).await, "wait BeingDeleted");
}

#[tokio::test]
async fn who_wipes_the_mark_of_what_is_new_does_not_let_a_held_deletion_through() {
    let (mut world, keys) = fleet(1).await;
    let new = key("edge-3", "new");
    world.drop_work(&keys[0], None);
    world.drop_work(&key("edge-2", "stays"), None);
    world.push(&new, GitWork::default());
    settle(&mut world).await;
    assert_eq!(world.sync(&keys[0]).await, "hold HeldByBudget");
    world.hub.user_patches(&new, &serde_json::json!({"metadata": {"annotations": null}})).unwrap();
    settle(&mut world).await;
    assert_eq!(world.sync(&keys[0]).await, "hold HeldByBudget");
    let annotations = &world.hub.objects()[&new]["metadata"]["annotations"];
    assert!(annotations.get("gitwork.dev/content-hash").is_some(), "{annotations}");
    assert!(annotations.get("gitwork.dev/newcomer").is_some(), "{annotations}");
}

#[tokio::test]
async fn what_comes_with_the_deletions_is_known_from_git_where_the_hub_does_not_tell_it() {
    let (mut world, keys) = fleet(1).await;
    let new = key("edge-3", "new");
    world.drop_work(&keys[0], None);
    world.drop_work(&key("edge-2", "stays"), None);
    world.push(&new, GitWork::default());
    // As the list of a lagging API server shows it: nothing is there, so that nothing is to be deleted.
    world.observed.works.clear();
    world.pass().await;
    world.observe();
    let annotations = &world.hub.objects()[&new]["metadata"]["annotations"];
    assert_eq!(annotations.get("gitwork.dev/newcomer"), None, "{annotations}");
    assert_eq!(world.sync(&keys[0]).await, "hold HeldByBudget");
    // What comes to stay, and is there when the next commit drops something, counts.
    world.push(&keys[0], GitWork::default());
    settle(&mut world).await;
    world.drop_work(&keys[0], None);
    settle(&mut world).await;
    assert_eq!(left(&world, &keys), 0);
}

#[tokio::test]
async fn a_work_that_was_renamed_counts_as_deleted_and_its_mark_goes_with_the_hold() {
    let (mut world, keys) = fleet(2).await;
    let renamed = key("edge-1", "renamed");
    world.drop_work(&keys[0], None);
    world.drop_work(&keys[1], None);
    world.push(&renamed, GitWork::default());
    settle(&mut world).await;
    assert_eq!(
        world.sync(&keys[0]).await,
        "hold HeldByBudget",
        "the cluster would lose all it had"
    );
    let marked = |world: &World| {
        world.hub.objects()[&renamed]["metadata"]["annotations"]
            .get("gitwork.dev/newcomer")
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
async fn no_commit_loosens_the_budget_that_judges_it() {
    let (mut world, keys) = fleet(30).await;
    for key in &keys[..11] {
        world.drop_work(key, None);
    }
    // The same commit says that all of it is fine.
    let loose = Budgets { works: Some(1_000), percent: Some(100), cluster: Some(1_000) };
    world.budgets = loose.clone();
    assert_eq!(world.sync(&keys[0]).await, "hold HeldByBudget");
    for key in &keys[..11] {
        world.push(key, GitWork::default());
    }
    assert_eq!(world.sync(&keys[0]).await, "keep UpToDate");
    // Removals after it are judged by it, but never past what the operator sets.
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
