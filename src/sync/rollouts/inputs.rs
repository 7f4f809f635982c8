//! What the rollouts of a source follow from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use gitwork_core::model::cluster_revisions::ClusterRevisions;
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{ClusterName, GroupName, WorkKey};
use gitwork_core::plan::PlanInputs;
use gitwork_core::plan::rollouts::GroupRecord;
use gitwork_core::render::desired::Desired;

/// The records of all groups.
pub type GroupRecords = BTreeMap<GroupName, GroupRecord>;

/// What the rollouts of a source follow from, besides what is kept from plan to plan.
#[derive(Clone, Copy)]
pub(crate) struct RolloutInputs<'a> {
    pub plan: PlanInputs<'a>,
    /// Those of the plan.
    pub desired: &'a Arc<Desired>,
    /// When the works of each cluster changed on the hub.
    pub revisions: &'a ClusterRevisions,
    /// As on the hub.
    pub recorded: &'a GroupRecords,
    /// The contents that the status branch calls rejected. A restored hub may not know that.
    pub known_rejected: &'a BTreeMap<GroupName, Digest>,
    /// Clusters that cannot be reached.
    pub offline: &'a BTreeSet<ClusterName>,
    pub now: Timestamp,
    /// Looks up time zones.
    pub zone: &'a dyn Fn(&str) -> Option<TimeZone>,
}

/// Whether somebody wants the work to stay as it is.
pub(super) fn is_suspended(key: &WorkKey, inputs: PlanInputs<'_>) -> bool {
    let PlanInputs { desired, policy, .. } = inputs;
    let is_in_git = || desired.works.get(key).is_some_and(|work| work.suspend);
    desired.suspended.covers(key) || policy.suspensions.of(key).is_some() || is_in_git()
}
