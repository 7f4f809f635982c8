use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::config::window::Closed;
use crate::model::approval::{Approval, Rewind};
use crate::model::name::{ClusterName, ObjectId, RepoPath, SourceId, WorkName};
use crate::model::source_origin::SourceOrigin;
use crate::model::work::{ANNOTATION_CREATED_DURING_HOLD, DeletionPolicy, DesiredWork, WorkBody};
use crate::plan::conflicting_manager::ConflictingManager;
use crate::plan::directives::Suspension;
use crate::plan::drift_backoff::Contention;
use crate::plan::last_known::LastKnownStates;
use crate::plan::observed::Observed;
use crate::plan::planner::plan;
use crate::plan::policy::PlanPolicy;
use crate::render::desired::Desired;

fn key(work: &str) -> WorkKey {
    WorkKey { cluster: ClusterName::parse("edge-1").unwrap(), work: WorkName::parse(work).unwrap() }
}

fn source() -> SourceId {
    SourceId::parse("fleet").unwrap()
}

fn path(work: &str) -> RepoPath {
    RepoPath::parse(&format!("clusters/edge-1/{work}")).unwrap()
}

fn body(work: &str, text: &str) -> Arc<WorkBody> {
    let spec = json!({"workload": {"manifests": [{"data": text}]}});
    let none = BTreeMap::new();
    Arc::new(WorkBody::new(&source(), &path(work), spec, none.clone(), none, true))
}

/// The object that the hub has after gitwork wrote `text`.
fn on_hub(work: &str, text: &str) -> ObservedWork {
    let mut object = body(work, text).to_manifest_work(&key(work), None);
    object["metadata"]["uid"] = format!("uid-{work}").into();
    object["metadata"]["resourceVersion"] = "7".into();
    ObservedWork::from_manifest_work(object).unwrap()
}

/// A world in which Git has `new`, `edited` and `stays`, and removed `gone` and `released`.
#[derive(Clone)]
struct World {
    desired: Desired,
    observed: Observed,
    policy: PlanPolicy,
}

impl World {
    fn change_desired(&mut self, work: &str, change: impl FnOnce(&mut DesiredWork)) {
        change(Arc::make_mut(self.desired.works.get_mut(&key(work)).unwrap()));
    }

    fn new() -> Self {
        let desired_work = |work: &str| DesiredWork {
            key: key(work),
            path: path(work),
            body: body(work, "new"),
            delete_option: DeletionPolicy::Foreground,
            prune: true,
            suspend: false,
            objects: Arc::default(),
            depends_on: Default::default(),
            group_content: None,
            is_earlier: false,
        };
        let wanted = ["new", "edited", "stays"].map(|work| (key(work), desired_work(work)));
        let mut released = on_hub("released", "old");
        released.prune = false;
        let there =
            [on_hub("edited", "old"), on_hub("stays", "new"), on_hub("gone", "old"), released];
        Self {
            desired: Desired {
                delivered: BTreeMap::new(),
                source: source(),
                commit: None,
                works: wanted.map(|(key, work)| (key, Arc::new(work))).into(),
                frozen: Default::default(),
                rules: Default::default(),
                approved: Default::default(),
                suspended: Default::default(),
                needed_facts: None,
                rollouts: BTreeMap::new(),
                later: BTreeMap::new(),
                facts: None,
                diagnostics: Vec::new(),
            },
            observed: Observed {
                works: there.map(|work| (work.key.clone(), work)).into(),
                ..Observed::default()
            },
            policy: PlanPolicy::default(),
        }
    }

    fn plan(&self) -> Plan {
        plan(&self.desired, &self.observed, &LastKnownStates::new(), &self.policy)
    }

    /// The rules that `plan` breaks in this world.
    fn broken(&self, plan: &Plan) -> Vec<(String, BrokenRule)> {
        let last_known = LastKnownStates::new();
        let inputs = PlanInputs {
            desired: &self.desired,
            observed: &self.observed,
            last_known: &last_known,
            policy: &self.policy,
        };
        let found = check(plan, inputs).into_iter();
        found.map(|one| (one.key.work.to_string(), one.rule)).collect()
    }

    /// The rules that the plan of a sound world breaks after `change`.
    fn broken_after(change: impl FnOnce(&mut Self)) -> Vec<(String, BrokenRule)> {
        let sound = Self::new();
        let plan = sound.plan();
        let mut world = sound;
        change(&mut world);
        assert_eq!(world.broken(&world.plan()), [], "the planner's own plan is sound");
        world.broken(&plan)
    }
}

fn all(rule: BrokenRule, works: &[&str]) -> Vec<(String, BrokenRule)> {
    works.iter().map(|work| ((*work).to_owned(), rule)).collect()
}

/// Every work with a write in the plan of [`World::new`], in its order.
const WRITTEN: [&str; 4] = ["edited", "gone", "new", "released"];

#[test]
fn a_sound_plan_has_no_violation() {
    let world = World::new();
    let plan = world.plan();
    let written: Vec<&str> = plan.effects().map(|(step, _)| step.key.work.as_str()).collect();
    assert_eq!(written, WRITTEN);
    assert_eq!(world.broken(&plan), []);
}

#[test]
fn a_second_step_of_a_work_is_found() {
    let world = World::new();
    let mut plan = world.plan();
    let stays = plan.steps.iter().find(|step| step.effect.is_none()).unwrap().clone();
    plan.steps = plan.steps.iter().cloned().chain([stays]).collect();
    assert_eq!(world.broken(&plan), all(BrokenRule::SecondStep, &["stays"]));
}

#[test]
fn a_write_of_a_foreign_work_is_found() {
    let broken = World::broken_after(|world| {
        for work in ["edited", "gone", "released"] {
            let work = world.observed.works.get_mut(&key(work)).unwrap();
            work.source = Some("another".into());
        }
    });
    assert_eq!(broken, all(BrokenRule::ForeignWork, &["edited", "gone", "released"]));
    let mut world = World::new();
    let edited = world.observed.works.get_mut(&key("edited")).unwrap();
    (edited.source, edited.adopt) = (None, Some("fleet".into()));
    let plan = world.plan();
    assert_eq!(world.broken(&plan), []);
    world.policy.adoption = AdoptionPolicy::Never;
    assert_eq!(world.broken(&plan), all(BrokenRule::ForeignWork, &["edited"]));
}

#[test]
fn content_that_git_does_not_have_is_found() {
    let broken = World::broken_after(|world| {
        world.change_desired("edited", |work| work.body = body("edited", "newer"));
        world.desired.works.remove(&key("new"));
    });
    assert_eq!(broken, all(BrokenRule::ContentNotInGit, &["edited", "new"]));
}

#[test]
fn a_removal_without_a_reason_from_git_is_found() {
    for change in [
        |world: &mut World| {
            for work in ["gone", "released"] {
                let wanted = (*world.desired.works[&key("stays")]).clone();
                let wanted = DesiredWork { key: key(work), body: body(work, "new"), ..wanted };
                world.desired.works.insert(key(work), Arc::new(wanted));
            }
        },
        |world: &mut World| world.desired.frozen.deletes = true,
    ] {
        let broken = World::broken_after(change);
        assert_eq!(broken, all(BrokenRule::NoReasonFromGit, &["gone", "released"]));
    }
    let world = World::new();
    let mut plan = world.plan();
    let change = |step: &PlanStep| PlanStep { reason: Reason::ChangedInGit, ..step.clone() };
    plan.steps = plan.steps.iter().map(change).collect();
    let expected = all(BrokenRule::NoReasonFromGit, &["gone", "released"]);
    assert_eq!(world.broken(&plan), expected);
}

#[test]
fn a_missing_precondition_is_found() {
    let broken = World::broken_after(|world| {
        for work in world.observed.works.values_mut() {
            work.resource_version = "8".into();
        }
        let there = on_hub("new", "old");
        world.observed.works.insert(there.key.clone(), there);
    });
    assert_eq!(broken, all(BrokenRule::NoPrecondition, &WRITTEN));
    let broken = World::broken_after(|world| {
        world.observed.works.get_mut(&key("gone")).unwrap().uid = "another".into();
    });
    assert_eq!(broken, all(BrokenRule::NoPrecondition, &["gone"]));
}

#[test]
fn a_write_of_a_blocked_work_is_found() {
    let cluster = || ClusterName::parse("edge-1").unwrap();
    let by_operator = Arc::new(Suspension::default());
    for change in [
        Box::new(|world: &mut World| world.desired.suspended.source = true)
            as Box<dyn FnOnce(&mut World)>,
        Box::new(|world: &mut World| _ = world.desired.suspended.clusters.insert(cluster())),
        Box::new(move |world: &mut World| world.policy.suspensions.source = Some(by_operator)),
    ] {
        assert_eq!(World::broken_after(change), all(BrokenRule::BlockedWork, &WRITTEN));
    }
    let broken = World::broken_after(|world| {
        world.change_desired("new", |work| work.suspend = true);
        world.observed.works.get_mut(&key("edited")).unwrap().deleting = true;
    });
    assert_eq!(broken, all(BrokenRule::BlockedWork, &["edited", "new"]));
}

#[test]
fn a_change_that_a_guard_holds_is_found() {
    let commit = |byte| ObjectId([byte; 20]);
    let rewind = Rewind { source: source(), from: [commit(1)].into(), to: commit(2) };
    let broken = World::broken_after(|world| world.policy.held_rewind = Some(rewind.into()));
    assert_eq!(broken, all(BrokenRule::HeldChange, &WRITTEN));
    let broken = World::broken_after(|world| {
        world.policy.closed = Some(Closed { until: None, unknown_zone: None });
    });
    assert_eq!(broken, all(BrokenRule::HeldChange, &WRITTEN));
    let restored = Approval::Restored { source: source(), record_generation: 7 };
    let broken = World::broken_after(|world| world.policy.restored = Some(restored.into()));
    assert_eq!(broken, all(BrokenRule::HeldChange, &["gone", "released"]));
    let broken = World::broken_after(|world| {
        let [from, to] = ["a", "b"].map(|name| SourceOrigin::new(name, &RepoPath::root()));
        let approval = Approval::Origin { source: source(), from, to };
        world.policy.other_origin = Some(approval.into());
    });
    assert_eq!(broken, all(BrokenRule::HeldChange, &WRITTEN));
}

#[test]
fn a_write_of_a_work_without_objects_is_found() {
    let mut world = World::new();
    let (spec, none) = (json!({"workload": {"manifests": []}}), BTreeMap::new());
    let empty = WorkBody::new(&source(), &path("edited"), spec, none.clone(), none, true);
    world.change_desired("edited", |work| work.body = Arc::new(empty));
    assert_eq!(world.broken(&world.plan()), all(BrokenRule::EmptyWork, &["edited"]));
}

#[test]
fn an_unapproved_deletion_of_everything_is_found() {
    let broken = World::broken_after(|world| {
        for work in ["edited", "stays"] {
            world.observed.works.remove(&key(work));
        }
    });
    let expected = [
        ("edited".to_owned(), BrokenRule::ForeignWork),
        ("edited".to_owned(), BrokenRule::NoPrecondition),
        ("gone".to_owned(), BrokenRule::DeletesEverything),
    ];
    assert_eq!(broken, expected);
}

#[test]
fn a_put_back_that_has_to_wait_is_found() {
    let broken = World::broken_after(|world| {
        let contention = Contention {
            manager: Arc::new(ConflictingManager::Unknown),
            times: 9,
            wait: Duration::from_secs(16),
            content: body("edited", "new").digest,
            waits: true,
        };
        world.policy.contentions.insert(key("edited"), Arc::new(contention));
    });
    assert_eq!(broken, all(BrokenRule::BackedOffWork, &["edited"]));
}

#[test]
fn a_marker_may_be_removed_whatever_the_guards_hold() {
    let mut world = World::new();
    world.observed.works.remove(&key("gone"));
    world.observed.works.get_mut(&key("stays")).unwrap().created_during_hold = true;
    world.policy.closed = Some(Closed { until: None, unknown_zone: None });
    let plan = world.plan();
    let stays = plan.steps.iter().find(|step| step.key == key("stays")).unwrap();
    assert_eq!(stays.reason, Reason::DeletesNoLongerHeld);
    let Some(Effect::Update { metadata, .. }) = &stays.effect else { panic!("{stays}") };
    assert!(metadata.remove_annotations.contains(ANNOTATION_CREATED_DURING_HOLD));
    assert_eq!(world.broken(&plan), []);
}
