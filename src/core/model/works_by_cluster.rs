//! A map of works that is shared cluster by cluster: two states of a source that differ in one
//! cluster hold the entries of all others once, and are compared without looking at them.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::iter::FlatMap;
use std::ops::Index;
use std::sync::Arc;

use crate::model::in_step::InStep;
use crate::model::name::{ClusterName, WorkKey};

/// The entries of one cluster.
pub type ClusterWorks<T> = Arc<BTreeMap<WorkKey, T>>;

/// A map from works, sorted by key. Its copies share the entries of each cluster until one of them
/// changes.
#[derive(Debug, Clone)]
pub struct WorksByCluster<T> {
    /// None is empty.
    clusters: BTreeMap<ClusterName, ClusterWorks<T>>,
    len: usize,
}

/// The entries of all clusters.
pub type Entries<'a, T> = FlatMap<
    btree_map::Values<'a, ClusterName, ClusterWorks<T>>,
    btree_map::Iter<'a, WorkKey, T>,
    fn(&'a ClusterWorks<T>) -> btree_map::Iter<'a, WorkKey, T>,
>;

/// More entries of one cluster are not packed: to move them takes too long for one step.
const PACKED_MAX: usize = 4_096;

/// Whether a map that has grown to this length by single entries is packed. One that grows in
/// order leaves half of each of its nodes empty; from 32 entries on, that is so for at most a
/// quarter of them. Each entry is moved some six times.
fn is_to_pack(len: usize) -> bool {
    (16..=PACKED_MAX).contains(&len) && len.is_multiple_of((len.next_power_of_two() / 8).max(8))
}

/// Whether all keys are of one cluster.
fn are_of<T>(works: &BTreeMap<WorkKey, T>, cluster: &ClusterName) -> bool {
    works.keys().all(|key| key.cluster == *cluster)
}

impl<T> Default for WorksByCluster<T> {
    fn default() -> Self {
        Self { clusters: BTreeMap::new(), len: 0 }
    }
}

impl<T> WorksByCluster<T> {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// A map with the entries of each cluster, whose keys are all of this cluster.
    pub fn of_clusters(all: impl IntoIterator<Item = (ClusterName, ClusterWorks<T>)>) -> Self {
        let all = all.into_iter().filter(|(_, works)| !works.is_empty());
        let clusters: BTreeMap<ClusterName, ClusterWorks<T>> = all.collect();
        debug_assert!(clusters.iter().all(|(name, works)| are_of(works, name)));
        let len = clusters.values().map(|works| works.len()).sum();
        Self { clusters, len }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry of a work.
    pub fn get(&self, key: &WorkKey) -> Option<&T> {
        self.entries_of(&key.cluster)?.get(key)
    }

    /// Whether it has an entry of a work.
    pub fn contains_key(&self, key: &WorkKey) -> bool {
        self.get(key).is_some()
    }

    /// The clusters that have entries, sorted.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.clusters.keys()
    }

    /// The entries, sorted by key.
    pub fn iter(&self) -> Entries<'_, T> {
        self.clusters.values().flat_map(|works| works.iter())
    }

    /// The works, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &WorkKey> {
        self.iter().map(|(key, _)| key)
    }

    /// The values, sorted by work.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }

    /// The entries of one cluster, sorted by key.
    pub fn of_cluster(&self, cluster: &ClusterName) -> impl Iterator<Item = (&WorkKey, &T)> {
        self.clusters.get(cluster).into_iter().flat_map(|works| works.iter())
    }

    /// The entries of one cluster; `None` if there are none.
    pub fn entries_of(&self, cluster: &ClusterName) -> Option<&BTreeMap<WorkKey, T>> {
        self.clusters.get(cluster).map(Arc::as_ref)
    }

    /// The number of entries of one cluster.
    pub fn len_of(&self, cluster: &ClusterName) -> usize {
        self.clusters.get(cluster).map_or(0, |works| works.len())
    }

    /// The entries of ManifestWorkReplicaSets.
    pub fn replica_sets(&self) -> impl Iterator<Item = (&WorkKey, &T)> {
        let places = self.clusters.range(ClusterName::least_of_replica_sets()..);
        let places = places.take_while(|(place, _)| place.replica_set_namespace().is_some());
        places.flat_map(|(_, sets)| sets.iter())
    }

    /// The entries of one cluster, which are shared.
    pub fn cluster(&self, cluster: &ClusterName) -> ClusterWorks<T> {
        self.clusters.get(cluster).cloned().unwrap_or_default()
    }

    /// A map with the entries of one cluster, which it shares.
    pub fn only(&self, cluster: &ClusterName) -> Self {
        let mut only = Self::new();
        only.set_cluster(cluster, self.cluster(cluster));
        only
    }

    /// Replaces the entries of one cluster, whose keys are all of this cluster.
    pub fn set_cluster(&mut self, cluster: &ClusterName, works: ClusterWorks<T>) {
        debug_assert!(are_of(&works, cluster), "{cluster}");
        let added = works.len();
        let before = match works.is_empty() {
            true => self.clusters.remove(cluster),
            false => self.clusters.insert(cluster.clone(), works),
        };
        self.len = self.len + added - before.map_or(0, |works| works.len());
    }

    /// The clusters whose entries differ. What both maps share is not compared.
    pub fn differing_clusters(
        &self,
        other: &Self,
        is_same: impl Fn(&T, &T) -> bool,
    ) -> BTreeSet<ClusterName> {
        let is_same_work = |((key, one), (other_key, other)): ((&WorkKey, &T), (&WorkKey, &T))| {
            key == other_key && is_same(one, other)
        };
        let is_equal = |one: &ClusterWorks<T>, other: &ClusterWorks<T>| {
            let are_alike = || one.iter().zip(other.iter()).all(is_same_work);
            Arc::ptr_eq(one, other) || (one.len() == other.len() && are_alike())
        };
        let (mut ours, mut others) = (InStep::new(&self.clusters), InStep::new(&other.clusters));
        let differs = |(name, works): &(&ClusterName, &ClusterWorks<T>)| {
            !others.get(*name).is_some_and(|other| is_equal(works, other))
        };
        let differing = self.clusters.iter().filter(differs).map(|(name, _)| name).cloned();
        let mut differing: BTreeSet<ClusterName> = differing.collect();
        let missing = other.clusters.keys().filter(|name| ours.get(*name).is_none());
        differing.extend(missing.cloned());
        differing
    }
}

impl<T: Clone> WorksByCluster<T> {
    /// Sets the entry of a work. Gives the one before.
    pub fn insert(&mut self, key: WorkKey, value: T) -> Option<T> {
        let works = Arc::make_mut(self.clusters.entry(key.cluster.clone()).or_default());
        let before = works.insert(key, value);
        if before.is_none() {
            self.len += 1;
            if is_to_pack(works.len()) {
                *works = std::mem::take(works).into_iter().collect();
            }
        }
        before
    }

    /// A work's key with the names that the map has already, which saves those of `key`.
    pub fn shared_key(&self, key: WorkKey) -> WorkKey {
        let Some((cluster, works)) = self.clusters.get_key_value(&key.cluster) else { return key };
        match works.get_key_value(&key) {
            Some((known, _)) => known.clone(),
            None => WorkKey { cluster: cluster.clone(), work: key.work },
        }
    }

    /// The values, sorted by work. Those that others hold, too, are copied.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        self.clusters.into_values().flat_map(|works| Arc::unwrap_or_clone(works).into_values())
    }

    /// Adds the entries of another map, which replace those of equal works.
    pub fn append(&mut self, other: Self) {
        for (cluster, works) in other.clusters {
            match self.clusters.contains_key(&cluster) {
                false => self.set_cluster(&cluster, works),
                true => self.extend(Arc::unwrap_or_clone(works)),
            }
        }
    }

    /// Adds entries of one cluster.
    fn add_row(&mut self, row: Vec<(WorkKey, T)>) {
        let Some(cluster) = row.first().map(|(key, _)| key.cluster.clone()) else { return };
        match self.clusters.contains_key(&cluster) {
            false => self.set_cluster(&cluster, Arc::new(row.into_iter().collect())),
            true => self.extend(row),
        }
    }

    /// Keeps the entries of one cluster that match.
    pub fn retain_in(
        &mut self,
        cluster: &ClusterName,
        mut keeps: impl FnMut(&WorkKey, &T) -> bool,
    ) {
        let Some(works) = self.clusters.get_mut(cluster) else { return };
        let before = works.len();
        Arc::make_mut(works).retain(|key, value| keeps(key, value));
        self.len -= before - works.len();
        if works.is_empty() {
            self.clusters.remove(cluster);
        }
    }

    /// Removes the entry of a work, and gives it.
    pub fn remove(&mut self, key: &WorkKey) -> Option<T> {
        // A cluster without this work stays shared.
        let works = self.clusters.get_mut(&key.cluster).filter(|works| works.contains_key(key))?;
        let works = Arc::make_mut(works);
        let removed = works.remove(key);
        if works.is_empty() {
            self.clusters.remove(&key.cluster);
        }
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// The entry of a work, to be changed.
    pub fn get_mut(&mut self, key: &WorkKey) -> Option<&mut T> {
        let works = self.clusters.get_mut(&key.cluster).filter(|works| works.contains_key(key))?;
        Arc::make_mut(works).get_mut(key)
    }

    /// All values, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.clusters.values_mut().flat_map(|works| Arc::make_mut(works).values_mut())
    }

    /// Keeps the entries that match. Clusters of which all stay remain shared.
    pub fn retain(&mut self, keeps: impl Fn(&WorkKey, &T) -> bool) {
        self.clusters.retain(|_, works| {
            if !works.iter().all(|(key, value)| keeps(key, value)) {
                Arc::make_mut(works).retain(|key, value| keeps(key, value));
            }
            !works.is_empty()
        });
        self.len = self.clusters.values().map(|works| works.len()).sum();
    }
}

impl<T: PartialEq> PartialEq for WorksByCluster<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.differing_clusters(other, T::eq).is_empty()
    }
}

impl<T: Clone> Extend<(WorkKey, T)> for WorksByCluster<T> {
    fn extend<I: IntoIterator<Item = (WorkKey, T)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<T: Clone> FromIterator<(WorkKey, T)> for WorksByCluster<T> {
    /// Entries of one cluster in a row are added at once: a map that grows in order leaves half of
    /// each of its nodes empty.
    fn from_iter<I: IntoIterator<Item = (WorkKey, T)>>(entries: I) -> Self {
        let (mut all, mut row) = (Self::new(), Vec::new());
        for (key, value) in entries {
            if row.last().is_some_and(|(last, _): &(WorkKey, T)| last.cluster != key.cluster) {
                all.add_row(std::mem::take(&mut row));
            }
            row.push((key, value));
        }
        all.add_row(row);
        all
    }
}

impl<T: Clone, const N: usize> From<[(WorkKey, T); N]> for WorksByCluster<T> {
    fn from(entries: [(WorkKey, T); N]) -> Self {
        entries.into_iter().collect()
    }
}

/// As of a standard map: panics if there is no such work.
impl<T> Index<&WorkKey> for WorksByCluster<T> {
    type Output = T;

    fn index(&self, key: &WorkKey) -> &T {
        self.get(key).expect("the map has the work")
    }
}

impl<'a, T> IntoIterator for &'a WorksByCluster<T> {
    type Item = (&'a WorkKey, &'a T);
    type IntoIter = Entries<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::name::WorkName;

    fn key(cluster: u8, work: u8) -> WorkKey {
        WorkKey {
            cluster: ClusterName::parse(&format!("c{cluster}")).unwrap(),
            work: WorkName::parse(&format!("w{work}")).unwrap(),
        }
    }

    #[test]
    fn replica_sets_are_found_among_clusters_of_any_name() {
        let names = ["a", "z9"].map(|name| ClusterName::parse(name).unwrap());
        let sets = ["a", "stores"].map(|name| ClusterName::of_replica_sets(name).unwrap());
        let work = WorkName::parse("web").unwrap();
        let key = |cluster: &ClusterName| WorkKey { cluster: cluster.clone(), work: work.clone() };
        let all: WorksByCluster<u8> =
            names.iter().chain(&sets).map(|cluster| (key(cluster), 0)).collect();
        let found: Vec<&ClusterName> = all.replica_sets().map(|(key, _)| &key.cluster).collect();
        assert_eq!(found, sets.iter().collect::<Vec<_>>());
    }

    #[test]
    fn maps_that_grow_are_packed_and_entries_seldom_moved() {
        let (mut all, mut expected) = (WorksByCluster::new(), BTreeMap::new());
        for work in (0..200).chain((0..200).rev()) {
            assert_eq!(all.insert(key(0, work), work), expected.insert(key(0, work), work));
            assert!(all.iter().eq(expected.iter()) && all.len() == expected.len());
        }
        let (mut moved, mut packed) = (0, 0);
        for len in 1..=PACKED_MAX {
            if is_to_pack(len) {
                (moved, packed) = (moved + len, len);
            }
            assert!(len < 32 || (len - packed) * 4 <= len, "{len}");
        }
        assert!(moved < 7 * PACKED_MAX, "{moved}");
        assert!(!is_to_pack(PACKED_MAX * 2));
    }

    #[test]
    fn map_of_whole_clusters_leaves_out_those_without_entries() {
        let of = |cluster, works: &[u8]| {
            let works = works.iter().map(|work| (key(cluster, *work), *work));
            (key(cluster, 0).cluster, Arc::new(works.collect()))
        };
        let all = WorksByCluster::of_clusters([of(1, &[1, 2]), of(2, &[]), of(3, &[4])]);
        assert_eq!(all, [(1, 1), (1, 2), (3, 4)].map(|(one, work)| (key(one, work), work)).into());
        assert_eq!((all.len(), all.clusters().count()), (3, 2));
    }

    #[test]
    fn keys_take_the_names_that_are_there() {
        let all = WorksByCluster::from([(key(1, 1), ())]);
        let names = |key: &WorkKey| [key.cluster.as_str().as_ptr(), key.work.as_str().as_ptr()];
        let known = all.keys().next().unwrap();
        for (other, shares) in
            [(key(1, 1), [true, true]), (key(1, 2), [true, false]), (key(2, 1), [false, false])]
        {
            let shared = all.shared_key(other.clone());
            assert_eq!(shared, other);
            let found = std::iter::zip(names(&shared), names(known)).map(|(one, name)| one == name);
            assert!(found.eq(shares), "{other}");
        }
    }

    proptest! {
        /// It says what a plain map of the same entries says, after any changes.
        #[test]
        fn it_is_a_sorted_map(
            steps in proptest::collection::vec((0..4u8, 0..4u8, 0..4u8, any::<u8>()), 0..60),
        ) {
            let (mut all, mut expected) = (WorksByCluster::new(), BTreeMap::new());
            let mut copies = Vec::new();
            for (step, cluster, work, value) in steps {
                copies.push((all.clone(), expected.clone()));
                let key = key(cluster, work);
                match step {
                    0 | 1 => {
                        prop_assert_eq!(
                            all.insert(key.clone(), value),
                            expected.insert(key, value)
                        );
                    }
                    2 => prop_assert_eq!(all.remove(&key), expected.remove(&key)),
                    _ => {
                        all.retain(|one, _| *one < key);
                        expected.retain(|one, _| *one < key);
                        if let Some(at) = all.get_mut(&key) {
                            *at = value;
                        }
                        expected.entry(key.clone()).and_modify(|at| *at = value);
                        all.retain_in(&key.cluster, |_, one| *one > 9);
                        expected.retain(|one, at| one.cluster != key.cluster || *at > 9);
                    }
                }
            }
            copies.push((all, expected));
            for (all, expected) in &copies {
                prop_assert!(all.iter().eq(expected.iter()));
                prop_assert_eq!(all.len(), expected.len());
                prop_assert_eq!(all.is_empty(), expected.is_empty());
                for one in (0..4).map(|cluster| key(cluster, 0).cluster) {
                    prop_assert!(all.of_cluster(&one).eq(WorkKey::entries_of(expected, &one)));
                    prop_assert!(all.only(&one).iter().eq(all.of_cluster(&one)));
                    prop_assert_eq!(all.len_of(&one), all.of_cluster(&one).count());
                }
            }
            for ((all, expected), (other, others)) in copies.iter().zip(copies.iter().rev()) {
                let (mut all, mut expected) = (all.clone(), expected.clone());
                all.append(other.clone());
                expected.append(&mut others.clone());
                prop_assert!(all.iter().eq(expected.iter()));
                prop_assert_eq!(all.len(), expected.len());
                let clusters: BTreeSet<_> = expected.keys().map(|key| &key.cluster).collect();
                prop_assert!(all.clusters().eq(clusters));
                let unsorted = expected.iter().rev().map(|(key, value)| (key.clone(), *value));
                prop_assert_eq!(&unsorted.collect::<WorksByCluster<u8>>(), &all);
            }
            for ((all, expected), (other, others)) in copies.iter().zip(copies.iter().skip(1)) {
                prop_assert_eq!(all == other, expected == others);
                let of = |map: &BTreeMap<WorkKey, u8>, name: &ClusterName| {
                    let found = WorkKey::entries_of(map, name);
                    found.map(|(key, value)| (key.clone(), *value)).collect::<Vec<_>>()
                };
                let names = (0..4).map(|cluster| key(cluster, 0).cluster);
                let differing = names.filter(|name| of(expected, name) != of(others, name));
                let differing: BTreeSet<ClusterName> = differing.collect();
                prop_assert_eq!(all.differing_clusters(other, u8::eq), differing);
            }
        }
    }
}
