//! Planted bugs. Each makes the simulated gitwork do what a careless change would do. A test shows
//! that the checkers find each of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use gitwork_core::config::Budgets;
use gitwork_core::config::rollout::Threshold;
use gitwork_core::config::window::ChangeWindows;
use gitwork_core::model::approval::{RolloutApproval, Target};
use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::{ClusterName, WorkKey};
use gitwork_core::model::spec_text::SpecText;
use gitwork_core::plan::Effect;
use gitwork_core::plan::directives::Directives;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_core::render::desired::{Desired, Frozen};
use serde_json::{Value, json};

use crate::agents::{AgentBug, identity};
use crate::moves::{listed, manifests, strategy};
use crate::world::SOURCE;

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    PreconditionDropped,
    ConflictRetriedBlindly,
    DeletedBeforeOptionIsSet,
    DeletedBeforeOrphaned,
    HistoryNotRead,
    UnreadableCountedAsAbsent,
    SuspendIgnored,
    ForeignWorkOverwritten,
    ForeignCountedAsOurs,
    ReleasedByDeleting,
    BudgetIgnored,
    BudgetOffByOne,
    RepositoryBudgetIgnored,
    HoldMarkForgotten,
    UnchangedWorkWritten,
    DeletionEventsDropped,
    WatchResumedWithoutList,
    LostWriteCountedAsDone,
    FinalizersRemoved,
    UserLabelsRemoved,
    WindowsIgnored,
    ClockAssumedMonotonic,
    UnverifiedCommitFollowed,
    ApprovalUsedForRecreatedWork,
    OrphansDeletedByAgent,
    RecreatedObjectDeletedByAgent,
    EmptyWorkWaitsForAgent,
    ConsentForOtherSourceAccepted,
    GiverDeletedOnReceiversCreation,
    AppliedOfOlderGeneration,
    TransitionalBodyLost,
    LeavingObjectsIgnored,
    PartialDecisionsTakenAsWhole,
    StaleLabelsListed,
    ValuesOfOtherCluster,
    DependentBeforeDependency,
    HealthOfOldGeneration,
    SoakFromWrongTime,
    SlotFreedTwice,
    BreachForgotten,
    ApprovalOfOtherContent,
    UntestedContentForJoining,
    LastGoodTooEarly,
    ReturnThatDeletes,
}

/// Every planted bug, with its row in `docs/simulation.md`.
pub const ALL: [(Bug, &str); 44] = [
    (
        Bug::PreconditionDropped,
        "a write carries the current version on the hub, not the planned one",
    ),
    (Bug::ConflictRetriedBlindly, "a write that conflicts is sent again with the current version"),
    (Bug::DeletedBeforeOptionIsSet, "a work is deleted before its final `deleteOption` is written"),
    (
        Bug::DeletedBeforeOrphaned,
        "gitwork assumes that the agent has applied the latest generation",
    ),
    (Bug::HistoryNotRead, "Git history is not read for the final state of a removed work"),
    (Bug::UnreadableCountedAsAbsent, "unreadable files count as absent"),
    (Bug::SuspendIgnored, "a suspended work is written"),
    (Bug::ForeignWorkOverwritten, "a work of another owner is overwritten on a name conflict"),
    (Bug::ForeignCountedAsOurs, "the list of works is not limited to the source's label"),
    (Bug::ReleasedByDeleting, "a work with `prune: false` is deleted"),
    (Bug::BudgetIgnored, "there is no deletion budget"),
    (Bug::BudgetOffByOne, "each number of the deletion budget is too high by one"),
    (Bug::RepositoryBudgetIgnored, "the budget in `gitwork.yaml` does not count"),
    (Bug::HoldMarkForgotten, "a work created during a hold gets no marker"),
    (Bug::UnchangedWorkWritten, "an unchanged work is written"),
    (Bug::DeletionEventsDropped, "the watch drops deletion events"),
    (Bug::WatchResumedWithoutList, "a broken watch resumes without a list"),
    (Bug::LostWriteCountedAsDone, "a write without a response counts as done"),
    (Bug::FinalizersRemoved, "an update removes the agent's finalizer"),
    (Bug::UserLabelsRemoved, "an update removes the labels of other owners"),
    (Bug::WindowsIgnored, "change windows do not count"),
    (Bug::ClockAssumedMonotonic, "a clock that is set back counts as stopped"),
    (Bug::UnverifiedCommitFollowed, "an unsigned commit is followed"),
    (Bug::ApprovalUsedForRecreatedWork, "an approval counts for another work of the same name"),
    (Bug::OrphansDeletedByAgent, "the agent deletes objects that its work does not own"),
    (Bug::RecreatedObjectDeletedByAgent, "the agent deletes an object that a user created again"),
    (
        Bug::EmptyWorkWaitsForAgent,
        "gitwork waits for the agent's status of a work without manifests",
    ),
    (Bug::ConsentForOtherSourceAccepted, "a consent to adoption by another source is accepted"),
    (
        Bug::GiverDeletedOnReceiversCreation,
        "an object that moves counts as applied as soon as the receiving work is on the hub",
    ),
    (
        Bug::AppliedOfOlderGeneration,
        "an object that moves counts as applied if an older generation was applied",
    ),
    (
        Bug::TransitionalBodyLost,
        "after a restart, a work that keeps an object during its move is overwritten",
    ),
    (
        Bug::LeavingObjectsIgnored,
        "gitwork does not wait until agents have removed what left their works",
    ),
    (
        Bug::PartialDecisionsTakenAsWhole,
        "the PlacementDecisions that there are count as all of a Placement's",
    ),
    (Bug::StaleLabelsListed, "ManagedClusters are listed from a cache that never changes"),
    (
        Bug::ValuesOfOtherCluster,
        "all members of a group get the manifests of the first one, as from a cache without the \
         cluster in its key",
    ),
    (Bug::DependentBeforeDependency, "`dependsOn` does not count"),
    (
        Bug::HealthOfOldGeneration,
        "what the agent says of an older generation counts as the health of a new content",
    ),
    (Bug::SoakFromWrongTime, "the soak of a wave counts from the start of the rollout"),
    (Bug::SlotFreedTwice, "a cluster frees its place for two others"),
    (Bug::BreachForgotten, "after a restart, a content that failed is rolled out further"),
    (Bug::ApprovalOfOtherContent, "an approved wave is approved for every content"),
    (Bug::UntestedContentForJoining, "a cluster that joins a group gets the content at once"),
    (Bug::LastGoodTooEarly, "a content counts as good when its rollout begins"),
    (Bug::ReturnThatDeletes, "a return deletes the objects that only the rejected content has"),
];

impl Bug {
    /// Its text in the table of `docs/simulation.md`.
    pub fn description(self) -> &'static str {
        ALL.into_iter().find(|(bug, _)| *bug == self).map_or("", |(_, text)| text)
    }

    /// The bug that an agent has.
    pub fn agent_bug(self) -> Option<AgentBug> {
        match self {
            Self::OrphansDeletedByAgent => Some(AgentBug::DeletesOrphans),
            Self::RecreatedObjectDeletedByAgent => Some(AgentBug::IgnoresUids),
            _ => None,
        }
    }

    /// Changes the operators' directives from the hub, which has these works.
    pub fn spoil_directives(self, directives: &mut Directives, works: &[ObservedWork]) {
        if self != Self::ApprovalUsedForRecreatedWork {
            return;
        }
        let approved = &mut directives.approvals.deletions;
        let names: BTreeSet<WorkKey> = approved.iter().map(|target| target.key.clone()).collect();
        let others = works.iter().filter(|work| names.contains(&work.key));
        approved
            .extend(others.map(|work| Target { key: work.key.clone(), uid: work.uid.to_string() }));
    }

    /// Changes the desired state.
    pub fn spoil_desired(self, desired: &mut Desired) {
        match self {
            Self::UnreadableCountedAsAbsent => desired.frozen = Frozen::default(),
            Self::WindowsIgnored => desired.rules.windows = ChangeWindows::default(),
            Self::SuspendIgnored => {
                desired.works.values_mut().map(Arc::make_mut).for_each(|work| work.suspend = false);
            }
            _ => desired.rules.budgets = self.spoil_budgets(&desired.rules.budgets),
        }
    }

    /// Changes the rollouts of groups. `joined`: the clusters that are new in the labelled group.
    /// `approved`: what operators approved.
    pub fn spoil_rollouts(
        self,
        desired: &mut Desired,
        joined: &BTreeSet<ClusterName>,
        approved: &BTreeSet<RolloutApproval>,
    ) {
        for (name, rollout) in &mut desired.rollouts {
            let rollout = Arc::make_mut(rollout);
            let mut rules = (*rollout.rules).clone();
            match self {
                Self::SoakFromWrongTime => {
                    rules.waves.iter_mut().for_each(|wave| wave.soak = std::time::Duration::ZERO);
                }
                Self::SlotFreedTwice => {
                    let waves = rules.waves.iter_mut().filter(|it| it.max_concurrency.is_some());
                    waves.for_each(|wave| wave.max_concurrency = Some(Threshold::Count(2)));
                }
                Self::UntestedContentForJoining => {
                    let members = rollout.members.iter_mut();
                    let members = members.filter(|(cluster, _)| joined.contains(*cluster));
                    members.for_each(|(_, member)| member.wave = 0);
                }
                Self::ApprovalOfOtherContent => {
                    let of_group = approved.iter().filter(|approval| approval.group == *name);
                    let content = rollout.content;
                    let moved = of_group.map(|it| RolloutApproval { content, ..it.clone() });
                    desired.approved.rollouts.extend(moved);
                }
                _ => return,
            }
            rollout.rules = rules.into();
        }
    }

    /// Changes the budgets that a commit sets.
    pub fn spoil_budgets(self, budgets: &Budgets) -> Budgets {
        let raise = |number: Option<u32>| number.map(|number| number + 1);
        match self {
            Self::BudgetOffByOne => Budgets {
                works: raise(budgets.works),
                percent: raise(budgets.percent),
                cluster: raise(budgets.cluster),
                ..Budgets::default()
            },
            Self::RepositoryBudgetIgnored => Budgets::default(),
            _ => budgets.clone(),
        }
    }

    /// Changes the budgets that the operator sets, of which `None` is the default.
    pub fn spoil_operator_budgets(self, budgets: &Budgets) -> Budgets {
        let all = |number: u32| Budgets {
            works: Some(number),
            percent: Some(number.min(100)),
            cluster: Some(number),
            ..Budgets::default()
        };
        match self {
            Self::BudgetIgnored => all(1_000),
            Self::BudgetOffByOne => self.spoil_budgets(&Budgets {
                works: budgets.works.or(Some(10)),
                percent: budgets.percent.or(Some(10)),
                cluster: budgets.cluster.or(Some(1)),
                ..Budgets::default()
            }),
            _ => budgets.clone(),
        }
    }

    /// Whether it changes what works on the hub say of the objects that move.
    pub fn is_about_moves(self) -> bool {
        matches!(
            self,
            Self::GiverDeletedOnReceiversCreation
                | Self::AppliedOfOlderGeneration
                | Self::TransitionalBodyLost
        )
    }

    /// Changes what a work on the hub says of the objects that move: those that other works of the
    /// cluster list, too. `raw` is the work as the hub has it.
    pub fn spoil_moves(
        self,
        work: &mut ObservedWork,
        mut raw: Value,
        others: &BTreeSet<Identity>,
        is_restarted: bool,
    ) {
        match self {
            Self::GiverDeletedOnReceiversCreation => report_applied(&mut raw, others),
            Self::AppliedOfOlderGeneration => renew_applied(&mut raw),
            Self::TransitionalBodyLost if is_restarted => {
                if !forget_kept(&mut raw, others) {
                    return;
                }
            }
            _ => return,
        }
        let Ok(read) = ObservedWork::from_manifest_work(raw) else { return };
        let agent = std::mem::take(&mut work.agent);
        *work = ObservedWork { agent, ..read };
        if self == Self::TransitionalBodyLost {
            // It is not what Git has, either.
            work.digest.0[0] ^= 1;
        }
    }

    /// Changes a work as the hub returns it.
    pub fn spoil_work(self, work: &mut ObservedWork) {
        match self {
            Self::DeletedBeforeOrphaned => {
                (work.agent.reported, work.agent.applied) = (true, true);
            }
            Self::ConsentForOtherSourceAccepted => {
                work.adopt = work.adopt.as_ref().map(|_| SOURCE.into());
            }
            Self::EmptyWorkWaitsForAgent => work.agent.is_empty = false,
            Self::HealthOfOldGeneration => {
                let known = work.agent.seen;
                let agent = &mut work.agent;
                (agent.reported, agent.applied, agent.available) = (known, known, known);
            }
            Self::LeavingObjectsIgnored => work.left = Box::default(),
            Self::UnchangedWorkWritten => work.digest.0[0] ^= 1,
            _ => {}
        }
    }

    /// Replaces a write. `there` is the object on the hub at that time.
    pub fn spoil_effect(self, effect: &Effect, there: Option<&ObservedWork>) -> Option<Effect> {
        let there_uid = there.map(|work| work.uid.clone());
        let there_version = there.map(|work| work.resource_version.clone())?;
        match (self, effect) {
            (Self::PreconditionDropped, effect) => Some(with_version(effect, there?)),
            (Self::DeletedBeforeOptionIsSet, Effect::SetDeleteOption { resource_version, .. }) => {
                Some(Effect::Delete { uid: there_uid?, resource_version: resource_version.clone() })
            }
            (Self::ReleasedByDeleting, Effect::Release { resource_version }) => {
                Some(Effect::Delete { uid: there_uid?, resource_version: resource_version.clone() })
            }
            (Self::ForeignWorkOverwritten, Effect::Create { body }) => Some(Effect::Update {
                body: body.clone(),
                resource_version: there_version,
                metadata: Box::new(gitwork_core::plan::MetadataChange {
                    labels_absent: there?.labels_absent,
                    annotations_absent: there?.annotations_absent,
                    ..Default::default()
                }),
            }),
            _ => None,
        }
    }

    /// Changes what a write gives a work.
    pub fn spoil_body(self, effect: &mut Effect) {
        match (self, effect) {
            (Self::HoldMarkForgotten, Effect::Create { body } | Effect::Adopt { body, .. }) => {
                Arc::make_mut(body).created_during_hold = false;
            }
            // Works of no group keep objects that move.
            (Self::ReturnThatDeletes, Effect::Update { body, .. })
                if body.group_content.is_some() =>
            {
                let mut work = json!({"spec": body.spec.value()});
                let all = listed(&work);
                if forget_kept(&mut work, &all) {
                    Arc::make_mut(body).spec = SpecText::new(&work["spec"]);
                }
            }
            _ => {}
        }
    }
}

/// Reports these objects of the work as applied at its generation.
fn report_applied(raw: &mut Value, objects: &BTreeSet<Identity>) {
    let generation = raw["metadata"]["generation"].clone();
    let reported = raw["status"]["resourceStatus"]["manifests"].as_array().cloned();
    let mut reported = reported.unwrap_or_default();
    for manifest in manifests(raw) {
        let id = identity(manifest);
        if !objects.contains(&id) {
            continue;
        }
        let mut meta = id.to_value();
        meta["kind"] = manifest["kind"].clone();
        meta["version"] = manifest["apiVersion"].clone();
        reported.retain(|one| one["resourceMeta"]["name"] != meta["name"]);
        let applied =
            json!({"type": "Applied", "status": "True", "observedGeneration": generation});
        reported.push(json!({"resourceMeta": meta, "conditions": [applied]}));
    }
    raw["status"]["resourceStatus"]["manifests"] = reported.into();
}

/// Takes each report of an object for one about the work's generation.
fn renew_applied(raw: &mut Value) {
    let generation = raw["metadata"]["generation"].clone();
    let reported = raw.pointer_mut("/status/resourceStatus/manifests");
    let reported = reported.and_then(Value::as_array_mut).into_iter().flatten();
    let conditions = reported.filter_map(|one| one["conditions"].as_array_mut()).flatten();
    for condition in conditions.filter(|one| one["type"] == "Applied") {
        condition["observedGeneration"] = generation.clone();
    }
}

/// Removes these objects from a work that only keeps them. Returns whether there are any.
fn forget_kept(raw: &mut Value, objects: &BTreeSet<Identity>) -> bool {
    let work = raw.clone();
    let is_kept = |manifest: &Value| {
        let id = identity(manifest);
        objects.contains(&id) && strategy(&work, &id).as_deref() == Some("CreateOnly")
    };
    let all = raw.pointer_mut("/spec/workload/manifests").and_then(Value::as_array_mut);
    let Some(all) = all else { return false };
    let before = all.len();
    all.retain(|manifest| !is_kept(manifest));
    all.len() < before
}

/// The effect with the preconditions that fit the object on the hub.
pub fn with_version(effect: &Effect, there: &ObservedWork) -> Effect {
    let mut effect = effect.clone();
    match &mut effect {
        Effect::Create { .. } => {}
        Effect::Update { resource_version, .. }
        | Effect::Adopt { resource_version, .. }
        | Effect::SetDeleteOption { resource_version, .. }
        | Effect::Release { resource_version } => {
            resource_version.clone_from(&there.resource_version);
        }
        Effect::Delete { uid, resource_version } => {
            uid.clone_from(&there.uid);
            resource_version.clone_from(&there.resource_version);
        }
    }
    effect
}
