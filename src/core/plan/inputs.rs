//! Everything that a plan follows from.

use crate::model::name::WorkKey;
use crate::plan::last_known::LastKnownStates;
use crate::plan::observed::{Observed, ObservedWork};
use crate::plan::policy::PlanPolicy;
use crate::render::desired::Desired;

/// Everything that a plan follows from: equal inputs give equal plans.
#[derive(Debug, Clone, Copy)]
pub struct PlanInputs<'a> {
    /// What Git wants.
    pub desired: &'a Desired,
    /// What the hub has.
    pub observed: &'a Observed,
    /// The last state in Git of works that it no longer has.
    pub last_known: &'a LastKnownStates,
    /// What operators allow and hold.
    pub policy: &'a PlanPolicy,
}

impl<'a> PlanInputs<'a> {
    /// The works of this source on the hub that are not among the desired ones.
    pub(super) fn removed_works(self) -> impl Iterator<Item = (&'a WorkKey, &'a ObservedWork)> {
        self.observed.works.iter().filter(move |(_, work)| is_removed(work, self.desired))
    }

    /// Whether a work gets an earlier content of its group back.
    pub(super) fn is_returned(self, key: &WorkKey) -> bool {
        let wanted = self.desired.works.get(key).filter(|work| work.is_earlier);
        let on_hub = self.observed.works.get(key).and_then(|work| work.group_content.as_deref());
        wanted.is_some_and(|work| on_hub.is_some() && on_hub != work.group_content.as_deref())
    }

    /// Whether a work that Git no longer has is deleted, and not released.
    pub(super) fn is_pruned(self, work: &ObservedWork) -> bool {
        self.last_known.get(&work.key).map_or(work.prune, |last| last.prune)
    }
}

/// Whether a work of this source is on the hub and not among the desired ones.
pub(super) fn is_removed(work: &ObservedWork, desired: &Desired) -> bool {
    work.is_ours(&desired.source) && !desired.works.contains_key(&work.key)
}

/// Whether it is unknown if Git still has the work, because a part of Git could not be read.
pub(super) fn is_unknown(work: &ObservedWork, desired: &Desired) -> bool {
    desired.frozen.may_contain(&work.key, work.path.as_deref())
}
