//! A plan as data for the outside: JSON output, logs, metrics.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::name::{CommitId, RepoPath, SourceId, WorkKey};
use crate::plan::action::Action;
use crate::plan::cascading_deletion::CascadingDeletion;
use crate::plan::foreign_objects::ForeignObject;
use crate::plan::held::Hold;
use crate::plan::member_changes::MemberChange;
use crate::plan::step::Plan;
use crate::signature::verification::VerificationFailure;

/// How many works of a plan have which action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionCounts {
    /// Works with [`Action::Create`].
    pub create: usize,
    /// Works with [`Action::Update`].
    pub update: usize,
    /// Works with [`Action::Adopt`].
    pub adopt: usize,
    /// Works with [`Action::SetDeleteOption`].
    pub set_delete_option: usize,
    /// Works with [`Action::Delete`].
    pub delete: usize,
    /// Works with [`Action::Release`].
    pub release: usize,
    /// Works with [`Action::Wait`].
    pub wait: usize,
    /// Works with [`Action::Hold`].
    pub hold: usize,
    /// Works with [`Action::Keep`].
    pub keep: usize,
}

impl ActionCounts {
    fn add(&mut self, action: Action, steps: usize) {
        let count = match action {
            Action::Create => &mut self.create,
            Action::Update => &mut self.update,
            Action::Adopt => &mut self.adopt,
            Action::SetDeleteOption => &mut self.set_delete_option,
            Action::Delete => &mut self.delete,
            Action::Release => &mut self.release,
            Action::Wait => &mut self.wait,
            Action::Hold => &mut self.hold,
            Action::Keep => &mut self.keep,
        };
        *count += steps;
    }
}

impl fmt::Display for ActionCounts {
    /// As in `2 create, 1 delete, 97 keep`; nothing is said of what does not occur.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.create, Action::Create),
            (self.update, Action::Update),
            (self.adopt, Action::Adopt),
            (self.set_delete_option, Action::SetDeleteOption),
            (self.delete, Action::Delete),
            (self.release, Action::Release),
            (self.wait, Action::Wait),
            (self.hold, Action::Hold),
            (self.keep, Action::Keep),
        ];
        let texts: Vec<String> = all
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, action)| format!("{count} {action}"))
            .collect();
        f.write_str(if texts.is_empty() { "nothing" } else { "" })?;
        f.write_str(&texts.join(", "))
    }
}

/// One step without its body: fit for logs and outputs, since manifests may hold secrets.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StepSummary {
    /// The work, as the fields `cluster` and `work`.
    #[serde(flatten)]
    pub key: WorkKey,
    /// The work folder, from the source's path; absent if Git has and had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<RepoPath>,
    /// What the step does.
    pub action: Action,
    /// `Reason::code`.
    pub reason: &'static str,
    /// The reason for people.
    pub message: String,
    /// What a take-over changes, for people, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<String>,
}

/// Deletions over the budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldSummary {
    /// What `gitwork approve` takes.
    pub hash: String,
    /// How many works would be deleted.
    pub works: usize,
    /// The bound of the budget that the plan exceeds, for people.
    pub reason: String,
}

/// Something that waits for approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HoldSummary {
    /// What holds: `origin`, `budget`, `rewind`, `restore` or `window`.
    pub guard: &'static str,
    /// What `gitwork approve` takes.
    pub hash: String,
    /// How many works wait.
    pub works: usize,
    /// Why they wait, for people.
    pub reason: String,
}

impl HoldSummary {
    fn of(hold: Hold) -> Self {
        let hash = hold.approval.hash().to_string();
        Self { guard: hold.guard.as_str(), hash, works: hold.works, reason: hold.reason }
    }
}

/// A plan without the bodies.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlanSummary {
    /// The planned commit; absent for a local directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// All steps by action, kept works included.
    pub counts: ActionCounts,
    /// Why it is no plan for the newest commit, but for the last verified one.
    #[serde(rename = "refused", skip_serializing_if = "Option::is_none")]
    pub verification_failure: Option<VerificationFailure>,
    /// Deletions that wait for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldSummary>,
    /// All that waits for approval, these deletions included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<HoldSummary>,
    /// All steps but those that keep a work as it is.
    pub steps: Vec<StepSummary>,
    /// Objects that Git newly has, and that works of other owners have on the hub.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign_objects: Vec<ForeignObject>,
    /// Namespaces and CustomResourceDefinitions that are deleted, and with which clusters delete
    /// objects that are to stay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cascading_deletions: Vec<CascadingDeletion>,
    /// Clusters that join or leave groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub member_changes: Vec<MemberChange>,
}

impl Plan {
    /// Counts the steps by action.
    pub fn counts(&self) -> ActionCounts {
        let mut counts = ActionCounts::default();
        Action::ALL.into_iter().for_each(|action| counts.add(action, self.steps.count(action)));
        counts
    }

    /// Describes the plan without its bodies. `source` is part of the approvals of held changes.
    pub fn summary(&self, source: &SourceId) -> PlanSummary {
        let changed = self.steps.iter().filter(|step| step.action() != Action::Keep);
        let steps = changed.map(|step| StepSummary {
            key: step.key.clone(),
            path: step.path.clone(),
            action: step.action(),
            reason: step.reason.code(),
            message: step.reason.to_string(),
            changes: None,
        });
        let held = self.held_deletions().map(|held| HeldSummary {
            hash: held.hash.to_string(),
            works: held.works.len(),
            reason: held.excess.to_string(),
        });
        let holds = self.holds(source).into_iter().map(HoldSummary::of).collect();
        let (commit, counts, steps) = (self.commit, self.counts(), steps.collect());
        PlanSummary {
            commit,
            counts,
            verification_failure: None,
            held,
            holds,
            steps,
            foreign_objects: Vec::new(),
            cascading_deletions: Vec::new(),
            member_changes: Vec::new(),
        }
    }
}
