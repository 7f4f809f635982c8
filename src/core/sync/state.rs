//! The state of one source between passes. No IO and no clock: time is passed in.
//!
//! - here: the facts, and what is still to be read.
//! - `planning`: the plans, due writes and status that follow from them.

mod planning;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use gitwork_retry::RetryClass;

use crate::model::name::{CommitId, RepoPath, SourceId, WorkKey};
use crate::plan::conflicting_manager::ConflictingManager;
use crate::plan::drift_backoff::{Contentions, Written};
use crate::plan::lint::PlanViolation;
use crate::plan::observed::ObservedWork;
use crate::plan::rewind;
use crate::plan::rewind::AppliedCommits;
use crate::plan::{Effect, Plan, PlanPolicy, Reason};
use crate::render::desired::Desired;
use crate::sync::guards::{GuardOptions, Guards};
use crate::sync::hub::{ExecuteError, HubError, HubEvent, Outcome, StoredRecord};
use crate::sync::observed_hub::ObservedHub;
use crate::sync::removal_history::RemovalHistory;
use crate::sync::retries::Retries;

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

/// The state of one source.
#[derive(Debug)]
pub struct SyncState {
    policy: PlanPolicy,
    /// The desired state in Git; `None` before the first read.
    desired: Option<Arc<Desired>>,
    hub: ObservedHub,
    history: RemovalHistory,
    retries: Retries,
    /// Approvals, suspensions, rewinds and windows.
    guards: Guards,
    /// The last plan.
    planned: Option<Arc<Plan>>,
    /// Rules that the last plan breaks, by a bug of the planner. Nothing is done for these works.
    violations: Vec<PlanViolation>,
    /// Something but the guards changed since the last plan.
    dirty: bool,
}

impl SyncState {
    /// `known_record_generation`: what this machine remembers of the source's record on the hub.
    /// `now` is the start of all backoffs.
    pub fn new(
        source: SourceId,
        options: GuardOptions,
        known_record_generation: u64,
        now: Instant,
    ) -> Self {
        Self {
            policy: options.policy.clone(),
            guards: Guards::new(options, known_record_generation),
            desired: None,
            hub: ObservedHub::new(source),
            history: RemovalHistory::default(),
            retries: Retries::new(now),
            planned: None,
            violations: Vec::new(),
            dirty: false,
        }
    }

    /// The desired state in Git; `None` before the first read.
    pub fn desired(&self) -> Option<&Arc<Desired>> {
        self.desired.as_ref()
    }

    /// The works on the hub, as far as they are known.
    pub fn hub(&self) -> &ObservedHub {
        &self.hub
    }

    /// The guards of the source, to read what they know.
    pub fn guards(&self) -> &Guards {
        &self.guards
    }

    /// The guards of the source, to record what operators and the hub's record say.
    pub fn guards_mut(&mut self) -> &mut Guards {
        &mut self.guards
    }

    /// The final state in Git of removed works, to record what Git's history shows.
    pub fn history_mut(&mut self) -> &mut RemovalHistory {
        &mut self.history
    }

    /// The commits that were applied, according to the hub; `None` before the hub was read.
    pub fn applied(&self) -> Option<BTreeSet<CommitId>> {
        Some(rewind::applied(self.hub.commits_on_works()?, self.guards.recorded()).collect())
    }

    /// The applied commits that are known now.
    pub fn known(&self) -> AppliedCommits {
        let recorded = self.guards.recorded().and_then(|record| record.commit);
        AppliedCommits {
            on_works: self.hub.commits_on_works().cloned().unwrap_or_default(),
            recorded,
        }
    }

    /// Whether Git, the hub and the guards are known.
    pub fn is_ready(&self) -> bool {
        self.desired.is_some() && self.hub.is_listed() && self.guards.is_known()
    }

    /// Replaces the settings of the operator.
    pub fn set_options(&mut self, options: GuardOptions) {
        let before = self.policy.budgets_before.take();
        self.policy = PlanPolicy { budgets_before: before, ..options.policy.clone() };
        self.guards.set_options(options);
        self.dirty = true;
    }

    /// Sets the desired state. Gives whether it differs from the one before.
    pub fn set_desired(&mut self, desired: &Arc<Desired>) -> bool {
        let same = self.desired.as_ref().is_some_and(|before| Arc::ptr_eq(before, desired));
        if !same {
            self.desired = Some(desired.clone());
            self.history.clear();
            // A suspension that was set before the push must take effect.
            self.guards.ask_directives_again();
            self.dirty = true;
        }
        !same
    }

    /// Records an event of the hub.
    pub fn set_event(&mut self, event: HubEvent) {
        match event {
            HubEvent::Listed(works) => {
                if self.hub.is_listed() {
                    // Events may be missing before the list: the hub may have been replaced or
                    // restored.
                    self.guards.ask_record_again(None);
                }
                self.hub.record_list(works);
                self.dirty = true;
            }
            HubEvent::Changed(work) => {
                // A removed work that was looked up waits for its agent, so that any change of
                // its status may lead to another plan.
                let waits_for_agent = self.history.has_looked_up(&work.key);
                let differs = self.hub.record_change(*work);
                self.dirty |= differs.is_some_and(|differs| differs || waits_for_agent);
            }
            HubEvent::Gone(key) => self.dirty |= self.hub.record_gone(&key),
            HubEvent::Interrupted(_) => {}
        }
    }

    /// Records the result of a look-up. `seed` spreads the time of the next one.
    pub fn set_looked_up(
        &mut self,
        key: &WorkKey,
        looked_up: Result<Option<ObservedWork>, HubError>,
        now: Instant,
        seed: u64,
    ) {
        self.dirty = true;
        match looked_up {
            // The watch does not show when a taken name becomes free: look it up again later.
            Ok(found) => {
                if self.hub.record_lookup(key, found) {
                    self.retries.look_up_later(key, RetryClass::Blocked, false, (now, seed));
                } else {
                    self.retries.looked_up(key);
                }
            }
            Err(error) => self.retries.look_up_later(key, error.retry_class(), true, (now, seed)),
        }
    }

    /// Records the outcome of an effect. `seed` spreads the time of the next try.
    pub fn set_outcome(&mut self, outcome: &Outcome, now: Instant, seed: u64) {
        let (key, effect) = (&outcome.task.key, &outcome.task.effect);
        self.dirty = true;
        let class = match &outcome.result {
            Ok(response) => {
                self.retries.succeeded(key);
                self.note_write(key, effect, now);
                if self.hub.record_response(key, effect, response.clone()) {
                    self.retries.look_up(key);
                }
                return;
            }
            Err(ExecuteError::Hub(error)) => {
                if matches!(error, HubError::Exists { .. } | HubError::Stale { .. }) {
                    self.retries.look_up(key);
                }
                // A look-up shows the owner of the name; a taken name then gets a longer wait.
                match error {
                    HubError::Exists { .. } => RetryClass::Stale,
                    other => other.retry_class(),
                }
            }
            // A write that keeps failing delays a deletion by seconds only.
            Err(ExecuteError::AfterFailedWrite { .. }) => RetryClass::Stale,
            Err(ExecuteError::Stopped) => return,
        };
        self.retries.failed(key, effect, class, (now, seed));
    }

    /// Records content that was written by the current plan.
    fn note_write(&mut self, key: &WorkKey, effect: &Effect, now: Instant) {
        let steps = self.planned.iter().flat_map(|plan| {
            let found = plan.steps.binary_search_by(|step| step.key.cmp(key));
            found.ok().and_then(|at| plan.steps.get(at))
        });
        let (Some(body), Some(step)) = (effect.body(), steps.last()) else { return };
        let (edited, by) = match &step.reason {
            // A marker is no content.
            Reason::DeletesNoLongerHeld => return,
            Reason::EditedOnHub { by } => {
                (true, by.clone().unwrap_or_else(|| Arc::new(ConflictingManager::Unknown)))
            }
            Reason::NewInGit => (false, Arc::new(ConflictingManager::Deleter)),
            // The previous content was written by a gitwork.
            _ => (false, Arc::new(ConflictingManager::Gitwork)),
        };
        self.retries.wrote(key, Written { content: body.digest, edited, by }, now);
    }

    /// Takes the works that are due for a look-up.
    pub fn take_lookups(&mut self, now: Instant) -> Vec<WorkKey> {
        self.retries.take_lookups(now)
    }

    /// Updates the works that another client keeps changing, for the next plan. Gives whether they
    /// changed.
    pub fn update_contentions(&mut self, now: Instant) -> bool {
        let contentions = self.retries.contentions(now);
        let before = std::mem::replace(&mut self.policy.contentions, contentions);
        before != self.policy.contentions
    }

    /// Works that another client keeps changing, as of the last plan.
    pub fn contentions(&self) -> &Contentions {
        &self.policy.contentions
    }

    /// Removed works whose history in Git is needed before the next plan. The end of the wait after
    /// a failure does not wake the loop: while a fetch uses the source it would wake without end.
    pub fn removals_to_look_up(&mut self, now: Instant) -> Vec<(WorkKey, RepoPath)> {
        let waits = self.history.is_waiting(now);
        match (&self.desired, self.hub.observed()) {
            (Some(desired), Some(observed)) if !waits => {
                self.history.not_looked_up(desired, observed)
            }
            _ => Vec::new(),
        }
    }

    /// What to look up about the head's history before the next plan. As for removed works, the
    /// end of the wait after a failure does not wake the loop.
    pub fn ancestry_lookup(&mut self, now: Instant) -> AncestryLookup {
        let waits = self.history.is_waiting(now);
        match self.unknown_commits() {
            Some(commits) if commits.is_empty() => AncestryLookup::Known,
            Some(commits) if !waits => AncestryLookup::Due(commits),
            _ => AncestryLookup::Wait,
        }
    }

    /// Commits whose relation to the head is unknown; `None` before Git and the hub are known.
    fn unknown_commits(&self) -> Option<BTreeSet<CommitId>> {
        Some(self.guards.unknown_commits(self.desired.as_ref()?, self.hub.commits_on_works()?))
    }

    /// Whether the history of the head is known.
    pub fn knows_ancestry(&self) -> bool {
        self.unknown_commits().is_some_and(|commits| commits.is_empty())
    }

    /// Records Git's answer. `unreached`: the commits of `looked_up` that `head` does not build on.
    pub fn set_ancestry(
        &mut self,
        head: CommitId,
        looked_up: &BTreeSet<CommitId>,
        unreached: &BTreeSet<CommitId>,
    ) {
        self.guards.record_ancestry(head, looked_up, unreached);
        self.history.clear_failure();
    }

    /// Sets the source's record on the hub; `None` if the hub has none.
    pub fn set_record(&mut self, found: Option<StoredRecord>) {
        if let Some(stored) = &found {
            self.policy.budgets_before = Some(stored.record.rules.budgets.clone());
        }
        self.guards.set_record(found, self.hub.has_works());
    }

    /// Marks that something outside of this state changed for the plan.
    pub fn mark_changed(&mut self) {
        self.dirty = true;
    }
}
