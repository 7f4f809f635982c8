//! What Git's history says of works that Git does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::Budgets;
use crate::model::name::{ClusterName, CommitId, RepoPath, WorkKey};
use crate::model::work::DeletionPolicy;

/// The last state in Git of a work that it no longer has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastKnownState {
    /// The commit that removed the work.
    pub removed_by: Option<CommitId>,
    /// The final `deleteOption`.
    pub delete_option: DeletionPolicy,
    /// The final `prune`; `false` means that the work is released and not deleted.
    pub prune: bool,
    /// The works that it depended on.
    pub depends_on: Arc<[WorkKey]>,
    /// The budgets of gitwork.yaml before the removal: a commit that removes a work cannot loosen
    /// the budget for its own deletions.
    pub budgets: Option<Budgets>,
    /// What Git has now and did not have before the removal; `None` if unknown.
    pub added_since: Option<Arc<AddedSince>>,
}

/// Works that Git has now and did not have at an earlier commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddedSince {
    /// Those of known names, the frozen ones included.
    pub works: BTreeSet<WorkKey>,
    /// The folders of those that could not be read, by cluster: their names may not be known.
    pub folders: BTreeSet<(ClusterName, RepoPath)>,
}

/// What Git's history says of works that the hub has and Git does not.
///
/// For a work that is in neither, no history is known, as of a folder on disk: the deleteOption and
/// prune on the hub count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastKnownStates {
    /// The last states of works that Git had.
    pub works: BTreeMap<WorkKey, LastKnownState>,
    /// Works that the history does not have under their name, in the folders that the hub gives.
    /// Somebody else has set the source's label on them, or the history was rewritten.
    pub never_in_git: BTreeSet<WorkKey>,
    /// The works that a work depended on whose last state is unknown: its folder cannot be
    /// rendered, as of a cluster whose labels it needs and that the hub no longer has.
    pub dependencies: BTreeMap<WorkKey, Arc<[WorkKey]>>,
}

impl LastKnownStates {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the last state of a work.
    pub fn insert(&mut self, key: WorkKey, state: LastKnownState) {
        self.works.insert(key, state);
    }

    /// Adds the works that a work depended on whose last state is unknown.
    pub fn insert_dependencies(&mut self, key: WorkKey, dependencies: Arc<[WorkKey]>) {
        self.dependencies.insert(key, dependencies);
    }

    /// All works that depended on others, with these.
    pub(crate) fn all_dependencies(&self) -> impl Iterator<Item = (&WorkKey, &[WorkKey])> {
        let of_states = self.works.iter().map(|(key, last)| (key, &*last.depends_on));
        let others = self.dependencies.iter().map(|(key, dependencies)| (key, &**dependencies));
        of_states.chain(others).filter(|(_, dependencies)| !dependencies.is_empty())
    }

    /// The last state of a work.
    pub fn get(&self, key: &WorkKey) -> Option<&LastKnownState> {
        self.works.get(key)
    }

    /// Whether the history is known, and does not have the work.
    pub fn is_never_in_git(&self, key: &WorkKey) -> bool {
        self.never_in_git.contains(key)
    }

    /// Adds what is known of other works.
    pub fn append(&mut self, mut other: Self) {
        self.works.append(&mut other.works);
        self.never_in_git.append(&mut other.never_in_git);
        self.dependencies.append(&mut other.dependencies);
    }

    /// The clusters of works of which another history says something else.
    pub(crate) fn differing_clusters(&self, other: &Self) -> BTreeSet<ClusterName> {
        let differs = |one: &Self, other: &Self| {
            let states = one.works.iter();
            let states = states.filter(|(key, state)| other.get(key) != Some(state));
            let states = states.map(|(key, _)| key.cluster.clone());
            let never = one.never_in_git.difference(&other.never_in_git);
            let never = never.map(|key| key.cluster.clone());
            let others = one.dependencies.iter();
            let others = others.filter(|(key, of)| other.dependencies.get(key) != Some(of));
            let others = others.map(|(key, _)| key.cluster.clone());
            states.chain(never).chain(others).collect::<BTreeSet<_>>()
        };
        &differs(self, other) | &differs(other, self)
    }
}
