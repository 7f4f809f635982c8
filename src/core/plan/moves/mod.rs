//! Objects that move from one work to another of the same cluster.
//!
//! A move is not a deletion: the object keeps its uid. A work that the hub has and that lists an
//! object which Git has in another work is the giving work; that other work is the receiving one.
//!
//! - [`find`]: the moves, from the objects that works list on the hub and in Git.
//! - `progress`: how far each move has come.
//! - `body`: what the works of a move have on the hub meanwhile.
//! - `receiving`: what a work gets, and what it must go on owning meanwhile.
//! - `leaving`: objects that have moved, and that the agent has not removed from the giving work.
//! - `remaining_owners`: works that must still own an object when another one gives it up.
//!
//! In general the giving work keeps the manifest, with the update strategy `CreateOnly`, until the
//! receiving work has applied it. It stays an owner of the object and writes nothing, so that any
//! agent may act on both works in any order. An object that one of both works does not own is
//! orphaned by the giving work first, and then given to the receiving one.

mod body;
mod find;
mod leaving;
mod object_move;
mod progress;
mod receiving;
mod remaining_owners;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use body::TransitionalWork;
pub use find::MovingWorks;
pub use leaving::LeavingObjects;
pub use object_move::CREATE_AGAIN;
pub use object_move::{MoveProgress, ObjectMove};
pub use progress::StandsStill;
pub use remaining_owners::remaining_owners;

use crate::model::name::WorkKey;
use crate::model::work::DeletionPolicy;
use crate::plan::inputs::PlanInputs;

/// All moves of one plan, by work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moves {
    /// Works whose content on the hub differs from Git because of a move.
    transitional: BTreeMap<WorkKey, TransitionalWork>,
    /// The moves from each work on the hub.
    giving: BTreeMap<WorkKey, Vec<ObjectMove>>,
    /// The works that objects move to.
    receivers: BTreeSet<WorkKey>,
}

impl Moves {
    /// The moves that follow from what Git and the hub have now. No object moves from a work or to
    /// a work that stands still.
    pub fn observe(
        inputs: PlanInputs<'_>,
        leaving: &LeavingObjects<'_>,
        stands_still: &StandsStill<'_>,
    ) -> Self {
        let found = find::find(inputs);
        let shared = leaving.shared_works(inputs.observed);
        if found.is_empty() && shared.is_empty() {
            return Self::default();
        }
        let all = progress::moves(&found, inputs, leaving, stands_still);
        let mut by_work: BTreeMap<&WorkKey, Vec<&ObjectMove>> = BTreeMap::new();
        for one in &all {
            by_work.entry(&one.from).or_default().push(one);
            // What only a later or a rejected content has stays in its own work.
            // The works of a replica set are written by its controller.
            if one.to != one.from && one.to.is_work() {
                by_work.entry(&one.to).or_default().push(one);
            }
        }
        for key in shared {
            by_work.entry(key).or_default();
        }
        let transitional = by_work.into_iter().filter_map(|(key, moves)| {
            Some((key.clone(), body::transitional(key, &moves, leaving, inputs)?))
        });
        let transitional = transitional.collect();
        let received = all.iter().filter(|one| one.to.is_work());
        let received = received.filter(|one| one.progress != MoveProgress::WaitsForWave);
        let receivers = received.map(|one| one.to.clone()).collect();
        let mut giving: BTreeMap<WorkKey, Vec<ObjectMove>> = BTreeMap::new();
        for one in all {
            giving.entry(one.from.clone()).or_default().push(one);
        }
        Self { transitional, giving, receivers }
    }

    /// What the work has on the hub meanwhile; `None` if that is what Git has.
    pub fn transitional(&self, key: &WorkKey) -> Option<&TransitionalWork> {
        self.transitional.get(key)
    }

    /// The deleteOption with which a work is deleted, so that it keeps the objects that it has
    /// orphaned for a move. `option`: Git's final one.
    pub(crate) fn final_option(&self, key: &WorkKey, option: &DeletionPolicy) -> DeletionPolicy {
        option.orphaning(body::orphaned_objects(self.from(key)))
    }

    /// The moves from a work on the hub.
    pub fn from(&self, key: &WorkKey) -> &[ObjectMove] {
        self.giving.get(key).map_or(&[], Vec::as_slice)
    }

    /// Whether objects move to the work.
    pub fn has_receiver(&self, key: &WorkKey) -> bool {
        self.receivers.contains(key)
    }

    /// Whether every object of a work on the hub moves to another work, so that its deletion loses
    /// none.
    pub fn is_moved_away(&self, key: &WorkKey, inputs: PlanInputs<'_>) -> bool {
        body::gives_all(key, self.from(key), inputs)
    }
}
