//! `(desired, observed, departed, policy) -> plan`: what is to be done on the hub, and why. Pure.
//!
//! A plan is a value: each step names its work, what to do with its precondition, and the reason. No choice is
//! left to whoever executes it.
//!
//! What always holds, and `tests/simulation` checks over random worlds: no step touches a work that is not of the
//! source; a deletion is one that Git asked for; executing a plan and planning again comes to rest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::adoption::Adoption;
use super::approval::{Approval, Approvals, Approved, Rewind, Target};
use super::budget::Excess;
use super::config::Budgets;
use super::digest::Digest;
use super::directives::{Suspension, Suspensions};
use super::fight::{Contest, Contests};
use super::name::{CommitId, RepoPath, SourceId, WorkKey};
use super::rival::Rival;
use super::window::Closed;
use super::work::{DeleteOption, WorkBody};

mod decide;
mod guards;
mod hold;
mod print;
mod summary;
#[cfg(test)]
mod tests;

pub use decide::{departed_candidates, plan};
pub use print::{Remarks, markdown, text};
pub use summary::{Action, Counts, StepSummary, Summary};

/// What Git last said of a work that it no longer has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastStood {
    /// The commit that removed it.
    pub removed_by: Option<CommitId>,
    pub delete_option: DeleteOption,
    pub prune: bool,
    /// What gitwork.yaml said of budgets then: the commit that removes a work cannot loosen them for itself.
    pub budgets: Option<Budgets>,
    /// The works that Git has now and did not have beside it; `None` where that is not known.
    pub brought: Option<Arc<BTreeSet<WorkKey>>>,
}

/// Git's last word on works that the hub has and Git does not. A work that is missing here has no known
/// history: the hub's own deleteOption and prune stand.
pub type Departed = BTreeMap<WorkKey, LastStood>;

/// What an operator has allowed, and what else holds effects back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Which works of others are taken over.
    pub adoption: Adoption,
    /// A pass may delete every work that the hub has of the source, whatever the budgets.
    pub allow_delete_all: bool,
    /// The operator's budgets.
    pub budgets: Budgets,
    /// The repository's budgets as of the last commit that left no deletion held, where that is known.
    pub budgets_before: Option<Budgets>,
    /// What was approved on the hub.
    pub approved: Approvals,
    /// What operators have suspended on the hub.
    pub suspensions: Suspensions,
    /// Applied commits that Git's head leaves behind, where that is to be held and nobody has approved of it.
    pub held_rewind: Option<Arc<Rewind>>,
    /// What confirms that the hub may be pruned after it was restored from a backup; `None` where it was not.
    pub restored: Option<Arc<Approval>>,
    /// No window is open for changes.
    pub closed: Option<Closed>,
    /// Works that somebody else keeps changing.
    pub contests: Contests,
}

/// Deletions that wait for approval, all of one plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// What to approve.
    pub hash: Digest,
    pub works: Approved,
    pub excess: Excess,
}

/// What keeps steps of a plan back until somebody approves, or time goes by.
#[derive(Debug, Clone, PartialEq)]
pub struct Hold {
    /// What would let it through; its hash is what `gitwork approve` takes.
    pub approval: Approval,
    pub guard: Guard,
    /// How many works it keeps back.
    pub works: usize,
    /// Why, for people.
    pub reason: String,
}

/// What holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guard {
    Budget,
    Rewind,
    Restore,
    Window,
    Suspension,
}

impl Guard {
    pub const ALL: [Guard; 5] =
        [Self::Budget, Self::Rewind, Self::Restore, Self::Window, Self::Suspension];

    /// In one word, as metrics and outputs have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Rewind => "rewind",
            Self::Restore => "restore",
            Self::Window => "window",
            Self::Suspension => "suspension",
        }
    }
}

/// What a rewrite of labels and annotations has to know of those that are there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetadataChange {
    /// Labels that gitwork once set and Git no longer has.
    pub remove_labels: BTreeSet<String>,
    /// As `remove_labels`, for annotations.
    pub remove_annotations: BTreeSet<String>,
    /// `metadata.labels` is not there at all; a JSON Patch cannot add a key to it then.
    pub labels_absent: bool,
    /// As `labels_absent`, for annotations.
    pub annotations_absent: bool,
}

/// One thing to do to one ManifestWork. No choice is left for the executor.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Create; fails where the name is taken.
    Create { body: Arc<WorkBody> },
    /// Replace spec and our labels and annotations, if the hub still has `resource_version`.
    Update { body: Arc<WorkBody>, resource_version: String, metadata: MetadataChange },
    /// As `Update`, for a foreign work whose operator has consented.
    Adopt { body: Arc<WorkBody>, resource_version: String, metadata: MetadataChange },
    /// Write just this deleteOption ahead of a deletion.
    SetDeleteOption { delete_option: DeleteOption, resource_version: String },
    /// Delete, if it is still this object in this state.
    Delete { uid: String, resource_version: String },
    /// Take our labels and annotations off and leave the rest.
    Release { resource_version: String },
}

/// One line of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub key: WorkKey,
    /// The work folder, where Git has or had one.
    pub path: Option<RepoPath>,
    /// `None`: nothing is done now; the reason says why.
    pub effect: Option<Effect>,
    pub reason: Reason,
}

/// Why a step is in the plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// Git has it, the hub does not, and never had it from this source as far as we know.
    NewInGit,
    /// What the hub has is what gitwork wrote, and Git has moved on.
    ChangedInGit,
    /// What the hub has is not what gitwork wrote: edited by someone else.
    EditedOnHub {
        by: Option<Arc<Rival>>,
    },
    /// An operator consented to the take-over.
    AdoptionAllowed {
        owner: Option<String>,
    },
    /// Nobody owned it, its spec is what Git wants, and the operator lets the source have such works.
    AdoptedUnowned,
    /// Git dropped it.
    RemovedFromGit {
        by: Option<CommitId>,
    },
    /// Git dropped it and its last word on deleteOption differs from the hub's: that comes first.
    DeleteOptionFirst {
        hub: DeleteOption,
        git: DeleteOption,
    },
    /// Git dropped it, `prune: false`: released.
    PruneOff {
        by: Option<CommitId>,
    },
    // Below here: nothing is done.
    /// As it should be.
    UpToDate,
    /// Git dropped it; the agent has not yet seen the present generation with its deleteOption.
    WaitingForAgent {
        generation: i64,
    },
    /// Git dropped it and wants objects of it to stay, and the agent has not let go of all of them: it failed
    /// to apply the present generation, or it never will, the work being complete.
    NotYetOrphaned {
        generation: i64,
        complete: bool,
    },
    /// The hub is deleting it; it is created anew once it is gone, where Git has it.
    BeingDeleted {
        wanted: bool,
    },
    /// The name is taken by a work of another source or of no gitwork.
    Conflict {
        owner: Option<String>,
        /// The operator's word on take-overs.
        adoption: Adoption,
    },
    /// The hub made something else of what gitwork wrote last, and Git still wants just that: an older CRD drops
    /// a field, or an admission webhook changes one. Written again it would be changed again, for ever.
    StoredDifferently,
    /// Somebody else changes it again each time that it is put back, so that this waits.
    Contested {
        contest: Arc<Contest>,
    },
    /// The repository's state could not be read for it.
    Frozen,
    Suspended,
    /// The plan would delete more than its budget, and nobody has approved of it.
    HeldByBudget {
        /// Which work it is: approval is for this one, not for another of its name.
        uid: String,
        /// The hash of the plan's held deletions.
        hash: Digest,
        /// How many these are.
        works: usize,
        excess: Excess,
    },
    /// Made while deletions were held, and marked for it; they are no more, and the mark is taken off.
    DeletesNoLongerHeld,
    /// An operator has suspended it on the hub.
    SuspendedOnHub {
        suspension: Arc<Suspension>,
    },
    /// Git's head does not build on what was applied, and nobody has approved of it.
    HeldByRewind {
        rewind: Arc<Rewind>,
        hash: Digest,
    },
    /// The hub was restored from a backup, and nobody has confirmed that its works may be deleted.
    HeldByRestore {
        approval: Arc<Approval>,
        hash: Digest,
    },
    /// No window is open for changes.
    HeldByWindow {
        /// What would be written, or the uid of what would be taken away.
        version: String,
        /// The hash of all that the window holds.
        hash: Digest,
        closed: Closed,
    },
}

/// All steps, sorted by key; one for each work of desired and of this source on the hub.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub commit: Option<CommitId>,
    pub steps: Vec<Step>,
}

impl Effect {
    /// What is to stand on the hub, where the effect writes a whole work.
    pub fn body(&self) -> Option<&Arc<WorkBody>> {
        match self {
            Self::Create { body } | Self::Update { body, .. } | Self::Adopt { body, .. } => {
                Some(body)
            }
            Self::SetDeleteOption { .. } | Self::Delete { .. } | Self::Release { .. } => None,
        }
    }

    /// In one word, as metrics and logs have it.
    pub fn name(&self) -> &'static str {
        Action::of(Some(self), &Reason::UpToDate).as_str()
    }
}

impl Effect {
    /// Whether it leaves content of Git's on the hub, with the commit that it is of.
    pub fn writes_content(&self) -> bool {
        matches!(self, Self::Create { .. } | Self::Update { .. } | Self::Adopt { .. })
    }
}

impl Plan {
    /// The steps that do something, with what they do.
    pub fn effects(&self) -> impl Iterator<Item = (&Step, &Effect)> {
        self.steps.iter().filter_map(|step| Some((step, step.effect.as_ref()?)))
    }
    /// Nothing is to be done now. Works may still be held or waited for: see `is_settled`.
    pub fn is_empty(&self) -> bool {
        self.effects().next().is_none()
    }
    /// The deletions that wait for approval.
    pub fn held(&self) -> Option<Held> {
        let mut works = Approved::new();
        let mut found = None;
        for step in &self.steps {
            if let Reason::HeldByBudget { uid, hash, excess, .. } = &step.reason {
                works.insert(Target { key: step.key.clone(), uid: uid.clone() });
                found = Some((*hash, excess.clone()));
            }
        }
        found.map(|(hash, excess)| Held { hash, works, excess })
    }
    /// All that waits for approval, each thing with what would let it through. Suspensions end with `gitwork resume`.
    pub fn holds(&self, source: &SourceId) -> Vec<Hold> {
        let mut found: Vec<Hold> = Vec::new();
        let mut changes = Approved::new();
        for step in &self.steps {
            let (guard, approval) = match &step.reason {
                Reason::HeldByRewind { rewind, .. } => {
                    (Guard::Rewind, Approval::Rewind(Arc::unwrap_or_clone(rewind.clone())))
                }
                Reason::HeldByRestore { approval, .. } => {
                    (Guard::Restore, Arc::unwrap_or_clone(approval.clone()))
                }
                Reason::HeldByWindow { version, .. } => {
                    changes.insert(Target { key: step.key.clone(), uid: version.clone() });
                    let nothing = Approved::new();
                    (Guard::Window, Approval::Changes { source: source.clone(), works: nothing })
                }
                _ => continue,
            };
            match found.iter_mut().find(|hold| hold.guard == guard) {
                Some(hold) => hold.works += 1,
                None => {
                    let reason = step.reason.cause().unwrap_or_default();
                    found.push(Hold { approval, guard, works: 1, reason });
                }
            }
        }
        for hold in &mut found {
            if let Approval::Changes { works, .. } = &mut hold.approval {
                *works = std::mem::take(&mut changes);
            }
        }
        found.extend(self.held().map(|held| Hold {
            works: held.works.len(),
            reason: held.excess.to_string(),
            approval: Approval::Deletions(held.works),
            guard: Guard::Budget,
        }));
        found.sort_by_key(|hold| hold.guard);
        found
    }
    /// How many works each guard keeps back.
    pub fn held_by(&self, guard: Guard) -> usize {
        self.steps.iter().filter(|step| step.reason.guard() == Some(guard)).count()
    }
    /// The hub has what Git wants, as far as Git could be read, and nothing more.
    pub fn is_settled(&self) -> bool {
        self.steps.iter().all(Step::is_settled)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.key, self.action(), self.reason)?;
        match &self.path {
            Some(path) => write!(f, " ({path})"),
            None => Ok(()),
        }
    }
}

impl Step {
    pub fn action(&self) -> Action {
        Action::of(self.effect.as_ref(), &self.reason)
    }
    /// The work is on the hub as Git wants it.
    pub fn is_settled(&self) -> bool {
        self.effect.is_none() && self.reason == Reason::UpToDate
    }
}

impl Reason {
    /// The word for a work that somebody else keeps changing, which is told of it while it is as it should be, too.
    pub const CONTESTED: &'static str = "Contested";

    /// A stable word for machines: the JSON output and metric labels.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NewInGit => "NewInGit",
            Self::ChangedInGit => "ChangedInGit",
            Self::EditedOnHub { .. } => "EditedOnHub",
            Self::AdoptionAllowed { .. } => "AdoptionAllowed",
            Self::AdoptedUnowned => "AdoptedUnowned",
            Self::RemovedFromGit { .. } => "RemovedFromGit",
            Self::DeleteOptionFirst { .. } => "DeleteOptionFirst",
            Self::PruneOff { .. } => "PruneOff",
            Self::UpToDate => "UpToDate",
            Self::WaitingForAgent { .. } => "WaitingForAgent",
            Self::NotYetOrphaned { .. } => "NotYetOrphaned",
            Self::BeingDeleted { .. } => "BeingDeleted",
            Self::Conflict { .. } => "Conflict",
            Self::StoredDifferently => "StoredDifferently",
            Self::Contested { .. } => Self::CONTESTED,
            Self::Frozen => "Frozen",
            Self::Suspended => "Suspended",
            Self::HeldByBudget { .. } => "HeldByBudget",
            Self::DeletesNoLongerHeld => "DeletesNoLongerHeld",
            Self::SuspendedOnHub { .. } => "SuspendedOnHub",
            Self::HeldByRewind { .. } => "HeldByRewind",
            Self::HeldByRestore { .. } => "HeldByRestore",
            Self::HeldByWindow { .. } => "HeldByWindow",
        }
    }

    /// The guard that holds the step.
    pub fn guard(&self) -> Option<Guard> {
        match self {
            Self::HeldByBudget { .. } => Some(Guard::Budget),
            Self::HeldByRewind { .. } => Some(Guard::Rewind),
            Self::HeldByRestore { .. } => Some(Guard::Restore),
            Self::HeldByWindow { .. } => Some(Guard::Window),
            Self::SuspendedOnHub { .. } | Self::Suspended => Some(Guard::Suspension),
            _ => None,
        }
    }

    /// Why a guard holds, without what to do about it.
    fn cause(&self) -> Option<String> {
        match self {
            Self::HeldByRewind { rewind, .. } => Some(rewind_text(rewind)),
            Self::HeldByRestore { .. } => Some(
                "the hub was restored from a backup, so that what it has may be what Git once deleted".into(),
            ),
            Self::HeldByWindow { closed, .. } => Some(closed.to_string()),
            _ => None,
        }
    }
}

fn rewind_text(rewind: &Rewind) -> String {
    let some: Vec<String> = rewind.from.iter().take(3).map(CommitId::short).collect();
    let more = rewind.from.len().saturating_sub(some.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "commit {} does not build on {}{more}, which the hub has",
        rewind.to.short(),
        some.join(", ")
    )
}

impl fmt::Display for Reason {
    /// One line for people: what is so and, where somebody has to act, what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewInGit => f.write_str("new in Git"),
            Self::ChangedInGit => f.write_str("changed in Git"),
            Self::EditedOnHub { by } => {
                f.write_str("edited on the hub")?;
                if let Some(by) = by.as_ref().filter(|by| ***by != Rival::Unknown) {
                    write!(f, " by {by}")?;
                }
                f.write_str("; put back to what Git says")
            }
            Self::AdoptionAllowed { owner } => {
                write!(f, "taken over from {}, as its gitwork.dev/adopt annotation allows", owner_text(owner))
            }
            Self::RemovedFromGit { by } => write!(f, "removed from Git{}", by_text(by)),
            Self::DeleteOptionFirst { hub, git } => write!(
                f,
                "removed from Git with deleteOption {}, the hub has {}: the option is written first, and the work \
                 deleted once its agent has seen it",
                git.policy(),
                hub.policy()
            ),
            Self::PruneOff { by } => {
                write!(f, "removed from Git{} with `prune: false`: stays on the hub and is let go", by_text(by))
            }
            Self::UpToDate => f.write_str("up to date"),
            Self::WaitingForAgent { generation } => write!(
                f,
                "removed from Git; deleted once the cluster's agent has seen generation {generation} with its \
                 deleteOption"
            ),
            Self::NotYetOrphaned { generation, complete: false } => write!(
                f,
                "removed from Git; not deleted, because the agent failed to apply generation {generation}, and \
                 objects that the deleteOption keeps could be deleted with it: mend what the work's status \
                 reports, or delete the ManifestWork by hand"
            ),
            Self::NotYetOrphaned { generation, complete: true } => write!(
                f,
                "removed from Git; not deleted, because the work is Complete and its agent never acts on the \
                 deleteOption of generation {generation}: objects that it keeps would be deleted; delete the \
                 ManifestWork by hand if that is meant"
            ),
            Self::BeingDeleted { wanted: true } => {
                f.write_str("being deleted on the hub; created anew once it is gone")
            }
            Self::BeingDeleted { wanted: false } => f.write_str("being deleted on the hub"),
            Self::AdoptedUnowned => f.write_str(
                "taken over: nobody owned it, it has just this spec, and the source has `adopt: unowned`",
            ),
            Self::Conflict { owner, adoption: Adoption::Never } => write!(
                f,
                "the name is taken by a ManifestWork of {}; rename the work: the source has `adopt: never`",
                owner_text(owner)
            ),
            Self::Conflict { owner, .. } => write!(
                f,
                "the name is taken by a ManifestWork of {}; rename the work, or allow the take-over: \
                 annotate that ManifestWork with gitwork.dev/adopt=<this source's id>",
                owner_text(owner)
            ),
            Self::StoredDifferently => f.write_str(
                "the hub has changed what gitwork wrote: its ManifestWork CRD drops a field, or an admission \
                 webhook changes one; compare the work with `gitwork render`, then mend the hub or the work",
            ),
            Self::Contested { contest } => write!(f, "not put back yet: {contest}"),
            Self::Frozen => f.write_str("kept as it is: its files in Git could not be read"),
            Self::Suspended => f.write_str("suspended in Git"),
            Self::HeldByBudget { hash, works, excess, .. } => write!(
                f,
                "removed from Git; held with all {works} deletions of this plan: {excess}; check the source's ref and \
                 path, or let just these through with `gitwork approve {hash}`"
            ),
            Self::SuspendedOnHub { suspension } => {
                write!(f, "suspended on the hub by {suspension}; `gitwork resume` ends it")
            }
            Self::HeldByRewind { hash, .. } | Self::HeldByRestore { hash, .. } => write!(
                f,
                "held: {}; if that is meant: `gitwork approve {hash}`",
                self.cause().unwrap_or_default()
            ),
            Self::HeldByWindow { hash, .. } => write!(
                f,
                "held: {}; to let just these changes through now: `gitwork approve {hash}`",
                self.cause().unwrap_or_default()
            ),
            Self::DeletesNoLongerHeld => {
                f.write_str("made while deletions were held, which they are no more; its mark is taken off")
            }
        }
    }
}

fn by_text(commit: &Option<CommitId>) -> String {
    commit.map_or_else(String::new, |commit| format!(" by commit {}", commit.short()))
}

fn owner_text(owner: &Option<String>) -> String {
    owner.as_ref().map_or_else(
        || "somebody else than gitwork".to_owned(),
        |owner| format!("the source {owner:?}"),
    )
}
