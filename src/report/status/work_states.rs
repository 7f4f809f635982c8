//! The states of all works of a source. Two statuses share what is the same in both: the works of
//! a cluster, and single works of it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use super::State;
use super::source_work::WorkState;
use gitwork_core::model::name::{ClusterName, GroupName, WorkKey};
use gitwork_core::render::layout;

/// The states of all works of a source, sorted by key. The first change of a copy costs as much as
/// there are clusters.
#[derive(Debug, Clone, Default)]
pub struct WorkStates {
    clusters: Arc<BTreeMap<ClusterName, Arc<ClusterStates>>>,
    /// Made when it is asked for.
    counts: OnceLock<StateCounts>,
}

/// How many works have each state, in the order of `State::ALL`.
type StateCounts = [usize; State::ALL.len()];

/// The states of the works of one cluster; there is at least one.
#[derive(Debug, Clone, Default)]
pub struct ClusterStates {
    works: BTreeMap<WorkKey, Arc<WorkState>>,
    /// Made when it is asked for.
    counts: OnceLock<StateCounts>,
    /// Whether the hub alone does not show why a work is in its state; made when it is asked for.
    has_hidden: OnceLock<bool>,
    /// The worst state of the works of each group; made when it is asked for.
    of_groups: OnceLock<BTreeMap<GroupName, State>>,
}

/// A work whose state differs between two statuses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangedWork<'a> {
    /// The work.
    pub key: &'a WorkKey,
    /// `None` if the work is new.
    pub before: Option<&'a WorkState>,
    /// `None` if the work was removed.
    pub now: Option<&'a WorkState>,
}

/// Whether two maps are equal. What both share is not compared: `Arc` compares the content.
fn is_same<K: Ord, V: PartialEq>(a: &BTreeMap<K, Arc<V>>, b: &BTreeMap<K, Arc<V>>) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|((key, value), (other_key, other))| {
            key == other_key && (Arc::ptr_eq(value, other) || value == other)
        })
}

impl PartialEq for WorkStates {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.clusters, &other.clusters) || is_same(&self.clusters, &other.clusters)
    }
}

impl PartialEq for ClusterStates {
    fn eq(&self, other: &Self) -> bool {
        is_same(&self.works, &other.works)
    }
}

impl ClusterStates {
    /// States of works of one cluster; those that equal the ones before are shared with them.
    pub(super) fn new(
        works: impl IntoIterator<Item = (WorkKey, WorkState)>,
        before: Option<&Self>,
    ) -> Self {
        let share = |(key, work): (WorkKey, WorkState)| {
            let earlier = before.and_then(|before| before.works.get(&key));
            let work = match earlier.filter(|earlier| ***earlier == work) {
                Some(earlier) => Arc::clone(earlier),
                None => Arc::new(work),
            };
            (key, work)
        };
        Self { works: works.into_iter().map(share).collect(), ..Self::default() }
    }

    /// The works, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&WorkKey, &WorkState)> {
        self.works.iter().map(|(key, work)| (key, &**work))
    }

    /// The state of a work.
    pub fn get(&self, key: &WorkKey) -> Option<&WorkState> {
        self.works.get(key).map(|work| &**work)
    }

    /// How many works have a state.
    pub fn count(&self, state: State) -> usize {
        self.counts()[state as usize]
    }

    /// The works of which the hub alone does not show why they are in their state.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = (&WorkKey, &WorkState)> {
        let has_hidden =
            *self.has_hidden.get_or_init(|| self.works.values().any(|work| work.is_hidden()));
        self.iter().take_while(move |_| has_hidden).filter(|(_, work)| work.is_hidden())
    }

    /// The worst state of a work.
    pub fn worst(&self) -> State {
        let found = State::ALL.into_iter().find(|state| self.count(*state) > 0);
        found.unwrap_or(State::Complete)
    }

    /// The groups that all works are of; `None` if the cluster has a work of its own.
    pub fn groups(&self) -> Option<BTreeSet<GroupName>> {
        let paths = self.works.values().map(|work| work.path.as_ref());
        paths.map(|path| path.and_then(layout::group_of)).collect()
    }

    /// The worst state of the works of each group.
    pub fn of_groups(&self) -> &BTreeMap<GroupName, State> {
        self.of_groups.get_or_init(|| {
            let mut worst: BTreeMap<GroupName, State> = BTreeMap::new();
            for work in self.works.values() {
                let Some(group) = work.path.as_ref().and_then(layout::group_of) else { continue };
                let state = worst.entry(group).or_insert(work.state);
                *state = (*state).min(work.state);
            }
            worst
        })
    }

    /// The groups that the works in a state are of; `None` if one of them is of no group.
    pub fn groups_in(&self, state: State) -> Option<BTreeSet<GroupName>> {
        let works = self.works.values().filter(|work| work.state == state);
        works.map(|work| work.path.as_ref().and_then(layout::group_of)).collect()
    }

    /// Forgets what follows from the works.
    fn forget_sums(&mut self) {
        self.counts.take();
        self.has_hidden.take();
        self.of_groups.take();
    }

    fn counts(&self) -> &StateCounts {
        self.counts.get_or_init(|| {
            let mut counts = [0; State::ALL.len()];
            self.works.values().for_each(|work| counts[work.state as usize] += 1);
            counts
        })
    }
}

impl WorkStates {
    /// The number of works.
    pub fn len(&self) -> usize {
        self.counts().iter().sum()
    }

    /// Whether there is no work.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// How many works have a state.
    pub fn count(&self, state: State) -> usize {
        self.counts()[state as usize]
    }

    fn counts(&self) -> &StateCounts {
        self.counts.get_or_init(|| {
            let mut counts = StateCounts::default();
            self.clusters.values().for_each(|cluster| add(&mut counts, cluster.counts()));
            counts
        })
    }

    /// Whether the counts are those of all works.
    pub(super) fn has_right_counts(&self) -> bool {
        let mut counts = StateCounts::default();
        self.values().for_each(|work| counts[work.state as usize] += 1);
        *self.counts() == counts
    }

    /// The clusters that have works.
    pub fn clusters(&self) -> impl Iterator<Item = (&ClusterName, &ClusterStates)> {
        self.clusters.iter().map(|(name, cluster)| (name, &**cluster))
    }

    /// The works, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&WorkKey, &WorkState)> {
        self.clusters.values().flat_map(|cluster| cluster.iter())
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &WorkKey> {
        self.iter().map(|(key, _)| key)
    }

    /// The states, sorted by key.
    pub fn values(&self) -> impl Iterator<Item = &WorkState> {
        self.iter().map(|(_, work)| work)
    }

    /// The works of one cluster.
    pub fn of_cluster(&self, name: &ClusterName) -> Option<&ClusterStates> {
        self.clusters.get(name).map(|cluster| &**cluster)
    }

    /// The state of a work.
    pub fn get(&self, key: &WorkKey) -> Option<&WorkState> {
        self.clusters.get(&key.cluster)?.get(key)
    }

    /// Whether there is such a work.
    pub fn contains_key(&self, key: &WorkKey) -> bool {
        self.get(key).is_some()
    }

    /// The state of a work, to change it in this status only.
    pub fn get_mut(&mut self, key: &WorkKey) -> Option<&mut WorkState> {
        self.counts.take();
        let clusters = Arc::make_mut(&mut self.clusters);
        let cluster = Arc::make_mut(clusters.get_mut(&key.cluster)?);
        cluster.forget_sums();
        cluster.works.get_mut(key).map(Arc::make_mut)
    }

    /// Sets the state of a work.
    pub fn insert(&mut self, key: WorkKey, work: WorkState) {
        self.counts.take();
        let clusters = Arc::make_mut(&mut self.clusters);
        let cluster = Arc::make_mut(clusters.entry(key.cluster.clone()).or_default());
        cluster.forget_sums();
        cluster.works.insert(key, Arc::new(work));
    }

    /// Removes a work, and gives its state.
    pub fn remove(&mut self, key: &WorkKey) -> Option<WorkState> {
        self.counts.take();
        let clusters = Arc::make_mut(&mut self.clusters);
        let cluster = Arc::make_mut(clusters.get_mut(&key.cluster)?);
        let work = cluster.works.remove(key)?;
        cluster.forget_sums();
        if cluster.works.is_empty() {
            clusters.remove(&key.cluster);
        }
        Some(Arc::unwrap_or_clone(work))
    }

    /// Replaces the works of a cluster; one without works has no entry. What is equal stays shared.
    pub(super) fn set_cluster(&mut self, name: &ClusterName, now: ClusterStates) {
        let before = self.of_cluster(name);
        if before == (!now.works.is_empty()).then_some(&now) {
            return;
        }
        let removed = before.map(|before| *before.counts()).unwrap_or_default();
        if let Some(counts) = self.counts.get_mut() {
            add(counts, now.counts());
            counts.iter_mut().zip(removed).for_each(|(count, removed)| *count -= removed);
        }
        let clusters = Arc::make_mut(&mut self.clusters);
        match now.works.is_empty() {
            true => drop(clusters.remove(name)),
            false => drop(clusters.insert(name.clone(), Arc::new(now))),
        }
    }

    /// The works that differ from those before, sorted by key. Only clusters that are not shared
    /// are compared.
    pub fn changes_since<'a>(&'a self, before: &'a Self) -> Vec<ChangedWork<'a>> {
        let mut found = Vec::new();
        if Arc::ptr_eq(&self.clusters, &before.clusters) {
            return found;
        }
        for (_, was, now) in pairs(Some(&*before.clusters), Some(&*self.clusters)) {
            if was.zip(now).is_some_and(|(was, now)| Arc::ptr_eq(was, now)) {
                continue;
            }
            let works = |states: Option<&'a Arc<ClusterStates>>| states.map(|one| &one.works);
            let (was, now) = (works(was), works(now));
            for (key, was, now) in pairs(was, now) {
                let is_same = |(was, now)| Arc::ptr_eq(was, now) || was == now;
                if !was.zip(now).is_some_and(is_same) {
                    found.push(ChangedWork {
                        key,
                        before: was.map(|was| &**was),
                        now: now.map(|now| &**now),
                    });
                }
            }
        }
        found
    }
}

/// The entries of two maps by key, sorted.
fn pairs<'a, K: Ord, V>(
    one: Option<&'a BTreeMap<K, V>>,
    other: Option<&'a BTreeMap<K, V>>,
) -> impl Iterator<Item = (&'a K, Option<&'a V>, Option<&'a V>)> {
    let [mut one, mut other] = [one, other].map(|map| map.into_iter().flatten().peekable());
    std::iter::from_fn(move || {
        let order = match (one.peek(), other.peek()) {
            // Most keys are shared, and equal without a look at their texts.
            (Some((key, _)), Some((other, _))) if key == other => Ordering::Equal,
            (Some((key, _)), Some((other, _))) => key.cmp(other),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        let first = one.next_if(|_| order.is_le());
        let second = other.next_if(|_| order.is_ge());
        let (key, _) = first.or(second)?;
        Some((key, first.map(|(_, value)| value), second.map(|(_, value)| value)))
    })
}

/// Adds counts to others.
fn add(counts: &mut StateCounts, more: &StateCounts) {
    counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
}

impl FromIterator<(WorkKey, WorkState)> for WorkStates {
    fn from_iter<T: IntoIterator<Item = (WorkKey, WorkState)>>(works: T) -> Self {
        let mut all = Self::default();
        works.into_iter().for_each(|(key, work)| all.insert(key, work));
        all
    }
}

impl<'a> IntoIterator for &'a WorkStates {
    type Item = (&'a WorkKey, &'a WorkState);
    type IntoIter = Box<dyn Iterator<Item = Self::Item> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}
