//! What an engine says in the log, each thing once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::Engine;
use crate::core::backoff::{self, Setback};
use crate::core::diagnostic::Severity;
use crate::core::name::{CommitId, SourceId};
use crate::core::plan::{Plan, Reason, Step};
use crate::core::signature::judge::Refusal;
use crate::hub::HubError;
use crate::hub::execute::{ExecuteError, Outcome, Task};
use crate::source::Read;

impl Engine {
    /// Says once that the record cannot be kept on the hub, and leaves the hub alone with it for a while.
    pub(super) fn tell_homeless(&mut self, error: &HubError, now: Instant) {
        let failures = self.homeless.map_or(0, |(failures, _)| failures);
        if failures == 0 {
            tracing::warn!(source = %self.id, %error, "the source has no record on the hub: a new process will not know all that this one does");
        }
        let wait = backoff::delay(failures, Setback::Blocked, fastrand::u64(..));
        self.homeless = Some((failures.saturating_add(1), now + wait));
    }

    /// Says once which commits are left behind.
    pub(super) fn tell_followed(&mut self, plan: &Plan) {
        let Some(left) = self.state.guards().followed().filter(|left| **left != self.told_left)
        else {
            return;
        };
        let some: Vec<String> = left.iter().take(10).map(CommitId::to_string).collect();
        let head = plan.commit.map_or_else(String::new, |commit| commit.to_string());
        tracing::warn!(
            source = %self.id, commit = head, left = some.join(" "),
            "the ref was rewound or force-pushed: it does not build on what was applied; following it"
        );
        self.told_left = left.clone();
    }

    /// Says once that the newest commit is not applied, and once that it is.
    pub(super) fn tell_refusal(&mut self, refusal: Option<&Refusal>) {
        if self.lead.leads() {
            self.metrics.verified(&self.id, refusal.is_some());
        }
        if let Some(bulletin) = &mut self.bulletin {
            bulletin.set_unverified(refusal.map(|refusal| (refusal.head, refusal.to_string())));
        }
        if self.told_refusal.as_ref() == refusal {
            return;
        }
        match refusal {
            Some(refusal) => tracing::error!(
                source = %self.id, commit = %refusal.commit, rule = refusal.rule,
                key = refusal.key.as_deref().unwrap_or("none"),
                "{refusal}; the hub stays at the last verified commit"
            ),
            None => tracing::info!(source = %self.id, "the newest commit is verified"),
        }
        self.told_refusal = refusal.cloned();
    }

    pub(super) fn tell_plan(&mut self, plan: &Plan) {
        self.metrics.planned(&self.id, plan);
        let is_as_git_wants = |step: &Step| step.is_settled() || step.reason == Reason::Suspended;
        if let Some(seconds) = self.committed_seconds
            && plan.steps.iter().all(is_as_git_wants)
        {
            self.metrics.synced(&self.id, seconds);
        }
        let mut told = BTreeMap::new();
        for step in plan.steps.iter().filter(|step| step.effect.is_none()) {
            // What a guard holds is told together, and a contest by the work's state, which is steady.
            let contested = matches!(step.reason, Reason::Contested { .. });
            if step.reason == Reason::UpToDate || step.reason.guard().is_some() || contested {
                continue;
            }
            let code = step.reason.code();
            if self.told.get(&step.key) != Some(&code) {
                tracing::warn!(source = %self.id, work = %step.key, reason = code, "{}", step.reason);
            }
            told.insert(step.key.clone(), code);
        }
        self.told = told;
        self.tell_held(plan);
        if plan.is_empty() {
            tracing::debug!(source = %self.id, counts = %plan.counts(), "nothing to do");
        } else {
            tracing::info!(source = %self.id, counts = %plan.counts(), "plan");
        }
    }

    /// Says once what is held and how to let it through.
    pub(super) fn tell_held(&mut self, plan: &Plan) {
        let mut hashes = BTreeSet::new();
        for hold in plan.holds(&self.id) {
            let (hash, guard) = (hold.approval.hash(), Some(hold.guard));
            hashes.insert(hash);
            if self.told_held.contains(&hash) {
                continue;
            }
            let of_guard = plan.steps.iter().filter(|step| step.reason.guard() == guard);
            let some: Vec<String> = of_guard.take(10).map(|step| step.key.to_string()).collect();
            tracing::warn!(
                source = %self.id, works = hold.works, guard = hold.guard.as_str(), %hash, some = some.join(" "),
                "works are held: {}; if that is meant: gitwork approve {hash}", hold.reason
            );
        }
        self.told_held = hashes;
    }

    pub(super) fn tell_outcome(&self, outcome: &Outcome) {
        let Task { key, effect, .. } = &outcome.task;
        let what = effect.name();
        if matches!(outcome.result, Err(ExecuteError::Stopped)) {
            // It was never begun, and is part of the next plan: nobody has to look at it, and no write has failed.
            tracing::debug!(source = %self.id, work = %key, effect = what, "not begun");
            return;
        }
        self.metrics.wrote(&self.id, what, outcome.result.is_ok());
        match &outcome.result {
            Ok(_) => tracing::info!(source = %self.id, work = %key, effect = what, "done"),
            Err(error) => {
                tracing::warn!(source = %self.id, work = %key, effect = what, %error, "not done");
            }
        }
    }
}

/// Tells of a commit, and of what in it cannot be read.
pub(super) fn tell_read(source: &SourceId, read: &Read) {
    let desired = &read.desired;
    let commit = desired.commit.map_or_else(|| "uncommitted".into(), |commit| commit.to_string());
    let errors = desired.diagnostics.iter().filter(|found| found.is_error()).count();
    tracing::info!(%source, at = read.name, %commit, works = desired.works.len(), errors, "read");
    for found in
        desired.diagnostics.iter().filter(|found| found.severity != Severity::Info).take(100)
    {
        let span = found.location.span.map(|s| format!(":{}:{}", s.line, s.column));
        let place = format!("{}{}", found.location.file, span.unwrap_or_default());
        if found.is_error() {
            tracing::error!(%source, code = found.code.id(), place, "{}", found.message);
        } else {
            tracing::warn!(%source, code = found.code.id(), place, "{}", found.message);
        }
    }
}
