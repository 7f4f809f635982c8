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

/// As `moved_and_not_removed`, and a user has set `shop` Complete, so that its agent never removes
/// the object.
fn moved_from_complete_work() -> World {
    let mut world = moved_and_not_removed();
    let conditions = &mut world.hub.get_mut(&key("shop")).unwrap()["status"]["conditions"];
    conditions.as_array_mut().unwrap().push(json!({"type": "Complete", "status": "True"}));
    world
}

fn disowns(world: &World, work: &str, object: &str) -> bool {
    let object = Identity::of_value(Some(&identifier(object)));
    WorkSpec::of(world.spec(work).clone()).disowns(&object)
}

#[test]
fn object_that_a_complete_work_may_own_delays_no_other_change() {
    let read_only = json!({"manifestConfigs": [
        {"resourceIdentifier": identifier("*"), "updateStrategy": {"type": "ReadOnly"}},
    ]});
    for fields in [orphaning("", &[]).2, read_only] {
        let mut world = moved_from_complete_work();
        let shop = plain("shop", &[("a", "1")]);
        let objects = &[("data", "2"), ("b", "1")];
        world.commit(&[shop, ("shop2", objects, fields)]);
        assert_eq!(world.pass(), ["update shop2"]);
        assert_eq!(world.spec("shop2")["workload"]["manifests"][0], manifest("data", "2"));
        assert_eq!(world.listed("shop2"), ["data", "b"]);
        assert!(disowns(&world, "shop2", "b") && !disowns(&world, "shop2", "data"));
        world.agent_applies("shop2", None);
        assert_eq!(world.pass(), [""; 0]);
        assert_eq!(
            world.reason("shop2"),
            "hold: orphans or only reads objects in Git that the cluster's agent has not removed \
             from shop yet; it owns these until then, and for shop the agent does nothing more, as \
             that work is Complete"
        );
        // Somebody makes the agent act again.
        world.agent_applies("shop", None);
        assert_eq!(world.pass(), ["update shop2"]);
        assert!(disowns(&world, "shop2", "data"));
        world.agent_applies_all();
        assert_eq!(world.pass(), [""; 0]);
    }
}

#[test]
fn object_that_moves_on_stays_owned_beside_a_complete_work() {
    let mut world = moved_from_complete_work();
    let shop = plain("shop", &[("a", "1")]);
    let works = [shop, orphaning("shop2", &[("b", "1")]), plain("shop3", &[("data", "1")])];
    world.commit(&works);
    assert_eq!(world.pass(), ["update shop2", "create shop3"]);
    assert!(disowns(&world, "shop2", "b") && !disowns(&world, "shop2", "data"));
    world.agent_applies("shop2", None);
    world.agent_applies("shop3", None);
    assert_eq!(world.pass(), ["update shop2"]);
    assert_eq!(world.listed("shop2"), ["b"]);
    assert_eq!(world.spec("shop2")["deleteOption"]["propagationPolicy"], "Orphan");
}
