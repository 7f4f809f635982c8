//! The semantics of rollouts.

/// What a rollout does where OCM's algorithm has defects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RolloutSemantics {
    /// Gitwork's own waves: OCM's fields without these defects.
    #[default]
    Gitwork,
    /// Exactly OCM's.
    Upstream,
}
