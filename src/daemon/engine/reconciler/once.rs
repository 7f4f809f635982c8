//! One sync without waiting, as `gitwork run --once` makes it.

use std::sync::Arc;

use super::Reconciler;
use crate::clock::monotonic;
use crate::engine::error::EngineError;
use crate::engine::facts_input::FactsInput;
use crate::engine::pass::Pass;
use crate::engine::source_access::Fetched;
use gitwork_core::model::name::SourceId;
use gitwork_core::plan::Plan;
use gitwork_core::render::desired::Desired;
use gitwork_hub::{Hub, HubEvent};
use gitwork_source::SourceState;
use gitwork_sync::state::SyncState;

impl Reconciler {
    /// Reads the hub and Git, writes what is due, and gives the plan that is left after it.
    pub async fn once(
        mut self,
        mut facts: FactsInput,
    ) -> Result<(Plan, Arc<Desired>), EngineError> {
        let mut read = self.read_both().await?;
        facts.end_read(&read.desired);
        if let Some(of_hub) = facts.first().await {
            self.source.set_facts(of_hub);
            read = self.read_git().await?;
        }
        self.set_time();
        if self.wants_other_contents() {
            read = self.read_git().await?;
        }
        self.reports.log.read(&read);
        // Why two rounds: the writes of the first show which names are taken and which works
        // changed after the list. The second plans with these works as they are.
        for _ in 0..2 {
            let now = monotonic();
            let lookups = self.state.take_lookups(now);
            self.finish(Pass::look_up(&self.hub, lookups)).await;
            let mut planned = self.plan(now).await?;
            if planned.is_none() && self.state.guards().rewind().doubts_read() {
                // Git was read before the hub.
                read = self.read_git().await?;
                planned = self.plan(now).await?;
            }
            let Some((_, tasks)) = planned else { break };
            let pass = self.execute(tasks);
            self.finish(pass).await;
        }
        let plan = self.state.plan(monotonic()).unwrap_or_default();
        self.reports.planned(&plan);
        match read.verification_failure {
            Some(failure) => Err(EngineError::VerificationFailed(failure)),
            None => Ok((Arc::unwrap_or_clone(plan), read.desired)),
        }
    }

    /// Reads the hub while Git is fetched and rendered. If the hub says which commit was verified,
    /// Git is read after that, and only what differs is rendered again.
    async fn read_both(&mut self) -> Result<SourceState, EngineError> {
        if self.read_ahead() {
            let hub = read_hub(&*self.hub, &self.id, &mut self.state);
            tokio::try_join!(self.source.fetched(), hub)?;
            return self.read_git().await;
        }
        self.begin_fetch(None, false);
        read_hub(&*self.hub, &self.id, &mut self.state).await?;
        self.end_read_git().await
    }

    async fn read_git(&mut self) -> Result<SourceState, EngineError> {
        self.begin_fetch(None, true);
        self.end_read_git().await
    }

    async fn end_read_git(&mut self) -> Result<SourceState, EngineError> {
        let Fetched { read, known_before, .. } = loop {
            if let Some(fetched) = self.source.fetched().await? {
                break fetched;
            }
        };
        let read = read?;
        self.state.facts_mut().history.read_after(known_before);
        self.observe_known_record();
        if !self.state.facts().record.is_known() {
            self.state.set_record(self.hub.record(&self.id).await?);
        }
        let facts = self.state.facts_mut();
        facts.set_signed(read.is_signed);
        facts.set_desired(&read.desired);
        Ok(read)
    }
}

async fn read_hub(hub: &dyn Hub, id: &SourceId, state: &mut SyncState) -> Result<(), EngineError> {
    let works = hub.list(Some(id)).await?;
    let is_first = works.is_empty();
    state.facts_mut().set_event(HubEvent::Listed(works.into_iter().collect()));
    let directives = hub.directives(id).await?;
    state.facts_mut().directives.set(Some(directives), monotonic());
    state.set_record(hub.record(id).await?);
    if is_first {
        // All works are to be written, and the processor waits for the Git server now.
        hub.connect_ahead().await;
    }
    Ok(())
}
