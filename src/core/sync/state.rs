//! The state of one source between passes, and the decisions that follow from it. No IO and no
//! clock: time is passed in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::model::name::{ClusterName, CommitId, RepoPath, SourceId, WorkKey};
use crate::plan;
use crate::plan::backoff::Backoffs;
use crate::plan::conflicting_manager::ConflictingManager;
use crate::plan::directives::Directives;
use crate::plan::drift_backoff::{Contentions, DriftBackoffs, Written};
use crate::plan::lint;
use crate::plan::lint::PlanViolation;
use crate::plan::observed::{Observed, ObservedWork};
use crate::plan::record::Record;
use crate::plan::rewind;
use crate::plan::rewind::AppliedCommits;
use crate::plan::{Effect, Plan, PlanInputs, PlanPolicy, PlanStep, Reason, RemovedWorks};
use crate::render::desired::Desired;
use crate::report::status::source::{FailedWrite, SourceStatus, StatusInputs};
use crate::sync::guards::{GuardOptions, Guards};
use crate::sync::hub::{ExecuteError, HubError, HubEvent, Outcome, StoredRecord};
use gitwork_retry::RetryClass;

/// The state of one source.
#[derive(Debug)]
pub struct SyncState {
    source: SourceId,
    policy: PlanPolicy,
    /// The desired state in Git; `None` before the first read.
    desired: Option<Arc<Desired>>,
    /// The observed state of the hub; `None` before the first complete list.
    observed: Option<Observed>,
    /// The commits that its works name, computed on demand from thousands of works.
    named: OnceLock<Arc<BTreeSet<CommitId>>>,
    /// The final state in Git of removed works, and the works that were looked up.
    departed: RemovedWorks,
    asked: BTreeSet<WorkKey>,
    /// The start of the backoffs.
    start: Instant,
    /// Failed effects, and when each is due again.
    backoffs: Backoffs,
    /// Recently corrected works, and when their backoff changes.
    fights: DriftBackoffs,
    contests_due: Option<Instant>,
    /// Works to look up on the hub: the watch does not show them, or not yet.
    lookups: BTreeSet<WorkKey>,
    /// Works to look up again later: names that are taken, and failed look-ups.
    looks_again: BTreeMap<WorkKey, LookAgain>,
    /// When Git's history may be read again after a failure.
    history_due: Option<Instant>,
    /// Approvals, suspensions, rewinds and windows.
    guards: Guards,
    /// The last plan.
    planned: Option<Arc<Plan>>,
    /// Rules that the last plan breaks, by a bug of the planner. Nothing is done for these works.
    violations: Vec<PlanViolation>,
    /// Something changed since the last plan.
    dirty: bool,
}

/// Wait after a failed read of Git's history.
const HISTORY_PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
struct LookAgain {
    looks: u32,
    due: Instant,
    /// The last look-up failed: the work is not known until the next one.
    failed: bool,
}

impl SyncState {
    /// `known_moves`: what this machine remembers of the source's record on the hub.
    pub fn new(source: SourceId, options: GuardOptions, known_moves: u64, now: Instant) -> Self {
        Self {
            source,
            policy: options.policy.clone(),
            guards: Guards::new(options, known_moves),
            desired: None,
            observed: None,
            named: OnceLock::new(),
            departed: RemovedWorks::new(),
            asked: BTreeSet::new(),
            start: now,
            backoffs: Backoffs::default(),
            fights: DriftBackoffs::default(),
            contests_due: None,
            lookups: BTreeSet::new(),
            looks_again: BTreeMap::new(),
            history_due: None,
            planned: None,
            violations: Vec::new(),
            dirty: false,
        }
    }

    pub fn desired(&self) -> Option<&Arc<Desired>> {
        self.desired.as_ref()
    }

    /// The commits that were applied, according to the hub; `None` before the hub was read.
    pub fn applied(&self) -> Option<BTreeSet<CommitId>> {
        Some(rewind::applied(self.named()?, self.guards.recorded()).collect())
    }

    /// The applied commits that are known now.
    pub fn known(&self) -> AppliedCommits {
        let recorded = self.guards.recorded().and_then(|record| record.commit);
        AppliedCommits { named: self.named().cloned().unwrap_or_default(), recorded }
    }

    /// The commits that the works on the hub name.
    fn named(&self) -> Option<&Arc<BTreeSet<CommitId>>> {
        let observed = self.observed.as_ref()?;
        Some(self.named.get_or_init(|| Arc::new(rewind::named(&self.source, observed))))
    }

    /// Whether the hub was listed once.
    pub fn knows_hub(&self) -> bool {
        self.observed.is_some()
    }

    /// Whether Git, the hub and the guards are known.
    pub fn is_ready(&self) -> bool {
        self.desired.is_some() && self.observed.is_some() && self.guards.is_known()
    }

    /// Replaces the settings of the operator.
    pub fn set_options(&mut self, options: GuardOptions) {
        let before = self.policy.budgets_before.take();
        self.policy = PlanPolicy { budgets_before: before, ..options.policy.clone() };
        self.guards.set_options(options);
        self.dirty = true;
    }

    /// Whether the hub has a work of this uid among those that are known.
    pub fn is_on_hub(&self, uid: &str) -> bool {
        let works = self.observed.iter().flat_map(|observed| observed.works.values());
        works.into_iter().any(|work| work.uid == uid)
    }

    pub fn guards(&self) -> &Guards {
        &self.guards
    }

    /// Sets the desired state. Gives whether it differs from the one before.
    pub fn set_desired(&mut self, desired: &Arc<Desired>) -> bool {
        let same = self.desired.as_ref().is_some_and(|before| Arc::ptr_eq(before, desired));
        if !same {
            self.desired = Some(desired.clone());
            self.departed.clear();
            self.asked.clear();
            // A suspension that was set before the push must take effect.
            self.guards.ask_directives_again();
            self.dirty = true;
        }
        !same
    }

    /// Records an event of the hub.
    pub fn set_event(&mut self, event: HubEvent) {
        match event {
            HubEvent::Listed(works) => self.set_listed(works),
            HubEvent::Changed(work) => self.set_work(*work),
            HubEvent::Gone(key) => self.set_gone(&key),
            HubEvent::Interrupted(_) => {}
        }
    }

    /// Records a complete list.
    pub fn set_listed(&mut self, works: Vec<ObservedWork>) {
        if self.observed.is_some() {
            // Events may be missing before the list: the hub may have been replaced or restored.
            self.guards.ask_record_again(None);
        }
        self.named.take();
        let observed = self.observed.get_or_insert_default();
        observed.record_list(&self.source, works);
        self.dirty = true;
    }

    fn set_work(&mut self, work: ObservedWork) {
        self.named.take();
        let Some(observed) = &mut self.observed else { return };
        let waited_for = self.asked.contains(&work.key);
        let before = observed.works.get(&work.key);
        self.dirty |= waited_for || !before.is_some_and(|before| plans_alike(before, &work));
        observed.record_change(work);
    }

    fn set_gone(&mut self, key: &WorkKey) {
        self.named.take();
        if let Some(observed) = &mut self.observed {
            observed.record_gone(&self.source, key);
            self.dirty = true;
        }
    }

    /// Records the result of a look-up.
    pub fn set_looked_up(
        &mut self,
        key: &WorkKey,
        looked_up: Result<Option<ObservedWork>, HubError>,
        now: Instant,
        seed: u64,
    ) {
        self.lookups.remove(key);
        self.named.take();
        self.dirty = true;
        match looked_up {
            Ok(found) => {
                // The watch does not show when a taken name becomes free: look it up again later.
                let taken = found.as_ref().is_some_and(|work| !work.is_ours(&self.source));
                if let Some(observed) = &mut self.observed {
                    observed.record_lookup(key, found);
                }
                if taken {
                    self.look_again(key, RetryClass::Blocked, false, now, seed);
                } else {
                    self.looks_again.remove(key);
                }
            }
            Err(error) => self.look_again(key, error.retry_class(), true, now, seed),
        }
    }

    fn look_again(
        &mut self,
        key: &WorkKey,
        retry_class: RetryClass,
        failed: bool,
        now: Instant,
        seed: u64,
    ) {
        let looks = self.looks_again.get(key).map_or(0, |before| before.looks.saturating_add(1));
        let due = now + gitwork_retry::delay(looks, retry_class, seed);
        self.looks_again.insert(key.clone(), LookAgain { looks, due, failed });
        // The look-up decides the next try.
        self.backoffs.succeeded(key);
    }

    /// Records the outcome of an effect.
    pub fn set_outcome(&mut self, outcome: &Outcome, now: Instant, seed: u64) {
        let (key, effect) = (&outcome.task.key, &outcome.task.effect);
        self.named.take();
        self.dirty = true;
        let retry_class = match &outcome.result {
            Ok(answer) => {
                self.backoffs.succeeded(key);
                self.note_write(key, effect, now);
                if let Some(observed) = &mut self.observed {
                    if answer.is_some() && observed.may_have_gone(key) {
                        self.lookups.insert(key.clone());
                    }
                    observed.record_answer(key, effect, answer.clone());
                }
                return;
            }
            Err(ExecuteError::Hub(error)) => {
                if matches!(error, HubError::Exists { .. } | HubError::Stale { .. }) {
                    self.lookups.insert(key.clone());
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
        self.backoffs.failed(key, effect, retry_class, now.duration_since(self.start), seed);
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
        let written = Written { content: body.digest, edited, by };
        self.fights.wrote(key, written, now.duration_since(self.start));
    }

    /// Updates the works that another client keeps changing, for the next plan. Gives whether they
    /// changed.
    pub fn update_contentions(&mut self, now: Instant) -> bool {
        let since = now.duration_since(self.start);
        let contests = self.fights.contentions(since);
        self.contests_due = self.fights.next_change(since).map(|due| self.start + due);
        let before = std::mem::replace(&mut self.policy.contentions, contests);
        before != self.policy.contentions
    }

    /// Works that another client keeps changing, as of the last plan.
    pub fn contests(&self) -> &Contentions {
        &self.policy.contentions
    }

    /// Takes the works that are due for a look-up.
    pub fn take_lookups(&mut self, now: Instant) -> Vec<WorkKey> {
        let mut keys = std::mem::take(&mut self.lookups);
        let due = self.looks_again.iter().filter(|(_, again)| again.due <= now);
        keys.extend(due.map(|(key, _)| key.clone()));
        keys.into_iter().collect()
    }

    /// Removed works whose history in Git is needed before the next plan. The end of the wait after
    /// a failure does not wake the loop: while a fetch uses the source it would wake without end.
    pub fn take_unknown_departed(&mut self, now: Instant) -> Vec<(WorkKey, RepoPath)> {
        if self.history_due.is_some_and(|due| due > now) {
            return Vec::new();
        }
        self.history_due = None;
        let (Some(desired), Some(observed)) = (&self.desired, &self.observed) else {
            return Vec::new();
        };
        let mut candidates = plan::removed_candidates(desired, observed);
        candidates.retain(|(key, _)| !self.asked.contains(key));
        candidates
    }

    pub fn set_departed(&mut self, asked: &[(WorkKey, RepoPath)], found: RemovedWorks) {
        self.asked.extend(asked.iter().map(|(key, _)| key.clone()));
        self.departed.extend(found);
        self.history_due = None;
    }

    /// Git's history could not be read: wait.
    pub fn postpone_history(&mut self, now: Instant) {
        self.history_due = Some(now + HISTORY_PAUSE);
    }

    /// The commit of a work on the hub.
    pub fn commit_on_hub(&self, key: &WorkKey) -> Option<CommitId> {
        CommitId::parse(self.observed.as_ref()?.works.get(key)?.commit.as_deref()?)
    }

    /// Git was read. `known`: the applied commits that were known before.
    pub fn set_read_after(&mut self, known: AppliedCommits) {
        self.guards.read_after(known);
    }

    /// Marks that something outside of this state changed for the plan.
    pub fn mark_changed(&mut self) {
        self.dirty = true;
    }

    /// Whether a new plan is due.
    pub fn wants_plan(&self, now: Instant) -> bool {
        self.is_ready() && (self.dirty || self.next_due().is_some_and(|due| due <= now))
    }

    /// Makes the current plan.
    pub fn plan(&mut self) -> Option<Arc<Plan>> {
        // All responses to the last plan have arrived.
        self.observed.iter_mut().for_each(Observed::settle);
        let (Some(desired), Some(observed)) = (&self.desired, &self.observed) else { return None };
        // Drop the old plan first: two plans would be most of a pass's memory.
        self.planned = None;
        let plan = Arc::new(plan::plan(desired, observed, &self.departed, &self.policy));
        let (removed, policy) = (&self.departed, &self.policy);
        self.violations = lint::check(&plan, PlanInputs { desired, observed, removed, policy });
        debug_assert_eq!(self.violations, [], "the planner keeps the rules");
        self.dirty = false;
        if Guards::leaves_nothing_held(&self.policy, desired, &plan) {
            // The rules of a commit apply to the next commit only.
            self.policy.budgets_before = Some(desired.rules.budgets.clone());
            self.guards.settle_rules(desired);
        }
        // A work without an effect has no retry, except for taken names.
        let can_act: BTreeSet<&WorkKey> = plan
            .effects()
            .filter(|(step, effect)| self.may_act(step, effect))
            .map(|(step, _)| &step.key)
            .collect();
        self.backoffs.retain(|key| can_act.contains(key));
        // The watch does not show the deletion of a foreign work.
        let is_anothers = |step: &&PlanStep| match step.reason {
            Reason::Conflict { .. } => true,
            Reason::BeingDeleted { .. } => {
                observed.works.get(&step.key).is_some_and(|work| !work.is_ours(&self.source))
            }
            _ => false,
        };
        let taken: Vec<&WorkKey> =
            plan.steps.iter().filter(is_anothers).map(|step| &step.key).collect();
        let acts = plan.effects().map(|(step, _)| &step.key);
        let open: BTreeSet<&WorkKey> = taken.iter().copied().chain(acts).collect();
        self.looks_again.retain(|key, _| open.contains(key));
        // A name may have become free while its work was frozen or removed.
        for key in taken.into_iter().filter(|key| !self.looks_again.contains_key(*key)) {
            self.lookups.insert(key.clone());
            self.dirty = true;
        }
        self.planned = Some(plan.clone());
        Some(plan)
    }

    /// A removal needs the final `deleteOption` in Git first.
    fn may_act(&self, step: &PlanStep, effect: &Effect) -> bool {
        effect.body().is_some() || self.asked.contains(&step.key)
    }

    /// Sets the directives of operators. Gives whether a sync is requested now.
    pub fn set_directives(&mut self, found: Option<Directives>, now: Instant) -> bool {
        let (changed, wanted) = self.guards.set_directives(found, now);
        self.dirty |= changed;
        wanted
    }

    /// Sets the source's record on the hub.
    pub fn set_record(&mut self, found: Option<StoredRecord>) {
        let ours =
            |observed: &Observed| observed.works.values().any(|work| work.is_ours(&self.source));
        let has_works = self.observed.as_ref().is_some_and(ours);
        if let Some(stored) = &found {
            self.policy.budgets_before = Some(stored.record.rules.budgets.clone());
        }
        let before = self.guards.stored().cloned();
        self.dirty |= before != found || before.is_none();
        self.guards.set_record(found, has_works);
    }

    /// Sets the generation of the record that is remembered elsewhere.
    pub fn learn_moves(&mut self, moves: u64) {
        self.dirty |= self.guards.learn_moves(moves);
    }

    /// The record could not be read or written, or another process wrote it: read it again at
    /// `due`.
    pub fn ask_record_again(&mut self, due: Option<Instant>) {
        self.guards.ask_record_again(due);
        self.dirty = true;
    }

    /// Reads record and directives again before the next plan: another process may have written
    /// them.
    pub fn ask_hub_again(&mut self) {
        self.guards.ask_directives_again();
        self.ask_record_again(None);
    }

    /// The record was written.
    pub fn record_written(&mut self, stored: StoredRecord) {
        self.guards.record_written(stored);
        self.dirty = true;
    }

    /// Commits to look up in Git before the next plan; `None` to wait. As for removed works, the
    /// end of the wait does not wake the loop.
    pub fn take_unknown_ancestry(&mut self, now: Instant) -> Option<BTreeSet<CommitId>> {
        let waits = self.history_due.is_some_and(|due| due > now);
        if !waits {
            self.history_due = None;
        }
        let commits = self.unknown_ancestry()?;
        (commits.is_empty() || !waits).then_some(commits)
    }

    /// Commits to look up in Git before the next plan; `None` before both sides are known.
    fn unknown_ancestry(&self) -> Option<BTreeSet<CommitId>> {
        Some(self.guards.to_ask(self.desired.as_ref()?, self.named()?))
    }

    /// Whether the history of the head is known.
    pub fn knows_ancestry(&self) -> bool {
        self.unknown_ancestry().is_some_and(|commits| commits.is_empty())
    }

    pub fn set_ancestry(
        &mut self,
        head: CommitId,
        asked: &BTreeSet<CommitId>,
        unreached: &BTreeSet<CommitId>,
    ) {
        self.guards.learn(head, asked, unreached);
        self.history_due = None;
    }

    /// Updates the policy from the guards at this time.
    pub fn set_time(&mut self, now: Timestamp, zone: &dyn Fn(&str) -> Option<TimeZone>) {
        let (Some(desired), Some(named)) = (&self.desired, self.named().cloned()) else { return };
        let before = self.policy.closed.is_some();
        self.guards.apply(&mut self.policy, desired, &named, now, zone);
        // A doubtful read is repeated before the plan.
        self.dirty |= before != self.policy.closed.is_some() || self.guards.doubts_read();
    }

    /// The record to write before the plan is executed.
    pub fn record_to_write(&self, plan: &Plan) -> Option<Record> {
        let (desired, named) = (self.desired.as_ref()?, self.named()?);
        let free = Guards::leaves_nothing_held(&self.policy, desired, plan);
        self.guards.record_to_write(desired, named, plan, free)
    }

    /// The rules that the last plan breaks.
    pub fn violations(&self) -> &[PlanViolation] {
        &self.violations
    }

    /// The steps of a plan that are due, without those in backoff.
    pub fn due<'a>(&self, plan: &'a Plan, now: Instant) -> Vec<(&'a PlanStep, &'a Effect)> {
        let since = now.duration_since(self.start);
        let breaks_rule =
            |step: &PlanStep| self.violations.iter().any(|found| found.key == step.key);
        let is_due = |step: &PlanStep, effect: &Effect| {
            self.may_act(step, effect)
                && !breaks_rule(step)
                && !self.looks_again.get(&step.key).is_some_and(|again| again.failed)
                && self.backoffs.is_due(&step.key, effect, since)
        };
        plan.effects().filter(|(step, effect)| is_due(step, effect)).collect()
    }

    /// The status of the source; `None` before both sides are known.
    pub fn status(
        &self,
        failed_writes: &BTreeMap<WorkKey, FailedWrite>,
        unreachable: &BTreeSet<ClusterName>,
        now: Timestamp,
        before: Option<&SourceStatus>,
    ) -> Option<SourceStatus> {
        let (desired, observed) = (self.desired.as_ref()?, self.observed.as_ref()?);
        // Plan again if the last plan is of an older state.
        let last = self.planned.as_ref().filter(|_| !self.dirty).cloned();
        let plan_again = || Arc::new(plan::plan(desired, observed, &self.departed, &self.policy));
        let plan = &*last.unwrap_or_else(plan_again);
        let contests = &self.policy.contentions;
        let moves = self.guards.recorded().map_or(0, |record| record.moves);
        let inputs = StatusInputs {
            desired,
            observed,
            plan,
            contests,
            record_generation: moves,
            failed_writes,
            unreachable,
            now,
        };
        Some(SourceStatus::of(&inputs, before))
    }

    /// When the next retry is due.
    pub fn next_due(&self) -> Option<Instant> {
        // A time in the past must not wake the loop while nothing can be planned.
        if !self.is_ready() || self.guards.doubts_read() {
            return None;
        }
        let effects = self.backoffs.next_due().map(|due| self.start + due);
        let looks = self.looks_again.values().map(|again| again.due);
        let next = looks.chain(effects).chain(self.history_due).chain(self.contests_due).min()?;
        // Without the history there is no plan and no retry.
        if self.knows_ancestry() { Some(next) } else { self.history_due }
    }
}

/// Whether two states of a work lead to the same plan. The status of the agent does not matter.
fn plans_alike(a: &ObservedWork, b: &ObservedWork) -> bool {
    a.digest == b.digest
        && a.uid == b.uid
        && a.source == b.source
        && a.adopt == b.adopt
        && a.deleting == b.deleting
        && a.created_during_hold == b.created_during_hold
}
