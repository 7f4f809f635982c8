//! What the rollouts followed from at the last update.

use std::sync::Arc;

use super::inputs::RolloutInputs;
use gitwork_core::model::cluster_revisions::ChangedClusters;
use gitwork_core::plan::directives::Suspensions;
use gitwork_core::render::desired::Desired;

/// What the works that were read of each cluster followed from.
#[derive(Debug)]
pub(super) struct Basis {
    desired: Arc<Desired>,
    /// The number of the last change on the hub.
    observed: u64,
    suspensions: Suspensions,
}

impl Basis {
    pub(super) fn of(inputs: RolloutInputs<'_>) -> Self {
        Self {
            desired: inputs.desired.clone(),
            observed: inputs.revisions.last(),
            suspensions: inputs.plan.policy.suspensions.clone(),
        }
    }

    /// The clusters whose works the hub or Git has otherwise since.
    pub(super) fn changed(&self, inputs: RolloutInputs<'_>) -> ChangedClusters {
        let is_same = Arc::ptr_eq(&self.desired, inputs.desired)
            && self.suspensions == inputs.plan.policy.suspensions;
        if is_same { inputs.revisions.since(self.observed) } else { ChangedClusters::All }
    }
}
