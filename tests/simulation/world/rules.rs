//! The rules that hold for every plan, every write, and after convergence.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_core::config::AdoptionPolicy;
use gitwork_core::model::approval::Target;
use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::WorkKey;
use gitwork_core::model::work::DeletionPolicy;
use gitwork_core::plan::budget::Excess;
use gitwork_core::plan::{Action, Effect, Plan, PlanStep, Reason};
use gitwork_core::render::desired::Desired;
use serde_json::Value;

use super::{SOURCE, World, lines};
use crate::agents::Object;
use crate::budget_rule::{BudgetRule, ClusterRule};
use crate::cluster::ObjectEvent;
use crate::git_work::{config_map, orphans, works_with};
use crate::hub::is_deleting;
use crate::moves::{
    delete_option, gives_all, is_complete, listed, manifests, moves_away, same_for_rest, strategy,
};

impl World {
    /// Each step is for a wanted or owned work. Frozen and suspended works get no effect.
    pub(super) fn check_plan(&self, desired: &Desired, plan: &Plan) {
        for (step, effect) in plan.effects() {
            let there = self.observed.works.get(&step.key);
            let ours = there.is_some_and(|work| work.is_ours(&self.source));
            let wanted = desired.works.get(&step.key);
            let allowed = match effect {
                Effect::Create { .. } => wanted.is_some() && there.is_none(),
                Effect::Update { .. } => ours && (wanted.is_some() || self.gives_some(&step.key)),
                Effect::Adopt { .. } => {
                    let unowned = self.policy.adoption == AdoptionPolicy::Unowned;
                    wanted.is_some()
                        && there.is_some_and(|work| {
                            work.adopt.as_deref() == Some(SOURCE) || (unowned && work.unowned)
                        })
                }
                Effect::SetDeleteOption { .. } | Effect::Delete { .. } | Effect::Release { .. } => {
                    let path = there.and_then(|work| work.path.as_deref());
                    let is_asked_for = wanted.is_none() || self.gives_all(&step.key);
                    is_asked_for && ours && !self.frozen.may_contain(&step.key, path)
                }
            };
            assert!(allowed, "{step}");
            assert!(!wanted.is_some_and(|work| work.suspend), "{step}");
        }
        self.check_guards(desired, plan);
        self.check_budget(desired, plan);
        assert!(plan.steps.iter().is_sorted_by(|a, b| a.key < b.key), "{}", lines(plan));
    }

    /// A guard lets nothing through except corrections of drift and, in a closed window, approved
    /// changes.
    pub(super) fn check_guards(&self, desired: &Desired, plan: &Plan) {
        let approves = |key: &WorkKey| {
            let wanted = desired.works.get(key).map(|work| work.body.digest.to_string());
            // An approval of a change or a removal covers what a move needs on the way there.
            let uid = wanted.unwrap_or_else(|| self.observed.works[key].uid.to_string());
            let target = Target { key: key.clone(), uid };
            let all = [&self.approved, &self.policy.approved];
            all.iter().any(|all| all.changes.contains(&target) || all.deletions.contains(&target))
        };
        for (step, effect) in plan.effects() {
            assert!(!desired.suspended.covers(&step.key), "{step}");
            let there = self.observed.works.get(&step.key);
            let puts_back = matches!(effect, Effect::Update { body, .. }
                if there.is_some_and(|there| there.written == Some(body.digest)));
            let closed = self.policy.closed.is_some() && !approves(&step.key);
            assert!(puts_back || !(closed || self.policy.held_rewind.is_some()), "{step}");
            assert!(effect.writes_content() || self.policy.restored.is_none(), "{step}");
        }
    }

    /// Without an approval, no plan deletes more works than its budget, all works of the source,
    /// more works of some clusters than the budget for these, or all works of a cluster that has
    /// more than the budget allows. The last two rules hold deletions of those clusters, the others
    /// hold all.
    pub(super) fn check_budget(&self, desired: &Desired, plan: &Plan) {
        check_bounds_of_held(plan);
        let target = |key: &WorkKey| {
            let uid = self.observed.works[key].uid.to_string();
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
        // A work whose objects all move to other works loses none, and counts as none.
        let loses = |key: &&WorkKey| !self.gives_all(key);
        let all = plan.steps.iter().filter(deletes).map(|step| &step.key);
        let all: Vec<&WorkKey> = all.filter(loses).collect();
        let free: Vec<&WorkKey> = all.iter().copied().filter(|key| !approves(key)).collect();
        if free.is_empty() || self.policy.allow_delete_all {
            return;
        }
        let kept: Vec<&WorkKey> = self
            .observed
            .works
            .values()
            .filter(|work| {
                work.is_ours(&self.source) && !self.created_during_hold.contains(&*work.uid)
            })
            .filter(|work| {
                desired.works.contains_key(&work.key)
                    || self.frozen.may_contain(&work.key, work.path.as_deref())
                    || self.gives_all(&work.key)
            })
            .map(|work| &work.key)
            .collect();
        let rule = BudgetRule::new(&self.policy.budgets, &self.budgets);
        let steps = lines(plan);
        let is_held = |step: &&PlanStep| matches!(step.reason, Reason::HeldByBudget { .. });
        let held = plan.steps.iter().filter(is_held).map(|step| &step.key);
        let held: Vec<&WorkKey> = held.filter(loses).collect();
        let is_beside = |key: &&WorkKey| free.iter().any(|other| other.cluster == key.cluster);
        assert!(!held.iter().any(is_beside), "a cluster's deletions are held together:\n{steps}");
        assert!(!kept.is_empty(), "everything is deleted:\n{steps}");
        let had = all.len() + held.len() + kept.len();
        let count = free.len() + held.len();
        assert!(rule.allows_deletions(count, had), "{count} of {had}, {rule:?}:\n{steps}");
        for key in &free {
            let of = |keys: &[&WorkKey]| keys.iter().filter(|k| k.cluster == key.cluster).count();
            assert!(rule.allows_on_cluster(of(&all), of(&kept)), "{rule:?}:\n{steps}");
            for rule in rule.of_cluster(&key.cluster) {
                let of =
                    |keys: &[&WorkKey]| keys.iter().filter(|k| rule.counts(&k.cluster)).count();
                let had = of(&all) + of(&held) + of(&kept);
                assert!(rule.allows_deletions(of(&free) + of(&held), had), "{rule:?}:\n{steps}");
            }
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
        assert!(!self.frozen.contains(key) && !self.frozen.deletes, "{key} is frozen");
        let objects = listed(was);
        if self.git.contains_key(key) {
            assert!(gives_all(&self.git, key, &objects), "{key} is in Git");
        } else {
            let last = self.dropped.get(key).expect("Git has dropped it");
            let is_emptied = gives_all(&self.git, key, &objects);
            assert!(last.prune || is_emptied, "{key} has prune: false");
            let options = [&delete_option(was), &last.delete_option];
            let same = same_for_rest(options, &self.git, key, was);
            assert!(same, "the final deleteOption of {key} in Git: {options:?}");
        }
        let option = delete_option(was);
        let moves = |object: &Object| moves_away(&self.git, key, &object.1);
        let uid = was["metadata"]["uid"].as_str().unwrap();
        if option == DeletionPolicy::Foreground {
            let stays = self.agents.would_stay(key, was).into_iter().find(|one| !moves(one));
            assert_eq!(stays, None, "it would stay");
        }
        let stays = |object: &Object| orphans(&option, &object.1) || moves(object);
        let lost: Vec<_> = self.agents.would_go(key, uid).into_iter().filter(stays).collect();
        assert!(lost.is_empty(), "{lost:?} would be deleted with {key}");
    }

    fn objects_on_hub(&self, key: &WorkKey) -> BTreeSet<Identity> {
        self.hub.object(key).map_or_else(BTreeSet::new, |work| listed(&work))
    }

    /// Whether Git has all objects of the work on the hub in other works.
    fn gives_all(&self, key: &WorkKey) -> bool {
        gives_all(&self.git, key, &self.objects_on_hub(key))
    }

    /// Whether Git has an object of the work on the hub in another work.
    fn gives_some(&self, key: &WorkKey) -> bool {
        self.objects_on_hub(key).iter().any(|id| moves_away(&self.git, key, id))
    }

    /// Records what Git has at a pass.
    pub(super) fn note_git(&mut self) {
        self.applied_git.clone_from(&self.git);
        for ((cluster, id), one) in self.objects.live() {
            one.since &= works_with(&self.applied_git, cluster, id).next().is_some();
        }
    }

    /// An object that Git has at every pass keeps its uid, unless another client acts on it.
    pub fn follow_objects(&mut self) {
        let (events, created_late) = self.agents.take_events();
        self.objects.disturb(created_late);
        for (cluster, event) in events {
            let has = match &event {
                ObjectEvent::Created { id, .. } => {
                    works_with(&self.applied_git, &cluster, id).next().is_some()
                }
                ObjectEvent::Deleted { .. } => false,
            };
            let ended = self.objects.follow(cluster, event, &has);
            if let Some((object, one)) = ended.filter(|(_, one)| one.since) {
                panic!("{object:?} ({}) is deleted, and Git had it at every pass", one.uid);
            }
        }
    }

    /// Another client acts on a work: nothing is said of its objects from now on.
    pub(super) fn disturb(&mut self, key: &WorkKey) {
        let mut objects = self.objects_on_hub(key);
        if let Some(work) = self.git.get(key) {
            objects.extend(work.objects.keys().map(|name| config_map(name)));
        }
        objects.extend(self.agents.recorded(key));
        let of_cluster = objects.into_iter().map(|id| (key.cluster.clone(), id));
        self.objects.disturb(of_cluster);
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
                    assert_eq!(manifests(on_hub), work.manifests());
                    for (name, object) in &work.objects {
                        let strategy = strategy(on_hub, &config_map(name));
                        assert_eq!(strategy.as_deref(), object.strategy, "{name} of {step}");
                    }
                }
                Reason::Conflict { .. } => {
                    let label = &objects[&step.key]["metadata"]["labels"]["gitwork.dev/source"];
                    assert_ne!(label, SOURCE, "{step}");
                }
                Reason::NeverInGit => {
                    let known =
                        [self.git.contains_key(&step.key), self.dropped.contains_key(&step.key)];
                    assert_eq!(known, [false; 2], "Git had it: {step}");
                }
                Reason::NotYetOrphaned { complete: true, .. } | Reason::HeldByBudget { .. } => {
                    assert!(!self.git.contains_key(&step.key), "{step}");
                }
                Reason::MovesObjects { moves } => {
                    // The agent does nothing more for a Complete work, and nobody but its owner
                    // writes a work of another owner.
                    let stands_still = |key: &WorkKey| {
                        objects.get(key).is_some_and(|work| {
                            let label = &work["metadata"]["labels"]["gitwork.dev/source"];
                            is_complete(work) || label != SOURCE
                        })
                    };
                    let mut moves = moves.iter();
                    let may_rest =
                        moves.all(|one| stands_still(&one.from) || stands_still(&one.to));
                    assert!(may_rest, "no reason to rest:\n{}", lines(&plan));
                }
                other => panic!("no reason to rest: {step}: {other:?}"),
            }
        }
        assert!(self.git.keys().all(|key| plan.steps.iter().any(|step| step.key == *key)));
    }
}

/// A bound for some clusters holds deletions on these only.
fn check_bounds_of_held(plan: &Plan) {
    for PlanStep { key, reason, .. } in plan.steps.iter() {
        let Reason::HeldByBudget { excess, .. } = reason else { continue };
        let is_of_bound = match &**excess {
            Excess::Cluster(cluster) => *cluster == key.cluster,
            Excess::Clusters(set) => ClusterRule::new(set).counts(&key.cluster),
            _ => true,
        };
        assert!(is_of_bound, "{key} is held by a bound for other clusters: {excess}");
    }
}
