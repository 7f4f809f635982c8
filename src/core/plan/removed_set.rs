//! A ManifestWorkReplicaSet that Git no longer has.

use std::sync::Arc;

use crate::model::name::ClusterName;

/// A set that Git no longer has, with what its ManifestWorks on the clusters have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemovedSet {
    /// The number of its ManifestWorks.
    pub works: usize,
    /// Whether Git has one of their objects in another work.
    pub moves: bool,
    /// Whether no object is lost with the set.
    pub keeps_all: bool,
    /// The clusters where other works do not own all of these objects yet.
    pub waiting: Arc<[ClusterName]>,
}
