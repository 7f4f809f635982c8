//! What one source's engine knows, and what follows from it. No IO and no clock: time is passed in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::guards::{GuardOptions, Guards};
use crate::core::backoff::{self, Backoffs, Setback};
use crate::core::desired::Desired;
use crate::core::directives::Directives;
use crate::core::fight::{Contests, Fights, Written};
use crate::core::name::{ClusterName, CommitId, RepoPath, SourceId, WorkKey};
use crate::core::observed::{Observed, ObservedWork};
use crate::core::plan::{self, Departed, Effect, Plan, Policy, Reason, Step};
use crate::core::record::Record;
use crate::core::rewind::{self, Known};
use crate::core::rival::Rival;
use crate::core::status::source::{Refusal, SourceStatus, StatusInputs};
use crate::hub::execute::{ExecuteError, Outcome};
use crate::hub::{HubError, HubEvent, StoredRecord};

/// One source's state.
#[derive(Debug)]
pub struct State {
    source: SourceId,
    policy: Policy,
    /// What Git wants; `None` before the first commit was read.
    desired: Option<Arc<Desired>>,
    /// What the hub has; `None` before the first complete list.
    observed: Option<Observed>,
    /// The commits that its works name, since somebody has asked for them: thousands of works are to be looked at.
    named: OnceLock<Arc<BTreeSet<CommitId>>>,
    /// Git's last word on works that it no longer has, and whose it was asked for.
    departed: Departed,
    asked: BTreeSet<WorkKey>,
    /// What the backoffs count from.
    start: Instant,
    /// Which effects failed, and when each is worth another try.
    backoffs: Backoffs,
    /// Works that were put back lately, and when that is worth another look.
    fights: Fights,
    contests_due: Option<Instant>,
    /// Works that have to be looked up on the hub, as the watch does not show them or not yet.
    lookups: BTreeSet<WorkKey>,
    /// Works to be looked up again later: names that others have, and look-ups that failed.
    looks_again: BTreeMap<WorkKey, LookAgain>,
    /// When Git's history may be asked again, after that has failed.
    history_due: Option<Instant>,
    /// What is known of approvals, suspensions, rewinds and windows.
    guards: Guards,
    /// The last plan.
    planned: Option<Arc<Plan>>,
    /// Something has changed since the last plan.
    dirty: bool,
}

/// How long history is left alone after it could not be read.
const HISTORY_PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
struct LookAgain {
    looks: u32,
    due: Instant,
    /// The last look failed: until the next one it is not known what is there.
    failed: bool,
}

impl State {
    /// `known_moves`: what this machine remembers of the source's record on the hub.
    pub fn new(source: SourceId, options: GuardOptions, known_moves: u64, now: Instant) -> Self {
        Self {
            source,
            policy: options.policy.clone(),
            guards: Guards::new(options, known_moves),
            desired: None,
            observed: None,
            named: OnceLock::new(),
            departed: Departed::new(),
            asked: BTreeSet::new(),
            start: now,
            backoffs: Backoffs::default(),
            fights: Fights::default(),
            contests_due: None,
            lookups: BTreeSet::new(),
            looks_again: BTreeMap::new(),
            history_due: None,
            planned: None,
            dirty: false,
        }
    }

    pub fn desired(&self) -> Option<&Arc<Desired>> {
        self.desired.as_ref()
    }

    /// The commits that the hub says were applied; `None` before it is known what the hub has.
    pub fn applied(&self) -> Option<BTreeSet<CommitId>> {
        Some(rewind::applied(self.named()?, self.guards.recorded()).collect())
    }

    /// What of it is known now, to be kept.
    pub fn known(&self) -> Known {
        let recorded = self.guards.recorded().and_then(|record| record.commit);
        Known { named: self.named().cloned().unwrap_or_default(), recorded }
    }

    /// The commits that the works on the hub name.
    fn named(&self) -> Option<&Arc<BTreeSet<CommitId>>> {
        let observed = self.observed.as_ref()?;
        Some(self.named.get_or_init(|| Arc::new(rewind::named(&self.source, observed))))
    }

    /// The hub has told once which works it has.
    pub fn knows_hub(&self) -> bool {
        self.observed.is_some()
    }

    /// Both sides are known, so that there is something to plan.
    pub fn is_ready(&self) -> bool {
        self.desired.is_some() && self.observed.is_some() && self.guards.is_known()
    }

    /// Plans as if the operator had set this.
    pub fn set_options(&mut self, options: GuardOptions) {
        let before = self.policy.budgets_before.take();
        self.policy = Policy { budgets_before: before, ..options.policy.clone() };
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

    /// Takes over what was read from Git. Answers whether it is another state than before.
    pub fn set_desired(&mut self, desired: &Arc<Desired>) -> bool {
        let same = self.desired.as_ref().is_some_and(|before| Arc::ptr_eq(before, desired));
        if !same {
            self.desired = Some(desired.clone());
            self.departed.clear();
            self.asked.clear();
            // Who suspends something and pushes then must find it suspended.
            self.guards.ask_directives_again();
            self.dirty = true;
        }
        !same
    }

    /// Takes over what the hub tells.
    pub fn set_event(&mut self, event: HubEvent) {
        match event {
            HubEvent::Listed(works) => self.set_listed(works),
            HubEvent::Changed(work) => self.set_work(*work),
            HubEvent::Gone(key) => self.set_gone(&key),
            HubEvent::Interrupted(_) => {}
        }
    }

    /// Takes over a complete list.
    pub fn set_listed(&mut self, works: Vec<ObservedWork>) {
        if self.observed.is_some() {
            // The list came after a time of which nothing is known: the hub may be another one now, or an older one.
            self.guards.ask_record_again(None);
        }
        self.named.take();
        let observed = self.observed.get_or_insert_default();
        observed.listed(&self.source, works);
        self.dirty = true;
    }

    fn set_work(&mut self, work: ObservedWork) {
        self.named.take();
        let Some(observed) = &mut self.observed else { return };
        let waited_for = self.asked.contains(&work.key);
        let before = observed.works.get(&work.key);
        self.dirty |= waited_for || !before.is_some_and(|before| plans_alike(before, &work));
        observed.changed(work);
    }

    fn set_gone(&mut self, key: &WorkKey) {
        self.named.take();
        if let Some(observed) = &mut self.observed {
            observed.gone(&self.source, key);
            self.dirty = true;
        }
    }

    /// Takes over what a look at the hub showed.
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
                // No watch shows when a name is free again that another has: look again later.
                let taken = found.as_ref().is_some_and(|work| !work.is_ours(&self.source));
                if let Some(observed) = &mut self.observed {
                    observed.looked_up(key, found);
                }
                if taken {
                    self.look_again(key, Setback::Blocked, false, now, seed);
                } else {
                    self.looks_again.remove(key);
                }
            }
            Err(error) => self.look_again(key, error.setback(), true, now, seed),
        }
    }

    fn look_again(
        &mut self,
        key: &WorkKey,
        setback: Setback,
        failed: bool,
        now: Instant,
        seed: u64,
    ) {
        let looks = self.looks_again.get(key).map_or(0, |before| before.looks.saturating_add(1));
        let due = now + backoff::delay(looks, setback, seed);
        self.looks_again.insert(key.clone(), LookAgain { looks, due, failed });
        // Until then nothing is tried: the look decides.
        self.backoffs.succeeded(key);
    }

    /// Takes over what became of an effect.
    pub fn set_outcome(&mut self, outcome: &Outcome, now: Instant, seed: u64) {
        let (key, effect) = (&outcome.task.key, &outcome.task.effect);
        self.named.take();
        self.dirty = true;
        let setback = match &outcome.result {
            Ok(answer) => {
                self.backoffs.succeeded(key);
                self.note_write(key, effect, now);
                if let Some(observed) = &mut self.observed {
                    if answer.is_some() && observed.may_have_gone(key) {
                        self.lookups.insert(key.clone());
                    }
                    observed.answered(key, effect, answer.clone());
                }
                return;
            }
            Err(ExecuteError::Hub(error)) => {
                if matches!(error, HubError::Exists { .. } | HubError::Stale { .. }) {
                    self.lookups.insert(key.clone());
                }
                // Whose the name is, a look at the hub tells; where it is taken, that sets the longer wait.
                match error {
                    HubError::Exists { .. } => Setback::Stale,
                    other => other.setback(),
                }
            }
            // A write that goes on failing holds a deletion up for seconds, not for ever.
            Err(ExecuteError::AfterFailedWrite { .. }) => Setback::Stale,
            Err(ExecuteError::Stopped) => return,
        };
        self.backoffs.failed(key, effect, setback, now.duration_since(self.start), seed);
    }

    /// Notes content that the hub has taken, of the plan that is being carried out.
    fn note_write(&mut self, key: &WorkKey, effect: &Effect, now: Instant) {
        let steps = self.planned.iter().flat_map(|plan| {
            let found = plan.steps.binary_search_by(|step| step.key.cmp(key));
            found.ok().and_then(|at| plan.steps.get(at))
        });
        let (Some(body), Some(step)) = (effect.body(), steps.last()) else { return };
        let (edited, by) = match &step.reason {
            // A mark is no content.
            Reason::DeletesNoLongerHeld => return,
            Reason::EditedOnHub { by } => {
                (true, by.clone().unwrap_or_else(|| Arc::new(Rival::Unknown)))
            }
            Reason::NewInGit => (false, Arc::new(Rival::Deleter)),
            // What is there was written by a gitwork.
            _ => (false, Arc::new(Rival::Gitwork)),
        };
        let written = Written { content: body.digest, edited, by };
        self.fights.wrote(key, written, now.duration_since(self.start));
    }

    /// Has the next plan take the time into account for works that somebody else keeps changing. Answers whether there is
    /// something new to tell of them.
    pub fn weigh_contests(&mut self, now: Instant) -> bool {
        let since = now.duration_since(self.start);
        let contests = self.fights.contests(since);
        self.contests_due = self.fights.next_change(since).map(|due| self.start + due);
        let before = std::mem::replace(&mut self.policy.contests, contests);
        before != self.policy.contests
    }

    /// Works that somebody else keeps changing, as of the last plan.
    pub fn contests(&self) -> &Contests {
        &self.policy.contests
    }

    /// Works to be looked up now.
    pub fn take_lookups(&mut self, now: Instant) -> Vec<WorkKey> {
        let mut keys = std::mem::take(&mut self.lookups);
        let due = self.looks_again.iter().filter(|(_, again)| again.due <= now);
        keys.extend(due.map(|(key, _)| key.clone()));
        keys.into_iter().collect()
    }

    /// Works whose history in Git is to be asked for now, before the next plan. Nothing wakes the loop for the time
    /// that history was left alone until: while a fetch has the source, or where nothing is to be asked any more,
    /// it would wake for ever.
    pub fn take_unknown_departed(&mut self, now: Instant) -> Vec<(WorkKey, RepoPath)> {
        if self.history_due.is_some_and(|due| due > now) {
            return Vec::new();
        }
        self.history_due = None;
        let (Some(desired), Some(observed)) = (&self.desired, &self.observed) else {
            return Vec::new();
        };
        let mut candidates = plan::departed_candidates(desired, observed);
        candidates.retain(|(key, _)| !self.asked.contains(key));
        candidates
    }

    pub fn set_departed(&mut self, asked: &[(WorkKey, RepoPath)], found: Departed) {
        self.asked.extend(asked.iter().map(|(key, _)| key.clone()));
        self.departed.extend(found);
        self.history_due = None;
    }

    /// History could not be asked. What it is needed for waits.
    pub fn postpone_history(&mut self, now: Instant) {
        self.history_due = Some(now + HISTORY_PAUSE);
    }

    /// The commit that the hub has for a work.
    pub fn commit_on_hub(&self, key: &WorkKey) -> Option<CommitId> {
        CommitId::parse(self.observed.as_ref()?.works.get(key)?.commit.as_deref()?)
    }

    /// Git has been read; `known`: what was known as applied before.
    pub fn set_read_after(&mut self, known: Known) {
        self.guards.read_after(known);
    }

    /// Something outside of this state has changed that a plan depends on.
    pub fn mark_changed(&mut self) {
        self.dirty = true;
    }

    /// Whether a plan may have something to do.
    pub fn wants_plan(&self, now: Instant) -> bool {
        self.is_ready() && (self.dirty || self.next_due().is_some_and(|due| due <= now))
    }

    /// The plan as things are.
    pub fn plan(&mut self) -> Option<Arc<Plan>> {
        // There is no plan before all answers to what the last one did have come.
        self.observed.iter_mut().for_each(Observed::at_rest);
        let (Some(desired), Some(observed)) = (&self.desired, &self.observed) else { return None };
        // The old one goes first: two of them would be most of a pass's memory.
        self.planned = None;
        let plan = Arc::new(plan::plan(desired, observed, &self.departed, &self.policy));
        self.dirty = false;
        if Guards::leaves_nothing_held(&self.policy, desired, &plan) {
            // What Git says judges the next commit, but never the one that brings it.
            self.policy.budgets_before = Some(desired.rules.budgets.clone());
            self.guards.settle_rules(desired);
        }
        // What has nothing to do now has nothing to try again, but for names that are taken.
        let can_act: BTreeSet<&WorkKey> = plan
            .effects()
            .filter(|(step, effect)| self.may_act(step, effect))
            .map(|(step, _)| &step.key)
            .collect();
        self.backoffs.retain(|key| can_act.contains(key));
        // Of another's work no watch tells that it is gone.
        let is_anothers = |step: &&Step| match step.reason {
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
        // A name that was taken before its work was frozen or dropped for a while may be free by now.
        for key in taken.into_iter().filter(|key| !self.looks_again.contains_key(*key)) {
            self.lookups.insert(key.clone());
            self.dirty = true;
        }
        self.planned = Some(plan.clone());
        Some(plan)
    }

    /// No farewell before Git was asked for its last word.
    fn may_act(&self, step: &Step, effect: &Effect) -> bool {
        effect.body().is_some() || self.asked.contains(&step.key)
    }

    /// Takes over what operators say on the hub. Answers whether somebody wants a sync now.
    pub fn set_directives(&mut self, found: Option<Directives>, now: Instant) -> bool {
        let (changed, wanted) = self.guards.set_directives(found, now);
        self.dirty |= changed;
        wanted
    }

    /// Takes over the source's record on the hub.
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

    /// Takes over what is remembered of the source's record on the hub.
    pub fn learn_moves(&mut self, moves: u64) {
        self.dirty |= self.guards.learn_moves(moves);
    }

    /// The record could not be read or written, or another has written it; it is asked for again, when `due`.
    pub fn ask_record_again(&mut self, due: Option<Instant>) {
        self.guards.ask_record_again(due);
        self.dirty = true;
    }

    /// Another may have written the record, and operators have said more: both are asked for before the next plan.
    pub fn ask_hub_again(&mut self) {
        self.guards.ask_directives_again();
        self.ask_record_again(None);
    }

    /// The hub has taken the record.
    pub fn record_written(&mut self, stored: StoredRecord) {
        self.guards.record_written(stored);
        self.dirty = true;
    }

    /// Commits to ask Git about now, before the next plan; `None` where that has to wait. As for
    /// [`Self::take_unknown_departed`], nothing wakes the loop for a time that has come.
    pub fn take_unknown_ancestry(&mut self, now: Instant) -> Option<BTreeSet<CommitId>> {
        let waits = self.history_due.is_some_and(|due| due > now);
        if !waits {
            self.history_due = None;
        }
        let commits = self.unknown_ancestry()?;
        (commits.is_empty() || !waits).then_some(commits)
    }

    /// Commits that Git has to be asked about before the next plan; `None` while not both sides are known.
    fn unknown_ancestry(&self) -> Option<BTreeSet<CommitId>> {
        Some(self.guards.to_ask(self.desired.as_ref()?, self.named()?))
    }

    /// Whether Git has answered all that has to be known of the head.
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

    /// Has the guards look at the time, and at all that is known by now.
    pub fn set_time(&mut self, now: Timestamp, zone: &dyn Fn(&str) -> Option<TimeZone>) {
        let (Some(desired), Some(named)) = (&self.desired, self.named().cloned()) else { return };
        let before = self.policy.closed.is_some();
        self.guards.apply(&mut self.policy, desired, &named, now, zone);
        // What is in doubt is planned once Git has been read again.
        self.dirty |= before != self.policy.closed.is_some() || self.guards.doubts_read();
    }

    /// The record to write before the plan is carried out.
    pub fn record_to_write(&self, plan: &Plan) -> Option<Record> {
        let (desired, named) = (self.desired.as_ref()?, self.named()?);
        let free = Guards::leaves_nothing_held(&self.policy, desired, plan);
        self.guards.record_to_write(desired, named, plan, free)
    }

    /// The steps of a plan that are to be done now: not those that failed just before.
    pub fn due<'a>(&self, plan: &'a Plan, now: Instant) -> Vec<(&'a Step, &'a Effect)> {
        let since = now.duration_since(self.start);
        let is_due = |step: &Step, effect: &Effect| {
            self.may_act(step, effect)
                && !self.looks_again.get(&step.key).is_some_and(|again| again.failed)
                && self.backoffs.is_due(&step.key, effect, since)
        };
        plan.effects().filter(|(step, effect)| is_due(step, effect)).collect()
    }

    /// How far the clusters are; `None` before both sides are known.
    pub fn status(
        &self,
        refusals: &BTreeMap<WorkKey, Refusal>,
        unreachable: &BTreeSet<ClusterName>,
        now: Timestamp,
        before: Option<&SourceStatus>,
    ) -> Option<SourceStatus> {
        let (desired, observed) = (self.desired.as_ref()?, self.observed.as_ref()?);
        // Of just these two: what was planned last may be of an older state.
        let last = self.planned.as_ref().filter(|_| !self.dirty).cloned();
        let anew = || Arc::new(plan::plan(desired, observed, &self.departed, &self.policy));
        let plan = &*last.unwrap_or_else(anew);
        let contests = &self.policy.contests;
        let moves = self.guards.recorded().map_or(0, |record| record.moves);
        let inputs =
            StatusInputs { desired, observed, plan, contests, moves, refusals, unreachable, now };
        Some(SourceStatus::of(&inputs, before))
    }

    /// When the next retry is due.
    pub fn next_due(&self) -> Option<Instant> {
        // A time that has come stays in the past while nothing can be planned: it must wake nobody then.
        if !self.is_ready() || self.guards.doubts_read() {
            return None;
        }
        let effects = self.backoffs.next_due().map(|due| self.start + due);
        let looks = self.looks_again.values().map(|again| again.due);
        let next = looks.chain(effects).chain(self.history_due).chain(self.contests_due).min()?;
        // Until Git has answered there is no plan, and nothing to be tried again.
        if self.knows_ancestry() { Some(next) } else { self.history_due }
    }
}

/// Whether two states of a work, leaving aside how far its agent is, come to the same plan.
fn plans_alike(a: &ObservedWork, b: &ObservedWork) -> bool {
    a.digest == b.digest
        && a.uid == b.uid
        && a.source == b.source
        && a.adopt == b.adopt
        && a.deleting == b.deleting
        && a.newcomer == b.newcomer
}
