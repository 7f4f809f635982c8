//! When a work's next pass runs, and over which manifests.

use std::sync::Arc;
use std::time::Duration;

use gitwork_agent_core::drift_backoff::retry_after;
use gitwork_agent_core::identity::applied_name;
use gitwork_retry::log_error;
use tokio::time::Instant;

use super::error::PassError;
use super::items::{AppliedItem, HubWork};
use super::state::{AgentState, LastPass, ManifestOutcome, PendingChanges, Retry};
use super::tracking::{ANY_REVISION, QueueKey, tracking_ordinal};

/// How soon a pass looks again at objects that are being deleted. Their events start one sooner.
const DELETIONS: Duration = Duration::from_secs(5);

/// What one pass works on.
pub struct PassInput {
    /// The work, as the hub had it when the pass began.
    pub work: Arc<HubWork>,
    /// Its AppliedManifestWork, if there is one.
    pub applied: Option<Arc<AppliedItem>>,
    /// The outcomes of the last pass.
    pub last_pass: LastPass,
    /// The changes since.
    pub pending: PendingChanges,
}

/// How a pass ended.
#[derive(Default)]
pub struct PassOutcome {
    /// The wait before the next pass if nothing changes; `None`: there is none.
    pub retry_after: Option<Duration>,
    /// The manifests that the next pass applies even so.
    pub ordinals: Vec<u32>,
    /// See [`PendingChanges::forced`], of the next pass.
    pub forced: bool,
    /// Something failed: the next pass comes with exponential backoff.
    pub failed: bool,
    /// It wrote the status, or deleted something.
    pub changed: bool,
}

impl PassOutcome {
    /// The outcome of a pass that applied manifests. `recorded`: whether deletions are under way,
    /// or why the objects are not recorded.
    pub fn of_manifests(
        outcomes: &[ManifestOutcome],
        recorded: Result<bool, PassError>,
        changed: bool,
        name: &str,
    ) -> Self {
        let mut pass_outcome = Self { changed, ..Self::default() };
        for (ordinal, outcome) in outcomes.iter().enumerate() {
            match outcome.retry {
                Retry::Never => continue,
                Retry::BackOff => pass_outcome.failed = true,
                Retry::After(after) => pass_outcome.retry_within(after),
            }
            pass_outcome.ordinals.push(tracking_ordinal(ordinal));
        }
        match recorded {
            Ok(false) => {}
            Ok(true) => {
                pass_outcome.retry_within(DELETIONS);
                pass_outcome.forced = true;
            }
            Err(PassError::Unrecorded(_)) if !pass_outcome.failed => {}
            Err(error) => {
                log_error!(
                    info, &error, work = %name, "cannot record the work's objects; retrying"
                );
                pass_outcome.failed = true;
                pass_outcome.forced = true;
            }
        }
        pass_outcome
    }

    fn retry_within(&mut self, after: Duration) {
        self.retry_after = Some(self.retry_after.map_or(after, |again| again.min(after)));
    }
}

impl AgentState {
    /// Takes the pending changes of a work; `None` if a pass has nothing to do. Changes that the
    /// agent itself made do not count.
    pub fn take_input(&mut self, name: &str, hub_hash: &str) -> Option<PassInput> {
        let entry = self.works.get_mut(name)?;
        let mut pending = std::mem::take(&mut entry.pending);
        let outcomes = &entry.last_pass.outcomes;
        let tracking = &self.tracking;
        pending.ordinals.retain(|ordinal, revision| {
            let known = usize::try_from(*ordinal).ok().and_then(|ordinal| outcomes.get(ordinal));
            match known.and_then(|outcome| outcome.object.as_ref()) {
                Some(object) if *revision != ANY_REVISION => tracking.is_newer(object, *revision),
                _ => true,
            }
        });
        let has_pending = pending.everything || pending.forced || !pending.ordinals.is_empty();
        if !has_pending && !entry.work.deleting {
            return None;
        }
        let applied = self.applied.get(applied_name(hub_hash, name).as_str()).cloned();
        Some(PassInput {
            work: entry.work.clone(),
            applied,
            last_pass: std::mem::take(&mut entry.last_pass),
            pending,
        })
    }

    /// Ends a pass. `unapplied`: the pending changes of a pass that failed. Returns the wait before
    /// the next pass; `None` if only a change starts one.
    pub fn end_pass(
        &mut self,
        name: &Arc<str>,
        last_pass: LastPass,
        unapplied: &PendingChanges,
        pass_outcome: &PassOutcome,
    ) -> Option<Duration> {
        let Some(entry) = self.works.get_mut(name) else {
            // The work was deleted meanwhile.
            self.unsubscribe_all(&QueueKey::Work(name.clone()), &last_pass.outcomes);
            return None;
        };
        entry.last_pass = last_pass;
        entry.last_pass_end = Some(Instant::now());
        entry.pending.everything |= unapplied.everything;
        entry.pending.forced |= unapplied.forced || pass_outcome.forced;
        // The failed pass may have seen these revisions already, and not reported what it saw.
        for ordinal in unapplied.ordinals.keys().chain(&pass_outcome.ordinals) {
            entry.pending.ordinals.insert(*ordinal, ANY_REVISION);
        }
        if pass_outcome.failed {
            let wait = retry_after(entry.failures);
            entry.failures = entry.failures.saturating_add(1);
            return Some(pass_outcome.retry_after.map_or(wait, |again| again.min(wait)));
        }
        entry.failures = 0;
        // The response to one of our own writes may have had a new spec before its event.
        if entry.pending.everything { Some(Duration::ZERO) } else { pass_outcome.retry_after }
    }
}
