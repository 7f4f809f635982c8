//! What the rollouts followed from at the last update.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::inputs::{GroupRecords, RolloutInputs};
use crate::config::window::{self, Closed};
use crate::model::approval::{Approval, RolloutApproval};
use crate::model::cluster_revisions::ChangedClusters;
use crate::model::digest::Digest;
use crate::model::name::{ClusterName, GroupName};
use crate::plan::directives::Suspensions;
use crate::render::desired::Desired;

/// The inputs of the last update, without what the hub has of each cluster.
#[derive(Debug, Clone)]
pub(super) struct Basis {
    desired: Arc<Desired>,
    /// The number of the last change on the hub.
    observed: u64,
    suspensions: Suspensions,
    approved: BTreeSet<RolloutApproval>,
    restored: Option<Arc<Approval>>,
    recorded: GroupRecords,
    known_rejected: BTreeMap<GroupName, Digest>,
    offline: BTreeSet<ClusterName>,
    /// The windows of all waves.
    closed: Vec<Option<Closed>>,
    now: Timestamp,
}

impl Basis {
    pub(super) fn of(inputs: RolloutInputs<'_>) -> Self {
        let policy = inputs.plan.policy;
        Self {
            desired: inputs.desired.clone(),
            observed: inputs.revisions.last(),
            suspensions: policy.suspensions.clone(),
            approved: policy.approved.rollouts.clone(),
            restored: policy.restored.clone(),
            recorded: inputs.recorded.clone(),
            known_rejected: inputs.known_rejected.clone(),
            offline: inputs.offline.clone(),
            closed: closed(inputs),
            now: inputs.now,
        }
    }

    /// The clusters whose works the hub or Git has otherwise since.
    pub(super) fn changed(&self, inputs: RolloutInputs<'_>) -> ChangedClusters {
        let is_same = Arc::ptr_eq(&self.desired, inputs.desired)
            && self.suspensions == inputs.plan.policy.suspensions;
        if is_same { inputs.revisions.since(self.observed) } else { ChangedClusters::All }
    }

    /// Whether everything else is as it was. `recheck`: when something changes because of the time
    /// alone, windows aside.
    pub(super) fn is_of(&self, inputs: RolloutInputs<'_>, recheck: Option<Timestamp>) -> bool {
        let policy = inputs.plan.policy;
        // A clock that was set back makes times of before the future again.
        let is_later = self.now <= inputs.now && recheck.is_none_or(|at| at > inputs.now);
        is_later
            && self.approved == policy.approved.rollouts
            && self.restored == policy.restored
            && self.recorded == *inputs.recorded
            && self.known_rejected == *inputs.known_rejected
            && self.offline == *inputs.offline
            && self.closed == closed(inputs)
    }

    /// Records that all changes on the hub were read, and lead to nothing.
    pub(super) fn set_read(&mut self, inputs: RolloutInputs<'_>) {
        (self.observed, self.now) = (inputs.revisions.last(), inputs.now);
    }
}

/// The windows of all waves that are closed now.
fn closed(inputs: RolloutInputs<'_>) -> Vec<Option<Closed>> {
    let waves = inputs.desired.rollouts.values().flat_map(|rollout| &rollout.rules.waves);
    waves.map(|wave| window::closed(&[&wave.window], inputs.zone, inputs.now)).collect()
}
