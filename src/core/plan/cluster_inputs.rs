//! What Git and the hub have of one cluster. The changes that a work needs follow from its cluster
//! alone: objects move only between works of one cluster, and no rule compares two clusters. What
//! depends on the whole source (budgets, windows, other guards) is decided later, from all
//! candidates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use crate::config::source_rules::SourceRules;
use crate::model::approval::Approvals;
use crate::model::cluster_revisions::ChangedClusters;
use crate::model::name::{ClusterName, GroupName, RepoPath, WorkKey};
use crate::model::work::{DesiredWork, NamedObject};
use crate::plan::inputs::PlanInputs;
use crate::plan::observed::Observed;
use crate::render::desired::{Desired, Frozen, UncertainMembers};

/// The state of one cluster in Git and on the hub, as if the source had no other cluster.
#[derive(Debug)]
pub struct ClusterInputs {
    /// Its works in Git.
    pub desired: Desired,
    /// Its works on the hub.
    pub observed: Observed,
}

impl ClusterInputs {
    /// How many works a cluster has, in Git or on the hub, whichever has more.
    pub fn works(desired: &Desired, observed: &Observed, name: &ClusterName) -> usize {
        desired.works.len_of(name).max(observed.works.len_of(name))
    }

    /// The state of a cluster.
    pub fn of(desired: &Desired, observed: &Observed, name: &ClusterName) -> Self {
        let Frozen { source, deletes, clusters_beside_unnamed, .. } = &desired.frozen;
        let Frozen { groups_beside_unnamed, groups, open_groups, .. } = &desired.frozen;
        let Frozen { clusters, works, folders, objects, .. } = &desired.frozen;
        let frozen = Frozen {
            source: *source,
            deletes: *deletes,
            clusters_beside_unnamed: clusters_beside_unnamed.clone(),
            groups_beside_unnamed: groups_beside_unnamed.clone(),
            clusters: clusters.iter().filter(|cluster| *cluster == name).cloned().collect(),
            works: keys_of(works, name),
            folders: folders_of(folders, name),
            groups: groups_of(groups, name),
            open_groups: open_groups.clone(),
            objects: works_of(objects, name),
        };
        let desired = Desired {
            source: desired.source.clone(),
            commit: desired.commit,
            works: desired.works.only(name),
            delivered: desired
                .delivered
                .get_key_value(name)
                .map(|(name, works)| (name.clone(), works.clone()))
                .into_iter()
                .collect(),
            frozen,
            // Rules, approvals and errors decide about no candidate.
            rules: SourceRules::default(),
            approved: Approvals::default(),
            suspended: desired.suspended.clone(),
            needed_facts: None,
            facts: None,
            rollouts: BTreeMap::new(),
            later: works_of(&desired.later, name),
            diagnostics: Vec::new(),
        };
        let observed = Observed {
            works: observed.works.only(name),
            normalized: works_of(&observed.normalized, name),
            gone: works_of(&observed.gone, name),
            contents: works_of(&observed.contents, name),
            unlisted: keys_of(&observed.unlisted, name),
            delivered: works_of(&observed.delivered, name),
            read_sets: keys_of(&observed.read_sets, name),
            is_relisted: observed.is_relisted,
        };
        Self { desired, observed }
    }

    /// The inputs of a plan of this cluster alone.
    pub(crate) fn inputs<'a>(&'a self, all: PlanInputs<'a>) -> PlanInputs<'a> {
        PlanInputs { desired: &self.desired, observed: &self.observed, ..all }
    }
}

/// The clusters that differ between two states of Git, found before the planner needs them: for a
/// large source, the comparison is most of what a commit costs.
#[derive(Debug, Clone)]
pub struct DesiredChange {
    /// The old state. While somebody holds it, no other one has its address.
    before: Weak<Desired>,
    clusters: ChangedClusters,
}

impl DesiredChange {
    /// Compares two states.
    pub fn between(before: &Arc<Desired>, now: &Desired) -> Self {
        Self { before: Arc::downgrade(before), clusters: changed_clusters(before, now) }
    }

    /// The clusters that differ from this state, if it is the compared one.
    pub fn since(&self, before: &Arc<Desired>) -> Option<&ChangedClusters> {
        let is_compared = std::ptr::eq(self.before.as_ptr(), Arc::as_ptr(before));
        is_compared.then_some(&self.clusters)
    }
}

/// The clusters whose inputs differ between two states of Git.
pub fn changed_clusters(before: &Desired, now: &Desired) -> ChangedClusters {
    // These decide about no candidate, or about the plan of the whole source.
    let Desired { commit: _, rules: _, approved: _, rollouts: _, diagnostics: _, .. } = now;
    let Desired { source, works, delivered, frozen, suspended, later, .. } = now;
    if before.source != *source || before.frozen != *frozen || before.suspended != *suspended {
        return ChangedClusters::All;
    }
    let mut clusters = before.works.differing_clusters(works, is_same);
    let is_equal = |a: &Arc<[NamedObject]>, b: &Arc<[NamedObject]>| Arc::ptr_eq(a, b) || a == b;
    add_changed(&before.later, later, is_equal, &mut clusters);
    let names = before.delivered.keys().chain(delivered.keys());
    let differs = |name: &&ClusterName| {
        let [a, b] = [&before.delivered, delivered].map(|all| all.get(*name));
        let [a, b] = [a, b].map(|all| all.map_or(&[][..], Vec::as_slice));
        a.len() != b.len() || a.iter().zip(b).any(|(a, b)| !is_same(a, b))
    };
    clusters.extend(names.filter(differs).cloned());
    ChangedClusters::Some(clusters)
}

/// Adds the clusters of works that differ.
fn add_changed<T>(
    before: &BTreeMap<WorkKey, T>,
    now: &BTreeMap<WorkKey, T>,
    is_same: impl Fn(&T, &T) -> bool,
    clusters: &mut BTreeSet<ClusterName>,
) {
    // Both are sorted by cluster: most works of one follow each other.
    let mut last = None;
    let mut add = |key: &WorkKey| {
        if last.as_ref() != Some(&key.cluster) {
            last = Some(key.cluster.clone());
            clusters.insert(key.cluster.clone());
        }
    };
    let mut left = before.iter().peekable();
    for (key, work) in now {
        while let Some((gone, _)) = left.next_if(|(other, _)| *other < key) {
            add(gone);
        }
        let was = left.next_if(|(other, _)| *other == key);
        if !was.is_some_and(|(_, was)| is_same(was, work)) {
            add(key);
        }
    }
    left.for_each(|(gone, _)| add(gone));
}

/// Whether two states of a work in Git are the same. Unchanged works share their content.
fn is_same(a: &Arc<DesiredWork>, b: &Arc<DesiredWork>) -> bool {
    if Arc::ptr_eq(a, b) {
        return true;
    }
    let DesiredWork { key, path, body, delete_option, prune, suspend, .. } = &**b;
    let DesiredWork { objects, depends_on, group_content, is_earlier, .. } = &**b;
    a.key == *key
        && a.path == *path
        && (Arc::ptr_eq(&a.body, body) || a.body == *body)
        && a.delete_option == *delete_option
        && a.prune == *prune
        && a.suspend == *suspend
        && (Arc::ptr_eq(&a.objects, objects) || a.objects == *objects)
        && a.depends_on == *depends_on
        && a.group_content == *group_content
        && a.is_earlier == *is_earlier
}

/// The entries of one cluster.
fn works_of<T: Clone>(all: &BTreeMap<WorkKey, T>, name: &ClusterName) -> BTreeMap<WorkKey, T> {
    let found = WorkKey::entries_of(all, name);
    found.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn folders_of(
    all: &BTreeSet<(ClusterName, RepoPath)>,
    name: &ClusterName,
) -> BTreeSet<(ClusterName, RepoPath)> {
    let found = all.range((name.clone(), RepoPath::root())..);
    found.take_while(|(cluster, _)| cluster == name).cloned().collect()
}

/// The groups that the cluster may be in.
fn groups_of(
    all: &BTreeMap<GroupName, UncertainMembers>,
    name: &ClusterName,
) -> BTreeMap<GroupName, UncertainMembers> {
    let found = all.iter().filter(|(_, members)| members.contains(name));
    let only = || UncertainMembers::Clusters([name.clone()].into());
    found.map(|(group, _)| (group.clone(), only())).collect()
}

fn keys_of(all: &BTreeSet<WorkKey>, name: &ClusterName) -> BTreeSet<WorkKey> {
    let found = all.range(WorkKey::least_of(name)..);
    found.take_while(|key| key.cluster == *name).cloned().collect()
}
