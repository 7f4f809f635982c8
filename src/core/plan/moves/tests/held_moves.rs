//! Moves that wait until somebody acts.

use super::*;
use crate::config::window::Closed;
use crate::model::approval::Target;

#[test]
fn object_whose_immutable_field_changes_stays_with_its_work() {
    let create_only = json!({"manifestConfigs": [
        {"resourceIdentifier": identifier("data"), "updateStrategy": {"type": "CreateOnly"}},
    ]});
    for (fields, is_held) in
        [(Value::Null, true), (orphaning("", &[]).2, true), (create_only, false)]
    {
        let mut world = World::settled(&[
            plain("shop", &[("data", "fixed 1"), ("a", "1")]),
            plain("b", &[("b", "1")]),
        ]);
        let before = manifest("data", "fixed 1");
        world.commit(&[
            plain("shop", &[("a", "2")]),
            ("b", &[("b", "2"), ("data", "fixed 2")], fields.clone()),
        ]);
        assert_eq!(world.pass(), ["update b", "update shop"], "the rest goes out");
        assert_eq!(world.spec("shop")["workload"]["manifests"][1], before);
        assert_eq!(world.listed("b").len() == 1, is_held, "{fields}");
        if !is_held {
            continue;
        }
        world.agent_applies_all();
        assert_eq!(world.pass(), [""; 0]);
        assert_eq!(
            world.reason("shop"),
            "hold: held: configmaps/data in namespace shop moves from shop to b: data cannot \
             change; remove the object in one commit and add it in the next to create it again"
        );
        // Removed in one commit, and added in the next.
        world.commit(&[plain("shop", &[("a", "2")]), plain("b", &[("b", "2")])]);
        world.pass();
        world.agent_applies_all();
        assert_eq!(world.listed("shop"), ["a"]);
        world.commit(&[
            plain("shop", &[("a", "2")]),
            plain("b", &[("b", "2"), ("data", "fixed 2")]),
        ]);
        assert_eq!(world.pass(), ["update b"]);
    }
}

/// The agent deletes such an object and creates it again when the field changes. A move does not.
#[test]
fn object_that_its_agent_would_create_again_is_held() {
    for (before, after, field) in [
        ("Secret Opaque", "Secret kubernetes.io/tls", "type"),
        ("StorageClass one", "StorageClass two", "provisioner"),
        ("CSIDriver None", "CSIDriver File", "spec"),
    ] {
        let mut world = World::settled(&[plain("shop", &[("data", before), ("a", "1")])]);
        world.commit(&[plain("shop", &[("a", "2")]), plain("b", &[("b", "1"), ("data", after)])]);
        assert_eq!(world.pass(), ["create b", "update shop"], "the rest goes out");
        assert_eq!(world.listed("b"), ["b"], "{after}");
        assert_eq!(world.spec("shop")["workload"]["manifests"][1], manifest("data", before));
        world.agent_applies_all();
        assert_eq!(world.pass(), [""; 0]);
        let reason = world.reason("shop");
        let why = format!("moves from shop to b: {field} cannot change; remove the object in");
        assert!(reason.starts_with("hold: held: ") && reason.contains(&why), "{reason}");
        // With the field as it was, it moves.
        world.commit(&[plain("shop", &[("a", "2")]), plain("b", &[("b", "1"), ("data", before)])]);
        world.pass();
        world.agent_applies_all();
        assert_eq!(world.pass(), ["update shop"]);
        assert_eq!((world.listed("shop").len(), world.listed("b").len()), (1, 2));
    }
}

#[test]
fn immutable_field_that_changes_after_the_move_began_does_not_hold_it() {
    let mut world = World::settled(&[plain("shop", &[("data", "fixed 1")])]);
    world.commit(&[plain("b", &[("data", "fixed 1")])]);
    assert_eq!(world.pass(), ["create b", "update shop"]);
    world.commit(&[plain("b", &[("data", "fixed 2")])]);
    assert_eq!(world.pass(), ["update b"]);
    world.agent_applies_all();
    assert_eq!(world.pass(), ["delete shop"]);
}

#[test]
fn giver_waits_for_a_receiver_that_is_being_deleted() {
    let mut world =
        World::settled(&[plain("shop", &[("data", "1"), ("a", "1")]), plain("b", &[("b", "1")])]);
    world.hub.get_mut(&key("b")).unwrap()["metadata"]["deletionTimestamp"] =
        "2026-01-01T00:00:00Z".into();
    world.commit(&[plain("shop", &[("a", "1")]), plain("b", &[("b", "1"), ("data", "1")])]);
    for _ in 0..3 {
        world.pass();
        assert_eq!(world.listed("shop"), ["a", "data"]);
        world.agent_applies("shop", None);
    }
    world.hub.remove(&key("b"));
    assert_eq!(world.pass(), ["create b"]);
    assert_eq!(world.listed("shop"), ["a", "data"]);
    world.agent_applies_all();
    assert_eq!(world.pass(), ["update shop"]);
    assert_eq!(world.listed("shop"), ["a"]);
}

#[test]
fn suspension_on_the_hub_and_a_name_conflict_hold_both_works() {
    let works = [plain("shop", &[("data", "1"), ("a", "1")]), plain("b", &[("b", "1")])];
    let mut suspended = World::settled(&works);
    suspended.policy.suspensions.works.insert(key("b"), Arc::default());
    let mut conflict = World::settled(&works);
    let labels = &mut conflict.hub.get_mut(&key("b")).unwrap()["metadata"]["labels"];
    labels["gitwork.dev/source"] = "other".into();
    for (mut world, reason, is_suspension) in
        [(suspended, "b: suspended on the hub", true), (conflict, "b: the name is taken", false)]
    {
        world.commit(&[plain("shop", &[("a", "1")]), plain("b", &[("b", "1"), ("data", "2")])]);
        for _ in 0..3 {
            world.pass();
            world.agent_applies_all();
        }
        assert_eq!(world.listed("shop"), ["a", "data"]);
        assert_eq!(world.listed("b"), ["b"]);
        assert!(world.reason("shop").contains(reason), "{}", world.reason("shop"));
        let plan = world.plan();
        let step = plan.steps.iter().find(|step| step.key == key("shop")).unwrap();
        assert_eq!(step.reason.is_suspension(), is_suspension, "{step:?}");
    }
}

/// It would be empty for a while. Its objects may be in a folder that cannot be read, so it keeps
/// them, although no agent has seen it.
#[test]
fn unseen_work_is_not_deleted_for_an_unreadable_folder() {
    let other = plain("other", &[("data", "1"), ("x", "1")]);
    let mut world = World::settled(std::slice::from_ref(&other));
    world.commit(&[other, plain("shop", &[("new", "1")])]);
    assert_eq!(world.pass(), ["create shop"]);
    let suspended = ("other", &[("x", "1")][..], json!({"suspend": true}));
    world.commit(&[suspended, plain("shop", &[("data", "1")])]);
    let all = unreadable(&Tenancy::default());
    world.desired.frozen.works.insert(key("shop2"));
    world.desired.frozen.objects.insert(key("shop2"), all);
    assert_eq!(world.pass(), [""; 0]);
    assert_eq!(world.listed("shop"), ["new"]);
    // Now it is certain that it gives the object away.
    world.desired.frozen = crate::render::desired::Frozen::default();
    let shop2 = desired_work(&world.desired.source, &plain("shop2", &[("new", "1")]));
    world.desired.works.insert(key("shop2"), Arc::new(shop2));
    assert_eq!(world.pass(), ["delete shop", "create shop2"]);
}

/// Approves what Git has in a work, while the change window is closed.
fn approve(world: &mut World, work: &str) {
    let uid = world.desired.works[&key(work)].body.digest.to_string();
    world.policy.approved.changes.insert(Target { key: key(work), uid });
}

#[test]
fn neither_work_changes_for_the_object_while_the_change_of_one_is_not_approved() {
    for approved in ["shop", "shop2"] {
        let mut world = World::settled(&[
            plain("shop", &[("data", "1"), ("a", "1")]),
            plain("shop2", &[("b", "1")]),
        ]);
        world.policy.closed = Some(Closed { until: None, unknown_zone: None });
        world.commit(&[plain("shop", &[("a", "2")]), plain("shop2", &[("b", "1"), ("data", "2")])]);
        approve(&mut world, approved);
        assert_eq!(world.pass(), [""; 0], "{approved}");
        assert!(world.reason(approved).contains("window"), "{}", world.reason(approved));
        approve(&mut world, "shop");
        approve(&mut world, "shop2");
        assert_eq!(world.pass(), ["update shop", "update shop2"]);
    }
}

#[test]
fn approved_fix_of_a_receiver_does_not_wait_for_the_window_of_its_giver() {
    let mut world = World::settled(&[plain("shop", &[("data", "1"), ("a", "1")])]);
    world.commit(&[plain("shop", &[("a", "1")]), plain("shop2", &[("data", "2")])]);
    assert_eq!(world.pass(), ["update shop", "create shop2"]);
    world.policy.closed = Some(Closed { until: None, unknown_zone: None });
    world.commit(&[plain("shop", &[("a", "2")]), plain("shop2", &[("data", "3")])]);
    approve(&mut world, "shop2");
    assert_eq!(world.pass(), ["update shop2"]);
}

#[test]
fn giver_orphans_an_object_only_if_its_receiver_may_change() {
    let mut world = World::settled(&[plain("shop", &[("data", "1"), ("a", "1")])]);
    world.policy.closed = Some(Closed { until: None, unknown_zone: None });
    world.commit(&[plain("shop", &[("a", "2")]), orphaning("shop2", &[("data", "2"), ("b", "1")])]);
    approve(&mut world, "shop");
    assert_eq!(world.pass(), [""; 0]);
    world.policy.approved.changes.clear();
    // The receiving work is written without the object.
    approve(&mut world, "shop2");
    assert_eq!(world.pass(), ["create shop2"]);
    assert_eq!(world.listed("shop2"), ["b"]);
}
