//! The fetches of an engine.

use std::time::Duration;

use super::tasks::{Fetch, Fetched};
use super::{Engine, Loop};
use crate::clock::monotonic;
use crate::metrics::Stage;
use crate::reader::on_source;
use gitwork_core::model::operation_error::{OperationError, describe};
use gitwork_core::plan::backoff;
use gitwork_source::SourceState;

impl Engine {
    /// A new process first reads from the hub which commits were applied, to verify later ones.
    pub(super) fn may_fetch(&self) -> bool {
        let wants = self.source.as_ref().is_some_and(|source| source.wants_applied());
        self.lead.may_fetch() && (!wants || self.state.hub().is_listed())
    }

    pub(super) fn begin_fetch(&mut self) -> Option<Fetch> {
        let mut source = self.source.take()?;
        self.lead.fetching();
        if source.wants_applied() {
            source.set_applied(self.state.applied().unwrap_or_default());
        }
        self.known_before = self.state.known();
        let cancel = self.cancel.clone();
        Some(on_source(source, move |source| source.read(&cancel)))
    }

    pub(super) fn end_fetch(&mut self, (source, read): Fetched, looped: &mut Loop) {
        looped.fetch = None;
        self.source = Some(source);
        if std::mem::take(&mut self.source_missed) {
            self.state.mark_changed();
        }
        let seed = fastrand::u64(..);
        match read {
            Ok(read) => {
                looped.failed_fetches = 0;
                self.state.guards_mut().read_after(std::mem::take(&mut self.known_before));
                let source_error = read.refused.as_ref().map(ToString::to_string);
                self.source_error.send_if_modified(|before| {
                    let differs = *before != source_error;
                    *before = source_error;
                    differs
                });
                self.on_read(&read, looped);
            }
            Err(error) => {
                match error.refusal() {
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
                looped.failed_fetches = looped.failed_fetches.saturating_add(1);
            }
        }
        let wait = backoff::next_fetch(self.options.interval, looped.failed_fetches, seed);
        looped.next_fetch = monotonic() + if looped.hinted { Duration::ZERO } else { wait };
    }

    /// Reads the record generation that the source remembers; a fetch may have updated it.
    pub(super) fn observe_record_generation(&mut self) {
        if let Some(source) = &self.source {
            self.state.guards_mut().observe_record_generation(source.known_record_generation());
        }
    }

    fn on_read(&mut self, read: &SourceState, looped: &mut Loop) {
        self.lead.fetched();
        self.observe_record_generation();
        self.metrics.fetched(&self.id, true, self.wall_clock.now());
        self.metrics.spent(&self.id, Stage::Fetch, read.spent.fetch);
        if let Some(time) = read.spent.render {
            self.metrics.spent(&self.id, Stage::Render, time);
        }
        self.report_verification(read.refused.as_deref());
        if !self.state.set_desired(&read.desired) {
            return;
        }
        if let Some(publisher) = &mut self.publisher {
            publisher.forget_refusals();
            publisher.touch();
        }
        self.log.read(read);
        self.committed_seconds = read.committed_seconds;
        if self.lead.leads() {
            self.count_known();
        }
        if let Some(pass) = &looped.pass {
            // The running pass belongs to an older commit: tasks that have not begun are planned
            // again.
            pass.stop();
        }
    }
}
