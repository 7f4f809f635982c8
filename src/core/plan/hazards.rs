//! What is unsafe to touch now, and why.
//!
//! A hazard never adds a write. It forbids some or all writes of a work, and the plan has its
//! reason in their place. Hazards are found in two steps: [`Hazards::observe`] before the
//! candidates, and `Hazards::with_guards` for those that depend on all candidates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::approval::{Approval, Approved, Target};
use crate::model::name::{ClusterName, WorkKey};
use crate::plan::blocked::{BlockedWorks, blocked};
use crate::plan::candidates::CandidateChange;
use crate::plan::deletion_budget::over_budget;
use crate::plan::directives::Suspensions;
use crate::plan::drift_backoff::Contention;
use crate::plan::effect::Effect;
use crate::plan::inputs::PlanInputs;
use crate::plan::moves::ObjectMove;
use crate::plan::observed::{Observed, ObservedWork};
use crate::plan::reason::Reason;
use crate::plan::rollouts::RolloutWaits;
use crate::render::desired::Desired;

/// Everything that is unsafe to touch, per work and for the source. If several hazards forbid a
/// write, the first in this order gives the reason.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hazards {
    /// The source has another origin on the hub. It holds every work, also if nothing changes.
    other_origin: Option<Reason>,
    /// Suspensions by operators. They forbid every write.
    suspensions: Suspensions,
    /// Git suspends the whole source. It forbids every write.
    source_suspended: bool,
    /// Clusters that Git suspends. They forbid every write.
    clusters_suspended: Vec<ClusterName>,
    /// Replica sets that go to a suspended cluster. They forbid every write: a set has one content
    /// for all its clusters.
    sets_suspended: BTreeMap<WorkKey, Reason>,
    /// Works that are frozen, suspended, foreign or being deleted. They forbid every write.
    blocked: BlockedWorks,
    /// Deletions over the budget. They forbid every write of the work.
    over_budget: BTreeMap<WorkKey, Reason>,
    /// Git's head does not build on the applied commits. It forbids every change of content except
    /// a put-back of gitwork's last write.
    rewind: Option<Reason>,
    /// The hub was restored from a backup. It forbids deletions and releases.
    restored: Option<Reason>,
    /// Changes that wait for a change window. They forbid the change.
    outside_window: BTreeMap<WorkKey, Reason>,
    /// Works that wait for the wave of their cluster. They forbid every write, except of works that
    /// Git wants with an earlier content meanwhile.
    rollout_waits: RolloutWaits,
    /// Works that another writer keeps changing. They forbid a write of the same content.
    contended: BTreeMap<WorkKey, Arc<Contention>>,
    /// Whether any deletion is held: works that are created meanwhile carry a marker.
    deletions_held: bool,
}

impl Hazards {
    /// The hazards that follow from the state of the works and the operators' policy alone.
    pub fn observe(inputs: PlanInputs<'_>) -> Self {
        Self { blocked: blocked(inputs), ..Self::of_policy(inputs) }
    }

    /// The hazards that follow from the policy alone, without blocked works.
    pub(super) fn of_policy(inputs: PlanInputs<'_>) -> Self {
        let PlanInputs { desired, policy, .. } = inputs;
        let rewind = policy.held_rewind.as_ref().map(|rewind| {
            let hash = Approval::Rewind(Arc::unwrap_or_clone(rewind.clone())).hash();
            Reason::HeldByRewind { rewind: rewind.clone(), hash }
        });
        let restored = policy.restored.as_ref().map(|approval| Reason::HeldByRestore {
            approval: approval.clone(),
            hash: approval.hash(),
        });
        let other_origin = policy.other_origin.as_ref().map(|approval| Reason::HeldByOrigin {
            approval: approval.clone(),
            hash: approval.hash(),
        });
        let contended = policy.contentions.iter().filter(|(_, contention)| contention.waits);
        Self {
            other_origin,
            suspensions: policy.suspensions.clone(),
            source_suspended: desired.suspended.source,
            clusters_suspended: desired.suspended.clusters.iter().cloned().collect(),
            sets_suspended: suspended_sets(inputs),
            rewind,
            restored,
            rollout_waits: policy.rollout_waits.clone(),
            contended: contended.map(|(key, one)| (key.clone(), one.clone())).collect(),
            ..Self::default()
        }
    }

    /// Adds the hazards that depend on all changes of a plan: its deletion budget, and the changes
    /// that a closed window holds. `candidates`: the changes.
    pub(crate) fn with_guards(
        mut self,
        inputs: PlanInputs<'_>,
        candidates: &[CandidateChange],
    ) -> Self {
        let is_suspended = |key: &WorkKey| self.suspension(key).is_some();
        self.over_budget = over_budget(inputs, candidates, is_suspended);
        self.outside_window = self.outside_window(inputs, candidates);
        let mut deletions = candidates.iter().filter(|candidate| candidate.deletes());
        let PlanInputs { desired: Desired { source, frozen, .. }, observed, .. } = inputs;
        let mut ours = observed.works.values().filter(|work| work.is_ours(source));
        let may_be_unnamed = frozen.clusters_beside_unnamed.is_some()
            && ours.any(|work| frozen.may_be_unnamed(&work.key.cluster));
        // Frozen groups whose works Git still has hold no deletion that could come later.
        let has_frozen_groups = !frozen.groups.is_empty() || frozen.groups_beside_unnamed.is_some();
        let is_uncertain = |(key, work): (&WorkKey, &ObservedWork)| {
            let path = work.path.as_deref();
            frozen.may_be_of_group(&key.cluster, path) || frozen.may_have_by_group(key, path)
        };
        let may_be_of_group = has_frozen_groups && inputs.removed_works().any(is_uncertain);
        self.deletions_held = frozen.deletes
            || may_be_unnamed
            || may_be_of_group
            || !self.over_budget.is_empty()
            || deletions.any(|one| self.forbids(one, inputs).is_some());
        self
    }

    /// Replaces the blocked works.
    pub(super) fn set_blocked(&mut self, blocked: BlockedWorks) {
        self.blocked = blocked;
    }

    /// Replaces the blocked works of one cluster.
    pub(super) fn set_blocked_of(&mut self, cluster: &ClusterName, blocked: BlockedWorks) {
        let before = WorkKey::entries_of(&self.blocked, cluster);
        let before: Vec<WorkKey> = before.map(|(key, _)| key.clone()).collect();
        before.iter().for_each(|key| drop(self.blocked.remove(key)));
        self.blocked.extend(blocked);
    }

    /// Takes the blocked works.
    pub(super) fn take_blocked(&mut self) -> BlockedWorks {
        std::mem::take(&mut self.blocked)
    }

    /// Whether both forbid the same, blocked works aside.
    pub(super) fn has_same_rules(&self, other: &Self) -> bool {
        let Self {
            other_origin,
            suspensions,
            source_suspended,
            clusters_suspended,
            sets_suspended,
            blocked: _,
            over_budget,
            rewind,
            restored,
            outside_window,
            rollout_waits,
            contended,
            deletions_held,
        } = other;
        self.other_origin == *other_origin
            && self.suspensions == *suspensions
            && self.source_suspended == *source_suspended
            && self.clusters_suspended == *clusters_suspended
            && self.sets_suspended == *sets_suspended
            && self.over_budget == *over_budget
            && self.rewind == *rewind
            && self.restored == *restored
            && self.outside_window == *outside_window
            && self.rollout_waits == *rollout_waits
            && self.contended == *contended
            && self.deletions_held == *deletions_held
    }

    /// The works whose own state forbids every write.
    pub fn blocked(&self) -> &BlockedWorks {
        &self.blocked
    }

    /// Whether any deletion of the source is held, or a part of Git could not be read.
    pub(crate) fn deletions_held(&self) -> bool {
        self.deletions_held
    }

    /// Why the work must not be written whatever its candidate is, and will not be until somebody
    /// acts: no object moves from it or to it meanwhile.
    pub(crate) fn stands_still(&self, key: &WorkKey, desired: &Desired) -> Option<Reason> {
        let blocked = || {
            let reason = self.blocked.get(key).cloned();
            reason.filter(|reason| !matches!(reason, Reason::BeingDeleted { .. }))
        };
        self.suspension(key).or_else(blocked).or_else(|| self.wave(key, desired))
    }

    /// Why a candidate must not be carried out now; `None` if nothing forbids it.
    pub fn forbids(&self, candidate: &CandidateChange, inputs: PlanInputs<'_>) -> Option<Reason> {
        let key = &candidate.key;
        if let Some(reason) = self.other_origin.clone().or_else(|| self.suspension(key)) {
            return Some(reason);
        }
        if let Some(reason) = self.blocked.get(key).or_else(|| self.over_budget.get(key)) {
            return Some(reason.clone());
        }
        let effect = candidate.effect.as_ref()?;
        let puts_back = puts_back(key, effect, inputs.observed);
        self.rewind
            .as_ref()
            .filter(|_| !puts_back)
            .or_else(|| self.restored.as_ref().filter(|_| effect.removes()))
            .or_else(|| self.outside_window.get(key))
            .cloned()
            .or_else(|| self.wave(key, inputs.desired))
            .or_else(|| self.contention(key, effect))
    }

    /// What a work waits for that has what it may have now.
    pub fn waits(&self, key: &WorkKey, desired: &Desired) -> Option<Reason> {
        let wait = self.rollout_waits.of(key).filter(|_| desired.has_earlier_content(key));
        wait.map(Reason::of_wave)
    }

    /// The wave that a work waits for. What a cluster has meanwhile may be put back.
    fn wave(&self, key: &WorkKey, desired: &Desired) -> Option<Reason> {
        let wait = self.rollout_waits.of(key).filter(|_| !desired.has_earlier_content(key));
        wait.map(Reason::of_wave)
    }

    fn suspension(&self, key: &WorkKey) -> Option<Reason> {
        if let Some(suspension) = self.suspensions.of(key) {
            return Some(Reason::SuspendedOnHub { suspension: suspension.clone() });
        }
        let in_git = self.source_suspended || self.clusters_suspended.contains(&key.cluster);
        in_git.then_some(Reason::Suspended).or_else(|| self.sets_suspended.get(key).cloned())
    }

    /// A contended work waits before the same content is written again. New content goes out.
    fn contention(&self, key: &WorkKey, effect: &Effect) -> Option<Reason> {
        let contention = self.contended.get(key)?;
        let same = effect.body().is_some_and(|body| body.digest == contention.content);
        same.then(|| Reason::BackedOff { contention: contention.clone() })
    }

    /// The changes that wait for a window: everything that is not approved, held otherwise, a
    /// put-back, or the return to an earlier content.
    fn outside_window(
        &self,
        inputs: PlanInputs<'_>,
        candidates: &[CandidateChange],
    ) -> BTreeMap<WorkKey, Reason> {
        let PlanInputs { desired, observed, policy, .. } = inputs;
        let Some(closed) = &policy.closed else { return BTreeMap::new() };
        let is_approved = |target: &Target| {
            let all = [&policy.approved, &desired.approved];
            all.iter().any(|all| all.changes.contains(target) || all.deletions.contains(target))
        };
        let (mut held, mut approved) = (Approved::new(), Vec::new());
        for candidate in candidates {
            let Some(effect) = &candidate.effect else { continue };
            if puts_back(&candidate.key, effect, observed)
                || inputs.is_returned(&candidate.key)
                || self.forbids_before_window(candidate, inputs)
            {
                continue;
            }
            let uid = version(&candidate.key, inputs);
            let target = Target { key: candidate.key.clone(), uid };
            if is_approved(&target) {
                approved.push(target);
            } else {
                held.insert(target);
            }
        }
        hold_other_sides(&mut held, approved, candidates, observed);
        if held.is_empty() {
            return BTreeMap::new();
        }
        let approval = Approval::Changes { source: desired.source.clone(), works: held };
        let hash = approval.hash();
        let Approval::Changes { works, .. } = approval else { return BTreeMap::new() };
        let reasons = works.into_iter().map(|Target { key, uid }| {
            (key, Reason::HeldByWindow { version: uid, hash, closed: closed.clone().into() })
        });
        reasons.collect()
    }

    /// Whether a hazard other than a contention forbids the candidate, before the closed window is
    /// known. A contended work waits for the window, too.
    fn forbids_before_window(&self, candidate: &CandidateChange, inputs: PlanInputs<'_>) -> bool {
        let reason = self.forbids(candidate, inputs);
        reason.is_some_and(|reason| !matches!(reason, Reason::BackedOff { .. }))
    }
}

/// The replica sets that go to clusters which Git or an operator suspends.
fn suspended_sets(inputs: PlanInputs<'_>) -> BTreeMap<WorkKey, Reason> {
    let PlanInputs { desired, policy, .. } = inputs;
    let in_git = desired.suspended.clusters.iter().map(|cluster| (cluster, Reason::Suspended));
    let on_hub = policy.suspensions.clusters.iter().map(|(cluster, suspension)| {
        (cluster, Reason::SuspendedOnHub { suspension: suspension.clone() })
    });
    let sets = in_git.chain(on_hub).flat_map(|(cluster, reason)| {
        let sets = desired.delivered.get(cluster).into_iter().flatten();
        sets.map(move |set| (set.key.clone(), reason.clone()))
    });
    sets.collect()
}

/// Holds approved changes that begin the move of an object from or to a work whose change is held:
/// neither of both works changes for that object. `candidates`: those of all works.
fn hold_other_sides(
    held: &mut Approved,
    mut approved: Vec<Target>,
    candidates: &[CandidateChange],
    observed: &Observed,
) {
    let moves = candidates.iter().filter_map(|candidate| match &candidate.reason {
        Reason::MovesObjects { moves } => Some(moves.iter()),
        _ => None,
    });
    let moves: Vec<&ObjectMove> = moves.flatten().collect();
    while !held.is_empty() && !approved.is_empty() {
        let keys: BTreeSet<&WorkKey> = held.iter().map(|target| &target.key).collect();
        let sides =
            moves.iter().flat_map(|one| [(*one, &one.from, &one.to), (*one, &one.to, &one.from)]);
        let beside_held = sides.filter(|(one, held, other)| {
            keys.contains(held) && one.begins_with_write_of(other, observed)
        });
        let waiting: BTreeSet<&WorkKey> = beside_held.map(|(_, _, other)| other).collect();
        let joined = approved.extract_if(.., |target| waiting.contains(&target.key));
        let joined: Vec<Target> = joined.collect();
        if joined.is_empty() {
            return;
        }
        held.extend(joined);
    }
}

/// Whether a write only puts back what gitwork wrote last, over another writer's edit.
pub(super) fn puts_back(key: &WorkKey, effect: &Effect, observed: &Observed) -> bool {
    let Effect::Update { body, .. } = effect else { return false };
    observed.works.get(key).is_some_and(|work| work.written == Some(body.digest))
}

/// The version in an approval of changes: the digest of the content in Git, or the uid of the work
/// to remove. An approval covers what the work has until all its objects have moved.
fn version(key: &WorkKey, inputs: PlanInputs<'_>) -> String {
    let PlanInputs { desired, observed, .. } = inputs;
    let in_git = desired.works.get(key).map(|work| work.body.digest.to_string());
    let uid = || observed.works.get(key).map(|work| work.uid.to_string());
    in_git.or_else(uid).unwrap_or_default()
}
