//! The queries of an engine before it plans: directives and the record on the hub, history in Git.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::{Engine, EngineError, LoopState};
use crate::clock::monotonic;
use crate::limits;
use crate::reader::{SourceReader, on_source};
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_core::plan::Plan;
use gitwork_core::render::desired::Desired;
use gitwork_core::sync::state::AncestryLookup;
use gitwork_hub::HubError;
use gitwork_retry::{RetryClass, delay};

/// Rounds of queries about the ancestry of one head: one for the old head, one for all commits, one
/// for the commits of approvals.
const ANCESTRY_ROUNDS: usize = 3;

/// Whether Git's history of the head is known, as a plan needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AncestryQuery {
    /// All of it is known, or the source has no commits.
    Known,
    /// The last read of Git's history failed, and the wait after it has not ended.
    Waiting,
    /// A fetch uses the source; its end makes the next plan due.
    SourceBusy,
    /// Commits are still unknown after [`ANCESTRY_ROUNDS`].
    Incomplete,
}

impl Engine {
    /// Reads directives and the record from the hub if they are due and no pass is running.
    pub(super) async fn ask_hub(&mut self, loop_state: &mut LoopState) {
        let now = monotonic();
        if loop_state.pass.is_some() {
            return;
        }
        if self.state.guards().wants_directives(now) {
            let found = self.hub.directives(&self.id).await;
            if let Err(error) = &found {
                tracing::warn!(source = %self.id, %error, "cannot read the directives on the hub");
            }
            if self.state.guards_mut().set_directives(found.ok(), now) {
                tracing::info!(source = %self.id, "an operator requested a sync: fetching now");
                (loop_state.next_fetch, loop_state.hinted) = (now, true);
            }
            // Windows open and close, and clocks are set, without an event.
            self.set_time();
        }
        if self.state.guards().wants_record(now) {
            match self.hub.record(&self.id).await {
                Ok(found) => self.state.set_record(found),
                Err(error) => {
                    tracing::warn!(source = %self.id, %error, "cannot read the source's record \
                        on the hub");
                    self.state.guards_mut().ask_record_again(Some(now + limits::DIRECTIVES_RETRY));
                }
            }
        }
    }

    /// Asks Git which of the applied commits the head builds on. Nothing is planned before that is
    /// [`AncestryQuery::Known`].
    pub(super) async fn ask_ancestry(
        &mut self,
        desired: &Arc<Desired>,
        now: Instant,
    ) -> Result<AncestryQuery, EngineError> {
        let Some(head) = desired.commit else { return Ok(AncestryQuery::Known) };
        for _ in 0..ANCESTRY_ROUNDS {
            let commits = match self.state.ancestry_lookup(now) {
                AncestryLookup::Known => return Ok(AncestryQuery::Known),
                AncestryLookup::Due(commits) => commits,
                AncestryLookup::Wait => return Ok(AncestryQuery::Waiting),
            };
            let (asked, cancel) = (commits.clone(), self.cancel.clone());
            match self.with_source(move |source| source.unreached(head, &asked, &cancel)).await? {
                Some(Ok(unreached)) => self.state.set_ancestry(head, &commits, &unreached),
                Some(Err(error)) => {
                    tracing::error!(source = %self.id, %error, "cannot read Git's history; the \
                        hub stays as it is");
                    self.state.history_mut().postpone(now);
                }
                None => return Ok(AncestryQuery::SourceBusy),
            }
        }
        Ok(if self.state.knows_ancestry() {
            AncestryQuery::Known
        } else {
            AncestryQuery::Incomplete
        })
    }

    /// Asks Git for the final `deleteOption` of removed works. Without it nothing is deleted.
    pub(super) async fn ask_history(
        &mut self,
        desired: &Arc<Desired>,
        now: Instant,
    ) -> Result<(), EngineError> {
        let candidates = self.state.removals_to_look_up(now);
        if candidates.is_empty() {
            return Ok(());
        }
        let (wanted, of, cancel) = (candidates.clone(), desired.clone(), self.cancel.clone());
        let found = self.with_source(move |source| source.last_known_states(&of, &wanted, &cancel));
        match found.await? {
            Some(Ok(found)) => self.state.history_mut().set_last_known(&candidates, found),
            Some(Err(error)) => {
                tracing::error!(
                    source = %self.id, %error, works = candidates.len(),
                    "cannot read Git's history of removed works; they are not deleted"
                );
                self.state.history_mut().postpone(now);
            }
            None => {}
        }
        Ok(())
    }

    /// The commit that last changed each work folder. It is informative: a failure holds nothing
    /// back.
    pub(super) async fn last_changed(
        &mut self,
        head: Option<CommitId>,
        folders: BTreeSet<RepoPath>,
    ) -> Result<BTreeMap<RepoPath, CommitId>, EngineError> {
        let Some(head) = head.filter(|_| !folders.is_empty()) else { return Ok(BTreeMap::new()) };
        let cancel = self.cancel.clone();
        let changed = self.with_source(move |source| source.last_changed(head, &folders, &cancel));
        match changed.await? {
            Some(Ok(found)) => Ok(found),
            Some(Err(error)) => {
                tracing::warn!(source = %self.id, %error, "cannot read the history of the works");
                Ok(BTreeMap::new())
            }
            None => Ok(BTreeMap::new()),
        }
    }

    /// Writes the source's record if the plan needs it. Gives whether the plan may be executed.
    pub(super) async fn keep_record(
        &mut self,
        plan: &Plan,
        now: Instant,
    ) -> Result<bool, EngineError> {
        self.log.followed_rewind(plan, self.state.guards().followed());
        let Some(record) = self.state.record_to_write(plan) else { return Ok(true) };
        if self.record_failures.is_some_and(|(_, due)| now < due) {
            return Ok(true);
        }
        let before = self.state.guards().stored().cloned();
        match self.hub.set_record(&self.id, &record, before.as_ref()).await {
            Ok(stored) => {
                if self.record_failures.take().is_some() {
                    tracing::info!(source = %self.id, "the source's record is on the hub again");
                }
                let record_generation = stored.record.record_generation;
                self.state.guards_mut().record_written(stored);
                let remember = move |source: &mut dyn SourceReader| {
                    source.remember_record_generation(record_generation)
                };
                let kept = self.with_source(remember).await?;
                if let Some(Err(error)) = kept {
                    tracing::warn!(source = %self.id, %error, "cannot store the record's \
                        generation; a restored hub may go undetected");
                }
                // The plan depends on the record.
                self.set_time();
                Ok(!record.restored || before.is_some_and(|before| before.record.restored))
            }
            Err(error @ (HubError::NamespaceMissing { .. } | HubError::Forbidden { .. })) => {
                self.log_namespace_missing(&error, now);
                Ok(true)
            }
            Err(error) => {
                tracing::warn!(source = %self.id, %error, "cannot write the source's record on \
                    the hub; the hub stays as it is until then");
                self.state.guards_mut().ask_record_again(Some(now + limits::DIRECTIVES_RETRY));
                Ok(false)
            }
        }
    }

    /// Logs once that the record cannot be kept on the hub, and backs off.
    fn log_namespace_missing(&mut self, error: &HubError, now: Instant) {
        let failures = self.record_failures.map_or(0, |(failures, _)| failures);
        if failures == 0 {
            tracing::warn!(
                source = %self.id, %error,
                "the source has no record on the hub: a new process will not know all that this \
                 one does"
            );
        }
        let wait = delay(failures, RetryClass::Blocked, fastrand::u64(..));
        self.record_failures = Some((failures.saturating_add(1), now + wait));
    }

    /// Calls the source on a thread that may block; `None` while a fetch uses it.
    pub(super) async fn with_source<T: Send + 'static>(
        &mut self,
        act: impl FnOnce(&mut dyn SourceReader) -> T + Send + 'static,
    ) -> Result<Option<T>, EngineError> {
        let Some(source) = self.source.take() else {
            self.source_missed = true;
            return Ok(None);
        };
        let joined = on_source(source, act);
        let (source, result) = joined.await.map_err(|_| EngineError::Panic)?;
        self.source = Some(source);
        Ok(Some(result))
    }
}
