//! OCM's algorithm, with its defects: sizes out of range mean "all" or "none", a tolerated failure
//! keeps its place until it times out, and mandatory groups stop the others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::state::{ActiveCluster, ActiveClusters, ClusterState, Judged, Times};
use crate::config::rollout::Threshold;
use crate::model::name::ClusterName;

/// A decision group of a Placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementGroup {
    /// Its name; may be empty.
    pub name: String,
    /// Its clusters.
    pub clusters: BTreeSet<ClusterName>,
}

/// A decision group by its position or its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupKey {
    /// The position in the Placement.
    Index(usize),
    /// The name.
    Name(String),
}

impl GroupKey {
    /// Whether it is the group at a position, with a name.
    pub fn is_of(&self, index: usize, name: &str) -> bool {
        match self {
            Self::Index(wanted) => *wanted == index,
            Self::Name(wanted) => !wanted.is_empty() && wanted == name,
        }
    }
}

/// OCM's strategies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OcmStrategy {
    /// All clusters at once.
    All,
    /// So many at a time, after the mandatory groups.
    Progressive {
        /// Groups that come first.
        mandatory: Vec<GroupKey>,
        /// How many clusters at a time; `None` for all.
        max_concurrency: Option<Threshold>,
    },
    /// One group after the other, after the mandatory ones.
    ProgressivePerGroup {
        /// Groups that come first.
        mandatory: Vec<GroupKey>,
    },
}

/// A rollout as OCM has it.
#[derive(Debug, Clone, Copy)]
pub struct OcmRollout<'a> {
    /// The strategy.
    pub strategy: &'a OcmStrategy,
    /// The decision groups in their order.
    pub groups: &'a [PlacementGroup],
    /// The clusters that have the content, or had a state.
    pub states: &'a BTreeMap<ClusterName, ClusterState>,
    /// How many may fail.
    pub max_failures: Threshold,
    /// How long each cluster has to be done.
    pub soak: Duration,
    /// How long a cluster may take; `None` for no end.
    pub deadline: Option<Duration>,
    /// The time.
    pub now: Timestamp,
}

/// How far a rollout has come, as OCM sees it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OcmProgress {
    /// The clusters that get the content now, or have it and are not done.
    pub active: ActiveClusters,
    /// The clusters whose deadline has passed just now.
    pub timed_out: BTreeSet<ClusterName>,
    /// Clusters with a state that are in no group.
    pub removed: BTreeSet<ClusterName>,
    /// Too many clusters have failed.
    pub breach: bool,
    /// When something changes because of the time alone.
    pub recheck: Option<Timestamp>,
}

/// A number of clusters as OCM computes it.
fn size(of: Threshold, total: usize, default: usize) -> usize {
    let size = of.unbounded(total);
    if size == 0 || size > total { default } else { size }
}

impl OcmRollout<'_> {
    /// How far the rollout has come.
    pub fn progress(&self) -> OcmProgress {
        let all: Vec<&PlacementGroup> = self.groups.iter().collect();
        let mut progress = match self.strategy {
            OcmStrategy::All => {
                let total = clusters(&all).len();
                Self { soak: Duration::ZERO, ..*self }.per_cluster(&all, total, total)
            }
            OcmStrategy::Progressive { mandatory, max_concurrency } => {
                let failures = size(self.max_failures, clusters(&all).len(), 0);
                self.after(mandatory, |rest| {
                    let total = clusters(rest).len();
                    let size = max_concurrency.map_or(total, |most| size(most, total, total));
                    self.per_cluster(rest, size, failures)
                })
            }
            OcmStrategy::ProgressivePerGroup { mandatory } => {
                self.after(mandatory, |rest| self.per_group(rest, self.max_failures))
            }
        };
        let known = clusters(&all);
        let removed = self.states.keys().filter(|name| !known.contains(name));
        progress.removed = removed.cloned().collect();
        progress
    }

    /// First the mandatory groups; then, if nothing is active or timed out, the rest.
    fn after(
        &self,
        mandatory: &[GroupKey],
        rest: impl FnOnce(&[&PlacementGroup]) -> OcmProgress,
    ) -> OcmProgress {
        let is_mandatory = |index: usize, group: &PlacementGroup| {
            mandatory.iter().any(|key| key.is_of(index, &group.name))
        };
        let (first, others): (Vec<_>, Vec<_>) =
            self.groups.iter().enumerate().partition(|(index, group)| is_mandatory(*index, group));
        let groups = |all: Vec<(usize, _)>| all.into_iter().map(|(_, group)| group).collect();
        let (first, others): (Vec<&PlacementGroup>, Vec<&PlacementGroup>) =
            (groups(first), groups(others));
        if !first.is_empty() {
            let progress = self.per_group(&first, Threshold::Count(0));
            if !progress.active.is_empty() || !progress.timed_out.is_empty() {
                return progress;
            }
        }
        rest(&others)
    }

    fn times(&self) -> Times {
        Times { soak: self.soak, deadline: self.deadline, now: self.now }
    }

    fn per_cluster(&self, groups: &[&PlacementGroup], size: usize, most: usize) -> OcmProgress {
        let mut progress = OcmProgress::default();
        let mut failures = 0;
        for (name, state) in self.states {
            let judged = self.times().judge(Some(*state));
            if progress.breach && matches!(judged, Judged::Waiting) {
                continue;
            }
            failures += usize::from(progress.add(name, judged));
            progress.breach = failures > most;
            if progress.active.len() >= size {
                return progress;
            }
        }
        if progress.breach {
            return progress;
        }
        for name in clusters(groups) {
            if progress.active.len() >= size {
                break;
            }
            if !self.states.contains_key(name) {
                progress.active.insert(name.clone(), ActiveCluster::ToApply);
            }
        }
        progress
    }

    fn per_group(&self, groups: &[&PlacementGroup], most: Threshold) -> OcmProgress {
        let mut progress = OcmProgress::default();
        let mut failed = BTreeSet::new();
        for (name, state) in self.states {
            if *state != ClusterState::ToApply
                && progress.add(name, self.times().judge(Some(*state)))
            {
                failed.insert(name);
            }
        }
        let mut failures = 0;
        for group in groups {
            let most = size(most, group.clusters.len(), 0);
            let of_group = group.clusters.iter().filter(|name| failed.contains(name)).count();
            failures += of_group;
            progress.breach = of_group > most;
            for name in &group.clusters {
                if matches!(self.states.get(name), None | Some(ClusterState::ToApply)) {
                    progress.active.insert(name.clone(), ActiveCluster::ToApply);
                }
            }
            if progress.active.len() > failures || progress.breach {
                break;
            }
        }
        progress
    }
}

impl OcmProgress {
    /// Adds a cluster. Gives whether it has failed.
    fn add(&mut self, name: &ClusterName, judged: Judged) -> bool {
        let (active, until) = match judged {
            Judged::Waiting => (ActiveCluster::ToApply, None),
            Judged::Active(active, until) => (active, until),
            Judged::TimesOut => return self.timed_out.insert(name.clone()),
            Judged::TimedOut => return true,
            Judged::Free => return false,
        };
        self.active.insert(name.clone(), active);
        let times = [self.recheck, until].into_iter().flatten();
        self.recheck = times.min();
        active == ActiveCluster::Failed
    }
}

fn clusters<'a>(groups: &[&'a PlacementGroup]) -> BTreeSet<&'a ClusterName> {
    groups.iter().flat_map(|group| &group.clusters).collect()
}
