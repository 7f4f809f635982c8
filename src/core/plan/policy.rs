//! What operators allow, and what they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::AdoptionPolicy;
use crate::config::Budgets;
use crate::config::window::Closed;
use crate::model::approval::{Approval, Approvals, Rewind};
use crate::model::name::WorkKey;
use crate::plan::directives::Suspensions;
use crate::plan::drift_backoff::Contentions;
use crate::plan::removed_set::RemovedSet;
use crate::plan::rollouts::RolloutWaits;

/// The operator's part of a plan: permissions, approvals, suspensions, and the state of the guards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanPolicy {
    /// Which works of other owners the source adopts.
    pub adoption: AdoptionPolicy,
    /// One plan may delete every work of the source on the hub, whatever the budgets.
    pub allow_delete_all: bool,
    /// The operator's budgets.
    pub budgets: Budgets,
    /// The repository's budgets as of the last commit that left no deletion held, if known.
    pub budgets_before: Option<Budgets>,
    /// Approvals on the hub.
    pub approved: Approvals,
    /// Suspensions on the hub.
    pub suspensions: Suspensions,
    /// The approval that lets this process write the source; `None` unless the source has another
    /// origin on the hub.
    pub other_origin: Option<Arc<Approval>>,
    /// Applied commits that Git's head does not build on, if that is held and not approved.
    pub held_rewind: Option<Arc<Rewind>>,
    /// The approval that allows deletions after the hub was restored from a backup; `None` if it
    /// was not restored.
    pub restored: Option<Arc<Approval>>,
    /// Set while no change window is open.
    pub closed: Option<Closed>,
    /// Updates that have waited long enough for those of other works.
    pub overdue_updates: BTreeSet<WorkKey>,
    /// Works that another writer keeps changing.
    pub contentions: Contentions,
    /// ManifestWorkReplicaSets that Git no longer has, as far as their ManifestWorks were read.
    pub removed_sets: BTreeMap<WorkKey, RemovedSet>,
    /// Works that wait for the wave of their cluster.
    pub rollout_waits: RolloutWaits,
}
