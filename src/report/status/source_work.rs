//! The state of one work of a source: by the plan, the last write and the agent's conditions. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::State;
use super::view::{StatusDetails, StatusView};
use gitwork_core::limits;
use gitwork_core::model::diagnostic::{Diagnostic, Scope};
use gitwork_core::model::name::{ClusterName, CommitId, RepoPath, WorkKey};
use gitwork_core::plan::awaited::AwaitedState;
use gitwork_core::plan::drift_backoff::Contentions;
use gitwork_core::plan::moves::ObjectMove;
use gitwork_core::plan::observed::Observed;
use gitwork_core::plan::rollout_progress::GroupProgress;
use gitwork_core::plan::{Effect, Plan, PlanStep, Reason};
use gitwork_core::render::desired::Desired;
use gitwork_core::render::layout;
use gitwork_core::text::truncate::truncate_chars;

/// The hub's answer to the last write of a work, if it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedWrite {
    /// The error of the hub, for people.
    pub message: String,
    /// Whether a retry may succeed: the hub was unavailable.
    pub is_transient: bool,
}

/// The state of one work relative to one commit.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkState {
    /// By the plan, the last write and the agent's conditions, in this order.
    pub state: State,
    /// When the state began: reported by the agent, or first seen by this process.
    pub since: Timestamp,
    /// The reason, if it does not come from the agent.
    pub why: Option<Box<str>>,
    /// The reason in one word for programs: `Reason::code`, or `Refused` if the hub rejected the
    /// write.
    pub code: Option<&'static str>,
    /// The uid of the ManifestWork of this name on the hub, of any owner.
    pub uid: Option<Arc<str>>,
    /// The work folder; `None` if Git has and had none.
    pub path: Option<RepoPath>,
    /// The commit that last changed the work on the hub.
    pub commit: Option<CommitId>,
    /// The agent's status of the content on the hub, which may be that of an older commit.
    pub view: Arc<StatusView>,
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

    /// Whether the hub alone does not show why the work is in its state.
    pub(crate) fn is_hidden(&self) -> bool {
        let is_open = matches!(self.state, State::Held | State::Suspended);
        let moves = self.code == Some(Reason::MOVES_OBJECTS);
        self.why.is_some() && (is_open || moves || self.state.is_failure())
    }

    /// The agent's conditions and objects, as far as they are kept.
    pub fn details(&self) -> StatusDetails {
        self.view.details()
    }
    /// The reason in one word: gitwork's, or that of the first unhealthy condition.
    pub fn reason(&self) -> Option<String> {
        let agents = || {
            let conditions = self.details().conditions.into_iter();
            let mut bad = conditions.filter(|one| !one.outdated && one.is_bad());
            bad.next().map(|condition| condition.reason)
        };
        self.code.map(str::to_owned).or_else(agents).filter(|reason| !reason.is_empty())
    }
}

/// The inputs of a status.
#[derive(Debug, Clone, Copy)]
pub struct StatusInputs<'a> {
    /// The state in Git.
    pub desired: &'a Desired,
    /// The works on the hub.
    pub observed: &'a Observed,
    /// The plan from `observed` to `desired`.
    pub plan: &'a Plan,
    /// Works with a conflicting writer.
    pub contentions: &'a Contentions,
    /// How often the source's record on the hub was written.
    pub record_generation: u64,
    /// Works whose last write failed.
    pub failed_writes: &'a BTreeMap<WorkKey, FailedWrite>,
    /// Clusters that the hub cannot reach.
    pub unreachable: &'a BTreeSet<ClusterName>,
    /// How far the rollouts of groups have come.
    pub rollouts: &'a [GroupProgress],
    /// The present time: the start of states that are new.
    pub now: Timestamp,
}

impl StatusInputs<'_> {
    /// The state of the work of a step. `earlier`: the one before, for the time at which it began.
    pub(super) fn of_step(&self, step: &PlanStep, earlier: Option<&WorkState>) -> WorkState {
        let there = self.observed.works.get(&step.key);
        let ours = there.filter(|work| work.is_ours(&self.desired.source));
        let view = ours.map(|work| work.status.clone()).unwrap_or_default();
        let (state, why) = self.judge(step, &view);
        if let Some(backed_off) = self.contention_of(step, state) {
            let (why, code) = (Some(backed_off.into()), Some(Reason::BACKED_OFF));
            let since = self.began(State::Degraded, earlier);
            let there = self.at(step, view);
            return WorkState { state: State::Degraded, since, why, code, ..there };
        }
        let refused = step.effect.is_some() && self.failed_writes.contains_key(&step.key);
        let code = if refused { "Refused" } else { step.reason.code() };
        let since = why.is_none().then_some(view.since).flatten();
        let code = why.as_ref().map(|_| code);
        let there = self.at(step, view);
        let since = since.unwrap_or_else(|| self.began(state, earlier));
        WorkState { state, since, why: why.map(Into::into), code, ..there }
    }

    /// When a state was first seen.
    fn began(&self, state: State, earlier: Option<&WorkState>) -> Timestamp {
        let same = earlier.filter(|earlier| earlier.state == state);
        same.map_or(self.now, |earlier| earlier.since)
    }

    /// The work of a step on the hub, with a placeholder state.
    fn at(&self, step: &PlanStep, view: Arc<StatusView>) -> WorkState {
        let there = self.observed.works.get(&step.key);
        let ours = there.filter(|work| work.is_ours(&self.desired.source));
        WorkState {
            state: State::Pending,
            since: self.now,
            why: None,
            code: None,
            uid: there.map(|work| work.uid.clone()),
            path: step.path.clone(),
            commit: ours.and_then(|work| work.commit),
            view,
        }
    }

    /// The reason of a work that another writer keeps changing, before and after each repair, so
    /// that the state does not flap. A failure takes precedence, as does a change in Git.
    fn contention_of(&self, step: &PlanStep, state: State) -> Option<String> {
        let contention = self.contentions.get(&step.key)?;
        let to_and_fro = match &step.effect {
            Some(effect) => effect.body().is_some_and(|body| body.digest == contention.content),
            None => matches!(
                step.reason,
                Reason::UpToDate | Reason::BeingDeleted { wanted: true } | Reason::BackedOff { .. }
            ),
        };
        (to_and_fro && state != State::Failed).then(|| contention.to_string())
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
            Reason::UnknownMembership => return (State::Frozen, Some(self.doubt_of(step))),
            Reason::Suspended | Reason::SuspendedOnHub { .. } => State::Suspended,
            Reason::HeldByOrigin { .. }
            | Reason::HeldByBudget { .. }
            | Reason::HeldByRewind { .. }
            | Reason::HeldByRestore { .. }
            | Reason::HeldByWindow { .. }
            | Reason::HeldByRollout { .. }
            | Reason::NeverInGit
            | Reason::SharesObjects { complete: true, .. }
            | Reason::NotYetOrphaned { .. } => State::Held,
            Reason::WaitingForAgent { .. }
            | Reason::BeingDeleted { .. }
            | Reason::WaitsForWork { awaited: AwaitedState::Gone, .. } => State::Deleting,
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
            | Reason::WaitingToRelease { .. }
            | Reason::ReplicaSetGives { .. }
            | Reason::UnreadReplicaSet
            | Reason::GroupChanged
            | Reason::DeletesNoLongerHeld => State::Pending,
            reason @ Reason::MovesObjects { .. } if reason.is_suspension() => State::Suspended,
            Reason::MovesObjects { moves } if is_held(moves) => State::Held,
            // What the agent reports about the content on the hub is more urgent.
            Reason::MovesObjects { .. }
            | Reason::SharesObjects { .. }
            | Reason::WaitsForWork { .. }
            | Reason::WaitsForWave { .. }
                if view.state.is_failure() =>
            {
                return (view.state, None);
            }
            Reason::MovesObjects { .. }
            | Reason::SharesObjects { .. }
            | Reason::WaitsForWork { .. }
            | Reason::WaitsForWave { .. } => State::Pending,
        };
        (state, Some(step.reason.to_string()))
    }

    /// The state of a work that cannot be read and has no step.
    pub(super) fn frozen(&self, key: &WorkKey, earlier: Option<&WorkState>) -> WorkState {
        WorkState {
            state: State::Frozen,
            since: self.began(State::Frozen, earlier),
            why: Some(self.error_of(key).into()),
            code: Some(Reason::Frozen.code()),
            uid: None,
            path: None,
            commit: None,
            view: Arc::default(),
        }
    }

    /// Why it is unknown whether the cluster is in the group of the work.
    fn doubt_of(&self, step: &PlanStep) -> String {
        let group = step.path.as_ref().and_then(layout::group_of);
        let scope = group.map(Scope::Group);
        let is_about = |found: &&Diagnostic| Some(&found.scope) == scope.as_ref();
        let found = self.desired.diagnostics.iter().find(is_about);
        found.map_or_else(|| step.reason.to_string(), reported)
    }

    /// The first error about the work, otherwise about its cluster or the whole source.
    fn error_of(&self, key: &WorkKey) -> String {
        let errors = || self.desired.diagnostics.iter().filter(|found| found.is_error());
        let about = |found: &&Diagnostic| matches!(&found.scope, Scope::Work(work) if work == key);
        let wider = |found: &&Diagnostic| match &found.scope {
            Scope::Source => true,
            Scope::Cluster(cluster) => *cluster == key.cluster,
            Scope::Group(_) | Scope::Work(_) => false,
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

fn is_held(moves: &[ObjectMove]) -> bool {
    moves.iter().any(|one| one.progress.is_held())
}

/// An error with its location, in one line.
pub(super) fn reported(error: &Diagnostic) -> String {
    let place = error.location.span.map_or_else(String::new, |span| format!(":{}", span.line));
    let text = format!("{}{place}: {}", error.location.file, error.message);
    truncate_chars(&text, limits::STATUS_TEXT_CHARS_MAX).into_owned()
}
