//! `(desired, plan, observed, failed writes, reachability) -> status`: the rollout of one commit.
//! Pure.
//!
//! A work counts as applied only if the hub has the content of this commit and the agent's
//! conditions
//! are of the generation with this content.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::view::{StatusDetails, StatusView};
use super::{Clusters, RolloutVerdict, State};
use crate::limits;
use crate::model::diagnostic::{Diagnostic, Scope, Severity};
use crate::model::digest::Digest;
use crate::model::name::{ClusterName, CommitId, RepoPath, SourceId, WorkKey};
use crate::plan::drift_backoff::Contentions;
use crate::plan::observed::Observed;
use crate::plan::{Effect, Guard, Hold, Plan, PlanStep, Reason};
use crate::render::desired::Desired;
use crate::text::style::count;
use crate::text::truncate::truncate_chars;

/// The hub's answer to the last write of a work, if it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedWrite {
    pub message: String,
    /// Whether a retry may succeed: the hub was unavailable.
    pub is_transient: bool,
}

/// The state of one work relative to one commit.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkState {
    pub state: State,
    /// When the state began: reported by the agent, or first seen by this process.
    pub since: Timestamp,
    /// The reason, if it does not come from the agent.
    pub why: Option<String>,
    /// The reason in one word for programs: `Reason::code`, or `Refused` if the hub rejected the
    /// write.
    pub code: Option<&'static str>,
    /// The uid of the ManifestWork of this name on the hub, of any owner.
    pub uid: Option<String>,
    pub path: Option<RepoPath>,
    /// The commit that last changed the work on the hub.
    pub commit: Option<CommitId>,
    /// The agent's status of the content on the hub, which may be that of an older commit.
    pub view: StatusView,
}

impl WorkState {
    /// The message about an unhealthy work.
    pub fn message(&self) -> Option<String> {
        let why = self
            .why
            .as_deref()
            .map(|why| truncate_chars(why, limits::STATUS_TEXT_CHARS_MAX).into_owned());
        why.or_else(|| self.view.message())
    }
    pub fn account(&self) -> StatusDetails {
        self.view.account()
    }
    /// The reason in one word: gitwork's, or that of the first unhealthy condition.
    pub fn reason(&self) -> Option<String> {
        let agents = || {
            let conditions = self.account().conditions.into_iter();
            let mut bad = conditions.filter(|one| !one.outdated && one.is_bad());
            bad.next().map(|condition| condition.reason)
        };
        self.code.map(str::to_owned).or_else(agents).filter(|reason| !reason.is_empty())
    }
}

/// The state of one source at one commit.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceStatus {
    pub source: SourceId,
    /// `None` if the source is a directory on disk.
    pub commit: Option<CommitId>,
    /// How often the source's record on the hub was written.
    pub record_generation: u64,
    pub works: BTreeMap<WorkKey, WorkState>,
    /// Clusters that the hub cannot reach.
    pub unreachable: BTreeSet<ClusterName>,
    /// The number of errors in Git.
    pub errors: usize,
    /// The first error, with its location.
    pub first_error: Option<String>,
    /// The first errors and warnings in Git, for annotations.
    pub findings: Vec<Diagnostic>,
    /// Changes that wait for approval.
    pub held: Vec<HeldChanges>,
}

/// Changes of one plan that one guard holds. One approval covers all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldChanges {
    pub guard: Guard,
    /// The hash to approve.
    pub hash: Digest,
    /// How many works are held.
    pub works: usize,
    /// The reason, for people.
    pub reason: String,
}

impl HeldChanges {
    fn of(hold: Hold) -> Self {
        let Hold { approval, guard, works, reason } = hold;
        Self { guard, hash: approval.hash(), works, reason }
    }
}

/// The inputs of a status.
#[derive(Debug, Clone, Copy)]
pub struct StatusInputs<'a> {
    pub desired: &'a Desired,
    pub observed: &'a Observed,
    /// The plan from `observed` to `desired`.
    pub plan: &'a Plan,
    /// Works with a conflicting writer.
    pub contests: &'a Contentions,
    /// How often the source's record on the hub was written.
    pub record_generation: u64,
    pub failed_writes: &'a BTreeMap<WorkKey, FailedWrite>,
    pub unreachable: &'a BTreeSet<ClusterName>,
    pub now: Timestamp,
}

impl SourceStatus {
    /// Computes the status. `before` is the previous one, for the times at which states began.
    pub fn of(inputs: &StatusInputs<'_>, before: Option<&Self>) -> Self {
        let desired = inputs.desired;
        let of_steps = inputs.plan.steps.iter();
        let mut works: BTreeMap<WorkKey, WorkState> =
            of_steps.map(|step| (step.key.clone(), inputs.of_step(step))).collect();
        // An unreadable work that is new in Git has no step: nothing of it is on the hub.
        for key in &desired.frozen.works {
            if !works.contains_key(key) {
                works.insert(key.clone(), inputs.frozen(key));
            }
        }
        for (key, work) in &mut works {
            let earlier = before.and_then(|before| before.works.get(key));
            if let Some(earlier) = earlier.filter(|earlier| earlier.state == work.state)
                && work.since == inputs.now
            {
                work.since = earlier.since;
            }
        }
        let errors = desired.diagnostics.iter().filter(|found| found.is_error());
        Self {
            source: desired.source.clone(),
            commit: desired.commit,
            record_generation: inputs.record_generation,
            works,
            unreachable: inputs.unreachable.clone(),
            errors: errors.clone().count(),
            first_error: errors.clone().next().map(reported),
            held: inputs.plan.holds(&desired.source).into_iter().map(HeldChanges::of).collect(),
            findings: findings(&desired.diagnostics),
        }
    }

    /// Sets the state of a commit that is not applied. Its works stay those of an older commit.
    pub fn refuse(&mut self, commit: CommitId, why: &str) {
        self.commit = Some(commit);
        self.errors += 1;
        self.first_error = Some(truncate_chars(why, limits::STATUS_TEXT_CHARS_MAX).into_owned());
    }

    pub fn clusters(&self) -> Clusters<'_> {
        Clusters::new(self.works.iter().map(|(key, work)| {
            (key.cluster.as_str(), work.state, self.unreachable.contains(&key.cluster))
        }))
    }

    /// The result of the commit's rollout.
    pub fn verdict(&self) -> RolloutVerdict {
        self.verdict_of(&self.clusters())
    }

    /// Like [`Self::verdict`], for callers that have the clusters.
    pub fn verdict_of(&self, clusters: &Clusters<'_>) -> RolloutVerdict {
        if self.errors > 0 { RolloutVerdict::Failure } else { clusters.verdict() }
    }

    /// The summary line within `chars_max` characters. It drops names first, then the location of
    /// an error, and is truncated last.
    pub fn line(&self, chars_max: usize) -> String {
        self.line_of(&self.clusters(), chars_max)
    }

    /// Like [`Self::line`], for callers that have the clusters.
    pub fn line_of(&self, clusters: &Clusters<'_>, chars_max: usize) -> String {
        let errors = match self.errors {
            0 => String::new(),
            errors => format!(", {} in Git", count(errors, "error")),
        };
        let place = self.first_error.as_deref().map(|error| format!("{errors}: {error}"));
        let forms = [(3, place.as_deref()), (3, None), (1, None), (0, None)];
        let mut line = String::new();
        for (names, place) in forms {
            line = if self.works.is_empty() {
                format!("no works{}", place.unwrap_or(&errors))
            } else {
                clusters.line(names) + place.unwrap_or(&errors)
            };
            if line.chars().count() <= chars_max {
                return line;
            }
        }
        truncate_chars(&line, chars_max).into_owned()
    }
}

impl SourceStatus {
    /// The verdict and the summary line over these clusters, within `chars_max` characters.
    pub fn line_of_clusters(
        &self,
        clusters: &BTreeSet<&ClusterName>,
        chars_max: usize,
    ) -> (RolloutVerdict, String) {
        self.line_of_those(clusters, "cluster", |key| key.cluster.as_str(), chars_max)
    }

    /// The verdict and the summary line over the works of these clusters, within `chars_max`
    /// characters.
    pub fn line_of_works(
        &self,
        clusters: &BTreeSet<&ClusterName>,
        chars_max: usize,
    ) -> (RolloutVerdict, String) {
        self.line_of_those(clusters, "work", |key| key.work.as_str(), chars_max)
    }

    fn line_of_those(
        &self,
        clusters: &BTreeSet<&ClusterName>,
        noun: &str,
        name: fn(&WorkKey) -> &str,
        chars_max: usize,
    ) -> (RolloutVerdict, String) {
        let works = self.works.iter().filter(|(key, _)| clusters.contains(&key.cluster));
        let all =
            Clusters::new(works.map(|(key, work)| {
                (name(key), work.state, self.unreachable.contains(&key.cluster))
            }));
        (all.verdict(), fitting(&all, noun, chars_max))
    }
}

fn fitting(all: &Clusters<'_>, noun: &str, chars_max: usize) -> String {
    let lines = [3, 1, 0].map(|names| all.line_of(noun, names));
    let fits = lines.iter().find(|line| line.chars().count() <= chars_max);
    fits.cloned().unwrap_or_else(|| truncate_chars(&lines[2], chars_max).into_owned())
}

/// Errors first, each severity in the order of the files.
fn findings(diagnostics: &[Diagnostic]) -> Vec<Diagnostic> {
    let of = |severity| diagnostics.iter().filter(move |found| found.severity == severity);
    let all = of(Severity::Error).chain(of(Severity::Warning));
    all.take(limits::STATUS_FINDINGS_MAX).cloned().collect()
}

fn reported(error: &Diagnostic) -> String {
    let place = error.location.span.map_or_else(String::new, |span| format!(":{}", span.line));
    let text = format!("{}{place}: {}", error.location.file, error.message);
    truncate_chars(&text, limits::STATUS_TEXT_CHARS_MAX).into_owned()
}

impl StatusInputs<'_> {
    fn of_step(&self, step: &PlanStep) -> WorkState {
        let there = self.observed.works.get(&step.key);
        let ours = there.filter(|work| work.is_ours(&self.desired.source));
        let view = ours.map(|work| work.status.clone()).unwrap_or_default();
        let (state, why) = self.judge(step, &view);
        if let Some(contested) = self.contested(step, state) {
            let (why, code) = (Some(contested), Some(Reason::BACKED_OFF));
            return WorkState { state: State::Degraded, why, code, ..self.at(step, view) };
        }
        let refused = step.effect.is_some() && self.failed_writes.contains_key(&step.key);
        let code = if refused { "Refused" } else { step.reason.code() };
        let since = why.is_none().then_some(view.since).flatten();
        let code = why.as_ref().map(|_| code);
        let there = self.at(step, view);
        WorkState { state, since: since.unwrap_or(self.now), why, code, ..there }
    }

    /// The work of a step on the hub, with a placeholder state.
    fn at(&self, step: &PlanStep, view: StatusView) -> WorkState {
        let there = self.observed.works.get(&step.key);
        let ours = there.filter(|work| work.is_ours(&self.desired.source));
        WorkState {
            state: State::Pending,
            since: self.now,
            why: None,
            code: None,
            uid: there.map(|work| work.uid.clone()),
            path: step.path.clone(),
            commit: ours.and_then(|work| CommitId::parse(work.commit.as_deref()?)),
            view,
        }
    }

    /// The reason of a work that another writer keeps changing, before and after each repair, so
    /// that the state does not flap. A failure takes precedence, as does a change in Git.
    fn contested(&self, step: &PlanStep, state: State) -> Option<String> {
        let contest = self.contests.get(&step.key)?;
        let to_and_fro = match &step.effect {
            Some(effect) => effect.body().is_some_and(|body| body.digest == contest.content),
            None => matches!(
                step.reason,
                Reason::UpToDate | Reason::BeingDeleted { wanted: true } | Reason::BackedOff { .. }
            ),
        };
        (to_and_fro && state != State::Failed).then(|| contest.to_string())
    }

    /// The state, and the reason if it does not come from the agent.
    fn judge(&self, step: &PlanStep, view: &StatusView) -> (State, Option<String>) {
        if let Some(effect) = &step.effect {
            return match self.failed_writes.get(&step.key) {
                Some(failed) if !failed.is_transient => {
                    (State::Failed, Some(failed.message.clone()))
                }
                Some(failed) => (intent(effect), Some(failed.message.clone())),
                None => (intent(effect), Some(step.reason.to_string())),
            };
        }
        let state = match &step.reason {
            Reason::UpToDate => return (view.state, None),
            Reason::Frozen => return (State::Frozen, Some(self.error_of(&step.key))),
            Reason::Suspended | Reason::SuspendedOnHub { .. } => State::Suspended,
            Reason::HeldByBudget { .. }
            | Reason::HeldByRewind { .. }
            | Reason::HeldByRestore { .. }
            | Reason::HeldByWindow { .. }
            | Reason::NotYetOrphaned { .. } => State::Held,
            Reason::WaitingForAgent { .. } | Reason::BeingDeleted { .. } => State::Deleting,
            Reason::Conflict { .. } => State::Failed,
            Reason::ChangedByServer | Reason::BackedOff { .. } => State::Degraded,
            // These reasons come with an effect. Without one the write is still to come.
            Reason::NewInGit
            | Reason::ChangedInGit
            | Reason::EditedOnHub { .. }
            | Reason::AdoptionAllowed { .. }
            | Reason::AdoptedUnowned
            | Reason::RemovedFromGit { .. }
            | Reason::DeleteOptionFirst { .. }
            | Reason::PruneOff { .. }
            | Reason::DeletesNoLongerHeld => State::Pending,
        };
        (state, Some(step.reason.to_string()))
    }

    fn frozen(&self, key: &WorkKey) -> WorkState {
        WorkState {
            state: State::Frozen,
            since: self.now,
            why: Some(self.error_of(key)),
            code: Some(Reason::Frozen.code()),
            uid: None,
            path: None,
            commit: None,
            view: StatusView::default(),
        }
    }

    /// The first error about the work, otherwise about its cluster or the whole source.
    fn error_of(&self, key: &WorkKey) -> String {
        let errors = || self.desired.diagnostics.iter().filter(|found| found.is_error());
        let about = |found: &&Diagnostic| matches!(&found.scope, Scope::Work(work) if work == key);
        let wider = |found: &&Diagnostic| match &found.scope {
            Scope::Source => true,
            Scope::Cluster(cluster) => *cluster == key.cluster,
            Scope::Work(_) => false,
        };
        let error = errors().find(about).or_else(|| errors().find(wider));
        error.map_or_else(|| Reason::Frozen.to_string(), reported)
    }
}

/// The state of a work while an effect is in progress.
fn intent(effect: &Effect) -> State {
    match effect {
        Effect::Create { .. } | Effect::Update { .. } | Effect::Adopt { .. } => State::Pending,
        Effect::SetDeleteOption { .. } | Effect::Delete { .. } | Effect::Release { .. } => {
            State::Deleting
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::config::AdoptionPolicy;
    use crate::config::window::Closed;
    use crate::model::approval::Rewind;
    use crate::model::diagnostic::{Code, Location, Span};
    use crate::model::name::WorkName;
    use crate::plan::budget::Excess;
    use crate::plan::conflicting_manager::ConflictingManager;
    use crate::plan::drift_backoff::Contention;
    use crate::plan::observed::ObservedWork;
    use crate::render::desired::Frozen;

    fn key(cluster: &str, work: &str) -> WorkKey {
        WorkKey {
            cluster: ClusterName::parse(cluster).unwrap(),
            work: WorkName::parse(work).unwrap(),
        }
    }

    fn source() -> SourceId {
        SourceId::parse("fleet").unwrap()
    }

    fn desired(frozen: Frozen, diagnostics: Vec<Diagnostic>) -> Desired {
        Desired {
            source: source(),
            commit: Some(CommitId::parse(&"ab".repeat(20)).unwrap()),
            works: BTreeMap::new(),
            frozen,
            rules: Default::default(),
            approved: Default::default(),
            suspended: Default::default(),
            diagnostics,
        }
    }

    fn on_hub(key: &WorkKey, owner: &str, applied: &str, generation: i64) -> ObservedWork {
        ObservedWork::from_manifest_work(json!({
            "metadata": {
                "namespace": key.cluster.as_str(), "name": key.work.as_str(), "uid": "u",
                "resourceVersion": "1", "generation": 2, "labels": { "gitwork.dev/source": owner },
            },
            "spec": { "workload": { "manifests": [{}] } },
            "status": { "conditions": [{
                "type": "Applied", "status": applied, "observedGeneration": generation,
                "lastTransitionTime": "2026-01-02T03:04:05Z", "message": "agent",
            }] },
        }))
        .unwrap()
    }

    fn step(key: &WorkKey, effect: Option<Effect>, reason: Reason) -> PlanStep {
        PlanStep { key: key.clone(), path: None, effect, reason }
    }

    fn now(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn delete() -> Effect {
        Effect::Delete { uid: "u".into(), resource_version: "1".into() }
    }

    /// The state of one work with this step and this object on the hub.
    fn one(there: Option<ObservedWork>, step: PlanStep, failed: Option<FailedWrite>) -> WorkState {
        let key = step.key.clone();
        let mut observed = Observed::default();
        observed.works.extend(there.map(|work| (key.clone(), work)));
        let failed_writes = failed.into_iter().map(|failed| (key.clone(), failed)).collect();
        let plan = Plan { commit: None, steps: vec![step] };
        let inputs = StatusInputs {
            desired: &desired(Frozen::default(), Vec::new()),
            observed: &observed,
            plan: &plan,
            contests: &Contentions::new(),
            record_generation: 0,
            failed_writes: &failed_writes,
            unreachable: &BTreeSet::new(),
            now: now(0),
        };
        SourceStatus::of(&inputs, None).works.remove(&key).unwrap()
    }

    #[test]
    fn only_this_commits_content_at_its_generation_counts() {
        let key = key("edge-1", "web");
        let there = |applied, generation| Some(on_hub(&key, "fleet", applied, generation));
        let up_to_date = || step(&key, None, Reason::UpToDate);
        assert_eq!(one(there("True", 2), up_to_date(), None).state, State::Applied);
        assert_eq!(one(there("True", 1), up_to_date(), None).state, State::Pending);
        assert_eq!(one(there("False", 2), up_to_date(), None).state, State::Failed);
        assert_eq!(one(there("False", 1), up_to_date(), None).state, State::Pending);
        // Applied, but the content of an older commit.
        let release = Effect::Release { resource_version: "1".into() };
        let stale = step(&key, Some(release), Reason::PruneOff { by: None });
        assert_eq!(one(there("True", 2), stale, None).state, State::Deleting);
        let since = one(there("True", 2), up_to_date(), None).since;
        assert_eq!(since.to_string(), "2026-01-02T03:04:05Z");
    }

    #[test]
    fn steps_without_effect_give_state_and_reason() {
        let key = key("edge-1", "web");
        let ours = || Some(on_hub(&key, "fleet", "True", 2));
        for (reason, expected) in [
            (Reason::Suspended, State::Suspended),
            (
                Reason::HeldByBudget {
                    uid: "u".into(),
                    hash: Digest::of(b"a plan"),
                    works: 3,
                    excess: Excess::Everything,
                },
                State::Held,
            ),
            (
                Reason::HeldByRewind {
                    rewind: Arc::new(Rewind {
                        source: source(),
                        from: [CommitId::parse(&"cd".repeat(20)).unwrap()].into(),
                        to: CommitId::parse(&"ab".repeat(20)).unwrap(),
                    }),
                    hash: Digest::of(b"a rewind"),
                },
                State::Held,
            ),
            (
                Reason::HeldByWindow {
                    version: "v".into(),
                    hash: Digest::of(b"changes"),
                    closed: Closed { until: None, unknown_zone: None },
                },
                State::Held,
            ),
            (Reason::SuspendedOnHub { suspension: Arc::default() }, State::Suspended),
            (Reason::WaitingForAgent { generation: 2 }, State::Deleting),
            (Reason::BeingDeleted { wanted: true }, State::Deleting),
            (Reason::Conflict { owner: None, adoption: AdoptionPolicy::Never }, State::Failed),
            (Reason::ChangedByServer, State::Degraded),
            (Reason::Frozen, State::Frozen),
        ] {
            let reported = reason.to_string();
            let work = one(ours(), step(&key, None, reason), None);
            assert_eq!((work.state, work.message()), (expected, Some(reported)));
        }
        // The status of another source's work is not this source's state.
        let foreign = Some(on_hub(&key, "other", "False", 2));
        let conflict = Reason::Conflict { owner: None, adoption: AdoptionPolicy::Annotated };
        let work = one(foreign, step(&key, None, conflict), None);
        assert_eq!(work.view, StatusView::default());
    }

    #[test]
    fn contended_work_is_degraded_before_and_after_each_repair() {
        let key = key("edge-1", "web");
        let contest = Arc::new(Contention {
            manager: Arc::new(ConflictingManager::Deleter),
            times: 7,
            wait: Duration::from_secs(4),
            content: Digest::of(b"git"),
            waits: false,
        });
        let contests = Contentions::from([(key.clone(), contest.clone())]);
        for (reason, applied, expected) in [
            (Reason::UpToDate, "True", State::Degraded),
            (Reason::BackedOff { contention: contest.clone() }, "True", State::Degraded),
            (Reason::BeingDeleted { wanted: true }, "True", State::Degraded),
            // A worse state takes precedence, as does one unrelated to the conflict.
            (Reason::UpToDate, "False", State::Failed),
            (Reason::Frozen, "True", State::Frozen),
            (Reason::Suspended, "True", State::Suspended),
        ] {
            let mut observed = Observed::default();
            observed.works.insert(key.clone(), on_hub(&key, "fleet", applied, 2));
            let plan = Plan { commit: None, steps: vec![step(&key, None, reason.clone())] };
            let inputs = StatusInputs {
                desired: &desired(Frozen::default(), Vec::new()),
                observed: &observed,
                plan: &plan,
                contests: &contests,
                record_generation: 0,
                failed_writes: &BTreeMap::new(),
                unreachable: &BTreeSet::new(),
                now: now(0),
            };
            let work = SourceStatus::of(&inputs, None).works.remove(&key).unwrap();
            assert_eq!(work.state, expected, "{reason:?}");
            let reported = work.code == Some(Reason::BACKED_OFF)
                && work.why == Some(contest.to_string())
                && work.uid.is_some();
            assert_eq!(reported, expected == State::Degraded, "{reason:?}");
        }
    }

    #[test]
    fn rejected_write_fails_and_unanswered_write_stays_pending() {
        let key = key("edge-1", "web");
        let refused =
            |is_transient| Some(FailedWrite { message: "no namespace".into(), is_transient });
        let removed = || step(&key, Some(delete()), Reason::RemovedFromGit { by: None });
        assert_eq!(one(None, removed(), None).state, State::Deleting);
        assert_eq!(one(None, removed(), refused(true)).state, State::Deleting);
        let work = one(None, removed(), refused(false));
        assert_eq!((work.state, work.why.as_deref()), (State::Failed, Some("no namespace")));
    }

    #[test]
    fn unreadable_works_are_listed_even_if_never_on_hub() {
        let key = key("edge-7", "web");
        let file = RepoPath::parse("clusters/edge-7/web/a.yaml").unwrap();
        let at = Location::at(&file, Span { line: 3, column: 1, length: 1 });
        let error = Diagnostic::new(Code::YamlSyntax, at, Scope::Work(key.clone()), "bad");
        let frozen = Frozen { works: [key.clone()].into(), ..Frozen::default() };
        let inputs = StatusInputs {
            desired: &desired(frozen, vec![error]),
            observed: &Observed::default(),
            plan: &Plan::default(),
            contests: &Contentions::new(),
            record_generation: 0,
            failed_writes: &BTreeMap::new(),
            unreachable: &BTreeSet::new(),
            now: now(0),
        };
        let status = SourceStatus::of(&inputs, None);
        let reported = "clusters/edge-7/web/a.yaml:3: bad";
        assert_eq!(status.works[&key].message().as_deref(), Some(reported));
        assert_eq!(status.verdict(), RolloutVerdict::Failure);
        let line = format!("0/1 cluster applied, 1 frozen: edge-7, 1 error in Git: {reported}");
        assert_eq!(status.line(200), line);
        assert_eq!(status.line(60), "0/1 cluster applied, 1 frozen: edge-7, 1 error in Git");
        assert_eq!(status.line(50), "0/1 cluster applied, 1 frozen, 1 error in Git");
        assert_eq!(status.line(10), "0/1 clust…");
        // A state keeps the time at which it began.
        let later = SourceStatus::of(&StatusInputs { now: now(60), ..inputs }, Some(&status));
        assert_eq!(later.works[&key].since, now(0));
        assert_eq!(later, status);
    }

    #[test]
    fn a_source_without_works_is_done() {
        let inputs = StatusInputs {
            desired: &desired(Frozen::default(), Vec::new()),
            observed: &Observed::default(),
            plan: &Plan::default(),
            contests: &Contentions::new(),
            record_generation: 0,
            failed_writes: &BTreeMap::new(),
            unreachable: &BTreeSet::new(),
            now: now(0),
        };
        let status = SourceStatus::of(&inputs, None);
        assert_eq!(
            (status.verdict(), status.line(100)),
            (RolloutVerdict::Success, "no works".into())
        );
    }
}
