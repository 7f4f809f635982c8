//! When failed writes, look-ups and corrections of drift are tried again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use gitwork_retry::RetryClass;

use crate::model::name::WorkKey;
use crate::plan::backoff::Backoffs;
use crate::plan::drift_backoff::{Contentions, DriftBackoffs, Written};
use crate::plan::{Effect, Plan};

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
pub(crate) struct Retries {
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

    /// Records that an effect succeeded.
    pub(crate) fn succeeded(&mut self, key: &WorkKey) {
        self.backoffs.succeeded(key);
    }

    /// Records that an effect failed.
    pub(crate) fn failed(
        &mut self,
        key: &WorkKey,
        effect: &Effect,
        class: RetryClass,
        (now, seed): (Instant, u64),
    ) {
        self.backoffs.failed(key, effect, class, now.duration_since(self.start), seed);
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

    /// Takes the works that are due for a look-up.
    pub(crate) fn take_lookups(&mut self, now: Instant) -> Vec<WorkKey> {
        let mut keys = std::mem::take(&mut self.due_lookups);
        let due = self.later_lookups.iter().filter(|(_, again)| again.due <= now);
        keys.extend(due.map(|(key, _)| key.clone()));
        keys.into_iter().collect()
    }

    /// Records a look-up that needs no other one.
    pub(crate) fn looked_up(&mut self, key: &WorkKey) {
        self.due_lookups.remove(key);
        self.later_lookups.remove(key);
    }

    /// Records a look-up that must be repeated. `failed`: it gave no result.
    pub(crate) fn look_up_later(
        &mut self,
        key: &WorkKey,
        class: RetryClass,
        failed: bool,
        (now, seed): (Instant, u64),
    ) {
        self.due_lookups.remove(key);
        let attempts =
            self.later_lookups.get(key).map_or(0, |before| before.attempts.saturating_add(1));
        let due = now + gitwork_retry::delay(attempts, class, seed);
        self.later_lookups.insert(key.clone(), LaterLookup { attempts, due, failed });
        // The look-up decides the next try.
        self.backoffs.succeeded(key);
    }

    /// Drops what a new plan no longer needs. `can_act`: works with an effect that may be done.
    /// `taken`: names that another owner has. Gives whether a name must be looked up: it may have
    /// become free while its work was frozen or removed.
    pub(crate) fn retain(
        &mut self,
        plan: &Plan,
        can_act: &BTreeSet<&WorkKey>,
        taken: &[&WorkKey],
    ) -> bool {
        // A work without an effect has no retry, except for taken names.
        self.backoffs.retain(|key| can_act.contains(key));
        let acts = plan.effects().map(|(step, _)| &step.key);
        let open: BTreeSet<&WorkKey> = taken.iter().copied().chain(acts).collect();
        self.later_lookups.retain(|key, _| open.contains(key));
        let later_lookups = &self.later_lookups;
        let not_looked_up = taken.iter().filter(|key| !later_lookups.contains_key(**key));
        let not_looked_up: Vec<WorkKey> = not_looked_up.map(|key| (*key).clone()).collect();
        let is_any = !not_looked_up.is_empty();
        self.due_lookups.extend(not_looked_up);
        is_any
    }

    /// Records written content, to find other clients that keep changing it.
    pub(crate) fn wrote(&mut self, key: &WorkKey, written: Written, now: Instant) {
        self.drift.wrote(key, written, now.duration_since(self.start));
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
