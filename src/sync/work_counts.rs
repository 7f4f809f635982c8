//! What all works of a source on the hub add up to, updated with each change of one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use gitwork_core::model::name::{ClusterName, CommitId, SourceId, WorkKey};
use gitwork_core::plan::observed::{Observed, ObservedWork};

/// What counts of one work: its cluster, and the commit that it names. `None`: the work does not
/// exist, or is not the source's.
type Counted = Option<(ClusterName, Option<CommitId>)>;

/// Counts over the works of one source. They equal those over [`Observed`] at any time.
#[derive(Debug, Default)]
pub(super) struct WorkCounts {
    /// The works of each cluster that has any.
    clusters: BTreeMap<ClusterName, usize>,
    /// For each commit that works name, how many works of each cluster name it.
    commits: BTreeMap<CommitId, BTreeMap<ClusterName, usize>>,
    /// See [`Self::commits_on_works`]. It is made again when another commit counts.
    on_works: OnceLock<Arc<BTreeSet<CommitId>>>,
}

impl WorkCounts {
    /// The counts of all works.
    pub(super) fn of(source: &SourceId, observed: &Observed) -> Self {
        let mut counts = Self::default();
        for cluster in observed.works.clusters() {
            let works = observed.works.of_cluster(cluster).map(|(_, work)| work);
            let ours = works.filter(|work| work.is_ours(source));
            let mut named: BTreeMap<Option<CommitId>, usize> = BTreeMap::new();
            ours.for_each(|work| *named.entry(work.commit).or_default() += 1);
            let works = named.values().sum();
            if works > 0 {
                counts.clusters.insert(cluster.clone(), works);
            }
            for (commit, works) in named {
                let Some(commit) = commit else { continue };
                counts.commits.entry(commit).or_default().insert(cluster.clone(), works);
            }
        }
        counts
    }

    /// What counts of a work.
    pub(super) fn counted(source: &SourceId, observed: &Observed, key: &WorkKey) -> Counted {
        counted(observed.works.get(key), source)
    }

    /// The number of works.
    pub(super) fn works(&self) -> usize {
        self.clusters.values().sum()
    }

    /// Whether the source has works.
    pub(super) fn has_works(&self) -> bool {
        !self.clusters.is_empty()
    }

    /// The commits that the works name: see [`gitwork_core::plan::rewind::commits_on_works`].
    pub(super) fn commits_on_works(&self) -> &Arc<BTreeSet<CommitId>> {
        self.on_works.get_or_init(|| {
            let clusters_min = self.clusters.len().min(2);
            let counting = self.commits.iter().filter(|(_, named)| named.len() >= clusters_min);
            Arc::new(counting.map(|(commit, _)| *commit).collect())
        })
    }

    /// Counts a work that has changed.
    pub(super) fn replace(&mut self, before: Counted, now: Counted) {
        if before == now {
            return;
        }
        let clusters = self.clusters.len();
        let mut is_other = false;
        // Add first, so that a commit that stays does not seem to be another.
        if let Some((cluster, commit)) = now {
            *self.clusters.entry(cluster.clone()).or_default() += 1;
            if let Some(commit) = commit {
                let named = self.commits.entry(commit).or_default();
                let works = named.entry(cluster).or_default();
                *works += 1;
                is_other |= *works == 1 && named.len() <= 2;
            }
        }
        if let Some((cluster, commit)) = before {
            remove(&mut self.clusters, &cluster);
            if let Some(commit) = commit
                && let Some(named) = self.commits.get_mut(&commit)
            {
                is_other |= remove(named, &cluster) && named.len() < 2;
                if named.is_empty() {
                    self.commits.remove(&commit);
                }
            }
        }
        // With works on two clusters, a commit needs two clusters that name it.
        if is_other || clusters.min(2) != self.clusters.len().min(2) {
            self.on_works.take();
        }
    }
}

/// Counts one work less. Gives whether it was the last one of its cluster.
fn remove(counts: &mut BTreeMap<ClusterName, usize>, cluster: &ClusterName) -> bool {
    let Some(count) = counts.get_mut(cluster) else { return false };
    *count -= 1;
    let is_last = *count == 0;
    if is_last {
        counts.remove(cluster);
    }
    is_last
}

fn counted(work: Option<&ObservedWork>, source: &SourceId) -> Counted {
    let work = work.filter(|work| work.is_ours(source))?;
    Some((work.key.cluster.clone(), work.commit))
}
