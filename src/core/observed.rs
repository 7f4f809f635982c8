//! What the hub has, reduced to what planning needs.

use std::collections::BTreeMap;

use super::digest::Digest;
use super::name::{SourceId, WorkKey};
use super::work::DeleteOption;

/// One ManifestWork on the hub.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedWork {
    pub key: WorkKey,
    pub uid: String,
    /// Opaque; sent back as the precondition of a write.
    pub resource_version: String,
    pub generation: i64,
    /// The value of `gitwork.dev/source`; `None` for a work that is no gitwork's.
    pub source: Option<String>,
    /// The source that an operator allows to take this work over (`gitwork.dev/adopt`).
    pub adopt: Option<String>,
    /// The digest of what is there now, over the same parts as `WorkBody::digest`: the spec, the labels and
    /// annotations that gitwork set. Equal to the desired digest exactly where there is nothing to write.
    pub digest: Digest,
    /// `gitwork.dev/content-hash`: the digest of what gitwork last wrote. Differs from `digest` after a manual edit.
    pub written: Option<Digest>,
    /// `gitwork.dev/commit`.
    pub commit: Option<String>,
    /// `gitwork.dev/path`.
    pub path: Option<String>,
    /// `spec.deleteOption` on the hub.
    pub delete_option: DeleteOption,
    /// From `gitwork.dev/prune`.
    pub prune: bool,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    pub agent: AgentView,
}

/// How far the cluster's work agent has come with a work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentView {
    /// The agent's finalizer is on the work: an agent has seen it, and its objects may exist.
    pub seen: bool,
    /// `observedGeneration` of the work's condition `Applied`.
    pub applied_generation: Option<i64>,
    /// The condition `Complete` is True: OCM's agent does nothing more for such a work, so a change of its
    /// deleteOption is never observed (OCM work agent, ManifestWorkController).
    pub complete: bool,
}

impl AgentView {
    /// Whether the agent has acted, or will never act, on what the hub has at `generation`.
    pub fn has_settled(&self, generation: i64) -> bool {
        !self.seen || self.complete || self.applied_generation == Some(generation)
    }
}

/// Every ManifestWork of one source that the hub has, and those foreign ones whose name is in its way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    pub works: BTreeMap<WorkKey, ObservedWork>,
}

impl ObservedWork {
    pub fn is_ours(&self, source: &SourceId) -> bool {
        self.source.as_deref() == Some(source.as_str())
    }
}
