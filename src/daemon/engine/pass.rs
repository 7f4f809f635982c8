//! The passes of an engine: a plan, and its effects on the hub.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use futures::stream::StreamExt;
use jiff::tz::TimeZone;
use tokio::sync::watch;

use super::queries::AncestryQuery;
use super::tasks::{Pass, PassEvent, look_up};
use super::{Engine, EngineError};
use crate::clock::monotonic;
use crate::metrics::Stage;
use gitwork_core::plan::{Plan, Reason};
use gitwork_core::render::desired::Desired;
use gitwork_hub::HubEvent;
use gitwork_hub::execute::{Task, execute};

impl Engine {
    /// Begins a pass; `None` if there is nothing to do.
    pub(super) async fn begin_pass(&mut self, now: Instant) -> Result<Option<Pass>, EngineError> {
        let (stop, stopped) = watch::channel(false);
        let lookups = self.state.take_lookups(now);
        if !lookups.is_empty() {
            return Ok(Some(Pass::new(look_up(&self.hub, lookups), stop)));
        }
        let Some((plan, tasks)) = self.plan(now).await? else { return Ok(None) };
        self.metrics.spent(&self.id, Stage::Plan, monotonic().saturating_duration_since(now));
        self.report_plan(&plan);
        if tasks.is_empty() {
            return Ok(None);
        }
        let outcomes = execute(self.hub.clone(), tasks, self.options.execute, stopped);
        let events = outcomes.map(|outcome| PassEvent::Outcome(Box::new(outcome))).boxed();
        Ok(Some(Pass::new(events, stop)))
    }

    /// The current plan, and its effects that are due.
    async fn plan(&mut self, now: Instant) -> Result<Option<(Arc<Plan>, Vec<Task>)>, EngineError> {
        let Some(desired) = self.state.desired().cloned().filter(|_| self.state.is_ready()) else {
            return Ok(None);
        };
        let ancestry = self.ask_ancestry(&desired, now).await?;
        if ancestry != AncestryQuery::Known {
            tracing::debug!(source = %self.id, ?ancestry, "no plan without the head's history");
            return Ok(None);
        }
        self.ask_history(&desired, now).await?;
        self.set_time();
        if self.state.guards().doubts_read() {
            return Ok(None);
        }
        self.update_contentions(now);
        let Some(plan) = self.state.plan() else { return Ok(None) };
        for violation in self.state.violations() {
            tracing::error!(
                source = %self.id, work = %violation.key, rule = violation.rule.as_str(),
                "the plan breaks a rule; nothing is done for this work; report this as a bug"
            );
        }
        if !self.keep_record(&plan, now).await? {
            return Ok(None);
        }
        let due = self.state.due(&plan, now);
        let mut tasks = Vec::with_capacity(due.len());
        let mut changed = BTreeSet::new();
        for (step, effect) in due {
            let (key, effect) = (step.key.clone(), effect.clone());
            // An edit on the hub is corrected: the work keeps its commit in Git.
            let commit = matches!(step.reason, Reason::EditedOnHub { .. })
                .then(|| self.state.hub().commit_of(&key))
                .flatten();
            if commit.is_none() {
                changed.extend(desired.works.get(&key).map(|work| work.path.clone()));
            }
            tasks.push(Task { key, effect, commit });
        }
        let commits = self.last_changed(desired.commit, changed).await?;
        for task in tasks.iter_mut().filter(|task| task.commit.is_none()) {
            let path = desired.works.get(&task.key).map(|work| &work.path);
            task.commit = path.and_then(|path| commits.get(path).copied()).or(desired.commit);
        }
        Ok(Some((plan, tasks)))
    }

    fn update_contentions(&mut self, now: Instant) {
        if self.state.update_contentions(now)
            && let Some(publisher) = &mut self.publisher
        {
            publisher.touch();
        }
        self.metrics.set_backed_off(&self.id, self.state.contentions().len());
    }

    pub(super) fn set_time(&mut self) {
        self.state.set_time(self.wall_clock.now(), &|name| TimeZone::get(name).ok());
    }

    /// Makes one pass without waiting, and gives the plan that is left after it.
    pub async fn once(mut self) -> Result<(Plan, Arc<Desired>), EngineError> {
        let works = self.hub.list(Some(&self.id)).await?;
        self.state.set_event(HubEvent::Listed(works));
        let directives = self.hub.directives(&self.id).await?;
        self.state.guards_mut().set_directives(Some(directives), monotonic());
        self.state.set_record(self.hub.record(&self.id).await?);
        let (cancel, applied) = (self.cancel.clone(), self.state.applied().unwrap_or_default());
        let known = self.state.known();
        self.state.guards_mut().read_after(known);
        let read = self.with_source(move |source| {
            source.set_applied_commits(applied);
            source.read(&cancel)
        });
        let read = read.await?.ok_or(EngineError::Panic)??;
        self.observe_record_generation();
        if !self.state.guards().is_known() {
            self.state.set_record(self.hub.record(&self.id).await?);
        }
        self.state.set_desired(&read.desired);
        self.log.read(&read);
        // Why two rounds: the writes of the first show which names are taken and which works
        // changed after the list. The second plans with these works as they are.
        for _ in 0..2 {
            let now = monotonic();
            let lookups = self.state.take_lookups(now);
            let mut events = look_up(&self.hub, lookups);
            while let Some(event) = events.next().await {
                self.apply_pass_event(event);
            }
            let Some((_, tasks)) = self.plan(now).await? else { break };
            let (_running, stopped) = watch::channel(false);
            let mut outcomes = execute(self.hub.clone(), tasks, self.options.execute, stopped);
            while let Some(outcome) = outcomes.next().await {
                self.apply_pass_event(PassEvent::Outcome(Box::new(outcome)));
            }
        }
        let plan = self.state.plan().unwrap_or_default();
        self.report_plan(&plan);
        match read.verification_failure {
            Some(failure) => Err(EngineError::VerificationFailed(failure)),
            None => Ok((Arc::unwrap_or_clone(plan), read.desired)),
        }
    }
}
