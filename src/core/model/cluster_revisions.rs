//! When something of a cluster changed last, so that what follows from it is computed again for
//! this cluster only.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::name::ClusterName;

/// The last change of each cluster, by the number of the change. A reader keeps the number that it
/// has seen.
#[derive(Debug, Clone)]
pub struct ClusterRevisions {
    /// The number of changes so far.
    last: u64,
    /// The last change that may be about any cluster.
    of_all: u64,
    of_clusters: BTreeMap<ClusterName, u64>,
}

/// The clusters that something has changed of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangedClusters {
    /// Any may have changed.
    All,
    /// These at most.
    Some(BTreeSet<ClusterName>),
}

impl Default for ClusterRevisions {
    /// A reader that has seen nothing has to read all clusters.
    fn default() -> Self {
        Self { last: 1, of_all: 1, of_clusters: BTreeMap::new() }
    }
}

impl ClusterRevisions {
    /// Marks a change of one cluster.
    pub fn mark(&mut self, cluster: &ClusterName) {
        self.last += 1;
        match self.of_clusters.get_mut(cluster) {
            Some(at) => *at = self.last,
            None => drop(self.of_clusters.insert(cluster.clone(), self.last)),
        }
    }

    /// Marks a change of any cluster.
    pub fn mark_all(&mut self) {
        self.last += 1;
        self.of_all = self.last;
        self.of_clusters.clear();
    }

    /// Marks changes of these clusters.
    pub fn add(&mut self, changed: &ChangedClusters) {
        match changed {
            ChangedClusters::All => self.mark_all(),
            ChangedClusters::Some(names) => names.iter().for_each(|name| self.mark(name)),
        }
    }

    /// The number of the last change.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The clusters with a change after the one with the number `seen`; 0 for none.
    pub fn since(&self, seen: u64) -> ChangedClusters {
        if self.of_all > seen {
            return ChangedClusters::All;
        }
        let changed = self.of_clusters.iter().filter(|(_, at)| **at > seen);
        ChangedClusters::Some(changed.map(|(cluster, _)| cluster.clone()).collect())
    }
}

/// Clusters of which something is to be computed again, in parts.
#[derive(Debug, Clone, Default)]
pub struct DueClusters(BTreeSet<ClusterName>);

impl DueClusters {
    /// Adds clusters that have changed. `all`: those that there are.
    pub fn add<'a>(
        &mut self,
        changed: ChangedClusters,
        all: impl IntoIterator<Item = &'a ClusterName>,
    ) {
        match changed {
            ChangedClusters::Some(names) => self.0.extend(names),
            ChangedClusters::All => self.0.extend(all.into_iter().cloned()),
        }
    }

    /// Takes clusters with some `works_max` works in all, and at least one. `works`: how many a
    /// cluster has.
    pub fn take(
        &mut self,
        works_max: usize,
        works: impl Fn(&ClusterName) -> usize,
    ) -> BTreeSet<ClusterName> {
        let (mut taken, mut count) = (BTreeSet::new(), 0);
        while count < works_max
            && let Some(name) = self.0.pop_first()
        {
            count = count.saturating_add(works(&name));
            taken.insert(name);
        }
        taken
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl ChangedClusters {
    /// Those of both.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Some(mut one), Self::Some(other)) => {
                one.extend(other);
                Self::Some(one)
            }
            _ => Self::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_clusters_are_taken_in_parts_of_so_many_works() {
        let names = ["a", "b", "c", "d"].map(|one| ClusterName::parse(one).unwrap());
        let (mut due, works) = (DueClusters::default(), |_: &ClusterName| 10);
        due.add(ChangedClusters::All, &names);
        due.add(ChangedClusters::Some([names[0].clone()].into()), &names);
        assert_eq!(due.len(), 4);
        assert_eq!(due.take(1, works).len(), 1, "one cluster is the least");
        assert_eq!(due.take(11, works).len(), 2);
        assert_eq!(due.take(usize::MAX, works), [names[3].clone()].into());
        assert!(due.is_empty() && due.take(1, works).is_empty());
    }

    #[test]
    fn a_reader_gets_the_clusters_that_changed_since() {
        let name = |name: &str| ClusterName::parse(name).unwrap();
        let some =
            |names: &[&str]| ChangedClusters::Some(names.iter().map(|one| name(one)).collect());
        let mut revisions = ClusterRevisions::default();
        assert_eq!(revisions.since(0), ChangedClusters::All);
        let seen = revisions.last();
        assert_eq!(revisions.since(seen), some(&[]));
        revisions.mark(&name("a"));
        let later = revisions.last();
        revisions.mark(&name("b"));
        assert_eq!(revisions.since(seen), some(&["a", "b"]));
        assert_eq!(revisions.since(later), some(&["b"]));
        assert_eq!(revisions.since(later).and(some(&["c"])), some(&["b", "c"]));
        revisions.mark_all();
        assert_eq!(revisions.since(later), ChangedClusters::All);
        assert_eq!(revisions.since(later).and(some(&["c"])), ChangedClusters::All);
        assert_eq!(revisions.since(revisions.last()), some(&[]));
    }
}
