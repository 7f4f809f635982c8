//! The guards of one source: directives of operators, the record on the hub, the history of Git's
//! head, and windows for changes. They set the policy of the next plan. No IO and no clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::config::RewindPolicy;
use crate::config::window;
use crate::config::window::ChangeWindows;
use crate::limits;
use crate::model::approval::{Approval, Approvals, Rewind};
use crate::model::name::CommitId;
use crate::plan::directives::Directives;
use crate::plan::record::{Record, RecordInputs};
use crate::plan::rewind;
use crate::plan::rewind::{AppliedCommits, HeadAncestry};
use crate::plan::{Effect, Guard, Plan, PlanPolicy};
use crate::render::desired::Desired;
use crate::sync::hub::StoredRecord;

/// The operator's settings for one source.
#[derive(Debug, Clone, Default)]
pub struct GuardOptions {
    /// Budgets, and whether all may be deleted.
    pub policy: PlanPolicy,
    /// What to do if the head does not build on all applied commits.
    pub rewind: RewindPolicy,
    /// The operator's change windows. Those of the repository restrict them further.
    pub windows: ChangeWindows,
}

/// The guards of one source.
#[derive(Debug)]
pub struct Guards {
    options: GuardOptions,
    /// `None` before they were read.
    directives: Option<Directives>,
    /// When to read them again.
    directives_due: Option<Instant>,
    /// `None` before it was read, `Some(None)` if there is none.
    record: Option<Option<StoredRecord>>,
    /// When to read or write it again.
    record_due: Option<Instant>,
    /// The highest generation of the record that this process or its mirror has seen.
    known_record_generation: u64,
    /// The hub was restored from a backup: its record is older than before.
    restored: bool,
    ancestry: HeadAncestry,
    /// The repository's windows in the last commit without held changes.
    windows_before: Option<ChangeWindows>,
    /// Applied commits that the head does not build on, as the policy or an approval allows.
    abandoned_commits: BTreeSet<CommitId>,
    /// The applied commits that were known before the last read of Git.
    known_at_read: AppliedCommits,
    /// The head does not contain a commit that became known as applied after the read of Git:
    /// another process may have read Git later and applied it.
    doubts_read: bool,
    /// An operator confirmed that the hub was restored.
    confirmed: bool,
    /// Directives or record changed since [`Self::reset_changed`].
    changed: bool,
}

impl Guards {
    /// `known_record_generation`: the generation of the record that this machine remembers.
    pub(crate) fn new(options: GuardOptions, known_record_generation: u64) -> Self {
        Self {
            options,
            directives: None,
            directives_due: None,
            record: None,
            record_due: None,
            known_record_generation,
            restored: false,
            ancestry: HeadAncestry::default(),
            windows_before: None,
            abandoned_commits: BTreeSet::new(),
            known_at_read: AppliedCommits::default(),
            doubts_read: false,
            confirmed: false,
            changed: false,
        }
    }

    /// Whether directives or record changed since the last plan.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed
    }

    /// Marks that a plan considers all changes.
    pub(crate) fn reset_changed(&mut self) {
        self.changed = false;
    }

    /// Replaces the operator's settings from the next plan on.
    pub(crate) fn set_options(&mut self, options: GuardOptions) {
        self.options = options;
    }

    /// Directives and record are known; nothing is planned without them.
    pub fn is_known(&self) -> bool {
        self.directives.is_some() && self.record.is_some()
    }

    /// Whether the directives are due to be read.
    pub fn wants_directives(&self, now: Instant) -> bool {
        self.directives_due.is_none_or(|due| due <= now)
    }

    /// Makes the directives due at once.
    pub(crate) fn ask_directives_again(&mut self) {
        self.directives_due = None;
    }

    /// Whether the record is unknown and due to be read.
    pub fn wants_record(&self, now: Instant) -> bool {
        self.record.is_none() && self.record_due.is_none_or(|due| due <= now)
    }

    /// When the next read is due.
    pub fn next_due(&self) -> Option<Instant> {
        let record = self.record_due.filter(|_| self.record.is_none());
        self.directives_due.into_iter().chain(record).min()
    }

    /// Reads directives and record again before the next plan: another process may have written
    /// them.
    pub fn ask_again(&mut self) {
        self.ask_directives_again();
        self.ask_record_again(None);
    }

    /// Sets the directives; `None` keeps the known ones after a failed read. Gives whether an
    /// operator requests a sync now.
    pub fn set_directives(&mut self, found: Option<Directives>, now: Instant) -> bool {
        let known = self.directives.is_some() || found.is_some();
        let wait = if known { limits::DIRECTIVES_POLL } else { limits::DIRECTIVES_RETRY };
        self.directives_due = Some(now + wait);
        let Some(found) = found else { return false };
        let before = self.directives.replace(found);
        let now = self.directives.as_ref();
        self.changed |= before.as_ref() != now;
        let request =
            |directives: Option<&Directives>| directives.and_then(|d| d.reconcile.clone());
        // The first fetch of this process served earlier requests.
        before.is_some() && request(before.as_ref()) != request(now) && request(now).is_some()
    }

    /// Sets the record as stored on the hub. `has_works`: the hub has works of the source.
    pub(crate) fn set_record(&mut self, found: Option<StoredRecord>, has_works: bool) {
        let record_generation = found.as_ref().map_or(0, |stored| stored.record.record_generation);
        // A hub without any data of the source is new.
        if record_generation < self.known_record_generation && (found.is_some() || has_works) {
            self.restored = true;
        }
        self.known_record_generation = self.known_record_generation.max(record_generation);
        if let Some(stored) = &found {
            self.windows_before = Some(stored.record.rules.windows.clone());
        }
        self.changed |= found.is_none() || self.stored() != found.as_ref();
        self.record = Some(found);
        self.record_due = None;
    }

    /// Sets the generation that is remembered elsewhere. Gives whether the record must be read
    /// again.
    pub fn observe_record_generation(&mut self, record_generation: u64) -> bool {
        if record_generation <= self.known_record_generation {
            return false;
        }
        self.known_record_generation = record_generation;
        self.ask_record_again(None);
        true
    }

    /// The record; `None` if it is not known or does not exist.
    pub(crate) fn recorded(&self) -> Option<&Record> {
        Some(&self.record.as_ref()?.as_ref()?.record)
    }

    /// As [`Self::recorded`], with its resourceVersion.
    pub fn stored(&self) -> Option<&StoredRecord> {
        self.record.as_ref()?.as_ref()
    }

    /// The record could not be read or written, or another process wrote it: read it again.
    pub fn ask_record_again(&mut self, due: Option<Instant>) {
        self.record = None;
        self.record_due = due;
        self.changed = true;
    }

    /// Commits to look up in Git before the next plan for this head. `commits_on_works`: the
    /// commits in the annotations of works on the hub.
    pub(crate) fn unknown_commits(
        &self,
        desired: &Desired,
        commits_on_works: &BTreeSet<CommitId>,
    ) -> BTreeSet<CommitId> {
        let Some(head) = desired.commit else { return BTreeSet::new() };
        let applied = || rewind::applied(commits_on_works, self.recorded());
        let unreached = !self.ancestry.is_clear() && !self.ancestry.rewound(applied()).is_empty();
        // The commits of approvals matter only if there is a rewind.
        let approved = if unreached { self.rewinds(desired) } else { BTreeSet::new() };
        let approved = approved.into_iter().map(|rewind| rewind.to);
        self.ancestry.unknown_commits(head, applied().chain(approved))
    }

    /// Records Git's answer about [`Self::unknown_commits`]. `unreached`: the commits of
    /// `looked_up` that `head` does not build on.
    pub(crate) fn record_ancestry(
        &mut self,
        head: CommitId,
        looked_up: &BTreeSet<CommitId>,
        unreached: &BTreeSet<CommitId>,
    ) {
        self.ancestry.record(head, looked_up, unreached);
    }

    fn approvals(&self) -> Approvals {
        self.directives.as_ref().map(|found| found.approvals.clone()).unwrap_or_default()
    }

    fn rewinds(&self, desired: &Desired) -> BTreeSet<Rewind> {
        let on_hub = self.directives.iter().flat_map(|said| &said.approvals.rewinds);
        on_hub.chain(&desired.approved.rewinds).cloned().collect()
    }

    /// Sets the current guards in `policy`. `zone` looks up time zones.
    pub(crate) fn apply(
        &mut self,
        policy: &mut PlanPolicy,
        desired: &Desired,
        commits_on_works: &BTreeSet<CommitId>,
        now: Timestamp,
        zone: &dyn Fn(&str) -> Option<TimeZone>,
    ) {
        policy.approved = self.approvals();
        policy.suspensions =
            self.directives.as_ref().map(|found| found.suspensions.clone()).unwrap_or_default();
        self.apply_restore(policy, desired);
        self.apply_rewind(policy, desired, commits_on_works);
        let repository = [Some(&desired.rules.windows), self.windows_before.as_ref()];
        let mut all: Vec<&ChangeWindows> = vec![&self.options.windows];
        all.extend(repository.into_iter().flatten());
        policy.closed = window::closed(&all, zone, now);
    }

    fn apply_restore(&mut self, policy: &mut PlanPolicy, desired: &Desired) {
        let recorded = self.recorded().is_some_and(|record| record.restored);
        let record_generation = self.recorded().map_or(0, |record| record.record_generation);
        let approved = policy.approved.restored.contains(&record_generation)
            || desired.approved.restored.contains(&record_generation);
        self.confirmed = recorded && approved;
        let held = (recorded && !approved) || self.restored;
        let source = desired.source.clone();
        policy.restored = held.then(|| Arc::new(Approval::Restored { source, record_generation }));
    }

    fn apply_rewind(
        &mut self,
        policy: &mut PlanPolicy,
        desired: &Desired,
        commits_on_works: &BTreeSet<CommitId>,
    ) {
        policy.held_rewind = None;
        self.abandoned_commits.clear();
        self.doubts_read = false;
        let Some(head) = desired.commit.filter(|_| !self.ancestry.is_clear()) else { return };
        let abandoned_commits =
            self.ancestry.rewound(rewind::applied(commits_on_works, self.recorded()));
        if abandoned_commits.is_empty() {
            return;
        }
        // On a restored hub no rewind is followed without approval: its earlier state is not known.
        let holds = self.options.rewind == RewindPolicy::Hold || policy.restored.is_some();
        let approved = self.ancestry.is_approved(&abandoned_commits, &self.rewinds(desired));
        self.doubts_read = !approved && !self.known_at_read.has_all(&abandoned_commits);
        if holds && !approved {
            let rewind =
                Rewind { source: desired.source.clone(), from: abandoned_commits, to: head };
            policy.held_rewind = Some(Arc::new(rewind));
        } else {
            self.abandoned_commits = abandoned_commits;
        }
    }

    /// Git was read again. `known`: the applied commits that were known before.
    pub fn read_after(&mut self, known: AppliedCommits) {
        self.known_at_read = known;
    }

    /// Whether the branch may only seem rewound because it was read too early: read it again first.
    pub fn doubts_read(&self) -> bool {
        self.doubts_read
    }

    /// Applied commits that the head is allowed to leave, if that is to be logged.
    pub fn followed(&self) -> Option<&BTreeSet<CommitId>> {
        let is_logged =
            self.options.rewind != RewindPolicy::Follow && !self.abandoned_commits.is_empty();
        is_logged.then_some(&self.abandoned_commits)
    }

    /// Whether no guard holds changes of the plan, except suspensions of works and clusters. Then
    /// the rules of this commit apply to the next one. A commit that could not be read completely
    /// has no rules.
    pub(crate) fn is_nothing_held(policy: &PlanPolicy, desired: &Desired, plan: &Plan) -> bool {
        let judges = Guard::ALL.into_iter().filter(|guard| *guard != Guard::Suspension);
        let held: usize = judges.map(|guard| plan.held_by(guard)).sum();
        let is_read = !desired.frozen.source && !desired.frozen.deletes;
        held == 0 && is_read && policy.suspensions.source.is_none() && !desired.suspended.source
    }

    /// Keeps the windows of this commit: they apply to the next one, too.
    pub(crate) fn keep_windows(&mut self, desired: &Desired) {
        self.windows_before = Some(desired.rules.windows.clone());
    }

    /// The record to write before the plan is executed; `None` if it stays as it is.
    pub(crate) fn record_to_write(
        &self,
        desired: &Desired,
        commits_on_works: &BTreeSet<CommitId>,
        plan: &Plan,
        nothing_is_held: bool,
    ) -> Option<Record> {
        // A folder on disk has no commits.
        desired.commit?;
        let recorded = self.recorded();
        if self.restored {
            return Some(Record::after_restore(recorded, self.known_record_generation));
        }
        let has_abandoned = recorded.is_some_and(|record| !record.abandoned.is_empty());
        let on_hub = has_abandoned.then_some(commits_on_works);
        let effects = || plan.effects().map(|(_, effect)| effect);
        Record::next(
            recorded,
            &RecordInputs {
                head: desired.commit,
                rules: desired.rules.clone(),
                abandoned_commits: self.abandoned_commits.clone(),
                on_hub,
                nothing_is_held,
                removes: effects().any(|effect: &Effect| !effect.writes_content()),
                writes: effects().next().is_some(),
                confirmed: self.confirmed,
            },
        )
    }

    /// The record was written.
    pub fn record_written(&mut self, stored: StoredRecord) {
        self.known_record_generation = stored.record.record_generation;
        self.restored = false;
        self.record = Some(Some(stored));
        self.record_due = None;
        self.changed = true;
    }
}

#[cfg(test)]
mod tests;
