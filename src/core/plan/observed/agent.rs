//! How far the cluster's work agent has come with a work.

use serde_json::Value;

use crate::model::work_state::Conditions;

/// OCM's agent sets it on a work before it applies any of its manifests, and removes it from a
/// deleted work once the objects are gone from the cluster (OCM work agent, names and finalizers).
pub const AGENT_FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// How far the cluster's work agent has come with a work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentView {
    /// The agent's finalizer is on the work: an agent has seen it, and its objects may exist.
    pub seen: bool,
    /// `observedGeneration` of the work's condition `Applied`.
    pub applied_generation: Option<i64>,
    /// The condition `Applied` is True: every manifest of that generation was applied.
    pub applied: bool,
    /// `observedGeneration` of the work's condition `Available`, if that is True.
    pub available_generation: Option<i64>,
    /// The condition `Complete` is True. OCM's agent does nothing more for such a work, so it never
    /// observes a change of the deleteOption (OCM work agent, ManifestWorkController).
    pub complete: bool,
    /// `observedGeneration` of the condition `Complete`, if that is True.
    pub complete_generation: Option<i64>,
    /// The work has no manifests. OCM's agent does not report `Applied` then, and deletes what the
    /// work had before, whatever the deleteOption (OCM work agent, AppliedManifestWork
    /// reconciler): there is nothing to wait for.
    pub is_empty: bool,
}

impl AgentView {
    /// Reads the agent's marks from a work's metadata and status.
    pub(super) fn of(metadata: &Value, status: &Value, is_empty: bool) -> Self {
        let conditions = Conditions::of(Some(status), None);
        let finalizers = metadata.get("finalizers").and_then(Value::as_array);
        let observed = |condition: &Value| condition.get("observedGeneration")?.as_i64();
        Self {
            seen: finalizers.into_iter().flatten().any(|f| f.as_str() == Some(AGENT_FINALIZER)),
            applied_generation: conditions.get("Applied").and_then(observed),
            applied: conditions.is("Applied", "True").is_some(),
            available_generation: conditions.is("Available", "True").and_then(observed),
            complete: conditions.is("Complete", "True").is_some(),
            complete_generation: conditions.is("Complete", "True").and_then(observed),
            is_empty,
        }
    }

    /// Whether the agent has acted on `generation` of the work, or never will.
    pub fn has_settled(&self, generation: i64) -> bool {
        let has_nothing_to_do = !self.seen || self.complete || self.is_empty;
        has_nothing_to_do || self.applied_generation == Some(generation)
    }

    /// Whether the agent has orphaned every object that the deleteOption of `generation` keeps. The
    /// agent orphans an object by removing its owner reference when it applies the manifest (OCM
    /// work agent, Orphan timing), so all of them must have been applied at this generation. A work
    /// that no agent has seen has no objects.
    pub fn has_orphaned(&self, generation: i64) -> bool {
        !self.seen || self.is_empty || self.has_applied(generation)
    }

    /// Whether the agent has applied every manifest of `generation`.
    pub fn has_applied(&self, generation: i64) -> bool {
        self.applied && self.applied_generation == Some(generation)
    }

    /// Whether the objects of `generation` are available.
    pub fn is_available(&self, generation: i64) -> bool {
        self.available_generation == Some(generation)
    }

    /// Whether the work of `generation` is Complete: the agent has applied the work once, and
    /// applies nothing of it any more, not even a later change.
    pub fn is_finished(&self, generation: i64) -> bool {
        self.applied && self.complete_generation == Some(generation)
    }

    /// Whether the agent has tried to apply `generation`, or never will.
    pub fn has_tried(&self, generation: i64) -> bool {
        self.complete || self.is_empty || self.applied_generation == Some(generation)
    }
}
