//! What Git's history shows of removed works, and when it may be read again after a failure.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::model::name::{RepoPath, WorkKey};
use crate::plan;
use crate::plan::LastKnownStates;
use crate::plan::observed::Observed;
use crate::render::desired::Desired;

/// Wait after a failed read of Git's history.
const HISTORY_PAUSE: Duration = Duration::from_secs(30);

/// The final state in Git of removed works.
#[derive(Debug, Default)]
pub struct RemovalHistory {
    last_known: LastKnownStates,
    /// The works that were looked up, also those without a result.
    looked_up: BTreeSet<WorkKey>,
    /// When the history may be read again after a failure.
    due: Option<Instant>,
}

impl RemovalHistory {
    /// Records the final state of removed works. `looked_up`: all works that were looked up, also
    /// those without a result.
    pub fn set_last_known(&mut self, looked_up: &[(WorkKey, RepoPath)], found: LastKnownStates) {
        self.looked_up.extend(looked_up.iter().map(|(key, _)| key.clone()));
        self.last_known.extend(found);
        self.due = None;
    }

    /// Waits 30 seconds before the next read: the last one failed.
    pub fn postpone(&mut self, now: Instant) {
        self.due = Some(now + HISTORY_PAUSE);
    }

    /// Forgets all results: they belong to an older head.
    pub(crate) fn clear(&mut self) {
        self.last_known.clear();
        self.looked_up.clear();
    }

    /// The final states that were found.
    pub(crate) fn last_known(&self) -> &LastKnownStates {
        &self.last_known
    }

    /// Whether a work was looked up.
    pub(crate) fn has_looked_up(&self, key: &WorkKey) -> bool {
        self.looked_up.contains(key)
    }

    /// The end of the wait after a failure.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether a failure still postpones reads; forgets the failure if not.
    pub(crate) fn is_waiting(&mut self, now: Instant) -> bool {
        self.due = self.due.filter(|due| *due > now);
        self.due.is_some()
    }

    /// Forgets a failure.
    pub(crate) fn clear_failure(&mut self) {
        self.due = None;
    }

    /// The removed works that were not looked up yet.
    pub(crate) fn not_looked_up(
        &self,
        desired: &Desired,
        observed: &Observed,
    ) -> Vec<(WorkKey, RepoPath)> {
        let mut candidates = plan::removed_candidates(desired, observed);
        candidates.retain(|(key, _)| !self.looked_up.contains(key));
        candidates
    }
}
