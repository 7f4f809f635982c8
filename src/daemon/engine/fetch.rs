//! The fetches of an engine.

use std::time::Duration;

use super::tasks::{Fetch, Fetched};
use super::{Engine, LoopState};
use crate::clock::monotonic;
use crate::metrics::Stage;
use crate::reader::on_source;
use gitwork_core::model::operation_error::{OperationError, describe};
use gitwork_core::plan::backoff;
use gitwork_source::SourceState;

impl Engine {
    /// A new process first reads from the hub which commits were applied, to verify later ones.
    pub(super) fn may_fetch(&self) -> bool {
        let wants = self.source.as_ref().is_some_and(|source| source.needs_applied_commits());
        self.leadership.may_fetch() && (!wants || self.state.hub().is_listed())
    }

    pub(super) fn begin_fetch(&mut self) -> Option<Fetch> {
        let mut source = self.source.take()?;
        self.leadership.fetching();
        if source.needs_applied_commits() {
            source.set_applied_commits(self.state.applied().unwrap_or_default());
        }
        self.known_before = self.state.known();
        let cancel = self.cancel.clone();
        Some(on_source(source, move |source| source.read(&cancel)))
    }

    pub(super) fn end_fetch(&mut self, (source, read): Fetched, loop_state: &mut LoopState) {
        loop_state.fetch = None;
        self.source = Some(source);
        if std::mem::take(&mut self.source_missed) {
            self.state.mark_changed();
        }
        let seed = fastrand::u64(..);
        match read {
            Ok(read) => {
                loop_state.failed_fetches = 0;
                self.state.guards_mut().read_after(std::mem::take(&mut self.known_before));
                let source_error = read.verification_failure.as_ref().map(ToString::to_string);
                self.source_error.send_if_modified(|before| {
                    let differs = *before != source_error;
                    *before = source_error;
                    differs
                });
                self.on_read(&read, loop_state);
            }
            Err(error) => {
                match error.verification_failure() {
                    Some(refusal) => self.report_verification(Some(refusal)),
                    None => {
                        tracing::error!(
                            source = %self.id, reason = error.reason(), error = describe(&error),
                            "the source cannot be read; the hub stays as it is"
                        );
                    }
                }
                self.metrics.fetched(&self.id, false, self.wall_clock.now());
                self.source_error.send_replace(Some(describe(&error)));
                loop_state.failed_fetches = loop_state.failed_fetches.saturating_add(1);
            }
        }
        let wait = backoff::next_fetch(self.options.interval, loop_state.failed_fetches, seed);
        loop_state.next_fetch = monotonic() + if loop_state.hinted { Duration::ZERO } else { wait };
    }

    /// Reads the record generation that the source remembers; a fetch may have updated it.
    pub(super) fn observe_record_generation(&mut self) {
        if let Some(source) = &self.source {
            self.state.guards_mut().observe_record_generation(source.known_record_generation());
        }
    }

    fn on_read(&mut self, read: &SourceState, loop_state: &mut LoopState) {
        self.leadership.fetched();
        self.observe_record_generation();
        self.metrics.fetched(&self.id, true, self.wall_clock.now());
        self.metrics.spent(&self.id, Stage::Fetch, read.spent.fetch);
        if let Some(time) = read.spent.render {
            self.metrics.spent(&self.id, Stage::Render, time);
        }
        self.report_verification(read.verification_failure.as_deref());
        if !self.state.set_desired(&read.desired) {
            return;
        }
        if let Some(publisher) = &mut self.publisher {
            publisher.forget_failed_writes();
            publisher.touch();
        }
        self.log.read(read);
        self.committed_seconds = read.committed_seconds;
        if self.leadership.leads() {
            self.set_leader_metrics();
        }
        if let Some(pass) = &loop_state.pass {
            // The running pass belongs to an older commit: tasks that have not begun are planned
            // again.
            pass.stop();
        }
    }
}
