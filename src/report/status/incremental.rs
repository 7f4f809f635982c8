//! The status of a source, computed again for those clusters only whose inputs have changed, and in
//! parts if these are many. It equals [`SourceStatus::of`], which is its definition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::source::{SourceStatus, works_of};
use super::source_work::{FailedWrite, StatusInputs};
use super::work_states::{ClusterStates, WorkStates};
use gitwork_core::model::cluster_revisions::{ChangedClusters, ClusterRevisions, DueClusters};
use gitwork_core::model::name::{ClusterName, WorkKey};
use gitwork_core::plan::Plan;
use gitwork_core::plan::drift_backoff::Contentions;
use gitwork_core::render::desired::Desired;

/// In debug builds, the status of a source with at most so many works is compared with the one that
/// is computed from nothing.
const CHECKED_WORKS_MAX: usize = 500;

/// The last status of a source, and what it follows from.
#[derive(Debug, Default)]
pub struct IncrementalStatus {
    works: WorkStates,
    basis: Option<Basis>,
    /// Those whose states follow from older inputs.
    due: DueClusters,
}

/// The inputs of a status, as far as they decide about the states of works.
#[derive(Debug)]
struct Basis {
    desired: Arc<Desired>,
    plan: Arc<Plan>,
    contentions: Contentions,
    failed_writes: BTreeMap<WorkKey, FailedWrite>,
    /// The number of the last change of the observed works.
    observed: u64,
}

/// Inputs of a status that are compared with those of the last one.
#[derive(Debug, Clone, Copy)]
pub struct SharedInputs<'a> {
    /// The state in Git.
    pub desired: &'a Arc<Desired>,
    /// The plan.
    pub plan: &'a Arc<Plan>,
    /// When the observed works of each cluster changed.
    pub observed: &'a ClusterRevisions,
}

impl IncrementalStatus {
    /// The status of these inputs; the last one is the one before it. `shared` are those of
    /// `inputs`.
    pub fn update(&mut self, inputs: &StatusInputs<'_>, shared: SharedInputs<'_>) -> SourceStatus {
        let before = self.works.clone();
        self.advance(inputs, shared, usize::MAX);
        let works = self.works.clone();
        debug_assert!(
            works.len() > CHECKED_WORKS_MAX
                || (works.has_right_counts() && works == works_of(inputs, Some(&before))),
            "the status is the one from nothing"
        );
        SourceStatus::with_works(inputs, works)
    }

    /// Computes the states of some `works_max` works, which the next [`Self::update`] would have to
    /// compute. Gives whether none is left, without what changed since the first part.
    pub fn advance(
        &mut self,
        inputs: &StatusInputs<'_>,
        shared: SharedInputs<'_>,
        works_max: usize,
    ) -> bool {
        if self.due.is_empty() || works_max == usize::MAX {
            self.find_changes(inputs, shared);
        }
        let count = |name: &ClusterName| {
            inputs.plan.steps.of_cluster(name).map_or(0, |steps| steps.iter().count())
        };
        for name in &self.due.take(works_max, count) {
            let states = cluster_states(inputs, name, self.works.of_cluster(name));
            self.works.set_cluster(name, states);
        }
        self.due.is_empty()
    }

    /// Finds the clusters that have changed.
    fn find_changes(&mut self, inputs: &StatusInputs<'_>, shared: SharedInputs<'_>) {
        let changed = match &self.basis {
            Some(basis) => basis.changed(inputs, shared),
            None => ChangedClusters::All,
        };
        let all = match changed {
            ChangedClusters::All => self.all_clusters(inputs),
            ChangedClusters::Some(_) => BTreeSet::new(),
        };
        self.due.add(changed, &all);
        self.basis = Some(Basis {
            desired: Arc::clone(shared.desired),
            plan: Arc::clone(shared.plan),
            contentions: inputs.contentions.clone(),
            failed_writes: inputs.failed_writes.clone(),
            observed: shared.observed.last(),
        });
    }

    /// The clusters that have works now or had some before.
    fn all_clusters(&self, inputs: &StatusInputs<'_>) -> BTreeSet<ClusterName> {
        let of_steps = inputs.plan.steps.clusters().filter_map(|steps| steps.name());
        let frozen = inputs.desired.frozen.works.iter().map(|key| &key.cluster);
        let before = self.works.clusters().map(|(name, _)| name);
        of_steps.chain(frozen).chain(before).cloned().collect()
    }
}

impl Basis {
    /// The clusters with a work whose state may differ now.
    fn changed(&self, inputs: &StatusInputs<'_>, shared: SharedInputs<'_>) -> ChangedClusters {
        if !self.has_same_errors(shared.desired) {
            return ChangedClusters::All;
        }
        let mut clusters = BTreeSet::new();
        if !Arc::ptr_eq(&self.plan, shared.plan) {
            add_clusters_of_other_steps(&self.plan, shared.plan, &mut clusters);
        }
        add_differing(&self.contentions, inputs.contentions, &mut clusters);
        add_differing(&self.failed_writes, inputs.failed_writes, &mut clusters);
        shared.observed.since(self.observed).and(ChangedClusters::Some(clusters))
    }

    /// Whether Git has the same errors and frozen works: states follow from the rest of Git only by
    /// the plan.
    fn has_same_errors(&self, desired: &Arc<Desired>) -> bool {
        let before = &self.desired;
        Arc::ptr_eq(before, desired)
            || (before.source == desired.source
                && before.frozen == desired.frozen
                && before.diagnostics == desired.diagnostics)
    }
}

/// Adds the clusters whose steps are not shared.
fn add_clusters_of_other_steps(before: &Plan, now: &Plan, clusters: &mut BTreeSet<ClusterName>) {
    let add_missing = |one: &Plan, other: &Plan, clusters: &mut BTreeSet<ClusterName>| {
        for steps in one.steps.clusters() {
            let Some(name) = steps.name() else { continue };
            if !other.steps.of_cluster(name).is_some_and(|other| Arc::ptr_eq(other, steps)) {
                clusters.insert(name.clone());
            }
        }
    };
    add_missing(before, now, clusters);
    add_missing(now, before, clusters);
}

/// Adds the clusters of the works that differ.
fn add_differing<T: PartialEq>(
    before: &BTreeMap<WorkKey, T>,
    now: &BTreeMap<WorkKey, T>,
    clusters: &mut BTreeSet<ClusterName>,
) {
    let differs = |one: &BTreeMap<WorkKey, T>, other: &BTreeMap<WorkKey, T>| {
        let keys = one.iter().filter(|(key, value)| other.get(*key) != Some(*value));
        keys.map(|(key, _)| key.cluster.clone()).collect::<Vec<_>>()
    };
    clusters.extend(differs(before, now));
    clusters.extend(differs(now, before));
}

/// The states of the works of one cluster.
fn cluster_states(
    inputs: &StatusInputs<'_>,
    name: &ClusterName,
    before: Option<&ClusterStates>,
) -> ClusterStates {
    let earlier = |key: &WorkKey| before.and_then(|before| before.get(key));
    let steps = inputs.plan.steps.of_cluster(name);
    let of_steps = steps.into_iter().flat_map(|steps| steps.iter()).map(|step| {
        let state = inputs.of_step(step, earlier(&step.key));
        (step.key.clone(), state)
    });
    let has_step = |key: &WorkKey| steps.is_some_and(|steps| steps.get(key).is_some());
    let frozen = inputs.desired.frozen.works.range(WorkKey::least_of(name)..);
    let frozen = frozen.take_while(|key| key.cluster == *name).filter(|key| !has_step(key));
    let frozen = frozen.map(|key| (key.clone(), inputs.frozen(key, earlier(key))));
    ClusterStates::new(of_steps.chain(frozen), before)
}
