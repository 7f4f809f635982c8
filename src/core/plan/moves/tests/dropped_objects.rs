//! When a giving work drops an object.

use super::*;

#[test]
fn giver_drops_object_only_after_agent_has_reported_the_giver() {
    let mut world = World::settled(&[plain("shop", &[("data", "1"), ("a", "1")])]);
    world.commit(&[plain("shop", &[("a", "1")]), plain("shop2", &[("data", "1")])]);
    assert_eq!(world.pass(), ["update shop", "create shop2"]);
    // The agent may have set the owner of `data` for `shop`, and not have it on record yet.
    world.agent_applies("shop2", None);
    assert_eq!(world.pass(), [""; 0]);
    assert_eq!(
        world.reason("shop"),
        "wait: configmaps/data in namespace shop moves from shop to shop2; shop keeps it until \
         the agent has reported shop"
    );
    // Whether the agent succeeded does not matter.
    world.agent_applies("shop", Some("quota exceeded"));
    assert_eq!(world.pass(), ["update shop"]);
    assert_eq!(world.listed("shop"), ["a"]);
}

#[test]
fn object_that_moves_back_leaves_only_after_agent_has_reported_the_first_receiver() {
    let first = [plain("shop", &[("data", "1"), ("a", "1")]), plain("shop2", &[("b", "1")])];
    let mut world = World::settled(&first);
    world.commit(&[plain("shop", &[("a", "1")]), plain("shop2", &[("b", "1"), ("data", "1")])]);
    assert_eq!(world.pass(), ["update shop", "update shop2"]);
    // `shop` still owns the object, and nobody knows how far the agent has come with `shop2`.
    world.agent_applies("shop", None);
    world.commit(&first);
    assert_eq!(world.pass(), ["update shop", "update shop2"]);
    assert_eq!(world.listed("shop2"), ["b", "data"]);
    world.agent_applies_all();
    assert_eq!(world.pass(), ["update shop2"]);
    assert_eq!(world.listed("shop2"), ["b"]);
}

#[test]
fn giver_drops_what_it_has_orphaned_while_another_move_is_held() {
    let kept = plain("shop", &[("x", "1")]);
    for giver in [Vec::new(), vec![kept.clone()]] {
        let both: &[(&str, &str)] = &[("data", "1"), ("other", "1"), ("x", "1")];
        let all = if giver.is_empty() { &both[..2] } else { both };
        let mut world = World::settled(&[plain("shop", all)]);
        let to = [
            orphaning("shop2", &[("data", "1")]),
            ("shop3", &[("other", "1")], json!({"suspend": true})),
        ];
        world.commit(&[&giver[..], &to[..]].concat());
        assert_eq!(world.pass(), ["update shop"]);
        world.agent_applies("shop", None);
        assert_eq!(world.pass(), ["update shop"]);
        assert!(!world.listed("shop").contains(&"data".to_owned()));
        assert!(world.listed("shop").contains(&"other".to_owned()));
        assert_eq!(world.pass(), ["create shop2"]);
        world.agent_applies_all();
        assert_eq!(world.pass(), [""; 0]);
    }
}

#[test]
fn giver_drops_what_it_has_orphaned_while_another_object_cannot_be_orphaned() {
    let mut world = World::settled(&[plain("shop", &[("a", "1"), ("data", "1"), ("other", "1")])]);
    let to = orphaning("shop2", &[("data", "1"), ("other", "1")]);
    world.commit(&[plain("shop", &[("a", "1")]), to]);
    assert_eq!(world.pass(), ["update shop"]);
    world.agent_applies("shop", Some("forbidden"));
    assert_eq!(world.pass(), ["update shop"]);
    assert_eq!(world.listed("shop"), ["a", "other"]);
    assert_eq!(world.pass(), ["create shop2"]);
    assert_eq!(world.listed("shop2"), ["data"]);
}
