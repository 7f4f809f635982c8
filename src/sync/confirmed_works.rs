//! Works whose state on the hub no request of another process can still change.
//!
//! A list or a watch can be older than a write of a former leader, and such a write can arrive
//! after the new leader has read the hub. A write has a precondition for its own work only. If it
//! relies on the state of another work, that work is read again once all such writes have ended.

use std::collections::BTreeSet;
use std::time::Instant;

use gitwork_core::limits;
use gitwork_core::model::name::WorkKey;

/// The works that were read again, and have no newer write without a response.
#[derive(Debug, Default)]
pub(super) struct ConfirmedWorks {
    /// When the last requests of former leaders have ended; `None` without an election.
    settles_at: Option<Instant>,
    /// When the last look-ups began.
    asked_at: Option<Instant>,
    works: BTreeSet<WorkKey>,
}

impl ConfirmedWorks {
    /// This process has become the leader.
    pub(super) fn begin_term(&mut self, now: Instant) {
        self.settles_at = Some(now + limits::LATE_WRITE);
        self.works.clear();
    }

    /// When a look-up can confirm a work; `None` for any time.
    pub(super) fn settles_at(&self) -> Option<Instant> {
        self.settles_at
    }

    /// Look-ups begin.
    pub(super) fn begin_lookups(&mut self, now: Instant) {
        self.asked_at = Some(now);
    }

    /// Records that a look-up of a work succeeded.
    pub(super) fn looked_up(&mut self, key: &WorkKey) {
        if self.settles_at.is_none_or(|at| self.asked_at.is_some_and(|asked| asked >= at)) {
            self.works.insert(key.clone());
        }
    }

    /// Records that a write of a work failed: the hub may have done it.
    pub(super) fn write_failed(&mut self, key: &WorkKey) {
        self.works.remove(key);
    }

    /// Forgets all works: a list may be older than the look-ups.
    pub(super) fn clear(&mut self) {
        self.works.clear();
    }

    /// Keeps only these works.
    pub(super) fn retain(&mut self, works: &BTreeSet<WorkKey>) {
        self.works.retain(|key| works.contains(key));
    }

    /// Whether the known state of the work is confirmed.
    pub(super) fn contains(&self, key: &WorkKey) -> bool {
        self.works.contains(key)
    }
}
