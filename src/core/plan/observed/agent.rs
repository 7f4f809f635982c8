//! How far the cluster's work agent has come with a work.

use serde_json::Value;

use crate::model::work_state::Conditions;

/// OCM's agent sets it on a work before it applies any of its manifests, and removes it from a
/// deleted work once the objects are gone from the cluster (OCM work agent, names and finalizers).
pub const AGENT_FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// How far the cluster's work agent has come with the present generation of a work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentView {
    /// The agent's finalizer is on the work: an agent has seen it, and its objects may exist.
    pub seen: bool,
    /// The condition `Applied` is about this generation: the agent has tried to apply it.
    pub reported: bool,
    /// `reported`, and `Applied` is True: every manifest of this generation was applied.
    pub applied: bool,
    /// The condition `Available` is True for this generation.
    pub available: bool,
    /// The condition `Complete` is True. OCM's agent does nothing more for such a work, so it never
    /// observes a change of the deleteOption (OCM work agent, ManifestWorkController).
    pub complete: bool,
    /// The work of this generation is Complete: the agent has applied it once, and applies nothing
    /// of it any more, not even a later change.
    pub finished: bool,
    /// The work has no manifests. OCM's agent does not report `Applied` then, and deletes what the
    /// work had before, whatever the deleteOption (OCM work agent, AppliedManifestWork
    /// reconciler): there is nothing to wait for.
    pub is_empty: bool,
}

impl AgentView {
    /// Reads the agent's marks from a work's metadata and status.
    pub(super) fn of(metadata: &Value, status: &Value, generation: i64, is_empty: bool) -> Self {
        let conditions = Conditions::of(Some(status), None);
        let finalizers = metadata.get("finalizers").and_then(Value::as_array);
        let is_current = |condition: &Value| {
            condition.get("observedGeneration").and_then(Value::as_i64) == Some(generation)
        };
        let is_true = |kind: &str| conditions.is(kind, "True");
        let is_now = |kind: &str| is_true(kind).is_some_and(is_current);
        Self {
            seen: finalizers.into_iter().flatten().any(|f| f.as_str() == Some(AGENT_FINALIZER)),
            reported: conditions.get("Applied").is_some_and(is_current),
            applied: is_now("Applied"),
            available: is_now("Available"),
            complete: is_true("Complete").is_some(),
            finished: is_true("Applied").is_some() && is_now("Complete"),
            is_empty,
        }
    }

    /// Whether the agent has acted on this generation, or never will.
    pub fn has_settled(&self) -> bool {
        !self.seen || self.has_tried()
    }

    /// Whether the agent has orphaned every object that the deleteOption keeps. The agent orphans
    /// an object by removing its owner reference when it applies the manifest (OCM work agent,
    /// Orphan timing), so all of them must have been applied at this generation. A work that no
    /// agent has seen has no objects.
    pub fn has_orphaned(&self) -> bool {
        !self.seen || self.is_empty || self.applied
    }

    /// Whether the agent has tried to apply this generation, or never will.
    pub fn has_tried(&self) -> bool {
        self.complete || self.is_empty || self.reported
    }
}
