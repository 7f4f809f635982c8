//! What a giving work has on the hub until its moves are complete.

use super::*;
use crate::model::manifest::Identity;

#[test]
fn new_delete_option_of_the_giver_goes_out_at_once() {
    let option = json!({"deleteOption": {"propagationPolicy": "SelectivelyOrphan",
        "selectivelyOrphans": {"orphaningRules": [identifier("a")]}}});
    let mut world = World::settled(&[plain("shop", &[("data", "1"), ("a", "1")])]);
    let shop: Work<'_> = ("shop", &[("a", "2")], option.clone());
    world.commit(&[shop, plain("b", &[("data", "1")])]);
    assert_eq!(world.pass(), ["create b", "update shop"]);
    assert_eq!(world.spec("shop")["deleteOption"], option["deleteOption"]);
    assert_eq!(world.listed("shop"), ["a", "data"]);

    // The final one of a removed work, too.
    let mut world = World::settled(&[plain("shop", &[("data", "1"), ("a", "1")])]);
    world.commit(&[plain("b", &[("data", "1")])]);
    let last = world.last_known.works.get_mut(&key("shop")).unwrap();
    last.delete_option = DeletionPolicy::from_value(&option["deleteOption"]);
    assert_eq!(world.pass(), ["create b", "update shop"]);
    assert_eq!(world.spec("shop")["deleteOption"], option["deleteOption"]);
}

#[test]
fn giver_that_orphans_changes_nothing_but_the_rule_and_the_strategy() {
    let mut world =
        World::settled(&[plain("shop", &[("data", "1"), ("a", "1")]), plain("b", &[("b", "1")])]);
    let before = world.spec("shop").clone();
    let labels = world.hub[&key("shop")]["metadata"]["labels"].clone();
    world.commit(&[
        plain("shop", &[("a", "2"), ("new", "1")]),
        orphaning("b", &[("b", "1"), ("data", "2")]),
    ]);
    assert!(world.pass().contains(&"update shop".into()));
    let after = world.spec("shop");
    assert_eq!(after["workload"], before["workload"]);
    assert_eq!(
        after["manifestConfigs"],
        json!([
            {"resourceIdentifier": identifier("data"), "updateStrategy": {"type": "CreateOnly"}},
        ])
    );
    assert_eq!(
        after["deleteOption"]["selectivelyOrphans"]["orphaningRules"],
        json!([identifier("data")])
    );
    assert_eq!(world.hub[&key("shop")]["metadata"]["labels"], labels);
}

#[test]
fn object_that_the_giver_only_reads_by_a_wildcard_is_orphaned_first() {
    let wildcard = json!({"resource": "configmaps", "namespace": "*", "name": "d*"});
    let reads = json!({"manifestConfigs": [
        {"resourceIdentifier": wildcard, "updateStrategy": {"type": "ReadOnly"}},
    ]});
    let mut world = World::settled(&[("shop", &[("data", "1"), ("a", "1")], reads.clone())]);
    world.commit(&[("shop", &[("a", "1")], reads), plain("b", &[("data", "1")])]);
    assert_eq!(world.pass(), ["update shop"]);
    let configs = &world.spec("shop")["manifestConfigs"];
    // The exact entry is first, or the wildcard would go on deciding.
    assert_eq!(configs[0]["resourceIdentifier"], identifier("data"));
    assert_eq!(configs[0]["updateStrategy"]["type"], "CreateOnly");
    world.agent_applies_all();
    assert_eq!(world.pass(), ["update shop"]);
    assert_eq!(world.pass(), ["create b"]);
}

#[test]
fn receiver_that_was_to_give_the_object_away_is_written_before_the_giver_drops_it() {
    let (one, two) = (plain("a", &[("data", "1"), ("x", "1")]), plain("a", &[("x", "1")]));
    let mut world = World::settled(&[one]);
    world.commit(&[two.clone(), plain("b", &[("data", "1"), ("y", "1")])]);
    world.pass();
    world.agent_applies_all();
    world.commit(&[two.clone(), plain("b", &[("y", "1")]), plain("c", &[("data", "1")])]);
    world.pass();
    world.agent_applies("b", None);
    // Back to `b`, which has it as `CreateOnly`: a request that is under way may delete that state.
    world.commit(&[two, plain("b", &[("data", "1"), ("y", "1")])]);
    let pass = world.pass();
    assert!(pass.contains(&"update b".into()), "{pass:?}");
    assert_eq!(world.listed("a"), ["x", "data"], "{pass:?}");
    world.agent_applies_all();
    world.pass();
    assert_eq!(
        (world.listed("a"), world.listed("b")),
        (vec!["x".to_owned()], vec!["data".to_owned(), "y".into()])
    );
}

/// An object that this work orphans last is not orphaned while other works give it up. All other
/// objects are, as Git says.
#[test]
fn only_a_shared_object_waits_for_the_delete_option_of_git() {
    let mut world = World::settled(&[plain("a", &[("data", "1"), ("one", "1")])]);
    let a = plain("a", &[("one", "1")]);
    world.commit(&[a.clone(), plain("b", &[("data", "1"), ("two", "1")])]);
    world.pass();
    world.agent_applies_all();
    // Before `a` has dropped the object, it moves on to a work that orphans it, and `b` gets
    // another one and an option that orphans both.
    world.commit(&[
        a,
        orphaning("b", &[("two", "1"), ("new", "1")]),
        orphaning("c", &[("data", "1")]),
    ]);
    assert!(world.pass().contains(&"update b".into()));
    assert_eq!(world.listed("b"), ["two", "new", "data"]);
    let option = DeletionPolicy::from_value(&world.spec("b")["deleteOption"]);
    let orphaned = |name: &str| option.orphans(&Identity::of_value(Some(&identifier(name))));
    assert_eq!(["data", "two", "new"].map(orphaned), [false, true, true]);
}
