//! The way forward: why a work or an object is on its cluster, or what keeps it from there.

use serde::Serialize;

use super::GitSide;
use crate::core::name::WorkKey;
use crate::core::plan::{Reason, Step};
use crate::core::status::State;
use crate::core::status::tree::{ObjectStatus, WorkTree};

/// The reason, in one word for programs and one sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// It is on its cluster as Git wants it.
    pub there: bool,
    pub reason: String,
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Answer {
    fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { there: false, reason: reason.to_owned(), message: message.into(), advice: None }
    }
    fn advising(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// What the hub knows of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Reached,
    /// It has not been heard of lately.
    Lost,
    /// There is no ManagedCluster of this name.
    NoCluster,
    /// It may not be asked.
    Unknown,
}

/// What the answer is made from.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub key: &'a WorkKey,
    /// The object that was asked about, as in `Deployment shop/web`.
    pub object: Option<&'a str>,
    pub git: &'a GitSide,
    /// A work of Git's whose name is nearest.
    pub near: Option<&'a WorkKey>,
    /// Absent where the hub is not known.
    pub hub: Option<HubFacts<'a>>,
}

/// What the hub has to do with it.
#[derive(Debug, Clone, Copy)]
pub struct HubFacts<'a> {
    /// The work's step in the plan of Git against the hub.
    pub step: Option<&'a Step>,
    pub work: Option<&'a WorkTree>,
    pub object: Option<&'a ObjectStatus>,
    pub reach: Reach,
}

impl Facts<'_> {
    pub fn answer(&self) -> Answer {
        if self.git.folder.is_none() {
            return self.not_in_git();
        }
        if let Some(error) = self.git.problems.iter().find(|problem| problem.error) {
            let message = format!("{}: {}", error.place, error.message);
            return Answer::new("Frozen", format!("its files in Git cannot be used: {message}"))
                .advising(format!(
                    "mend it in Git (docs/diagnostics.md, {}); until then the hub keeps what it has",
                    error.code
                ));
        }
        if let Some(object) = self.object.filter(|_| self.git.place.is_none()) {
            let message = format!("Git has the work, but no {object} in it");
            return Answer::new("ObjectNotInGit", message)
                .advising("the agent removes it, unless the work's deleteOption keeps it");
        }
        let Some(hub) = &self.hub else {
            let message = "Git has it and it can be rendered; what the hub has is not known";
            return Answer::new("HubUnknown", message).advising("name the hub with --kubeconfig");
        };
        match hub.step {
            Some(step) if step.is_settled() => self.on_cluster(hub),
            Some(step) => self.of_step(hub, step),
            // The plan is not known to who may read one namespace only.
            None if hub.work.is_some() => self.on_cluster(hub),
            None => {
                Answer::new("NotOnHub", "Git has it, and the hub has no ManifestWork of this name")
            }
        }
    }

    fn not_in_git(&self) -> Answer {
        if let Some(HubFacts { step: Some(step), .. }) = self.hub {
            return Answer::new(step.reason.code(), step.reason.to_string());
        }
        if let Some(by) = &self.git.removed_by {
            let commit: String = by.commit.chars().take(8).collect();
            let message =
                format!("{} removed it from Git with {commit}: {}", by.author, by.subject);
            return Answer::new("RemovedFromGit", message);
        }
        let place = format!("clusters/{}/{}", self.key.cluster, self.key.work);
        let answer = Answer::new("NotInGit", format!("Git has no work folder {place}"));
        match self.near {
            Some(near) => answer.advising(format!("did you mean {near}?")),
            None => answer.advising("look at --repo, --branch and --path"),
        }
    }

    /// The plan has something to do for the work, or says why it does nothing.
    fn of_step(&self, hub: &HubFacts<'_>, step: &Step) -> Answer {
        let reason = step.reason.to_string();
        if step.effect.is_none() {
            let answer = Answer::new(step.reason.code(), reason);
            let suspend = self.git.settings.iter().find(|setting| setting.name == "suspend");
            let place = suspend.and_then(|setting| setting.set_by.as_ref());
            return match (&step.reason, place) {
                (Reason::Suspended, Some(place)) => {
                    answer.advising(format!("take `suspend` out at {place}"))
                }
                _ => answer,
            };
        }
        if hub.reach == Reach::NoCluster {
            let message = format!("the hub has no managed cluster {}", self.key.cluster);
            return Answer::new("NoCluster", message)
                .advising("join and accept the cluster, or rename its folder");
        }
        let advice = if self.git.commit.is_none() {
            "a folder on disk is read as it is: commit and push it, and gitwork writes it"
                .to_owned()
        } else {
            format!(
                "gitwork writes it at its next pass; if it does not, look at the log of `gitwork run` for the source {}",
                self.git.source
            )
        };
        Answer::new(step.reason.code(), format!("not written to the hub yet: {reason}"))
            .advising(advice)
    }

    /// The hub has what Git wants: the rest is the cluster's.
    fn on_cluster(&self, hub: &HubFacts<'_>) -> Answer {
        let said = self.agent_says(hub);
        if hub.reach == Reach::Lost && !said.there {
            let message = format!(
                "the hub has lost touch with the cluster {}; the last that it knows: {}",
                self.key.cluster, said.message
            );
            return Answer::new("ClusterUnreachable", message)
                .advising("see what has become of the cluster and of its klusterlet agent");
        }
        said
    }

    fn agent_says(&self, hub: &HubFacts<'_>) -> Answer {
        let Some(tree) = hub.work else {
            return Answer::new("NotOnHub", "the ManifestWork has just gone from the hub");
        };
        let (state, message) = match hub.object {
            Some(object) => (object.state, object.message.clone()),
            None => (tree.work.state, tree.work.message.clone().or_else(|| self.wrong(tree))),
        };
        let why = message.map_or_else(String::new, |message| format!(": {message}"));
        match state {
            State::Failed => {
                Answer::new("ApplyFailed", format!("the cluster's agent cannot apply it{why}"))
                    .advising("mend the manifest in Git, or what the agent says is in its way")
            }
            State::Degraded => Answer::new("Degraded", format!("it is applied, but degraded{why}")),
            State::Progressing => Answer::new(
                "Progressing",
                format!("it is applied, and not all of it is there yet{why}"),
            ),
            State::Pending => self.pending(tree),
            State::Deleting => Answer::new("Deleting", "it is being deleted"),
            State::Applied | State::Available | State::Complete => Answer {
                there: true,
                ..Answer::new(&capital(state), format!("it is on the cluster: {state}"))
            },
            State::Frozen | State::Held | State::Suspended => {
                Answer::new(&capital(state), format!("it is {state}{why}"))
            }
        }
    }

    fn pending(&self, tree: &WorkTree) -> Answer {
        let seen = tree.conditions.iter().any(|condition| condition.kind == "Applied");
        let message = if seen {
            "the hub has it, and the cluster's agent has not yet acted on what it is now"
        } else {
            "the hub has it, and no agent of the cluster has taken it up"
        };
        let advice = format!(
            "if it stays so, see whether the work agent runs on {} and reaches the hub",
            self.key.cluster
        );
        Answer::new("AgentPending", message).advising(advice)
    }

    /// What is said of the first object that is not as it should be.
    fn wrong(&self, tree: &WorkTree) -> Option<String> {
        let object = tree.objects.iter().find(|object| object.message.is_some())?;
        Some(format!("{object}: {}", object.message.as_deref()?))
    }
}

/// As a reason: `Available`.
fn capital(state: State) -> String {
    let mut name = state.as_str().to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    name
}
