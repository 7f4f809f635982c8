//! When a work's next pass runs, and over which manifests.

use std::sync::Arc;
use std::time::Duration;

use gitwork_agent_core::drift_backoff::retry_after;
use gitwork_agent_core::identity::applied_name;
use tokio::time::Instant;
use tracing::info;

use super::error::PassError;
use super::items::{AppliedItem, HubWork};
use super::state::{AgentState, LastPass, ManifestOutcome, PendingChanges, Retry};
use super::tracking::{QueueKey, REMOVED_OBJECTS, tracking_ordinal};

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
        let mut ended = Self { changed, ..Self::default() };
        for (place, outcome) in outcomes.iter().enumerate() {
            match outcome.retry {
                Retry::Never => continue,
                Retry::BackOff => ended.failed = true,
                Retry::After(after) => ended.retry_within(after),
            }
            ended.ordinals.push(tracking_ordinal(place));
        }
        match recorded {
            Ok(false) => {}
            Ok(true) => {
                ended.retry_within(DELETIONS);
                ended.ordinals.push(REMOVED_OBJECTS);
            }
            Err(PassError::Unrecorded(_)) if !ended.failed => {}
            Err(error) => {
                info!(work = %name, %error, "cannot record the work's objects; retrying");
                ended.failed = true;
                ended.ordinals.push(REMOVED_OBJECTS);
            }
        }
        ended
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
        pending.ordinals.retain(|place, revision| {
            let known = usize::try_from(*place).ok().and_then(|place| outcomes.get(place));
            match known.and_then(|outcome| outcome.object.as_ref()) {
                Some(object) if *revision != u64::MAX => tracking.is_newer(object, *revision),
                _ => true,
            }
        });
        if !pending.everything && pending.ordinals.is_empty() && !entry.work.deleting {
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

    /// Ends a pass. `undone`: the changes that a failed pass has taken. Returns the wait before the
    /// next pass; `None` if only a change starts one.
    pub fn end_pass(
        &mut self,
        name: &Arc<str>,
        last_pass: LastPass,
        undone: PendingChanges,
        ended: &PassOutcome,
    ) -> Option<Duration> {
        let Some(entry) = self.works.get_mut(name) else {
            // The work was deleted meanwhile.
            self.unsubscribe_all(&QueueKey::Work(name.clone()), &last_pass.outcomes);
            return None;
        };
        entry.last_pass = last_pass;
        entry.last_pass_end = Some(Instant::now());
        entry.pending.everything |= undone.everything;
        for (place, revision) in undone.ordinals {
            entry.pending.ordinals.entry(place).or_insert(revision);
        }
        for place in &ended.ordinals {
            entry.pending.ordinals.insert(*place, u64::MAX);
        }
        if ended.failed {
            let wait = retry_after(entry.failures);
            entry.failures = entry.failures.saturating_add(1);
            return Some(ended.retry_after.map_or(wait, |again| again.min(wait)));
        }
        entry.failures = 0;
        // The response to one of our own writes may have had a new spec before its event.
        if entry.pending.everything { Some(Duration::ZERO) } else { ended.retry_after }
    }
}
