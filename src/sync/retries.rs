//! When failed writes, look-ups and corrections of drift are tried again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use gitwork_retry::RetryClass;

use crate::facts::SourceFacts;
use crate::hub::{ExecuteError, HubError, Task};
use gitwork_core::model::name::WorkKey;
use gitwork_core::plan::backoff::Backoffs;
use gitwork_core::plan::drift_backoff::{Contentions, DriftBackoffs, Written};
use gitwork_core::plan::{Effect, Plan, PlanStep, Reason};

/// A look-up to repeat: it failed, or the name was taken.
#[derive(Debug, Clone)]
struct LaterLookup {
    attempts: u32,
    due: Instant,
    /// The last look-up failed: the work is not known until the next one.
    failed: bool,
}

/// The retries of one source.
#[derive(Debug)]
pub struct Retries {
    /// The start of the backoffs.
    start: Instant,
    /// Failed effects, and when each is due again.
    backoffs: Backoffs,
    /// Recently corrected works, and when their backoff changes.
    drift: DriftBackoffs,
    contentions_due: Option<Instant>,
    /// Works to look up on the hub: the watch does not show them, or not yet.
    due_lookups: BTreeSet<WorkKey>,
    /// Works to look up again later: names that are taken, and failed look-ups.
    later_lookups: BTreeMap<WorkKey, LaterLookup>,
}

impl Retries {
    pub(crate) fn new(start: Instant) -> Self {
        Self {
            start,
            backoffs: Backoffs::default(),
            drift: DriftBackoffs::default(),
            contentions_due: None,
            due_lookups: BTreeSet::new(),
            later_lookups: BTreeMap::new(),
        }
    }

    /// Records that an effect succeeded. `written`: the content that it wrote, to find other
    /// clients that keep changing it.
    pub(crate) fn succeeded(&mut self, key: &WorkKey, written: Option<Written>, now: Instant) {
        self.backoffs.succeeded(key);
        if let Some(written) = written {
            self.drift.wrote(key, written, now.duration_since(self.start));
        }
    }

    /// Records that an effect failed.
    pub(crate) fn failed(
        &mut self,
        task: &Task,
        error: &ExecuteError,
        (now, seed): (Instant, u64),
    ) {
        let class = match error {
            // A look-up shows the owner of the name; a taken name then gets a longer wait.
            ExecuteError::Hub(HubError::Exists { .. } | HubError::Stale { .. }) => {
                self.look_up(&task.key);
                RetryClass::Stale
            }
            ExecuteError::Hub(error) => error.retry_class(),
            // A write that keeps failing delays a deletion by seconds only.
            ExecuteError::AfterFailedWrite { .. } => RetryClass::Stale,
            ExecuteError::Stopped => return,
        };
        let since = now.duration_since(self.start);
        self.backoffs.failed(&task.key, &task.effect, class, since, seed);
    }

    /// Whether an effect may be tried: no backoff and no failed look-up is in the way.
    pub(crate) fn is_due(&self, key: &WorkKey, effect: &Effect, now: Instant) -> bool {
        !self.later_lookups.get(key).is_some_and(|again| again.failed)
            && self.backoffs.is_due(key, effect, now.duration_since(self.start))
    }

    /// Makes a look-up due at once.
    pub(crate) fn look_up(&mut self, key: &WorkKey) {
        self.due_lookups.insert(key.clone());
    }

    /// Makes look-ups due at `at`, or at once. Those that are due later stay so.
    pub(crate) fn look_up_at<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a WorkKey>,
        at: Option<Instant>,
    ) {
        let due = at.unwrap_or(self.start);
        for key in keys {
            let lookup = LaterLookup { attempts: 0, due, failed: false };
            self.later_lookups.entry(key.clone()).or_insert(lookup);
        }
    }

    /// Takes the works that are due for a look-up.
    pub(crate) fn take_lookups(&mut self, now: Instant) -> Vec<WorkKey> {
        let mut keys = std::mem::take(&mut self.due_lookups);
        let due = self.later_lookups.iter().filter(|(_, again)| again.due <= now);
        keys.extend(due.map(|(key, _)| key.clone()));
        keys.into_iter().collect()
    }

    /// Records the result of a look-up: whether another owner has the name, or why it failed.
    pub(crate) fn looked_up(
        &mut self,
        key: &WorkKey,
        is_taken: Result<bool, RetryClass>,
        (now, seed): (Instant, u64),
    ) {
        self.due_lookups.remove(key);
        let (class, failed) = match is_taken {
            Ok(false) => {
                self.later_lookups.remove(key);
                return;
            }
            // The watch does not show when a taken name becomes free: look it up again later.
            Ok(true) => (RetryClass::Blocked, false),
            Err(class) => (class, true),
        };
        let attempts =
            self.later_lookups.get(key).map_or(0, |before| before.attempts.saturating_add(1));
        let due = now + gitwork_retry::delay(attempts, class, seed);
        self.later_lookups.insert(key.clone(), LaterLookup { attempts, due, failed });
        // The look-up decides the next try.
        self.backoffs.succeeded(key);
    }

    /// The works in backoff.
    pub(crate) fn backed_off(&self) -> impl Iterator<Item = &WorkKey> {
        self.backoffs.works()
    }

    /// Drops what a new plan no longer needs. `owners`: works that are looked up before the writes
    /// that rely on them, by the work that is written. `can_act`: works in backoff with an effect
    /// that may be tried. Gives whether a name must be looked up: it may have become free while its
    /// work was frozen or removed.
    pub(crate) fn retain(
        &mut self,
        plan: &Plan,
        facts: &SourceFacts,
        owners: &BTreeMap<WorkKey, BTreeSet<WorkKey>>,
        can_act: &BTreeSet<WorkKey>,
    ) -> bool {
        // A work without an effect that can be tried has no retry, except for look-ups: the end of
        // a backoff would wake the loop for nothing.
        self.backoffs.retain(|key| can_act.contains(key));
        // The watch does not show the deletion of a foreign work.
        let is_taken = |step: &PlanStep| match step.reason {
            Reason::Conflict { .. } => true,
            Reason::BeingDeleted { .. } => facts.hub.is_foreign(&step.key),
            _ => false,
        };
        let owners: BTreeSet<&WorkKey> = owners.values().flatten().collect();
        self.later_lookups.retain(|key, _| {
            let step = plan.steps.get(key);
            step.is_some_and(|step| step.effect.is_some() || is_taken(step)) || owners.contains(key)
        });
        let taken = plan.steps.of_unsettled_clusters().filter(|step| is_taken(step));
        let not_looked_up = taken.filter(|step| !self.later_lookups.contains_key(&step.key));
        let not_looked_up: Vec<WorkKey> = not_looked_up.map(|step| step.key.clone()).collect();
        let is_any = !not_looked_up.is_empty();
        self.due_lookups.extend(not_looked_up);
        is_any
    }

    /// The works that another client keeps changing.
    pub(crate) fn contentions(&mut self, now: Instant) -> Contentions {
        let since = now.duration_since(self.start);
        let contentions = self.drift.contentions(since);
        self.contentions_due = self.drift.next_change(since).map(|due| self.start + due);
        contentions
    }

    /// When the next retry is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let effects = self.backoffs.next_due().map(|due| self.start + due);
        let lookups = self.later_lookups.values().map(|again| again.due);
        lookups.chain(effects).chain(self.contentions_due).min()
    }
}
