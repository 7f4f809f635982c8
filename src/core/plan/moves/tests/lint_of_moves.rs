//! The lint finds plans that lose an object that moves.

use super::*;
use crate::plan::lint::{BrokenRule, PlanViolation};
use crate::plan::{PlanStep, PlanSteps};

fn loss(work: &str) -> PlanViolation {
    PlanViolation { key: key(work), rule: BrokenRule::LosesMovedObject }
}

#[test]
fn drop_that_the_receiving_work_does_not_allow_is_found() {
    let mut world = World::settled(&[plain("shop", &[("data", "1")])]);
    world.commit(&[plain("shop2", &[("data", "1")])]);
    world.pass();
    world.agent_applies_all();
    let deletion = world.plan();
    assert_eq!(deletion.effects().count(), 1);
    let changes: [fn(&mut World); 4] = [
        |world| world.agent_applies("shop2", Some("no")),
        |world| drop(world.hub.remove(&key("shop2"))),
        |world| world.hub.get_mut(&key("shop2")).unwrap()["metadata"]["generation"] = 9.into(),
        |world| {
            let work = world.hub.get_mut(&key("shop2")).unwrap();
            work["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        },
    ];
    for change in changes {
        let hub = world.hub.clone();
        change(&mut world);
        assert_eq!(world.violations(&deletion), [loss("shop")]);
        world.hub = hub;
    }
    assert_eq!(world.violations(&deletion), []);
}

#[test]
fn owner_that_orphans_the_object_in_the_same_plan_does_not_count() {
    let data: &[(&str, &str)] = &[("data", "1")];
    let mut world = World::settled(&[plain("b", data), plain("c", data)]);
    world.commit(&[orphaning("c", &[("three", "1")]), orphaning("d", data)]);
    let plan = world.plan();
    let orphan_at_once = |step: &PlanStep| {
        let mut step = step.clone();
        if let (Some(Effect::Update { body, .. }), "c") = (&mut step.effect, step.key.work.as_str())
        {
            let mut spec = body.spec.value();
            spec["deleteOption"] = json!({"propagationPolicy": "Orphan"});
            *body = Arc::new(WorkBody::from_parts(spec, &body.metadata()));
        }
        step
    };
    let steps: PlanSteps = plan.steps.iter().map(orphan_at_once).collect();
    assert_eq!(world.violations(&Plan { steps, ..plan }), [loss("b")]);
}

#[test]
fn other_delete_option_than_in_git_needs_another_agent_that_may_own_the_object() {
    let mut world = moved_and_not_removed();
    let shop2 = orphaning("shop2", &[("data", "1"), ("b", "1")]);
    world.commit(&[plain("shop", &[("a", "1")]), shop2]);
    let plan = world.plan();
    assert_eq!(plan.effects().count(), 1);
    let reports = &mut world.hub.get_mut(&key("shop")).unwrap()["status"]["resourceStatus"];
    reports["manifests"] = json!([]);
    let other_content = PlanViolation { key: key("shop2"), rule: BrokenRule::ContentNotInGit };
    assert_eq!(world.violations(&plan), [other_content]);
}
