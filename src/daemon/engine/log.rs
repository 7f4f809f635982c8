//! The log of one source: each finding is logged once, when it begins.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits;
use gitwork_core::model::diagnostic::Severity;
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{CommitId, SourceId, WorkKey};
use gitwork_core::plan::{Plan, PlanStep, Reason};
use gitwork_core::signature::verification::VerificationFailure;
use gitwork_hub::execute::{ExecuteError, Outcome, Task};
use gitwork_retry::log_error;
use gitwork_source::SourceState;

/// How many works or commits one line names.
const NAMES_MAX: usize = 10;
/// How many findings of one commit are logged.
const FINDINGS_MAX: usize = 100;

/// What was logged of a source, so that nothing is logged twice.
#[derive(Debug)]
pub(super) struct SourceLog {
    source: SourceId,
    /// The reason code of each work without an effect.
    reasons: BTreeMap<WorkKey, &'static str>,
    /// The held changes.
    held: BTreeSet<Digest>,
    /// The commits that the head does not build on.
    left: BTreeSet<CommitId>,
    failure: Option<VerificationFailure>,
    pass: WritesOfPass,
}

/// The writes of the running pass.
#[derive(Debug, Default)]
struct WritesOfPass {
    /// How many the pass has.
    tasks: usize,
    /// How many succeeded, by effect.
    done: BTreeMap<&'static str, usize>,
    failed: usize,
}

impl SourceLog {
    pub fn new(source: SourceId) -> Self {
        let (reasons, held, left) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { source, reasons, held, left, failure: None, pass: WritesOfPass::default() }
    }

    /// Whether the newest commit failed its verification.
    pub fn is_unverified(&self) -> bool {
        self.failure.is_some()
    }

    /// Logs applied commits that the head does not build on, and is allowed to leave.
    pub fn followed_rewind(&mut self, plan: &Plan, left: Option<&BTreeSet<CommitId>>) {
        let Some(left) = left.filter(|left| **left != self.left) else { return };
        let names: Vec<String> = left.iter().take(NAMES_MAX).map(CommitId::to_string).collect();
        let head = plan.commit.map_or_else(String::new, |commit| commit.to_string());
        tracing::warn!(
            source = %self.source, commit = head, left = names.join(" "),
            "the ref was rewound or force-pushed: it does not build on what was applied; \
             following it"
        );
        self.left = left.clone();
    }

    /// Logs that the newest commit failed its verification, or that it passed again.
    pub fn verification(&mut self, failure: Option<&VerificationFailure>) {
        if self.failure.as_ref() == failure {
            return;
        }
        match failure {
            Some(failure) => tracing::error!(
                source = %self.source, commit = %failure.commit, rule = failure.rule,
                key = failure.key.as_deref().unwrap_or("none"),
                "{failure}; the hub stays at the last verified commit"
            ),
            None => tracing::info!(source = %self.source, "the newest commit is verified"),
        }
        self.failure = failure.cloned();
    }

    /// Logs the plan and why works have no effect.
    pub fn plan(&mut self, plan: &Plan) {
        let mut reasons = BTreeMap::new();
        let mut news = Vec::new();
        for step in plan.steps.of_unsettled_clusters().filter(|step| step.effect.is_none()) {
            // Held works are logged by guard, and the state of a backed-off work is logged
            // elsewhere.
            let is_backed_off = matches!(step.reason, Reason::BackedOff { .. });
            if step.reason == Reason::UpToDate || step.reason.guard().is_some() || is_backed_off {
                continue;
            }
            let code = step.reason.code();
            if self.reasons.get(&step.key) != Some(&code) {
                news.push(step);
            }
            reasons.insert(step.key.clone(), code);
        }
        self.reasons = reasons;
        self.reasons_of(&news);
        self.held(plan);
        if plan.is_empty() {
            tracing::debug!(source = %self.source, counts = %plan.counts(), "nothing to do");
        } else {
            tracing::info!(source = %self.source, counts = %plan.counts(), "plan");
        }
    }

    /// Logs why these works have no effect.
    fn reasons_of(&self, steps: &[&PlanStep]) {
        let is_summarised = steps.len() > limits::WORK_LINES_MAX;
        for PlanStep { key, reason, .. } in steps {
            let (source, code) = (&self.source, reason.code());
            if is_summarised {
                tracing::debug!(%source, work = %key, reason = code, "{reason}");
            } else {
                tracing::warn!(%source, work = %key, reason = code, "{reason}");
            }
        }
        if is_summarised {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for step in steps {
                *counts.entry(step.reason.code()).or_default() += 1;
            }
            tracing::warn!(
                source = %self.source, works = steps.len(), reasons = in_words(&counts),
                "works have no effect; each of them is logged at debug"
            );
        }
    }

    /// Logs held changes and the command that approves them.
    fn held(&mut self, plan: &Plan) {
        let mut hashes = BTreeSet::new();
        for hold in plan.holds(&self.source) {
            let (hash, guard) = (hold.approval.hash(), Some(hold.guard));
            hashes.insert(hash);
            if self.held.contains(&hash) {
                continue;
            }
            let steps = plan.steps.of_held_clusters().filter(|step| step.reason.guard() == guard);
            let names: Vec<String> =
                steps.take(NAMES_MAX).map(|step| step.key.to_string()).collect();
            tracing::warn!(
                source = %self.source, works = hold.works, guard = hold.guard.as_str(), %hash,
                some = names.join(" "),
                "works are held: {}; if that is meant: gitwork approve {hash}", hold.reason
            );
        }
        self.held = hashes;
    }

    /// Begins the log of a pass with so many writes.
    pub fn pass_begins(&mut self, tasks: usize) {
        self.pass = WritesOfPass { tasks, ..WritesOfPass::default() };
    }

    /// Logs the counts of a pass whose writes were not logged one by one.
    pub fn pass_ended(&mut self) {
        let WritesOfPass { tasks, done, failed } = std::mem::take(&mut self.pass);
        if tasks > limits::WORK_LINES_MAX {
            tracing::info!(
                source = %self.source, works = tasks, done = in_words(&done), failed,
                "wrote works; each of them is logged at debug"
            );
        }
    }

    /// Logs the outcome of a write. A pass with many writes has one line at its end, and lines for
    /// its first failures.
    pub fn outcome(&mut self, outcome: &Outcome) {
        let Task { key, effect, .. } = &outcome.task;
        let effect = effect.name();
        match &outcome.result {
            Ok(_) => {
                *self.pass.done.entry(effect).or_default() += 1;
                if self.pass.tasks > limits::WORK_LINES_MAX {
                    tracing::debug!(source = %self.source, work = %key, effect, "done");
                } else {
                    tracing::info!(source = %self.source, work = %key, effect, "done");
                }
            }
            // The next plan has it again: nobody has to act.
            Err(ExecuteError::Stopped) => {
                tracing::debug!(source = %self.source, work = %key, effect, "not begun");
            }
            Err(error) => {
                let source = &self.source;
                self.pass.failed += 1;
                if self.pass.failed > limits::WORK_LINES_MAX {
                    log_error!(debug, error, %source, work = %key, effect, "not done");
                } else {
                    log_error!(warn, error, %source, work = %key, effect, "not done");
                }
            }
        }
    }

    /// Logs a commit and the findings in it.
    pub fn read(&self, read: &SourceState) {
        let (source, desired) = (&self.source, &read.desired);
        let commit =
            desired.commit.map_or_else(|| "uncommitted".into(), |commit| commit.to_string());
        let errors = desired.diagnostics.iter().filter(|found| found.is_error()).count();
        let works = desired.works.len();
        tracing::info!(%source, at = read.name, %commit, works, errors, "read");
        let findings = desired.diagnostics.iter();
        let findings = findings.filter(|found| found.severity != Severity::Info);
        for found in findings.take(FINDINGS_MAX) {
            let span = found.location.span.map(|s| format!(":{}:{}", s.line, s.column));
            let place = format!("{}{}", found.location.file, span.unwrap_or_default());
            let (code, help) = (found.code.id(), found.help());
            if found.is_error() {
                tracing::error!(%source, code, place, help, "{}", found.message);
            } else {
                tracing::warn!(%source, code, place, help, "{}", found.message);
            }
        }
    }
}

/// Counts as text: `create 40, update 12`.
fn in_words(counts: &BTreeMap<&str, usize>) -> String {
    let words: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    words.join(", ")
}
