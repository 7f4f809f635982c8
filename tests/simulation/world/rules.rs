//! The rules that hold for every plan, every write, and after convergence.

use std::collections::BTreeMap;

use gitwork_core::config::AdoptionPolicy;
use gitwork_core::model::approval::Target;
use gitwork_core::model::name::WorkKey;
use gitwork_core::model::work::DeletionPolicy;
use gitwork_core::plan::{Action, Effect, Plan, PlanStep, Reason};
use gitwork_core::render::desired::Desired;
use serde_json::{Value, json};

use super::{SOURCE, World, lines, manifest};
use crate::simulation::agents::Object;
use crate::simulation::budget_rule::BudgetRule;
use crate::simulation::hub::is_deleting;

impl World {
    /// Each step is for a wanted or owned work. Frozen and suspended works get no effect.
    pub(super) fn check_plan(&self, desired: &Desired, plan: &Plan) {
        for (step, effect) in plan.effects() {
            let there = self.observed.works.get(&step.key);
            let ours = there.is_some_and(|work| work.is_ours(&self.source));
            let wanted = desired.works.get(&step.key);
            let allowed = match effect {
                Effect::Create { .. } => wanted.is_some() && there.is_none(),
                Effect::Update { .. } => wanted.is_some() && ours,
                Effect::Adopt { .. } => {
                    let unowned = self.policy.adoption == AdoptionPolicy::Unowned;
                    wanted.is_some()
                        && there.is_some_and(|work| {
                            work.adopt.as_deref() == Some(SOURCE) || (unowned && work.unowned)
                        })
                }
                Effect::SetDeleteOption { .. } | Effect::Delete { .. } | Effect::Release { .. } => {
                    let path = there.and_then(|work| work.path.as_deref());
                    wanted.is_none() && ours && !self.frozen.may_contain(&step.key, path)
                }
            };
            assert!(allowed, "{step}");
            assert!(!wanted.is_some_and(|work| work.suspend), "{step}");
        }
        self.check_guards(desired, plan);
        self.check_budget(desired, plan);
        assert!(plan.steps.is_sorted_by(|a, b| a.key < b.key), "{}", lines(plan));
    }

    /// A guard lets nothing through except corrections of drift and, in a closed window, approved
    /// changes.
    pub(super) fn check_guards(&self, desired: &Desired, plan: &Plan) {
        let approves = |key: &WorkKey, effect: &Effect| {
            let uid = match effect {
                Effect::Create { body }
                | Effect::Update { body, .. }
                | Effect::Adopt { body, .. } => body.digest.to_string(),
                _ => self.observed.works[key].uid.clone(),
            };
            let target = Target { key: key.clone(), uid };
            let all = [&self.approved, &self.policy.approved];
            all.iter().any(|all| all.changes.contains(&target) || all.deletions.contains(&target))
        };
        for (step, effect) in plan.effects() {
            assert!(!desired.suspended.covers(&step.key), "{step}");
            let there = self.observed.works.get(&step.key);
            let puts_back = matches!(effect, Effect::Update { body, .. }
                if there.is_some_and(|there| there.written == Some(body.digest)));
            let closed = self.policy.closed.is_some() && !approves(&step.key, effect);
            assert!(puts_back || !(closed || self.policy.held_rewind.is_some()), "{step}");
            assert!(effect.writes_content() || self.policy.restored.is_none(), "{step}");
        }
    }

    /// Without an approval, no plan deletes more works than its budget, all works of the source, or
    /// all works of a cluster that has more than the budget allows.
    pub(super) fn check_budget(&self, desired: &Desired, plan: &Plan) {
        let target = |key: &WorkKey| {
            let uid = self.observed.works[key].uid.clone();
            Target { key: key.clone(), uid }
        };
        let approves = |key: &WorkKey| {
            let target = target(key);
            let all = [&self.approved, &self.policy.approved];
            all.iter().any(|approved| approved.deletions.contains(&target))
        };
        let deletes = |step: &&PlanStep| {
            matches!(step.action(), Action::Delete | Action::SetDeleteOption)
                || matches!(
                    step.reason,
                    Reason::WaitingForAgent { .. } | Reason::NotYetOrphaned { .. }
                )
        };
        let all: Vec<&WorkKey> = plan.steps.iter().filter(deletes).map(|step| &step.key).collect();
        let free: Vec<&WorkKey> = all.iter().copied().filter(|key| !approves(key)).collect();
        if free.is_empty() || self.policy.allow_delete_all {
            return;
        }
        let kept: Vec<&WorkKey> = self
            .observed
            .works
            .values()
            .filter(|work| {
                work.is_ours(&self.source) && !self.created_during_hold.contains(&work.uid)
            })
            .filter(|work| {
                desired.works.contains_key(&work.key)
                    || self.frozen.may_contain(&work.key, work.path.as_deref())
            })
            .map(|work| &work.key)
            .collect();
        let rule = BudgetRule::new(&self.policy.budgets, &self.budgets);
        let steps = lines(plan);
        assert!(plan.held_deletions().is_none(), "all unapproved deletions are held:\n{steps}");
        assert!(!kept.is_empty(), "everything is deleted:\n{steps}");
        let had = all.len() + kept.len();
        let count = free.len();
        assert!(rule.allows_deletions(count, had), "{count} of {had}, {rule:?}:\n{steps}");
        for key in free {
            let of = |keys: &[&WorkKey]| keys.iter().filter(|k| k.cluster == key.cluster).count();
            assert!(rule.allows_on_cluster(of(&all), of(&kept)), "{rule:?}:\n{steps}");
        }
    }

    /// Checks one write. It changes no other work and no foreign field. A deletion is one that Git
    /// requests, and the agent has released the objects that stay.
    pub(super) fn check_write(
        &self,
        key: &WorkKey,
        effect: &Effect,
        before: &BTreeMap<WorkKey, Value>,
    ) {
        let after = self.hub.objects();
        for (other, work) in before.iter().filter(|(other, _)| *other != key) {
            assert_eq!(after.get(other), Some(work), "a write to {key} changed {other}");
        }
        assert!(after.keys().all(|other| other == key || before.contains_key(other)), "{effect:?}");
        let Some(was) = before.get(key) else { return };
        let is = after.get(key);
        if is == Some(was) {
            return;
        }
        let metadata = &was["metadata"];
        let ours = metadata["labels"]["gitwork.dev/source"] == SOURCE;
        let allowed = metadata["annotations"]["gitwork.dev/adopt"] == SOURCE;
        let unowned = self.policy.adoption == AdoptionPolicy::Unowned
            && metadata["labels"].get("gitwork.dev/source").is_none()
            && matches!(effect, Effect::Adopt { body, .. } if body.spec.value() == was["spec"]);
        assert!(ours || allowed || unowned, "{key} is not ours: {was}");
        if let Some(is) = is {
            assert_eq!(is["status"], was["status"], "the status is the agent's");
            assert_eq!(is["metadata"]["finalizers"], metadata["finalizers"]);
            assert_eq!(is["metadata"]["labels"]["foreign"], metadata["labels"]["foreign"]);
        }
        if is.is_none_or(|is| is_deleting(is) && !is_deleting(was)) {
            assert!(matches!(effect, Effect::Delete { .. }), "{key} is gone");
            self.check_delete(key, was);
        }
    }

    pub(super) fn check_delete(&self, key: &WorkKey, was: &Value) {
        assert!(!self.git.contains_key(key), "{key} is in Git");
        assert!(!self.frozen.contains(key) && !self.frozen.deletes, "{key} is frozen");
        let last = self.dropped.get(key).expect("Git has dropped it");
        assert!(last.prune, "{key} has prune: false");
        let option = DeletionPolicy::from_value(&was["spec"]["deleteOption"]);
        assert_eq!(option, last.delete_option, "the final deleteOption of {key} in Git");
        let uid = was["metadata"]["uid"].as_str().unwrap();
        if option == DeletionPolicy::Foreground {
            assert_eq!(self.agents.would_stay(key, was), None, "it would stay");
        }
        let stays = |object: &Object| match &option {
            DeletionPolicy::Foreground => false,
            DeletionPolicy::Orphan => true,
            DeletionPolicy::SelectivelyOrphan(rules) => rules.contains(&object.1),
        };
        let lost: Vec<_> = self.agents.would_go(key, uid).into_iter().filter(stays).collect();
        assert!(lost.is_empty(), "{lost:?} would be deleted with {key}");
    }

    /// Checks that the world has converged. A pass changes nothing, nor does a pass of a new
    /// process. The hub is as Git wants it, except works that are held with a reason.
    pub async fn check_rest(&mut self) {
        let writes = self.hub.writes();
        let plan = self.pass().await;
        let before = lines(&plan);
        assert!(plan.is_empty(), "not at rest:\n{}", lines(&plan));
        self.restart();
        self.observe();
        let foreign: Vec<WorkKey> = self.hub.objects().into_keys().collect();
        for key in foreign {
            self.look_up(&key).await;
        }
        let plan = self.pass().await;
        assert!(plan.is_empty(), "a restart costs writes:\n{before}then:\n{}", lines(&plan));
        assert_eq!(self.hub.writes(), writes);
        let objects = self.hub.objects();
        for step in &plan.steps {
            match &step.reason {
                Reason::UpToDate => {
                    let (work, on_hub) = (&self.git[&step.key], &objects[&step.key]);
                    let manifests: Vec<Value> = work
                        .objects
                        .iter()
                        .map(|name| manifest(&step.key, name, &work.text))
                        .collect();
                    assert_eq!(on_hub["spec"]["workload"]["manifests"], json!(manifests));
                }
                Reason::Conflict { .. } => {
                    let label = &objects[&step.key]["metadata"]["labels"]["gitwork.dev/source"];
                    assert_ne!(label, SOURCE, "{step}");
                }
                Reason::NotYetOrphaned { complete: true, .. } | Reason::HeldByBudget { .. } => {
                    assert!(!self.git.contains_key(&step.key), "{step}");
                }
                other => panic!("no reason to rest: {step}: {other:?}"),
            }
        }
        assert!(self.git.keys().all(|key| plan.steps.iter().any(|step| step.key == *key)));
    }
}
