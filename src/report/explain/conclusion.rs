//! Explains why a work or an object is on its cluster, or why it is not.

use schemars::JsonSchema;
use serde::Serialize;

use super::GitSide;
use crate::status::State;
use crate::status::tree::{ObjectStatus, WorkTree};
use gitwork_core::model::name::WorkKey;
use gitwork_core::plan::moves::{MoveProgress, ObjectMove};
use gitwork_core::plan::{PlanStep, Reason};

/// The reason: one word for programs, one sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conclusion {
    /// Whether it is on its cluster as Git wants it.
    pub there: bool,
    /// One word in CamelCase for programs, such as `RemovedFromGit` or `AgentPending`.
    pub reason: String,
    /// One sentence for people.
    pub message: String,
    /// The next step for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Conclusion {
    fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { there: false, reason: reason.to_owned(), message: message.into(), advice: None }
    }
    fn advising(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// Whether the hub reaches a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterReachability {
    /// The condition `ManagedClusterConditionAvailable` is True.
    Reachable,
    /// The condition `ManagedClusterConditionAvailable` is not True.
    Unreachable,
    /// The hub has no ManagedCluster of this name.
    NotRegistered,
    /// The user may not read ManagedClusters.
    Unknown,
}

/// Inputs of the conclusion.
#[derive(Debug, Clone, Copy)]
pub struct ExplainInputs<'a> {
    /// The work in question.
    pub key: &'a WorkKey,
    /// The object in question, as in `Deployment shop/web`; `None` for the whole work.
    pub object: Option<&'a str>,
    /// What Git has of it.
    pub git: &'a GitSide,
    /// The work in Git with the most similar name.
    pub near: Option<&'a WorkKey>,
    /// `None` if the hub could not be read.
    pub hub: Option<HubInputs<'a>>,
}

/// Inputs that come from the hub.
#[derive(Debug, Clone, Copy)]
pub struct HubInputs<'a> {
    /// The work's step in the plan, which compares Git with the hub.
    pub step: Option<&'a PlanStep>,
    /// The ManifestWork; `None` if the hub has none of this name.
    pub work: Option<&'a WorkTree>,
    /// The object in question, with the agent's status.
    pub object: Option<&'a ObjectStatus>,
    /// The move of the object in question, if it is between two works.
    pub moving: Option<&'a ObjectMove>,
    /// Whether the hub reaches the work's cluster.
    pub reach: ClusterReachability,
    /// Why the daemon does not apply the newest commit, as it reports: a signature is refused, or
    /// Git cannot be read.
    pub source_error: Option<&'a str>,
}

impl ExplainInputs<'_> {
    /// Decides the first reason that applies: Git, then the plan, then the agent's status.
    pub fn answer(&self) -> Conclusion {
        let moving = self.hub.and_then(|hub| hub.moving);
        if self.git.folder.is_none() {
            return moving.map_or_else(|| self.not_in_git(), |one| self.of_move(one));
        }
        if let Some(error) = self.git.problems.iter().find(|problem| problem.error) {
            let message = format!("{}: {}", error.place, error.message);
            return Conclusion::new(
                "Frozen",
                format!("its files in Git cannot be used: {message}"),
            )
            .advising(format!(
                "fix it in Git (docs/diagnostics.md, {}); until then the work on the hub stays \
                     unchanged",
                error.code
            ));
        }
        if let Some(moving) = moving {
            return self.of_move(moving);
        }
        if let Some(object) = self.object.filter(|_| self.git.place.is_none()) {
            let message = format!("Git has the work, but no {object} in it");
            return Conclusion::new("ObjectNotInGit", message)
                .advising("the agent removes it, unless the work's deleteOption keeps it");
        }
        let Some(hub) = &self.hub else {
            let message = "Git has the work, and it can be rendered; the hub was not read";
            return Conclusion::new("HubUnknown", message)
                .advising("select the hub with --kubeconfig");
        };
        match hub.step {
            Some(step) if step.is_settled() => self.on_cluster(hub),
            Some(PlanStep { effect: Some(_), .. }) if hub.source_error.is_some() => {
                self.not_applied().unwrap_or_else(|| self.on_cluster(hub))
            }
            Some(step) => self.of_step(hub, step),
            // Without permission for all namespaces there is no plan.
            None if hub.work.is_some() => self.on_cluster(hub),
            None => Conclusion::new(
                "NotOnHub",
                "Git has it, and the hub has no ManifestWork of this name",
            ),
        }
    }

    /// The hub differs from Git because the daemon does not apply the newest commit.
    fn not_applied(&self) -> Option<Conclusion> {
        let why = self.hub.and_then(|hub| hub.source_error)?;
        let message = format!("the daemon does not apply the newest commit: {why}");
        let advice = "until that is fixed, the hub stays at the last commit that was applied";
        Some(Conclusion::new("CommitNotApplied", message).advising(advice))
    }

    fn not_in_git(&self) -> Conclusion {
        if let Some(HubInputs { step: Some(step), .. }) = self.hub {
            if let Some(answer) = self.not_applied().filter(|_| step.effect.is_some()) {
                return answer;
            }
            return Conclusion::new(step.reason.code(), step.reason.to_string());
        }
        if let Some(by) = &self.git.removed_by {
            let commit: String = by.commit.chars().take(8).collect();
            let message =
                format!("{} removed it from Git with {commit}: {}", by.author, by.subject);
            return Conclusion::new("RemovedFromGit", message);
        }
        let place = format!("clusters/{}/{}", self.key.cluster, self.key.work);
        let answer = Conclusion::new("NotInGit", format!("Git has no work folder {place}"));
        match self.near {
            Some(near) => answer.advising(format!("did you mean {near}?")),
            None => answer.advising("check --repo, --branch and --path"),
        }
    }

    /// An object that is between two works: which work has it, and what it waits for.
    fn of_move(&self, moving: &ObjectMove) -> Conclusion {
        let ObjectMove { from, to, progress, .. } = moving;
        let (giver, receiver) = (&from.work, &to.work);
        let in_git = match progress {
            MoveProgress::Unreadable => String::new(),
            _ => format!(", and in Git the work {receiver}"),
        };
        let message = format!("on the hub the work {giver} has it{in_git}; {moving}");
        let answer = Conclusion::new("MovesObjects", message);
        let fix = |work: &WorkKey| {
            format!(
                "fix what the agent reports for the object in {}; if the commit changes a field \
                 that cannot change, remove the object in one commit and add it in the next",
                work.work
            )
        };
        match progress {
            MoveProgress::Applying { failure: Some(_) } => answer.advising(fix(to)),
            MoveProgress::Orphaning { failure: Some(_) } => answer.advising(fix(from)),
            MoveProgress::Applying { failure: None }
            | MoveProgress::AwaitingReport
            | MoveProgress::Shared { .. }
            | MoveProgress::Orphaning { failure: None } => answer.advising(self.next_of_move()),
            MoveProgress::Held { .. } | MoveProgress::Suspended { .. } => {
                answer.advising("neither work changes for this object until that ends")
            }
            MoveProgress::Unreadable => {
                answer.advising(format!("fix the files of {receiver} in Git: `gitwork validate`"))
            }
            MoveProgress::Unread
            | MoveProgress::WaitsForWave
            | MoveProgress::Unseen
            | MoveProgress::Orphaned
            | MoveProgress::KeptByAnother
            | MoveProgress::Applied => answer,
        }
    }

    /// Who acts next in a move that nothing holds.
    fn next_of_move(&self) -> String {
        let step = self.hub.and_then(|hub| hub.step);
        if step.is_some_and(|step| step.effect.is_some()) {
            return self.next_pass();
        }
        format!(
            "the move goes on once the work agent of {} has acted; if this persists, check that \
             it runs and reaches the hub",
            self.key.cluster
        )
    }

    /// The step of a work that differs from Git, or that a rule keeps from being written.
    fn of_step(&self, hub: &HubInputs<'_>, step: &PlanStep) -> Conclusion {
        let reason = step.reason.to_string();
        if step.effect.is_none() {
            let answer = Conclusion::new(step.reason.code(), reason);
            let suspend = self.git.settings.iter().find(|setting| setting.name == "suspend");
            let place = suspend.and_then(|setting| setting.set_by.as_ref());
            return match (&step.reason, place) {
                (Reason::Suspended, Some(place)) => {
                    answer.advising(format!("remove `suspend` at {place}"))
                }
                _ => answer,
            };
        }
        if hub.reach == ClusterReachability::NotRegistered {
            let message = format!("the hub has no managed cluster {}", self.key.cluster);
            return Conclusion::new("NoCluster", message)
                .advising("join and accept the cluster, or rename its folder");
        }
        Conclusion::new(step.reason.code(), format!("not written to the hub yet: {reason}"))
            .advising(self.next_pass())
    }

    fn next_pass(&self) -> String {
        if self.git.commit.is_none() {
            return "the source is a directory on disk: commit and push the change, then gitwork \
                    writes it"
                .to_owned();
        }
        format!(
            "gitwork writes it in its next pass; if it does not, check the log of `gitwork run` \
             for the source {}",
            self.git.source
        )
    }

    /// The hub has what Git wants. Reads the rest from the agent's status.
    fn on_cluster(&self, hub: &HubInputs<'_>) -> Conclusion {
        let said = self.agent_state(hub);
        if hub.reach == ClusterReachability::Unreachable && !said.there {
            let message = format!(
                "the hub cannot reach the cluster {}; its last known state: {}",
                self.key.cluster, said.message
            );
            return Conclusion::new("ClusterUnreachable", message)
                .advising("check the cluster and its klusterlet agent");
        }
        said
    }

    fn agent_state(&self, hub: &HubInputs<'_>) -> Conclusion {
        let Some(tree) = hub.work else {
            return Conclusion::new("NotOnHub", "the ManifestWork was just removed from the hub");
        };
        let (state, message) = match hub.object {
            Some(object) => (object.state, object.message.clone()),
            None => (tree.work.state, tree.work.message.clone().or_else(|| self.wrong(tree))),
        };
        let why = message.map_or_else(String::new, |message| format!(": {message}"));
        match state {
            State::Failed => {
                Conclusion::new("ApplyFailed", format!("the cluster's agent cannot apply it{why}"))
                    .advising("fix the manifest in Git, or the cause that the agent reports")
            }
            State::Degraded => {
                Conclusion::new("Degraded", format!("it is applied, but degraded{why}"))
            }
            State::Progressing => Conclusion::new(
                "Progressing",
                format!("it is applied, but not all objects are available yet{why}"),
            ),
            State::Pending => self.pending(tree),
            State::Deleting => Conclusion::new("Deleting", "it is being deleted"),
            State::Applied | State::Available | State::Complete => Conclusion {
                there: true,
                ..Conclusion::new(&capital(state), format!("it is on the cluster: {state}"))
            },
            State::Frozen | State::Held | State::Suspended => {
                Conclusion::new(&capital(state), format!("it is {state}{why}"))
            }
        }
    }

    fn pending(&self, tree: &WorkTree) -> Conclusion {
        let seen = tree.conditions.iter().any(|condition| condition.kind == "Applied");
        let message = if seen {
            "the hub has it, but the cluster's agent has not processed this version yet"
        } else {
            "the hub has it, but no agent of the cluster has processed it"
        };
        let advice = format!(
            "if this persists, check that the work agent runs on {} and reaches the hub",
            self.key.cluster
        );
        Conclusion::new("AgentPending", message).advising(advice)
    }

    /// The message of the first unhealthy object.
    fn wrong(&self, tree: &WorkTree) -> Option<String> {
        let object = tree.objects.iter().find(|object| object.message.is_some())?;
        Some(format!("{object}: {}", object.message.as_deref()?))
    }
}

/// The state as a reason, as in `Available`.
fn capital(state: State) -> String {
    let mut name = state.as_str().to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    name
}
