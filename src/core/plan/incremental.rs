//! The plan of a source, made again for those clusters only whose inputs have changed, and in parts
//! if these are many. It equals [`plan`], which is its definition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::AdoptionPolicy;
use crate::model::cluster_revisions::{ChangedClusters, ClusterRevisions, DueClusters};
use crate::model::name::{ClusterName, WorkKey};
use crate::plan::blocked::blocked;
use crate::plan::candidates::CandidateChange;
use crate::plan::cluster_inputs::ClusterInputs;
use crate::plan::directives::Suspensions;
use crate::plan::hazards::Hazards;
use crate::plan::inputs::PlanInputs;
use crate::plan::last_known::LastKnownStates;
use crate::plan::order::{Order, Waits};
use crate::plan::planner;
use crate::plan::planner::{plan, step};
use crate::plan::reason::Reason;
use crate::plan::removed_set::RemovedSet;
use crate::plan::rollouts::RolloutWaits;
use crate::plan::step::{ClusterSteps, Plan, PlanStep, PlanSteps};

/// In debug builds, the plan of a source with at most so many works is compared with the one that
/// is made from nothing.
const CHECKED_WORKS_MAX: usize = 500;

/// The last plan of a source by cluster, and what it follows from.
#[derive(Debug, Default)]
pub struct IncrementalPlan {
    basis: Option<Basis>,
    /// Those whose candidates follow from an older state.
    due: DueClusters,
    clusters: BTreeMap<ClusterName, PlannedCluster>,
    /// Those of the last plan.
    hazards: Hazards,
    /// Those of the last plan.
    waits: Waits,
}

/// When the works of each cluster changed, in Git and on the hub.
#[derive(Debug, Clone, Copy)]
pub struct InputRevisions<'a> {
    /// The works in Git; all clusters after a change of anything that is not about one cluster.
    pub desired: &'a ClusterRevisions,
    /// The works on the hub.
    pub observed: &'a ClusterRevisions,
}

/// The inputs of the last candidates.
#[derive(Debug)]
struct Basis {
    /// The numbers of the last changes.
    desired: u64,
    observed: u64,
    last_known: LastKnownStates,
    adoption: AdoptionPolicy,
    suspensions: Suspensions,
    rollout_waits: RolloutWaits,
    removed_sets: BTreeMap<WorkKey, RemovedSet>,
}

/// The plan of one cluster.
#[derive(Debug)]
struct PlannedCluster {
    /// The candidates; `None` if the hub has each work as Git wants it, so that the steps have all
    /// that they say.
    candidates: Option<Vec<CandidateChange>>,
    /// Whether a candidate deletes its work, or may later.
    has_deletions: bool,
    /// Whether the steps are still those of older candidates.
    is_new: bool,
    steps: Arc<ClusterSteps>,
}

/// Candidates of clusters; none for a cluster without works.
type NewCandidates = BTreeMap<ClusterName, Vec<CandidateChange>>;

impl IncrementalPlan {
    /// The plan of these inputs. `revisions`: those of the works in `inputs`.
    pub fn plan(&mut self, inputs: PlanInputs<'_>, revisions: InputRevisions<'_>) -> Arc<Plan> {
        self.find_changes(inputs, revisions);
        self.find_candidates(inputs, usize::MAX);
        self.make_steps(inputs, usize::MAX);
        let steps = self.clusters.values().map(|cluster| Arc::clone(&cluster.steps));
        let steps = PlanSteps::of_clusters(steps.collect());
        let made = Plan { commit: inputs.desired.commit, steps };
        debug_assert!(is_right(&made, inputs), "the plan is the one from nothing");
        Arc::new(made)
    }

    /// Plans some `works_max` works that the next [`Self::plan`] would have to plan. Gives whether
    /// it has few left. What changes meanwhile is left to it: one cluster that always changes must
    /// not keep others from being planned.
    pub fn advance(
        &mut self,
        inputs: PlanInputs<'_>,
        revisions: InputRevisions<'_>,
        works_max: usize,
    ) -> bool {
        if self.due.is_empty() && self.new_works() <= works_max {
            self.find_changes(inputs, revisions);
        }
        self.find_candidates(inputs, works_max);
        self.due.is_empty() && (self.new_works() <= works_max || self.make_steps(inputs, works_max))
    }

    /// The works whose steps are those of older candidates.
    fn new_works(&self) -> usize {
        let new = self.clusters.values().filter(|cluster| cluster.is_new);
        new.flat_map(|cluster| &cluster.candidates).map(Vec::len).sum()
    }

    /// Finds the clusters that have changed.
    fn find_changes(&mut self, inputs: PlanInputs<'_>, revisions: InputRevisions<'_>) {
        let changed = match &self.basis {
            Some(basis) => basis.changed(inputs, revisions),
            None => ChangedClusters::All,
        };
        let clusters = inputs.desired.works.clusters().chain(inputs.observed.works.clusters());
        self.due.add(changed, clusters.chain(self.clusters.keys()));
        self.basis = Some(Basis::of(inputs, revisions));
    }

    /// Finds the candidates of due clusters, with some `works_max` works in all.
    fn find_candidates(&mut self, inputs: PlanInputs<'_>, works_max: usize) {
        if !self.due.is_empty() {
            // No basis while it is updated: if that fails, the next plan begins from nothing.
            let basis = self.basis.take();
            self.set_due_candidates(inputs, works_max);
            self.basis = basis;
        }
    }

    /// Makes the steps of clusters with some `works_max` works. Gives whether none is left.
    fn make_steps(&mut self, inputs: PlanInputs<'_>, works_max: usize) -> bool {
        let guarded = self.guarded_candidates(inputs);
        let hazards = self.hazards_of(inputs).with_guards(inputs, &guarded);
        let waits = self.find_waits(inputs, &hazards);
        self.set_steps(inputs, (hazards, waits), works_max)
    }

    /// Finds the candidates of clusters with some `works_max` works.
    fn set_due_candidates(&mut self, inputs: PlanInputs<'_>, works_max: usize) {
        let mut hazards = self.hazards_of(inputs);
        // For many clusters at once, one pass over all is cheaper.
        let is_for_all = works_max == usize::MAX && self.due.len() * 4 > self.clusters.len();
        let works =
            |name: &ClusterName| ClusterInputs::works(inputs.desired, inputs.observed, name);
        let names = self.due.take(works_max, works);
        let candidates = match is_for_all {
            true => self.all_candidates(inputs, &mut hazards),
            false => candidates_of(&names, inputs, &mut hazards),
        };
        self.hazards.set_blocked(hazards.take_blocked());
        self.set_candidates(candidates);
    }

    /// The hazards of the policy, and of the candidates so far.
    fn hazards_of(&mut self, inputs: PlanInputs<'_>) -> Hazards {
        let mut hazards = Hazards::of_policy(inputs);
        hazards.set_blocked(self.hazards.take_blocked());
        hazards
    }

    /// The candidates of every cluster that has or had works.
    fn all_candidates(&self, inputs: PlanInputs<'_>, hazards: &mut Hazards) -> NewCandidates {
        hazards.set_blocked(blocked(inputs));
        let mut all: NewCandidates =
            self.clusters.keys().map(|name| (name.clone(), Vec::new())).collect();
        for candidate in planner::candidates_of(inputs, hazards) {
            match all.get_mut(&candidate.key.cluster) {
                Some(of_cluster) => of_cluster.push(candidate),
                None => drop(all.insert(candidate.key.cluster.clone(), vec![candidate])),
            }
        }
        all
    }

    fn set_candidates(&mut self, all: NewCandidates) {
        for (name, candidates) in all {
            if candidates.is_empty() {
                self.clusters.remove(&name);
                continue;
            }
            let before = self.clusters.remove(&name).map(|cluster| cluster.steps);
            let cluster = PlannedCluster {
                has_deletions: candidates.iter().any(|one| one.is_deletion || one.deletes()),
                candidates: Some(candidates),
                is_new: true,
                steps: before.unwrap_or_else(|| Arc::new(ClusterSteps::new(Vec::new()))),
            };
            self.clusters.insert(name, cluster);
        }
    }

    /// The candidates that guards over the whole source look at: those of clusters with a deletion,
    /// and while no window is open those of clusters with any change.
    fn guarded_candidates(&self, inputs: PlanInputs<'_>) -> Vec<CandidateChange> {
        let is_closed = inputs.policy.closed.is_some();
        let clusters = self.clusters.values();
        let guarded = clusters.filter(|cluster| is_closed || cluster.has_deletions);
        guarded.flat_map(|cluster| cluster.candidates.iter().flatten()).cloned().collect()
    }

    /// The works that wait for others.
    fn find_waits(&self, inputs: PlanInputs<'_>, hazards: &Hazards) -> Waits {
        let change = |key: &WorkKey| {
            let candidates = self.clusters.get(&key.cluster)?.candidates.as_ref()?;
            let at = candidates.binary_search_by(|candidate| candidate.key.cmp(key)).ok()?;
            candidates.get(at)
        };
        let all = self.clusters.values().flat_map(|cluster| cluster.candidates.iter().flatten());
        Order { inputs, hazards, change: &change }.waits(all)
    }

    /// Makes the steps of new candidates and of those that begin or end to wait; of all, if other
    /// hazards than before forbid them. It makes those of clusters with some `works_max` works, and
    /// gives whether none is left.
    fn set_steps(
        &mut self,
        inputs: PlanInputs<'_>,
        (hazards, waits): (Hazards, Waits),
        works_max: usize,
    ) -> bool {
        let is_other = !self.hazards.has_same_rules(&hazards);
        let before = std::mem::take(&mut self.waits);
        let waiting = differing_keys(&before, &waits).map(|key| &key.cluster);
        let waiting: BTreeSet<&ClusterName> = waiting.collect();
        let (mut count, mut is_done) = (0, true);
        for (name, cluster) in &mut self.clusters {
            cluster.is_new |= is_other || waiting.contains(name);
            if cluster.is_new && count < works_max {
                cluster.set_steps((inputs, &hazards, &waits));
                count += cluster.steps.iter().count();
            }
            is_done &= !cluster.is_new;
        }
        (self.hazards, self.waits) = (hazards, waits);
        is_done
    }
}

impl PlannedCluster {
    fn set_steps(&mut self, rest: (PlanInputs<'_>, &Hazards, &Waits)) {
        let candidates = self.candidates.clone().unwrap_or_else(|| settled(&self.steps));
        let is_settled =
            |one: &CandidateChange| one.effect.is_none() && one.reason == Reason::UpToDate;
        if candidates.iter().all(is_settled) {
            self.candidates = None;
        }
        let steps = candidates.into_iter().map(|candidate| step(candidate, rest));
        let steps = ClusterSteps::new(steps.collect());
        // What is equal stays shared, so that nothing else is computed from it again.
        if *self.steps != steps {
            self.steps = Arc::new(steps);
        }
        self.is_new = false;
    }
}

/// The keys that only one of both has, or has otherwise than the other one. Those that both have
/// are given twice.
fn differing_keys<'a, K: Ord, V: PartialEq>(
    before: &'a BTreeMap<K, V>,
    now: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    type All<'a, K, V> = &'a BTreeMap<K, V>;
    let differing = |one: All<'a, K, V>, other: All<'a, K, V>| {
        let differing = one.iter().filter(|(key, value)| other.get(*key) != Some(*value));
        differing.map(|(key, _)| key)
    };
    differing(before, now).chain(differing(now, before))
}

/// The candidates of a cluster where the hub has each work as Git wants it.
fn settled(steps: &ClusterSteps) -> Vec<CandidateChange> {
    let candidate = |step: &PlanStep| CandidateChange {
        key: step.key.clone(),
        path: step.path.clone(),
        effect: None,
        reason: Reason::UpToDate,
        is_deletion: false,
        receives_objects: false,
        has_dependencies: false,
    };
    steps.iter().map(candidate).collect()
}

/// The candidates of these clusters.
fn candidates_of(
    names: &BTreeSet<ClusterName>,
    inputs: PlanInputs<'_>,
    hazards: &mut Hazards,
) -> NewCandidates {
    let mut all = NewCandidates::new();
    for name in names {
        let cluster = ClusterInputs::of(inputs.desired, inputs.observed, name);
        let of_cluster = cluster.inputs(inputs);
        hazards.set_blocked_of(name, blocked(of_cluster));
        all.insert(name.clone(), planner::candidates_of(of_cluster, hazards));
    }
    all
}

impl Basis {
    fn of(inputs: PlanInputs<'_>, revisions: InputRevisions<'_>) -> Self {
        Self {
            desired: revisions.desired.last(),
            observed: revisions.observed.last(),
            last_known: inputs.last_known.clone(),
            adoption: inputs.policy.adoption,
            suspensions: inputs.policy.suspensions.clone(),
            rollout_waits: inputs.policy.rollout_waits.clone(),
            removed_sets: inputs.policy.removed_sets.clone(),
        }
    }

    /// The clusters whose candidates may differ now.
    fn changed(&self, inputs: PlanInputs<'_>, revisions: InputRevisions<'_>) -> ChangedClusters {
        let PlanInputs { last_known, policy, .. } = inputs;
        if self.adoption != policy.adoption || self.suspensions != policy.suspensions {
            return ChangedClusters::All;
        }
        let removed = self.last_known.differing_clusters(last_known);
        let changed = revisions.desired.since(self.desired);
        let waiting: BTreeSet<ClusterName> = match self.rollout_waits == policy.rollout_waits {
            true => BTreeSet::new(),
            false => {
                let (before, now) =
                    (self.rollout_waits.clusters(), policy.rollout_waits.clusters());
                differing_keys(before, now).cloned().collect()
            }
        };
        let given = differing_keys(&self.removed_sets, &policy.removed_sets);
        let waiting = waiting.into_iter().chain(given.map(|key| key.cluster.clone())).collect();
        let changed = changed.and(revisions.observed.since(self.observed));
        changed.and(ChangedClusters::Some(removed)).and(ChangedClusters::Some(waiting))
    }
}

/// Whether the plan is the one from nothing; not checked for many works.
fn is_right(made: &Plan, inputs: PlanInputs<'_>) -> bool {
    let PlanInputs { desired, observed, last_known, policy } = inputs;
    desired.works.len() + observed.works.len() > CHECKED_WORKS_MAX
        || *made == plan(desired, observed, last_known, policy)
}
