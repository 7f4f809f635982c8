//! A change: two states of a source, of which clusters that are the same may be left out.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::model::diagnostic::{Code, Diagnostic, Scope};
use crate::model::name::{ClusterName, RepoPath, WorkKey};
use crate::render::desired::Desired;

/// Two states of a source.
#[derive(Debug)]
pub struct RenderedChange {
    /// The state before.
    pub base: Desired,
    /// The state after.
    pub head: Desired,
    /// The clusters that neither state has, because they are the same.
    pub unread: UnreadClusters,
    /// The clusters that are the same, and that both states have nevertheless.
    pub(super) same: BTreeSet<ClusterName>,
}

/// Clusters that are not rendered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnreadClusters {
    /// How many of them have works.
    pub clusters: usize,
    /// Their work folders, with those of their groups.
    pub works: usize,
}

/// Says of a cluster whether it is selected.
type IsSelected = Arc<dyn Fn(&ClusterName) -> bool + Send + Sync>;

/// The clusters to render.
#[derive(Clone, Default)]
pub(super) enum Selected {
    #[default]
    All,
    /// Whoever selects them asks whether the others matter.
    Named(Arc<BTreeSet<ClusterName>>),
    /// All others, too, if these need them.
    Matching(IsSelected),
}

impl fmt::Debug for Selected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("All"),
            Self::Named(names) => f.debug_tuple("Named").field(names).finish(),
            Self::Matching(_) => f.write_str("Matching"),
        }
    }
}

impl Selected {
    /// Whether a cluster is rendered.
    pub(super) fn has(&self, cluster: &ClusterName) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(cluster),
            Self::Matching(is_selected) => is_selected(cluster),
        }
    }
}

impl RenderedChange {
    /// A change of which everything was rendered, and every problem counts.
    pub fn of_all(base: Desired, head: Desired) -> Self {
        Self { base, head, unread: UnreadClusters::default(), same: BTreeSet::new() }
    }

    /// Makes every location relative to the repository's root, for a source whose files start at
    /// `path`.
    pub fn locate_from_root(&mut self, path: &RepoPath) {
        self.base.locate_from_root(path);
        self.head.locate_from_root(path);
    }

    /// Leaves out what is wrong on both sides with clusters that are the same, as if they had not
    /// been rendered.
    pub fn leave_out_known_problems(&mut self) {
        let Self { base, head, same, .. } = self;
        let is_same = |scope: &Scope| match scope {
            Scope::Source | Scope::Group(_) => false,
            Scope::Cluster(cluster) => same.contains(cluster),
            Scope::Work(key) => same.contains(&key.cluster),
        };
        let keys = |desired: &Desired| -> BTreeSet<Problem> {
            let all = desired.diagnostics.iter().filter(|one| is_same(&one.scope));
            all.map(problem).collect()
        };
        let known: BTreeSet<Problem> = keys(base).intersection(&keys(head)).cloned().collect();
        let is_frozen = |key: &&WorkKey| same.contains(&key.cluster);
        let frozen = base.frozen.works.intersection(&head.frozen.works).filter(is_frozen);
        let frozen: BTreeSet<WorkKey> = frozen.cloned().collect();
        for side in [&mut *base, &mut *head] {
            let is_new = |one: &Diagnostic| !is_same(&one.scope) || !known.contains(&problem(one));
            side.diagnostics.retain(is_new);
            side.frozen.works.retain(|key| !frozen.contains(key));
        }
        let named = base.named_works().chain(head.named_works());
        let named: BTreeSet<&ClusterName> = named.map(|key| &key.cluster).collect();
        let lost: BTreeSet<&ClusterName> = frozen.iter().map(|key| &key.cluster).collect();
        self.unread.clusters += lost.difference(&named).count();
        self.unread.works += frozen.len();
    }
}

/// What makes a problem the same in two states. Equal files have equal lines.
type Problem = (RepoPath, Code, String, Scope);

fn problem(found: &Diagnostic) -> Problem {
    (found.location.file.clone(), found.code, found.message.clone(), found.scope.clone())
}
