//! The works of which something must be read before a plan, found by cluster.

use std::collections::BTreeMap;

use gitwork_core::model::cluster_revisions::DueClusters;
use gitwork_core::model::name::{ClusterName, RepoPath, WorkKey};
use gitwork_core::plan::cluster_inputs::ClusterInputs;
use gitwork_core::plan::incremental::InputRevisions;
use gitwork_core::plan::moves::MovingWorks;
use gitwork_core::plan::observed::Observed;
use gitwork_core::plan::removed_candidates;
use gitwork_core::render::desired::Desired;

/// In debug builds, the works of a source with at most so many are compared with those that are
/// found from nothing.
const CHECKED_WORKS_MAX: usize = 500;

/// The works of which something must be read, as of the newest update.
#[derive(Debug, Clone, Default)]
pub(super) struct WorksToRead {
    /// The numbers of the last changes in Git and on the hub.
    seen: (u64, u64),
    /// Those that changed and are not looked at yet.
    due: DueClusters,
    /// Works that Git no longer has: their history is needed.
    removed: BTreeMap<ClusterName, Vec<(WorkKey, RepoPath)>>,
    /// Works that take part in moves: the content of some is needed.
    moving: BTreeMap<ClusterName, MovingWorks>,
}

impl WorksToRead {
    /// Finds them again in clusters that have changed.
    pub(super) fn update(
        &mut self,
        desired: &Desired,
        observed: &Observed,
        revisions: InputRevisions<'_>,
    ) {
        self.advance(desired, observed, revisions, usize::MAX);
        debug_assert!(self.is_right(desired, observed), "the works are those from nothing");
    }

    /// Finds them in clusters with some `works_max` works. Gives whether none is left, without what
    /// changed since the first part.
    pub(super) fn advance(
        &mut self,
        desired: &Desired,
        observed: &Observed,
        revisions: InputRevisions<'_>,
        works_max: usize,
    ) -> bool {
        if self.due.is_empty() || works_max == usize::MAX {
            let changed = revisions.desired.since(self.seen.0);
            let changed = changed.and(revisions.observed.since(self.seen.1));
            self.seen = (revisions.desired.last(), revisions.observed.last());
            let clusters = desired.works.clusters().chain(observed.works.clusters());
            let known = self.removed.keys().chain(self.moving.keys());
            self.due.add(changed, clusters.chain(known));
        }
        // For many clusters at once, one pass over all is cheaper.
        let is_for_all = works_max == usize::MAX && self.due.len() > 1 + desired.works.len() / 500;
        let works = |name: &ClusterName| ClusterInputs::works(desired, observed, name);
        let names = self.due.take(works_max, works);
        if is_for_all {
            self.removed.clear();
            self.moving.clear();
            self.add(desired, observed);
            return true;
        }
        for name in &names {
            self.removed.remove(name);
            self.moving.remove(name);
            let of_cluster = ClusterInputs::of(desired, observed, name);
            self.add(&of_cluster.desired, &of_cluster.observed);
        }
        self.due.is_empty()
    }

    fn add(&mut self, desired: &Desired, observed: &Observed) {
        for found in removed_candidates(desired, observed) {
            self.removed.entry(found.0.cluster.clone()).or_default().push(found);
        }
        let MovingWorks { all, unread, sets } = MovingWorks::of(desired, observed);
        for (cluster, set) in sets {
            self.moving.entry(cluster.clone()).or_default().sets.insert((cluster, set));
        }
        for key in all {
            self.moving.entry(key.cluster.clone()).or_default().all.insert(key);
        }
        for key in unread {
            self.moving.entry(key.cluster.clone()).or_default().unread.insert(key);
        }
    }

    /// Whether they are those from nothing; not checked for many works.
    fn is_right(&self, desired: &Desired, observed: &Observed) -> bool {
        desired.works.len() + observed.works.len() > CHECKED_WORKS_MAX
            || (self.removed().eq(&removed_candidates(desired, observed))
                && self.moving() == MovingWorks::of(desired, observed))
    }

    /// Works that Git no longer has, each with its folder.
    pub(super) fn removed(&self) -> impl Iterator<Item = &(WorkKey, RepoPath)> {
        self.removed.values().flatten()
    }

    /// The works that take part in moves.
    pub(super) fn moving(&self) -> MovingWorks {
        let all = self.moving.values();
        let unread = all.clone().flat_map(|works| works.unread.iter().cloned()).collect();
        let sets = all.clone().flat_map(|works| works.sets.iter().cloned()).collect();
        let all = all.flat_map(|works| works.all.iter().cloned()).collect();
        MovingWorks { all, unread, sets }
    }
}
