//! The contents that clusters of a group have or get while another one is rolled out.

use std::collections::BTreeMap;

use crate::model::digest::Digest;
use crate::model::name::{ClusterName, CommitId, GroupName};

/// By group, what clusters keep or get in place of the content of Git's head.
pub type EarlierContents = BTreeMap<GroupName, EarlierContent>;

/// The contents of one group beside that of Git's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierContent {
    /// The content of Git's head that this was decided for. With another one, it counts for
    /// nothing.
    pub head: Digest,
    /// A commit that has each content.
    pub commits: BTreeMap<Digest, CommitId>,
    /// The content of each cluster.
    pub clusters: BTreeMap<ClusterName, Digest>,
}
