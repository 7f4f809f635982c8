//! Checks a plan against the rules, without the planner's code.
//!
//! It reads the plan and its inputs, and shares no decision with the planner, so that a mistake in
//! one is found by the other. Tests call it after every plan; the daemon calls it before execution.

use std::fmt;

use crate::config::AdoptionPolicy;
use crate::model::approval::Target;
use crate::model::name::WorkKey;
use crate::plan::effect::Effect;
use crate::plan::inputs::PlanInputs;
use crate::plan::observed::ObservedWork;
use crate::plan::reason::Reason;
use crate::plan::step::{Plan, PlanStep};

/// A step that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanViolation {
    /// The work of the step.
    pub key: WorkKey,
    /// The rule.
    pub rule: BrokenRule,
}

/// The rules that every plan keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BrokenRule {
    /// Steps are sorted by work, and each work has at most one.
    SecondStep,
    /// A step writes only works that the source owns, creates, or may adopt.
    ForeignWork,
    /// A step writes only the content that Git has for the work.
    ContentNotInGit,
    /// A deletion, its preparation or a release has a reason from Git: Git was read, and does not
    /// have the work.
    NoReasonFromGit,
    /// A write names the object and the state that the hub has; a create finds the name free.
    NoPrecondition,
    /// No write of a work that is frozen, suspended or being deleted.
    BlockedWork,
    /// No change that a held rewind, a restored hub or a closed window forbids.
    HeldChange,
    /// No unapproved deletion of everything that the source has.
    DeletesEverything,
    /// No put-back that has to wait for another writer.
    BackedOffWork,
}

impl BrokenRule {
    /// The violation in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SecondStep => "the work has two steps, or the steps are not sorted",
            Self::ForeignWork => "the work does not belong to the source",
            Self::ContentNotInGit => "Git does not have this content",
            Self::NoReasonFromGit => "Git does not ask for the removal",
            Self::NoPrecondition => "the write does not name the state on the hub",
            Self::BlockedWork => "the work is frozen, suspended or being deleted",
            Self::HeldChange => "a guard holds the change",
            Self::DeletesEverything => {
                "the plan deletes all works of the source without an approval"
            }
            Self::BackedOffWork => "the put-back has to wait for another writer",
        }
    }
}

impl fmt::Display for PlanViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.rule.as_str())
    }
}

/// The violations of a plan, in the order of its steps; none for a sound plan.
pub fn check(plan: &Plan, inputs: PlanInputs<'_>) -> Vec<PlanViolation> {
    let mut found = Vec::new();
    let mut report = |step: &PlanStep, rule: BrokenRule| {
        found.push(PlanViolation { key: step.key.clone(), rule });
    };
    for pair in plan.steps.windows(2) {
        if let [first, second] = pair
            && first.key >= second.key
        {
            report(second, BrokenRule::SecondStep);
        }
    }
    let empties = deletes_everything(plan, inputs);
    for (step, effect) in plan.effects() {
        let write = Write { step, effect, inputs };
        for (rule, is_broken) in [
            (BrokenRule::ForeignWork, write.is_foreign()),
            (BrokenRule::ContentNotInGit, write.has_other_content()),
            (BrokenRule::NoReasonFromGit, write.lacks_reason_from_git()),
            (BrokenRule::NoPrecondition, write.lacks_precondition()),
            (BrokenRule::BlockedWork, write.is_blocked()),
            (BrokenRule::HeldChange, write.is_held()),
            (BrokenRule::BackedOffWork, write.is_backed_off()),
            (BrokenRule::DeletesEverything, empties && write.deletes_unapproved()),
        ] {
            if is_broken {
                report(step, rule);
            }
        }
    }
    found
}

/// Whether no work of the source that Git has, or may have, stays on the hub.
fn deletes_everything(plan: &Plan, inputs: PlanInputs<'_>) -> bool {
    let PlanInputs { desired, observed, policy, .. } = inputs;
    let has_deletions = plan.effects().any(|(_, effect)| matches!(effect, Effect::Delete { .. }));
    let stays = |work: &ObservedWork| {
        work.is_ours(&desired.source)
            && (desired.works.contains_key(&work.key)
                || desired.frozen.holds(&work.key, work.path.as_deref()))
    };
    has_deletions && !policy.allow_delete_all && !observed.works.values().any(stays)
}

/// One write of a plan, with the plan's inputs.
struct Write<'a> {
    step: &'a PlanStep,
    effect: &'a Effect,
    inputs: PlanInputs<'a>,
}

impl<'a> Write<'a> {
    fn on_hub(&self) -> Option<&'a ObservedWork> {
        self.inputs.observed.works.get(&self.step.key)
    }

    fn is_in_git(&self) -> bool {
        self.inputs.desired.works.contains_key(&self.step.key)
    }

    fn is_foreign(&self) -> bool {
        let source = &self.inputs.desired.source;
        let Some(there) = self.on_hub() else {
            return !matches!(self.effect, Effect::Create { .. });
        };
        if !matches!(self.effect, Effect::Adopt { .. }) {
            return !there.is_ours(source);
        }
        let adoption = self.inputs.policy.adoption;
        let is_annotated = there.adopt.as_deref() == Some(source.as_str());
        let may_adopt = match adoption {
            AdoptionPolicy::Never => false,
            AdoptionPolicy::Annotated => is_annotated,
            AdoptionPolicy::Unowned => is_annotated || there.unowned,
        };
        there.is_ours(source) || !may_adopt
    }

    fn has_other_content(&self) -> bool {
        let Some(body) = self.effect.body() else { return false };
        let in_git = self.inputs.desired.works.get(&self.step.key);
        in_git.is_none_or(|work| work.body.digest != body.digest)
    }

    fn lacks_reason_from_git(&self) -> bool {
        let frozen = &self.inputs.desired.frozen;
        let path = self.on_hub().and_then(|work| work.path.as_deref());
        let has_reason = match self.effect {
            Effect::Delete { .. } => matches!(self.step.reason, Reason::RemovedFromGit { .. }),
            Effect::SetDeleteOption { .. } => {
                matches!(self.step.reason, Reason::DeleteOptionFirst { .. })
            }
            Effect::Release { .. } => matches!(self.step.reason, Reason::PruneOff { .. }),
            Effect::Create { .. } | Effect::Update { .. } | Effect::Adopt { .. } => return false,
        };
        !has_reason || self.is_in_git() || frozen.holds(&self.step.key, path)
    }

    fn lacks_precondition(&self) -> bool {
        let Some(there) = self.on_hub() else { return self.effect.resource_version().is_some() };
        let is_other_object =
            matches!(self.effect, Effect::Delete { uid, .. } if *uid != there.uid);
        let version = self.effect.resource_version();
        is_other_object || version != Some(&there.resource_version) || version == Some("")
    }

    fn is_blocked(&self) -> bool {
        let PlanInputs { desired, policy, .. } = self.inputs;
        let key = &self.step.key;
        let is_suspended = desired.suspended.covers(key)
            || policy.suspensions.of(key).is_some()
            || desired.works.get(key).is_some_and(|work| work.suspend);
        is_suspended
            || desired.frozen.covers(key)
            || self.on_hub().is_some_and(|work| work.deleting)
    }

    /// Whether the hub has the content already, or had it by gitwork's last write.
    fn is_put_back(&self) -> bool {
        let (Some(body), Some(there)) = (self.effect.body(), self.on_hub()) else { return false };
        matches!(self.effect, Effect::Update { .. })
            && (there.written == Some(body.digest) || there.digest == body.digest)
    }

    fn is_held(&self) -> bool {
        let PlanInputs { desired, policy, .. } = self.inputs;
        if policy.restored.is_some() && self.effect.removes() {
            return true;
        }
        if self.is_put_back() {
            return false;
        }
        let version = match self.effect.body() {
            Some(body) => body.digest.to_string(),
            None => self.on_hub().map(|work| work.uid.clone()).unwrap_or_default(),
        };
        let target = Target { key: self.step.key.clone(), uid: version };
        let is_approved = [&policy.approved, &desired.approved]
            .iter()
            .any(|all| all.changes.contains(&target) || all.deletions.contains(&target));
        policy.held_rewind.is_some() || (policy.closed.is_some() && !is_approved)
    }

    fn is_backed_off(&self) -> bool {
        let contention = self.inputs.policy.contentions.get(&self.step.key);
        let (Some(contention), Some(body)) = (contention, self.effect.body()) else { return false };
        let has_content = self.on_hub().is_some_and(|there| there.digest == body.digest);
        contention.waits && contention.content == body.digest && !has_content
    }

    fn deletes_unapproved(&self) -> bool {
        let Effect::Delete { uid, .. } = self.effect else { return false };
        let target = Target { key: self.step.key.clone(), uid: uid.clone() };
        let PlanInputs { desired, policy, .. } = self.inputs;
        !policy.approved.deletions.contains(&target)
            && !desired.approved.deletions.contains(&target)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::config::window::Closed;
    use crate::model::approval::{Approval, Rewind};
    use crate::model::name::{ClusterName, ObjectId, RepoPath, SourceId, WorkName};
    use crate::model::work::{ANNOTATION_CREATED_DURING_HOLD, DeleteOption, DesiredWork, WorkBody};
    use crate::plan::conflicting_manager::ConflictingManager;
    use crate::plan::directives::Suspension;
    use crate::plan::drift_backoff::Contention;
    use crate::plan::last_known::RemovedWorks;
    use crate::plan::observed::Observed;
    use crate::plan::planner::plan;
    use crate::plan::policy::PlanPolicy;
    use crate::render::desired::Desired;

    fn key(work: &str) -> WorkKey {
        WorkKey {
            cluster: ClusterName::parse("edge-1").unwrap(),
            work: WorkName::parse(work).unwrap(),
        }
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
        fn new() -> Self {
            let desired_work = |work: &str| DesiredWork {
                key: key(work),
                path: path(work),
                body: body(work, "new"),
                delete_option: DeleteOption::Foreground,
                prune: true,
                suspend: false,
            };
            let wanted = ["new", "edited", "stays"].map(|work| (key(work), desired_work(work)));
            let mut released = on_hub("released", "old");
            released.prune = false;
            let there =
                [on_hub("edited", "old"), on_hub("stays", "new"), on_hub("gone", "old"), released];
            Self {
                desired: Desired {
                    source: source(),
                    commit: None,
                    works: wanted.into(),
                    frozen: Default::default(),
                    rules: Default::default(),
                    approved: Default::default(),
                    suspended: Default::default(),
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
            plan(&self.desired, &self.observed, &RemovedWorks::new(), &self.policy)
        }

        /// The rules that `plan` breaks in this world.
        fn broken(&self, plan: &Plan) -> Vec<(String, BrokenRule)> {
            let removed = RemovedWorks::new();
            let inputs = PlanInputs {
                desired: &self.desired,
                observed: &self.observed,
                removed: &removed,
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
        plan.steps.push(stays);
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
            world.desired.works.get_mut(&key("edited")).unwrap().body = body("edited", "newer");
            world.desired.works.remove(&key("new"));
        });
        assert_eq!(broken, all(BrokenRule::ContentNotInGit, &["edited", "new"]));
    }

    #[test]
    fn a_removal_without_a_reason_from_git_is_found() {
        for change in [
            |world: &mut World| {
                for work in ["gone", "released"] {
                    let wanted = world.desired.works[&key("stays")].clone();
                    let wanted = DesiredWork { key: key(work), body: body(work, "new"), ..wanted };
                    world.desired.works.insert(key(work), wanted);
                }
            },
            |world: &mut World| world.desired.frozen.deletes = true,
        ] {
            let broken = World::broken_after(change);
            assert_eq!(broken, all(BrokenRule::NoReasonFromGit, &["gone", "released"]));
        }
        let world = World::new();
        let mut plan = world.plan();
        for step in &mut plan.steps {
            step.reason = Reason::ChangedInGit;
        }
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
            world.desired.works.get_mut(&key("new")).unwrap().suspend = true;
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
        let restored = Approval::Restored { source: source(), moves: 7 };
        let broken = World::broken_after(|world| world.policy.restored = Some(restored.into()));
        assert_eq!(broken, all(BrokenRule::HeldChange, &["gone", "released"]));
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
}
