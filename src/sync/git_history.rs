//! What Git's history shows: the commits that the head builds on, and the final state of removed
//! works.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gitwork_core::model::name::{CommitId, RepoPath, WorkKey};
use gitwork_core::plan::reason::Reason;
use gitwork_core::plan::rewind::{AppliedCommits, HeadAncestry};
use gitwork_core::plan::{Effect, LastKnownStates, PlanStep};

/// Wait after a failed read of Git's history.
const HISTORY_PAUSE: Duration = Duration::from_secs(30);

/// What to look up about the history of Git's head before the next plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AncestryLookup {
    /// Nothing: it is known which applied commits the head builds on.
    Known,
    /// Whether the head builds on these commits.
    Due(BTreeSet<CommitId>),
    /// Nothing yet: Git or the hub is not known, or the last look-up failed a short time ago.
    Wait,
}

/// What was read from Git's history.
#[derive(Debug, Default)]
pub struct GitHistory {
    ancestry: HeadAncestry,
    /// The applied commits that were known before the last read of Git.
    known_at_read: AppliedCommits,
    /// The final state of removed works.
    last_known: LastKnownStates,
    /// The removed works that were looked up, also those without a result.
    looked_up: BTreeSet<WorkKey>,
    /// When the history may be read again after a failure.
    due: Option<Instant>,
}

impl GitHistory {
    /// Records that Git was read again. `known`: the applied commits that were known before.
    pub fn read_after(&mut self, known: AppliedCommits) {
        self.known_at_read = known;
    }

    /// Records the answer to [`AncestryLookup::Due`]. `unreached`: the commits of `looked_up` that
    /// `head` does not build on.
    pub fn set_ancestry(
        &mut self,
        head: CommitId,
        looked_up: &BTreeSet<CommitId>,
        unreached: &BTreeSet<CommitId>,
    ) {
        self.ancestry.record(head, looked_up, unreached);
        self.due = None;
    }

    /// Records the final state of removed works. `looked_up`: all works that were looked up, also
    /// those without a result.
    pub fn set_last_known(&mut self, looked_up: &[(WorkKey, RepoPath)], found: LastKnownStates) {
        self.looked_up.extend(looked_up.iter().map(|(key, _)| key.clone()));
        self.last_known.append(found);
        self.due = None;
    }

    /// Waits 30 seconds before the next read: the last one failed.
    pub fn postpone(&mut self, now: Instant) {
        self.due = Some(now + HISTORY_PAUSE);
    }

    /// Forgets the removed works: they belong to an older head.
    pub(crate) fn forget_removed(&mut self) {
        self.last_known = LastKnownStates::default();
        self.looked_up.clear();
    }

    /// The commits that the head builds on, as far as they were looked up.
    pub(crate) fn ancestry(&self) -> &HeadAncestry {
        &self.ancestry
    }

    /// The applied commits that were known before the last read of Git.
    pub(crate) fn known_at_read(&self) -> &AppliedCommits {
        &self.known_at_read
    }

    /// The final states of removed works that were found.
    pub fn last_known(&self) -> &LastKnownStates {
        &self.last_known
    }

    /// Whether a removed work was looked up.
    pub(crate) fn has_looked_up(&self, key: &WorkKey) -> bool {
        self.looked_up.contains(key)
    }

    /// Whether the effect of a step needs no look-up. A removal needs the final `deleteOption` in
    /// Git first, unless Git still has the work and all its objects have moved.
    pub(crate) fn allows(&self, step: &PlanStep, effect: &Effect) -> bool {
        let moves = matches!(step.reason, Reason::MovesObjects { .. });
        effect.body().is_some() || moves || self.has_looked_up(&step.key)
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

    /// Those of the removed works that were not looked up yet.
    pub(crate) fn not_looked_up<'a>(
        &self,
        removed: impl Iterator<Item = &'a (WorkKey, RepoPath)>,
    ) -> Vec<(WorkKey, RepoPath)> {
        removed.filter(|(key, _)| !self.looked_up.contains(key)).cloned().collect()
    }
}
