//! What an engine asks before it plans: operators and the record on the hub, and Git's history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::{Engine, EngineError, Loop, clock};
use crate::core::desired::Desired;
use crate::core::name::{CommitId, RepoPath};
use crate::core::plan::Plan;
use crate::daemon::reader::{SourceReader, on_source};
use crate::hub::HubError;
use crate::limits;

impl Engine {
    /// Asks the hub what operators say, and for the source's record, where that is due and nothing is under way.
    pub(super) async fn ask_hub(&mut self, looped: &mut Loop) {
        let now = clock();
        if looped.pass.is_some() {
            return;
        }
        if self.state.guards().wants_directives(now) {
            let found = self.hub.directives(&self.id).await;
            if let Err(error) = &found {
                tracing::warn!(source = %self.id, %error, "what operators say on the hub is not known");
            }
            if self.state.set_directives(found.ok(), now) {
                tracing::info!(source = %self.id, "somebody wants a sync: fetching now");
                (looped.next_fetch, looped.hinted) = (now, true);
            }
            // Windows open and close, and clocks are set, at times that nothing tells of.
            self.set_time();
        }
        if self.state.guards().wants_record(now) {
            match self.hub.record(&self.id).await {
                Ok(found) => self.state.set_record(found),
                Err(error) => {
                    tracing::warn!(source = %self.id, %error, "the source's record on the hub is not known");
                    self.state.ask_record_again(Some(now + limits::DIRECTIVES_RETRY));
                }
            }
        }
    }

    /// Asks Git which of the applied commits the head builds on. Answers whether all is known: without it nothing is
    /// planned.
    pub(super) async fn ask_ancestry(
        &mut self,
        desired: &Arc<Desired>,
        now: Instant,
    ) -> Result<bool, EngineError> {
        let Some(head) = desired.commit else { return Ok(true) };
        // One question about the old head, one about all commits, one about those that an approval names.
        for _ in 0..3 {
            let Some(commits) = self.state.take_unknown_ancestry(now) else { return Ok(false) };
            if commits.is_empty() {
                return Ok(true);
            }
            let (asked, cancel) = (commits.clone(), self.cancel.clone());
            match self.with_source(move |source| source.unreached(head, &asked, &cancel)).await? {
                Some(Ok(unreached)) => self.state.set_ancestry(head, &commits, &unreached),
                Some(Err(error)) => {
                    tracing::error!(source = %self.id, %error, "Git's history cannot be read; nothing is changed");
                    self.state.postpone_history(now);
                }
                None => return Ok(false),
            }
        }
        Ok(self.state.knows_ancestry())
    }

    /// Asks Git for its last word on works that it no longer has. Without it nothing is deleted.
    pub(super) async fn ask_history(
        &mut self,
        desired: &Arc<Desired>,
        now: Instant,
    ) -> Result<(), EngineError> {
        let candidates = self.state.take_unknown_departed(now);
        if candidates.is_empty() {
            return Ok(());
        }
        let (wanted, of, cancel) = (candidates.clone(), desired.clone(), self.cancel.clone());
        match self.with_source(move |source| source.departed(&of, &wanted, &cancel)).await? {
            Some(Ok(found)) => self.state.set_departed(&candidates, found),
            Some(Err(error)) => {
                tracing::error!(
                    source = %self.id, %error, works = candidates.len(),
                    "Git's history of removed works cannot be read; they are not deleted"
                );
                self.state.postpone_history(now);
            }
            None => {}
        }
        Ok(())
    }

    /// The commit that last changed each work folder. Who last touched a work is good to know, but no reason to
    /// hold it back.
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
                tracing::warn!(source = %self.id, %error, "the history of the works cannot be read");
                Ok(BTreeMap::new())
            }
            None => Ok(BTreeMap::new()),
        }
    }

    /// Writes the source's record where the plan needs it. Answers whether the plan may be carried out.
    pub(super) async fn keep_record(
        &mut self,
        plan: &Plan,
        now: Instant,
    ) -> Result<bool, EngineError> {
        self.tell_followed(plan);
        let Some(record) = self.state.record_to_write(plan) else { return Ok(true) };
        if self.homeless.is_some_and(|(_, due)| now < due) {
            return Ok(true);
        }
        let before = self.state.guards().stored().cloned();
        match self.hub.set_record(&self.id, &record, before.as_ref()).await {
            Ok(stored) => {
                if self.homeless.take().is_some() {
                    tracing::info!(source = %self.id, "the source's record is kept on the hub now");
                }
                let moves = stored.record.moves;
                self.state.record_written(stored);
                let kept = self.with_source(move |source| source.remember_moves(moves)).await?;
                if let Some(Err(error)) = kept {
                    tracing::warn!(source = %self.id, %error, "a restored hub may go unnoticed: its record's count cannot be kept");
                }
                // What the record says is part of what is planned.
                self.set_time();
                Ok(!record.restored || before.is_some_and(|before| before.record.restored))
            }
            Err(error @ (HubError::NoHome { .. } | HubError::Forbidden { .. })) => {
                self.tell_homeless(&error, now);
                Ok(true)
            }
            Err(error) => {
                tracing::warn!(source = %self.id, %error, "the source's record on the hub could not be written; nothing is changed before");
                self.state.ask_record_again(Some(now + limits::DIRECTIVES_RETRY));
                Ok(false)
            }
        }
    }

    /// Does something with the source on a thread that may block; `None` while a fetch has it.
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
