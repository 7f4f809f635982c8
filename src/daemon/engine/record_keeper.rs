//! The record of a source on the hub: when it is read and written, and what a failure means for
//! the plan.

use std::time::Instant;

use super::error::EngineError;
use super::source_access::SourceAccess;
use crate::limits;
use gitwork_core::model::name::SourceId;
use gitwork_core::plan::Plan;
use gitwork_hub::{Hub, HubError};
use gitwork_retry::{RetryClass, delay, log_error};
use gitwork_sync::state::SyncState;

/// Keeps the record of one source on the hub.
#[derive(Debug)]
pub(super) struct RecordKeeper {
    id: SourceId,
    /// Failed writes in a row because the namespace is missing or forbidden, and when the next one
    /// is due.
    failures: Option<(u32, Instant)>,
}

/// The result of [`RecordKeeper::write_due`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordWrite {
    /// No write was due, or the hub has no place for the record.
    NotWritten,
    /// The record has what the plan needs.
    Written,
    /// The record says for the first time that the hub was restored. The plan does not consider
    /// that.
    RestoreRecorded,
    /// The hub did not accept the record, or its response was lost.
    Failed,
}

impl RecordWrite {
    /// Whether the plan may be executed.
    pub fn allows_execution(self) -> bool {
        matches!(self, Self::NotWritten | Self::Written)
    }

    /// Whether the hub has another record than before.
    pub fn is_written(self) -> bool {
        matches!(self, Self::Written | Self::RestoreRecorded)
    }
}

impl RecordKeeper {
    pub fn new(id: SourceId) -> Self {
        Self { id, failures: None }
    }

    /// Reads the record if that is due.
    pub async fn read_due(&self, hub: &dyn Hub, state: &mut SyncState, now: Instant) {
        if !state.facts().record.is_due(now) {
            return;
        }
        match hub.record(&self.id).await {
            Ok(found) => state.set_record(found),
            Err(error) => {
                log_error!(warn, &error, source = %self.id, "cannot read the source's record on \
                    the hub");
                state.facts_mut().record.ask_again(Some(now + limits::DIRECTIVES_RETRY));
            }
        }
    }

    /// Writes the record if the plan needs it. This machine remembers its generation.
    pub async fn write_due(
        &mut self,
        hub: &dyn Hub,
        state: &mut SyncState,
        source: &mut SourceAccess,
        plan: &Plan,
        now: Instant,
    ) -> Result<RecordWrite, EngineError> {
        let Some(record) = state.record_to_write(plan) else { return Ok(RecordWrite::NotWritten) };
        // Without a record, the next process cannot know what was verified.
        let is_signed = state.facts().is_signed();
        let without = if is_signed { RecordWrite::Failed } else { RecordWrite::NotWritten };
        if self.failures.is_some_and(|(_, due)| now < due) {
            return Ok(without);
        }
        let before = state.facts().record.stored().cloned();
        match hub.set_record(&self.id, &record, before.as_ref()).await {
            Ok(stored) => {
                if self.failures.take().is_some() {
                    tracing::info!(source = %self.id, "the source's record is on the hub again");
                }
                let generation = stored.record.record_generation;
                state.facts_mut().record.set_written(stored);
                self.remember_generation(source, generation).await?;
                let was_restored = before.is_some_and(|before| before.record.restored);
                let is_first = record.restored && !was_restored;
                Ok(if is_first { RecordWrite::RestoreRecorded } else { RecordWrite::Written })
            }
            Err(error @ (HubError::NamespaceMissing { .. } | HubError::Forbidden { .. })) => {
                self.back_off(&error, is_signed, now);
                Ok(without)
            }
            Err(error) => {
                log_error!(warn, &error, source = %self.id, "cannot write the source's record on \
                    the hub; the hub stays as it is until then");
                state.facts_mut().record.ask_again(Some(now + limits::DIRECTIVES_RETRY));
                Ok(RecordWrite::Failed)
            }
        }
    }

    /// Stores the generation of the record, so that a restored hub is detected.
    async fn remember_generation(
        &self,
        source: &mut SourceAccess,
        generation: u64,
    ) -> Result<(), EngineError> {
        let stored = source.query(move |reader, _| reader.remember_record_generation(generation));
        if let Some(Err(error)) = stored.await? {
            log_error!(warn, &error, source = %self.id, "cannot store the record's generation; a \
                restored hub may go undetected");
        }
        Ok(())
    }

    /// Logs once that the hub has no place for the record, and backs off.
    fn back_off(&mut self, error: &HubError, is_signed: bool, now: Instant) {
        let failures = self.failures.map_or(0, |(failures, _)| failures);
        if failures == 0 && is_signed {
            log_error!(
                error, error, source = %self.id,
                "signatures are required, and the verified commit cannot be recorded on the hub: \
                 nothing is applied until it can"
            );
        } else if failures == 0 {
            log_error!(
                warn, error, source = %self.id,
                "the source has no record on the hub: a new process will not know all that this \
                 one does"
            );
        }
        let wait = delay(failures, RetryClass::Blocked, fastrand::u64(..));
        self.failures = Some((failures.saturating_add(1), now + wait));
    }
}
