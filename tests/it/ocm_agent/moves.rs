//! An object that moves from one work to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::world::World;
use crate::ocm_agent_double::{Choice, OrderChooser};

/// The object `x` is in the work `a`; each work also has an object of its own.
async fn start(order: OrderChooser) -> (World, String) {
    let mut world = World::start(order).await;
    let manifests = vec![world.config_map("x", "1"), world.config_map("a", "1")];
    world.create("a", manifests, json!({})).await;
    world.create("b", vec![world.config_map("b", "1")], json!({})).await;
    world.settle().await;
    let uid = world.uid("x").await;
    (world, uid)
}

async fn receive(world: &World) {
    let manifests = vec![world.config_map("x", "2"), world.config_map("b", "1")];
    world.write_manifests("b", manifests).await;
}

async fn drop_from_giver(world: &World) {
    world.write_manifests("a", vec![world.config_map("a", "1")]).await;
}

/// Whether the object has kept its uid after both works are written at once.
async fn keeps_uid_of_plain_move(order: OrderChooser) -> bool {
    let (mut world, uid) = start(order).await;
    drop_from_giver(&world).await;
    receive(&world).await;
    world.settle().await;
    world.resync().await;
    assert_eq!(world.value("x").await, "2", "in the end it is there");
    assert_eq!(world.owners("x").await, ["b"]);
    world.uid("x").await == uid
}

/// OCM's work agent, DeleteAppliedResources: if the giving work is applied first, no other work
/// owns the object, and it is deleted.
#[tokio::test]
async fn plain_move_deletes_the_object_in_some_orders() {
    let mut kept = Vec::new();
    for seed in 0..12 {
        kept.push(keeps_uid_of_plain_move(OrderChooser::seeded(seed)).await);
    }
    assert!(kept.contains(&false), "an order deletes the object");
    assert!(kept.contains(&true), "an order keeps it");
}

/// The same with written orders. Those of the default deliver in the order of the writes.
#[tokio::test]
async fn plain_move_is_decided_by_the_order_of_runs() {
    let giver_first = |choices: &[Choice]| position(choices, |label| !label.contains(" b: "));
    assert!(!keeps_uid_of_plain_move(OrderChooser::by(giver_first)).await);
    let receiver_first = |choices: &[Choice]| position(choices, |label| !label.contains(" a: "));
    assert!(keeps_uid_of_plain_move(OrderChooser::by(receiver_first)).await);
}

fn position(choices: &[Choice], is_wanted: impl Fn(&str) -> bool) -> usize {
    choices.iter().position(|choice| is_wanted(&choice.label)).unwrap_or(0)
}

/// OCM's work agent, DeleteAppliedResources: owners are read before the deletion, whose only
/// precondition is the uid. So the object can go even after the hub shows it applied by the
/// receiving work, if the giving work was written before that.
#[tokio::test]
async fn object_can_go_after_the_receiver_has_applied_it() {
    let is_held = Arc::new(AtomicBool::new(true));
    let holds = is_held.clone();
    let order = OrderChooser::by(move |choices: &[Choice]| {
        let is_wanted = |label: &str| !label.contains("DELETE");
        let giver = position(choices, |label| is_wanted(label) && label.contains(" a: "));
        if !holds.load(Ordering::Relaxed) {
            return 0;
        }
        if is_wanted(&choices[giver].label) {
            return giver;
        }
        position(choices, is_wanted)
    });
    let (mut world, uid) = start(order).await;
    drop_from_giver(&world).await;
    let deletes = |label: &str| label.starts_with("ManifestWork a: GET") && label.ends_with("/x");
    while !world.agent.trace().iter().rev().take(2).any(|label| deletes(label)) {
        assert!(world.agent.step(&mut world.order).await);
    }
    receive(&world).await;
    world.until_applied("b").await;
    assert_eq!(world.owners("x").await, ["a", "b"]);
    assert_eq!(world.uid("x").await, uid);
    is_held.store(false, Ordering::Relaxed);
    world.settle().await;
    assert!(world.live("x").await.is_none_or(|live| live["metadata"]["uid"] != uid));
}

/// OCM's work agent, `CreateOnly` and DeleteAppliedResources: while the giving work stays an owner
/// that writes nothing, and drops the object only after the hub shows it applied by the receiving
/// work, no order deletes it.
#[tokio::test]
async fn drop_after_the_receiver_has_applied_keeps_the_object() {
    for seed in 0..8 {
        let order = OrderChooser::seeded(seed).with_restarts(25, seed);
        let (mut world, uid) = start(order).await;
        let deletes_giver = seed % 4 > 1;
        world.patch_spec("a", world.strategy("CreateOnly")).await;
        receive(&world).await;
        world.until_applied("b").await;
        match deletes_giver {
            true => world.delete("a").await,
            false => drop_from_giver(&world).await,
        }
        world.settle().await;
        world.resync().await;
        assert_eq!(world.uid("x").await, uid, "{:#?}", world.agent.trace());
        assert_eq!(world.owners("x").await, ["b"]);
        assert_eq!(world.value("x").await, "2");
    }
}

/// OCM's work agent, owner reference convention: once an orphaning rule is applied, the giving
/// work can drop the object before the receiving work has it.
#[tokio::test]
async fn orphaned_object_is_kept_without_an_owner() {
    for seed in 0..8 {
        let order = OrderChooser::seeded(seed).with_restarts(25, seed);
        let (mut world, uid) = start(order).await;
        let mut transitional = world.strategy("CreateOnly");
        transitional["deleteOption"] = world.orphaning("x")["deleteOption"].clone();
        world.patch_spec("a", transitional).await;
        world.until_applied("a").await;
        assert!(world.owners("x").await.is_empty());
        drop_from_giver(&world).await;
        if seed % 2 == 0 {
            world.settle().await;
        }
        receive(&world).await;
        world.settle().await;
        assert_eq!(world.uid("x").await, uid, "{:#?}", world.agent.trace());
        assert_eq!(world.owners("x").await, ["b"]);
        assert_eq!(world.value("x").await, "2");
    }
}
