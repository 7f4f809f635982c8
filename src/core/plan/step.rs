//! A plan: one step for each work, by cluster. Two plans share the steps of clusters that are the
//! same in both, and the counts of a plan are sums over clusters.

use std::fmt;
use std::sync::Arc;

use crate::model::name::{ClusterName, CommitId, RepoPath, WorkKey};
use crate::plan::action::Action;
use crate::plan::effect::Effect;
use crate::plan::guard::Guard;
use crate::plan::reason::Reason;

/// One line of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanStep {
    /// The work.
    pub key: WorkKey,
    /// The work folder, if Git has or had one.
    pub path: Option<RepoPath>,
    /// The write; `None` if nothing is done now. `reason` says why.
    pub effect: Option<Effect>,
    /// Why the effect is in the plan, or why there is none.
    pub reason: Reason,
}

/// All steps, sorted by key: one for each work that Git wants, and for each work of this source
/// on the hub.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The commit that is planned for; `None` for a local directory.
    pub commit: Option<CommitId>,
    /// Sorted by key; no two steps of one work.
    pub steps: PlanSteps,
}

impl Plan {
    /// The steps that write something, with their effects.
    pub fn effects(&self) -> impl Iterator<Item = (&PlanStep, &Effect)> {
        let steps = self.steps.of_clusters_with_effects();
        steps.filter_map(|step| Some((step, step.effect.as_ref()?)))
    }

    /// Whether nothing is done now. Works may still be held or wait: see [`Self::is_settled`].
    pub fn is_empty(&self) -> bool {
        self.effects().next().is_none()
    }

    /// Whether the hub has exactly what Git wants, as far as Git could be read.
    pub fn is_settled(&self) -> bool {
        self.steps.clusters().all(|cluster| cluster.is_settled())
    }

    /// The number of works that a guard holds.
    pub fn held_by(&self, guard: Guard) -> usize {
        self.steps.held_by(guard)
    }
}

impl PlanStep {
    /// What the step does, in one word.
    pub fn action(&self) -> Action {
        Action::of(self.effect.as_ref(), &self.reason)
    }

    /// Whether the hub has the work as Git wants it.
    pub fn is_settled(&self) -> bool {
        self.effect.is_none() && self.reason == Reason::UpToDate
    }
}

impl fmt::Display for PlanStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.key, self.action(), self.reason)?;
        match &self.path {
            Some(path) => write!(f, " ({path})"),
            None => Ok(()),
        }
    }
}

/// All steps of a plan, in the order in which they were given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanSteps {
    clusters: Vec<Arc<ClusterSteps>>,
}

/// Steps in a row of one cluster; at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterSteps {
    /// No vector: one that is collected in place keeps the memory of the larger candidates.
    steps: Box<[PlanStep]>,
    counts: StepCounts,
    /// By key, and no two steps are of one work.
    is_sorted: bool,
}

/// How many steps there are of a kind.
#[derive(Debug, Clone, Default, PartialEq)]
struct StepCounts {
    effects: usize,
    settled: usize,
    actions: [usize; Action::ALL.len()],
    guards: [usize; Guard::ALL.len()],
}

impl ClusterSteps {
    /// The steps of one cluster.
    pub(crate) fn new(steps: Vec<PlanStep>) -> Self {
        let mut counts = StepCounts::default();
        for step in &steps {
            counts.effects += usize::from(step.effect.is_some());
            counts.settled += usize::from(step.is_settled());
            counts.actions[step.action() as usize] += 1;
            if let Some(guard) = step.reason.guard() {
                counts.guards[guard as usize] += 1;
            }
        }
        let is_sorted = steps.is_sorted_by(|one, other| one.key < other.key);
        Self { steps: steps.into(), counts, is_sorted }
    }

    /// The cluster.
    pub fn name(&self) -> Option<&ClusterName> {
        self.steps.first().map(|step| &step.key.cluster)
    }

    /// The steps.
    pub fn iter(&self) -> impl Iterator<Item = &PlanStep> {
        self.steps.iter()
    }

    /// Steps that do not come after the one before them.
    pub(crate) fn unsorted(&self) -> impl Iterator<Item = &PlanStep> {
        let pairs = self.steps.iter().zip(self.steps.iter().skip(1));
        let pairs = pairs.take_while(|_| !self.is_sorted);
        pairs.filter(|(first, second)| first.key >= second.key).map(|(_, second)| second)
    }

    /// The step of a work.
    pub fn get(&self, key: &WorkKey) -> Option<&PlanStep> {
        self.steps.get(self.steps.binary_search_by(|step| step.key.cmp(key)).ok()?)
    }

    /// Whether the hub has each work as Git wants it.
    pub fn is_settled(&self) -> bool {
        self.counts.settled == self.steps.len()
    }

    /// Whether a step writes something.
    pub fn has_effects(&self) -> bool {
        self.counts.effects > 0
    }

    /// How many works a guard holds.
    pub fn held_by(&self, guard: Guard) -> usize {
        self.counts.guards[guard as usize]
    }

    fn is_held(&self) -> bool {
        self.counts.guards.iter().any(|works| *works > 0)
    }
}

impl PlanSteps {
    /// The steps of these clusters, sorted by name.
    pub(crate) fn of_clusters(clusters: Vec<Arc<ClusterSteps>>) -> Self {
        Self { clusters }
    }

    /// The clusters, in their order.
    pub fn clusters(&self) -> impl Iterator<Item = &Arc<ClusterSteps>> {
        self.clusters.iter()
    }

    /// The steps of a cluster. The clusters of a plan are sorted.
    pub fn of_cluster(&self, name: &ClusterName) -> Option<&Arc<ClusterSteps>> {
        let at = self.clusters.binary_search_by(|steps| steps.name().cmp(&Some(name))).ok()?;
        self.clusters.get(at)
    }

    /// The step of a work.
    pub fn get(&self, key: &WorkKey) -> Option<&PlanStep> {
        self.of_cluster(&key.cluster)?.get(key)
    }

    /// All steps.
    pub fn iter(&self) -> impl Iterator<Item = &PlanStep> + Clone {
        self.clusters.iter().flat_map(|cluster| &cluster.steps)
    }

    /// The first step.
    pub fn first(&self) -> Option<&PlanStep> {
        self.iter().next()
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.clusters.iter().map(|cluster| cluster.steps.len()).sum()
    }

    /// Whether there is no step.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// The steps of clusters where a step writes something.
    pub fn of_clusters_with_effects(&self) -> impl Iterator<Item = &PlanStep> {
        let found = self.clusters.iter().filter(|cluster| cluster.has_effects());
        found.flat_map(|cluster| &cluster.steps)
    }

    /// The steps of clusters where a guard holds a work.
    pub fn of_held_clusters(&self) -> impl Iterator<Item = &PlanStep> {
        let found = self.clusters.iter().filter(|cluster| cluster.is_held());
        found.flat_map(|cluster| &cluster.steps)
    }

    /// The steps of clusters where the hub has not each work as Git wants it.
    pub fn of_unsettled_clusters(&self) -> impl Iterator<Item = &PlanStep> {
        let found = self.clusters.iter().filter(|cluster| !cluster.is_settled());
        found.flat_map(|cluster| &cluster.steps)
    }

    /// How many steps have an action.
    pub fn count(&self, action: Action) -> usize {
        self.clusters.iter().map(|cluster| cluster.counts.actions[action as usize]).sum()
    }

    /// How many works a guard holds.
    pub fn held_by(&self, guard: Guard) -> usize {
        self.clusters.iter().map(|cluster| cluster.held_by(guard)).sum()
    }

    /// Keeps the steps that match.
    pub fn retain(&mut self, matches: impl FnMut(&&PlanStep) -> bool) {
        *self = self.iter().filter(matches).cloned().collect();
    }
}

impl From<Vec<PlanStep>> for PlanSteps {
    fn from(steps: Vec<PlanStep>) -> Self {
        steps.into_iter().collect()
    }
}

impl FromIterator<PlanStep> for PlanSteps {
    fn from_iter<T: IntoIterator<Item = PlanStep>>(steps: T) -> Self {
        let mut clusters: Vec<Arc<ClusterSteps>> = Vec::new();
        let mut row: Vec<PlanStep> = Vec::new();
        for step in steps {
            if row.first().is_some_and(|first| first.key.cluster != step.key.cluster) {
                clusters.push(Arc::new(ClusterSteps::new(std::mem::take(&mut row))));
            }
            row.push(step);
        }
        if !row.is_empty() {
            clusters.push(Arc::new(ClusterSteps::new(row)));
        }
        Self { clusters }
    }
}

impl<'a> IntoIterator for &'a PlanSteps {
    type Item = &'a PlanStep;
    type IntoIter = Box<dyn Iterator<Item = Self::Item> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}
