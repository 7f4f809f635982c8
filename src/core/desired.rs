//! `snapshot -> desired`: every work that Git wants, and what could not be read.

use std::collections::{BTreeMap, BTreeSet};

use super::diagnostic::Diagnostic;
use super::name::{ClusterName, CommitId, SourceId, WorkKey};
use super::work::DesiredWork;

/// What one commit (or directory) wants.
#[derive(Debug, Clone)]
pub struct Desired {
    pub source: SourceId,
    /// `None` for a local directory with uncommitted changes.
    pub commit: Option<CommitId>,
    pub works: BTreeMap<WorkKey, DesiredWork>,
    /// What could not be read, and so is neither changed nor deleted.
    pub frozen: Frozen,
    /// Sorted; errors, warnings and notes of the whole source.
    pub diagnostics: Vec<Diagnostic>,
}

/// Unknown is not absent: what is in here keeps its state on the hub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frozen {
    /// Nothing of the source could be read.
    pub source: bool,
    pub clusters: BTreeSet<ClusterName>,
    pub works: BTreeSet<WorkKey>,
}

impl Frozen {
    pub fn holds(&self, key: &WorkKey) -> bool {
        self.source || self.clusters.contains(&key.cluster) || self.works.contains(key)
    }
}
