//! What Git's history shows of removed works, and when it may be read again after a failure.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::model::name::{RepoPath, WorkKey};
use crate::plan;
use crate::plan::RemovedWorks;
use crate::plan::observed::Observed;
use crate::render::desired::Desired;

/// Wait after a failed read of Git's history.
const HISTORY_PAUSE: Duration = Duration::from_secs(30);

/// The final state in Git of removed works.
#[derive(Debug, Default)]
pub struct RemovalHistory {
    removed_works: RemovedWorks,
    /// The works that were looked up, also those without a result.
    asked: BTreeSet<WorkKey>,
    /// When the history may be read again after a failure.
    due: Option<Instant>,
}

impl RemovalHistory {
    /// Records the final state of removed works. `asked`: all works that were looked up, also
    /// those without a result.
    pub fn set_removed_works(&mut self, asked: &[(WorkKey, RepoPath)], found: RemovedWorks) {
        self.asked.extend(asked.iter().map(|(key, _)| key.clone()));
        self.removed_works.extend(found);
        self.due = None;
    }

    /// Waits 30 seconds before the next read: the last one failed.
    pub fn postpone(&mut self, now: Instant) {
        self.due = Some(now + HISTORY_PAUSE);
    }

    /// Forgets all results: they belong to an older head.
    pub(crate) fn clear(&mut self) {
        self.removed_works.clear();
        self.asked.clear();
    }

    pub(crate) fn removed_works(&self) -> &RemovedWorks {
        &self.removed_works
    }

    /// Whether a work was looked up.
    pub(crate) fn has_asked(&self, key: &WorkKey) -> bool {
        self.asked.contains(key)
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
    pub(crate) fn answered(&mut self) {
        self.due = None;
    }

    /// The removed works that were not looked up yet.
    pub(crate) fn unknown(
        &self,
        desired: &Desired,
        observed: &Observed,
    ) -> Vec<(WorkKey, RepoPath)> {
        let mut candidates = plan::removed_candidates(desired, observed);
        candidates.retain(|(key, _)| !self.asked.contains(key));
        candidates
    }
}
