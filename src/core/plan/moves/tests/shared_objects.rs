//! Objects that several works have, or whose agents may still own them.

use super::*;

#[test]
fn removed_work_gives_up_a_shared_object_while_the_move_of_another_one_is_held() {
    let objects: &[(&str, &str)] = &[("x", "1"), ("y", "1")];
    let taken = plain("taken", &[("own", "1")]);
    let mut world = World::settled(&[plain("a", objects), taken.clone()]);
    world.commit(&[plain("b", &[("x", "1"), ("z", "1")]), taken, plain("y", &[("y", "1")])]);
    world.pass();
    world.agent_applies_all();
    let labels = &mut world.hub.get_mut(&key("taken")).unwrap()["metadata"]["labels"];
    labels["gitwork.dev/source"] = "other".into();
    // Before `a` is deleted, `x` moves on to a work that orphans it, and `y` to a taken name.
    world.commit(&[
        plain("b", &[("z", "1")]),
        orphaning("c", &[("x", "1")]),
        plain("taken", &[("own", "1"), ("y", "1")]),
    ]);
    for _ in 0..8 {
        world.pass();
        world.agent_applies("a", None);
        world.agent_applies("b", None);
    }
    assert_eq!((world.listed("a"), world.listed("c")), (vec!["y".into()], vec!["x".to_owned()]));
}

#[test]
fn object_that_another_agent_may_delete_delays_no_other_object() {
    let (shop, objects) = (plain("shop", &[("a", "1")]), &[("data", "1"), ("b", "1")][..]);
    let mut world = World::settled(&[plain("shop", &[("data", "1"), ("a", "1")])]);
    world.commit(&[shop.clone(), plain("shop2", objects)]);
    world.pass();
    world.agent_applies_all();
    assert_eq!(world.pass(), ["update shop"]);
    // The agent has not removed `data` from `shop`, and both objects move on.
    world.commit(&[shop, orphaning("shop3", objects)]);
    assert_eq!(world.pass(), ["update shop2"]);
    let rules = world.spec("shop2")["deleteOption"]["selectivelyOrphans"]["orphaningRules"].clone();
    assert_eq!(rules, json!([identifier("b")]));
    world.agent_applies("shop2", None);
    assert_eq!(world.pass(), ["update shop2"]);
    assert_eq!(world.pass(), ["create shop3"]);
    assert_eq!(
        (world.listed("shop2"), world.listed("shop3")),
        (vec!["data".into()], vec!["b".to_owned()])
    );
    world.agent_applies_all();
    assert_eq!(world.pass(), ["update shop2"]);
    world.agent_applies_all();
    assert_eq!(world.pass(), ["delete shop2"]);
    assert_eq!(world.pass(), ["update shop3"]);
}

#[test]
fn object_that_stays_owned_for_a_while_leaves_the_others_as_in_git() {
    let (shop, data) = (plain("shop", &[("a", "1")]), &[("data", "1")][..]);
    let mut world = World::settled(&[plain("shop", &[("data", "1"), ("a", "1")])]);
    world.commit(&[shop.clone(), plain("shop2", &[("data", "1"), ("b", "1")])]);
    world.pass();
    world.agent_applies_all();
    assert_eq!(world.pass(), ["update shop"]);
    let shop2 = orphaning("shop2", &[("b", "2")]);
    world.commit(&[shop, shop2, orphaning("shop3", data)]);
    assert_eq!(world.pass(), ["update shop2"], "the agent has not removed `data` from `shop`");
    let rules = world.spec("shop2")["deleteOption"]["selectivelyOrphans"]["orphaningRules"].clone();
    assert_eq!(rules, json!([identifier("b")]));
    for _ in 0..3 {
        world.agent_applies_all();
        world.pass();
    }
    assert_eq!(world.spec("shop2")["deleteOption"]["propagationPolicy"], "Orphan");
    assert_eq!(
        (world.listed("shop2"), world.listed("shop3")),
        (vec!["b".into()], vec!["data".to_owned()])
    );
}
