//! `(desired, plan, observed, refusals, reachability) -> status`: how far the clusters are with one commit. Pure.
//!
//! A work counts as applied only where the hub has just this commit's content and the agent's conditions are of the
//! generation that carries it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::view::{Account, StatusView};
use super::{Clusters, State, Verdict};
use crate::core::desired::Desired;
use crate::core::diagnostic::{Diagnostic, Scope, Severity};
use crate::core::digest::Digest;
use crate::core::name::{ClusterName, CommitId, RepoPath, SourceId, WorkKey};
use crate::core::observed::Observed;
use crate::core::plan::{Effect, Guard, Hold, Plan, Reason, Step};
use crate::core::report::count;
use crate::limits;

/// What the hub answered to the last try of a write that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub message: String,
    /// It may succeed if it is only tried again: the hub was away.
    pub passing: bool,
}

/// One work's state with regard to one commit.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkState {
    pub state: State,
    /// When it came to be so: as the agent says, or since this process has seen it.
    pub since: Timestamp,
    /// Why, where that is not what the agent reports.
    pub why: Option<String>,
    /// As `why`, in one word for programs: `Reason::code`, or `Refused` for what the hub did not take.
    pub code: Option<&'static str>,
    /// The ManifestWork of this name on the hub, whosever it is.
    pub uid: Option<String>,
    pub path: Option<RepoPath>,
    /// The commit that last changed the work on the hub.
    pub commit: Option<CommitId>,
    /// What the agent reports of what the hub has, whether or not that is this commit's content.
    pub view: StatusView,
}

impl WorkState {
    /// What people need to know of a work that is not as it should be.
    pub fn message(&self) -> Option<String> {
        let why = self.why.as_deref().map(|why| cut(why, limits::STATUS_TEXT_CHARS_MAX));
        why.or_else(|| self.view.message())
    }
    pub fn account(&self) -> Account {
        self.view.account()
    }
    /// Why it is so, in one word: gitwork's own, or that of the agent's condition that is not as it should be.
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
    /// `None` where the source is a folder on disk.
    pub commit: Option<CommitId>,
    pub works: BTreeMap<WorkKey, WorkState>,
    /// Clusters that the hub has lost touch with.
    pub unreachable: BTreeSet<ClusterName>,
    /// Errors in Git.
    pub errors: usize,
    /// The first of them, with its place.
    pub first_error: Option<String>,
    /// The first errors and warnings in Git, for those who show them at their lines.
    pub findings: Vec<Diagnostic>,
    /// What waits for somebody's approval.
    pub held: Vec<HeldChanges>,
}

/// Changes of one plan that one guard holds, and one approval lets through.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldChanges {
    pub guard: Guard,
    /// What to approve.
    pub hash: Digest,
    /// How many works they are.
    pub works: usize,
    /// Why, for people.
    pub reason: String,
}

impl HeldChanges {
    fn of(hold: Hold) -> Self {
        let Hold { approval, guard, works, reason } = hold;
        Self { guard, hash: approval.hash(), works, reason }
    }
}

/// What a status is made from.
#[derive(Debug, Clone, Copy)]
pub struct StatusInputs<'a> {
    pub desired: &'a Desired,
    pub observed: &'a Observed,
    /// The plan for just these two.
    pub plan: &'a Plan,
    pub refusals: &'a BTreeMap<WorkKey, Refusal>,
    pub unreachable: &'a BTreeSet<ClusterName>,
    pub now: Timestamp,
}

impl SourceStatus {
    /// The status as things are. `before` is the one before it, for the times at which states began.
    pub fn of(inputs: &StatusInputs<'_>, before: Option<&Self>) -> Self {
        let desired = inputs.desired;
        let of_steps = inputs.plan.steps.iter();
        let mut works: BTreeMap<WorkKey, WorkState> =
            of_steps.map(|step| (step.key.clone(), inputs.of_step(step))).collect();
        // What is new in Git and cannot be read has no step: nothing of it is on the hub.
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
            works,
            unreachable: inputs.unreachable.clone(),
            errors: errors.clone().count(),
            first_error: errors.clone().next().map(told),
            held: inputs.plan.holds(&desired.source).into_iter().map(HeldChanges::of).collect(),
            findings: findings(&desired.diagnostics),
        }
    }

    /// Tells the state of a commit that is not applied at all: its works are as an older one wants them.
    pub fn refuse(&mut self, commit: CommitId, why: &str) {
        self.commit = Some(commit);
        self.errors += 1;
        self.first_error = Some(cut(why, limits::STATUS_TEXT_CHARS_MAX));
    }

    pub fn clusters(&self) -> Clusters<'_> {
        Clusters::new(self.works.iter().map(|(key, work)| {
            (key.cluster.as_str(), work.state, self.unreachable.contains(&key.cluster))
        }))
    }

    /// What the commit has come to.
    pub fn verdict(&self) -> Verdict {
        self.verdict_of(&self.clusters())
    }

    /// As [`Self::verdict`], for who has the clusters.
    pub fn verdict_of(&self, clusters: &Clusters<'_>) -> Verdict {
        if self.errors > 0 { Verdict::Failure } else { clusters.verdict() }
    }

    /// One line within so many characters: it gives up names first, then the place of an error, and is cut at last.
    pub fn line(&self, chars_max: usize) -> String {
        self.line_of(&self.clusters(), chars_max)
    }

    /// As [`Self::line`], for who has the clusters.
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
        cut(&line, chars_max)
    }
}

impl SourceStatus {
    /// How far these clusters are: what it comes to, and a line about them within so many characters.
    pub fn line_of_clusters(
        &self,
        clusters: &BTreeSet<&ClusterName>,
        chars_max: usize,
    ) -> (Verdict, String) {
        self.line_of_those(clusters, "cluster", |key| key.cluster.as_str(), chars_max)
    }

    /// The same about their works: for a single cluster.
    pub fn line_of_works(
        &self,
        clusters: &BTreeSet<&ClusterName>,
        chars_max: usize,
    ) -> (Verdict, String) {
        self.line_of_those(clusters, "work", |key| key.work.as_str(), chars_max)
    }

    fn line_of_those(
        &self,
        clusters: &BTreeSet<&ClusterName>,
        noun: &str,
        name: fn(&WorkKey) -> &str,
        chars_max: usize,
    ) -> (Verdict, String) {
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
    fits.cloned().unwrap_or_else(|| cut(&lines[2], chars_max))
}

/// Errors come first, and each in the order of the files.
fn findings(diagnostics: &[Diagnostic]) -> Vec<Diagnostic> {
    let of = |severity| diagnostics.iter().filter(move |found| found.severity == severity);
    let all = of(Severity::Error).chain(of(Severity::Warning));
    all.take(limits::STATUS_FINDINGS_MAX).cloned().collect()
}

/// A text within so many characters.
pub fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}

fn told(error: &Diagnostic) -> String {
    let place = error.location.span.map_or_else(String::new, |span| format!(":{}", span.line));
    let text = format!("{}{place}: {}", error.location.file, error.message);
    cut(&text, limits::STATUS_TEXT_CHARS_MAX)
}

impl StatusInputs<'_> {
    fn of_step(&self, step: &Step) -> WorkState {
        let there = self.observed.works.get(&step.key);
        let ours = there.filter(|work| work.is_ours(&self.desired.source));
        let view = ours.map(|work| work.status.clone()).unwrap_or_default();
        let (state, why) = self.judge(step, &view);
        let refused = step.effect.is_some() && self.refusals.contains_key(&step.key);
        let code = if refused { "Refused" } else { step.reason.code() };
        let on_cluster = why.is_none().then_some(view.since).flatten();
        WorkState {
            state,
            since: on_cluster.unwrap_or(self.now),
            code: why.as_ref().map(|_| code),
            why,
            uid: there.map(|work| work.uid.clone()),
            path: step.path.clone(),
            commit: ours.and_then(|work| CommitId::parse(work.commit.as_deref()?)),
            view,
        }
    }

    /// The state, and why it is so where the agent does not say it.
    fn judge(&self, step: &Step, view: &StatusView) -> (State, Option<String>) {
        if let Some(effect) = &step.effect {
            return match self.refusals.get(&step.key) {
                Some(refusal) if !refusal.passing => (State::Failed, Some(refusal.message.clone())),
                Some(refusal) => (intent(effect), Some(refusal.message.clone())),
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
            Reason::StoredDifferently => State::Degraded,
            // These come with an effect; without one there is something still to be written.
            Reason::NewInGit
            | Reason::ChangedInGit
            | Reason::EditedOnHub
            | Reason::AdoptionAllowed { .. }
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

    /// The first error that is about the work, or else about its cluster or the whole source.
    fn error_of(&self, key: &WorkKey) -> String {
        let errors = || self.desired.diagnostics.iter().filter(|found| found.is_error());
        let about = |found: &&Diagnostic| matches!(&found.scope, Scope::Work(work) if work == key);
        let wider = |found: &&Diagnostic| match &found.scope {
            Scope::Source => true,
            Scope::Cluster(cluster) => *cluster == key.cluster,
            Scope::Work(_) => false,
        };
        let error = errors().find(about).or_else(|| errors().find(wider));
        error.map_or_else(|| Reason::Frozen.to_string(), told)
    }
}

/// What a work is while an effect is under way.
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

    use serde_json::json;

    use super::*;
    use crate::core::approval::Rewind;
    use crate::core::budget::Excess;
    use crate::core::desired::Frozen;
    use crate::core::diagnostic::{Code, Location, Span};
    use crate::core::name::WorkName;
    use crate::core::observed::ObservedWork;
    use crate::core::window::Closed;

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

    fn step(key: &WorkKey, effect: Option<Effect>, reason: Reason) -> Step {
        Step { key: key.clone(), path: None, effect, reason }
    }

    fn now(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn delete() -> Effect {
        Effect::Delete { uid: "u".into(), resource_version: "1".into() }
    }

    /// The state of one work with this step, while the hub has it as `there`.
    fn one(there: Option<ObservedWork>, step: Step, refusal: Option<Refusal>) -> WorkState {
        let key = step.key.clone();
        let mut observed = Observed::default();
        observed.works.extend(there.map(|work| (key.clone(), work)));
        let refusals = refusal.into_iter().map(|refusal| (key.clone(), refusal)).collect();
        let plan = Plan { commit: None, steps: vec![step] };
        let inputs = StatusInputs {
            desired: &desired(Frozen::default(), Vec::new()),
            observed: &observed,
            plan: &plan,
            refusals: &refusals,
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
        // Applied, but of what Git said before.
        let release = Effect::Release { resource_version: "1".into() };
        let stale = step(&key, Some(release), Reason::PruneOff { by: None });
        assert_eq!(one(there("True", 2), stale, None).state, State::Deleting);
        let since = one(there("True", 2), up_to_date(), None).since;
        assert_eq!(since.to_string(), "2026-01-02T03:04:05Z");
    }

    #[test]
    fn what_the_plan_does_not_do_is_told_with_its_reason() {
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
            (Reason::Conflict { owner: None }, State::Failed),
            (Reason::StoredDifferently, State::Degraded),
            (Reason::Frozen, State::Frozen),
        ] {
            let told = reason.to_string();
            let work = one(ours(), step(&key, None, reason), None);
            assert_eq!((work.state, work.message()), (expected, Some(told)));
        }
        // What a foreign work reports is not this source's state.
        let foreign = Some(on_hub(&key, "other", "False", 2));
        let work = one(foreign, step(&key, None, Reason::Conflict { owner: None }), None);
        assert_eq!(work.view, StatusView::default());
    }

    #[test]
    fn a_write_that_the_hub_refuses_fails_and_one_that_it_did_not_answer_waits() {
        let key = key("edge-1", "web");
        let refused = |passing| Some(Refusal { message: "no namespace".into(), passing });
        let removed = || step(&key, Some(delete()), Reason::RemovedFromGit { by: None });
        assert_eq!(one(None, removed(), None).state, State::Deleting);
        assert_eq!(one(None, removed(), refused(true)).state, State::Deleting);
        let work = one(None, removed(), refused(false));
        assert_eq!((work.state, work.why.as_deref()), (State::Failed, Some("no namespace")));
    }

    #[test]
    fn works_that_cannot_be_read_are_named_even_where_the_hub_never_had_them() {
        let key = key("edge-7", "web");
        let file = RepoPath::parse("clusters/edge-7/web/a.yaml").unwrap();
        let at = Location::at(&file, Span { line: 3, column: 1, length: 1 });
        let error = Diagnostic::new(Code::YamlSyntax, at, Scope::Work(key.clone()), "bad");
        let frozen = Frozen { works: [key.clone()].into(), ..Frozen::default() };
        let inputs = StatusInputs {
            desired: &desired(frozen, vec![error]),
            observed: &Observed::default(),
            plan: &Plan::default(),
            refusals: &BTreeMap::new(),
            unreachable: &BTreeSet::new(),
            now: now(0),
        };
        let status = SourceStatus::of(&inputs, None);
        let told = "clusters/edge-7/web/a.yaml:3: bad";
        assert_eq!(status.works[&key].message().as_deref(), Some(told));
        assert_eq!(status.verdict(), Verdict::Failure);
        let line = format!("0/1 cluster applied, 1 frozen: edge-7, 1 error in Git: {told}");
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
            refusals: &BTreeMap::new(),
            unreachable: &BTreeSet::new(),
            now: now(0),
        };
        let status = SourceStatus::of(&inputs, None);
        assert_eq!((status.verdict(), status.line(100)), (Verdict::Success, "no works".into()));
    }
}
