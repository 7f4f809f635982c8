//! Why a step is in a plan.

use std::fmt;
use std::sync::Arc;

use crate::config::AdoptionPolicy;
use crate::config::window::Closed;
use crate::model::approval::{Approval, Rewind};
use crate::model::digest::Digest;
use crate::model::name::{ClusterName, CommitId, WorkKey, WorkName};
use crate::model::work::DeletionPolicy;
use crate::plan::awaited::{AwaitedState, UPDATE_WAIT_MAX};
use crate::plan::budget::Excess;
use crate::plan::conflicting_manager::ConflictingManager;
use crate::plan::directives::Suspension;
use crate::plan::drift_backoff::Contention;
use crate::plan::guard::Guard;
use crate::plan::member_changes::first_names;
use crate::plan::moves::{MoveProgress, ObjectMove};
use crate::plan::name_holder::NameHolder;
use crate::plan::rollouts::RolloutWait;

/// Why a step is in the plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// Git has it, and the hub does not.
    NewInGit,
    /// The hub has what gitwork wrote, and Git has changed since.
    ChangedInGit,
    /// The hub does not have what gitwork wrote: another writer edited it.
    EditedOnHub {
        /// The field manager that edited it.
        by: Option<Arc<ConflictingManager>>,
    },
    /// The annotation `gitwork.dev/adopt` allows the adoption.
    AdoptionAllowed {
        /// The source that had it; `None` if it had none.
        owner: Option<Arc<str>>,
    },
    /// It had no owner, its spec is what Git wants, and the operator lets the source adopt such
    /// works.
    AdoptedUnowned,
    /// Git removed it.
    RemovedFromGit {
        /// The commit that removed it, if known.
        by: Option<CommitId>,
    },
    /// Git removed it, and its final deleteOption differs from the hub's: that is written first.
    DeleteOptionFirst {
        /// On the hub.
        hub: DeletionPolicy,
        /// In Git's last commit that had the work.
        git: DeletionPolicy,
    },
    /// Git removed it with `prune: false`: it is released.
    PruneOff {
        /// The commit that removed it, if known.
        by: Option<CommitId>,
    },
    /// Objects move from it to another work, or to it: it differs from Git until they have.
    MovesObjects {
        /// The moves; those that somebody has to act on come first.
        moves: Arc<[ObjectMove]>,
    },
    /// Git no longer has the ManifestWorkReplicaSet, and its objects move to other works.
    ReplicaSetGives {
        /// The clusters where these works do not own the objects yet.
        waiting: Arc<[ClusterName]>,
    },
    // Below here: nothing is done.
    /// Git no longer has the ManifestWorkReplicaSet. Its ManifestWorks must be read before it is
    /// known whether their objects move.
    UnreadReplicaSet,
    /// The hub has what Git wants.
    UpToDate,
    /// Git removed it. The agent has not yet observed the generation with its deleteOption.
    WaitingForAgent {
        /// `metadata.generation` of the work.
        generation: i64,
    },
    /// Git removed it with `prune: false`. Objects have left it, and the agent has not yet observed
    /// the generation without them.
    WaitingToRelease {
        /// `metadata.generation` of the work.
        generation: i64,
    },
    /// Git removed it and keeps some of its objects, and the agent has not orphaned all of them.
    NotYetOrphaned {
        /// `metadata.generation` of the work.
        generation: i64,
        /// The work is Complete, so its agent never will. Otherwise the agent failed to apply the
        /// generation.
        complete: bool,
    },
    /// It is to own some of its objects no longer. The agent has not removed them from another work
    /// yet, and would delete them. So it goes on owning them; other changes are written.
    SharesObjects {
        /// The other work.
        work: WorkName,
        /// The other work is Complete, so its agent does nothing more for it.
        complete: bool,
    },
    /// It is changed once another work, which it depends on or which depends on it, has got so far.
    WaitsForWork {
        /// The other work.
        work: WorkKey,
        /// What it lacks.
        awaited: AwaitedState,
    },
    /// It waits for the wave of its cluster.
    WaitsForWave {
        /// What the cluster waits for.
        wait: Arc<RolloutWait>,
    },
    /// The wave of its cluster does not begin until somebody acts.
    HeldByRollout {
        /// What the cluster waits for.
        wait: Arc<RolloutWait>,
    },
    /// The hub has what Git wants of it. Only its mark is written, because something else of its
    /// group has changed.
    GroupChanged,
    /// It has the source's label, and Git's history does not have it.
    NeverInGit,
    /// The hub is deleting it.
    BeingDeleted {
        /// Git has it: it is created again afterwards.
        wanted: bool,
    },
    /// A work of another owner has the name.
    Conflict {
        /// The source that owns it; `None` if no gitwork does.
        owner: Option<Arc<str>>,
        /// What has the name.
        holder: NameHolder,
    },
    /// The hub changed gitwork's last write, and Git still wants the same: an older CRD drops a
    /// field, or an admission webhook changes one. Writing it again would change nothing.
    ChangedByServer,
    /// Another writer changes it again after each put-back. The next one waits.
    BackedOff {
        /// Who, how often, and how long the wait is.
        contention: Arc<Contention>,
    },
    /// Git's state of it could not be read.
    Frozen,
    /// On the hub it is a work of a group, and it is unknown whether its cluster is still in it.
    UnknownMembership,
    /// Suspended in Git.
    Suspended,
    /// The plan would delete more than its budget, and nobody has approved it.
    HeldByBudget {
        /// The uid of the work: an approval is for this object, not for another of its name.
        uid: String,
        /// The hash of all held deletions of the plan.
        hash: Digest,
        /// Their number.
        works: usize,
        /// The bound that the plan exceeds.
        excess: Arc<Excess>,
    },
    /// Created and marked while deletions were held. The hold has ended; the marker is removed.
    DeletesNoLongerHeld,
    /// An operator has suspended it on the hub.
    SuspendedOnHub {
        /// Who, when and why.
        suspension: Arc<Suspension>,
    },
    /// Git's head does not build on the applied commits, and nobody has approved it.
    HeldByRewind {
        /// The commits.
        rewind: Arc<Rewind>,
        /// The hash of its approval.
        hash: Digest,
    },
    /// The hub was restored from a backup, and nobody has approved deletions since.
    HeldByRestore {
        /// The approval that allows them.
        approval: Arc<Approval>,
        /// Its hash.
        hash: Digest,
    },
    /// The source has another origin on the hub, and nobody has approved the change.
    HeldByOrigin {
        /// The approval that allows it.
        approval: Arc<Approval>,
        /// Its hash.
        hash: Digest,
    },
    /// No change window is open.
    HeldByWindow {
        /// The digest of the content to write, or the uid of the work to remove.
        version: String,
        /// The hash of all changes that the window holds.
        hash: Digest,
        /// Until when, as far as known.
        closed: Arc<Closed>,
    },
}

impl Reason {
    /// Why the wave of a work's cluster does not begin.
    pub(super) fn of_wave(wait: &Arc<RolloutWait>) -> Self {
        let wait = wait.clone();
        if wait.is_held() { Self::HeldByRollout { wait } } else { Self::WaitsForWave { wait } }
    }

    /// The code of a work that another writer keeps changing. Reports use it also while the work
    /// is up to date.
    pub const BACKED_OFF: &'static str = "BackedOff";
    /// The code of a work that takes part in a move. The hub alone does not show it.
    pub const MOVES_OBJECTS: &'static str = "MovesObjects";

    /// A stable word for machines: JSON output and metric labels.
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
            Self::MovesObjects { .. } => Self::MOVES_OBJECTS,
            Self::ReplicaSetGives { .. } => "ReplicaSetGives",
            Self::UnreadReplicaSet => "UnreadReplicaSet",
            Self::UpToDate => "UpToDate",
            Self::WaitingForAgent { .. } => "WaitingForAgent",
            Self::WaitingToRelease { .. } => "WaitingToRelease",
            Self::NotYetOrphaned { .. } => "NotYetOrphaned",
            Self::SharesObjects { .. } => "SharesObjects",
            Self::WaitsForWork { .. } => "WaitsForWork",
            Self::WaitsForWave { .. } => "WaitsForWave",
            Self::HeldByRollout { .. } => "HeldByRollout",
            Self::GroupChanged => "GroupChanged",
            Self::NeverInGit => "NeverInGit",
            Self::BeingDeleted { .. } => "BeingDeleted",
            Self::Conflict { .. } => "Conflict",
            Self::ChangedByServer => "ChangedByServer",
            Self::BackedOff { .. } => Self::BACKED_OFF,
            Self::Frozen => "Frozen",
            Self::UnknownMembership => "UnknownMembership",
            Self::Suspended => "Suspended",
            Self::HeldByBudget { .. } => "HeldByBudget",
            Self::DeletesNoLongerHeld => "DeletesNoLongerHeld",
            Self::SuspendedOnHub { .. } => "SuspendedOnHub",
            Self::HeldByRewind { .. } => "HeldByRewind",
            Self::HeldByRestore { .. } => "HeldByRestore",
            Self::HeldByOrigin { .. } => "HeldByOrigin",
            Self::HeldByWindow { .. } => "HeldByWindow",
        }
    }

    /// The guard that holds the step.
    pub fn guard(&self) -> Option<Guard> {
        match self {
            Self::HeldByOrigin { .. } => Some(Guard::Origin),
            Self::HeldByBudget { .. } => Some(Guard::Budget),
            Self::HeldByRewind { .. } => Some(Guard::Rewind),
            Self::HeldByRestore { .. } => Some(Guard::Restore),
            Self::HeldByWindow { .. } => Some(Guard::Window),
            Self::HeldByRollout { wait } => Some(wait.guard()),
            Self::SuspendedOnHub { .. } | Self::Suspended => Some(Guard::Suspension),
            _ => None,
        }
    }

    /// Whether somebody wants it so: only a suspension holds the work, or objects that move between
    /// it and another work.
    pub fn is_suspension(&self) -> bool {
        let Self::MovesObjects { moves } = self else {
            return self.guard() == Some(Guard::Suspension);
        };
        let mut held = moves.iter().map(|one| &one.progress).filter(|one| one.is_held()).peekable();
        held.peek().is_some() && held.all(|one| matches!(one, MoveProgress::Suspended { .. }))
    }

    /// Why a guard holds, without the remedy.
    pub(super) fn cause(&self) -> Option<String> {
        match self {
            Self::HeldByRewind { rewind, .. } => Some(rewind_text(rewind)),
            Self::HeldByRestore { .. } => Some(
                "the hub was restored from a backup, so it may have works that Git once deleted"
                    .into(),
            ),
            Self::HeldByOrigin { approval, .. } => origin_text(approval),
            Self::HeldByWindow { closed, .. } => Some(closed.to_string()),
            Self::HeldByRollout { wait } => Some(wait.to_string()),
            _ => None,
        }
    }
}

fn origin_text(approval: &Approval) -> Option<String> {
    let Approval::Origin { source, from, to } = approval else { return None };
    Some(format!("source {source} on this hub belongs to {from}, and this gitwork reads {to}"))
}

fn rewind_text(rewind: &Rewind) -> String {
    let some: Vec<String> = rewind.from.iter().take(3).map(CommitId::short).collect();
    let more = rewind.from.len().saturating_sub(some.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let from = some.join(", ");
    format!("commit {} does not build on {from}{more}, which the hub has", rewind.to.short())
}

impl fmt::Display for Reason {
    /// One line for people: the fact and, if somebody has to act, what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.guard().is_some() {
            return self.write_held(f);
        }
        if self.is_about_removal() {
            return self.write_removal(f);
        }
        match self {
            Self::NewInGit => f.write_str("new in Git"),
            Self::ChangedInGit => f.write_str("changed in Git"),
            Self::EditedOnHub { by } => {
                f.write_str("edited on the hub")?;
                if let Some(by) = by.as_ref().filter(|by| ***by != ConflictingManager::Unknown) {
                    write!(f, " by {by}")?;
                }
                f.write_str("; put back to what Git has")
            }
            Self::AdoptionAllowed { owner } => {
                let owner = owner_text(owner);
                write!(f, "adopted from {owner}, as its annotation gitwork.dev/adopt allows")
            }
            Self::AdoptedUnowned => f.write_str(
                "adopted: it had no owner and exactly this spec, and the source has \
                 `adopt: unowned`",
            ),
            Self::Conflict { owner, holder } => write_conflict(f, owner, *holder),
            Self::ChangedByServer => f.write_str(
                "the hub has changed what gitwork wrote: its ManifestWork CRD drops a field, or \
                 an admission webhook changes one; compare the work with `gitwork render`, then \
                 fix the hub or the work",
            ),
            Self::BackedOff { contention } => write!(f, "not put back yet: {contention}"),
            Self::MovesObjects { moves } => write_moves(f, moves),
            Self::ReplicaSetGives { waiting } => write_given_set(f, waiting),
            Self::UnreadReplicaSet => {
                f.write_str("removed from Git; its ManifestWorks are read from the hub first")
            }
            Self::Frozen => f.write_str("kept as it is: its files in Git could not be read"),
            Self::UnknownMembership => f.write_str(
                "kept as it is: it is unknown whether the cluster is in the group of the work",
            ),
            Self::DeletesNoLongerHeld => f.write_str(
                "created while deletions were held; the hold has ended, and its marker is removed",
            ),
            Self::SharesObjects { work, complete } => write_sharing(f, work, *complete),
            Self::WaitsForWork { work, awaited } => write_wait(f, work, *awaited),
            Self::WaitsForWave { wait } => write!(f, "changed in Git; {wait}"),
            Self::GroupChanged => f.write_str(
                "as in Git; its mark is written, because something else of its group has changed",
            ),
            _ => f.write_str("up to date"),
        }
    }
}

fn write_sharing(f: &mut fmt::Formatter<'_>, work: &WorkName, complete: bool) -> fmt::Result {
    write!(
        f,
        "orphans or only reads objects in Git that the cluster's agent has not removed from {work} \
         yet; it owns these until then"
    )?;
    match complete {
        true => write!(f, ", and for {work} the agent does nothing more, as that work is Complete"),
        false => Ok(()),
    }
}

fn write_wait(f: &mut fmt::Formatter<'_>, work: &WorkKey, awaited: AwaitedState) -> fmt::Result {
    let change = match awaited {
        AwaitedState::Gone => "removed from Git",
        AwaitedState::Tried => "changed in Git",
        _ => "new in Git",
    };
    write!(f, "{change}; waits for {work}, {awaited}")?;
    if awaited == AwaitedState::Tried {
        write!(f, "; for {} minutes at most", UPDATE_WAIT_MAX.as_secs() / 60)?;
    }
    Ok(())
}

impl Reason {
    /// Whether an update waits for that of another work.
    pub(super) fn is_wait_for_update(&self) -> bool {
        matches!(self, Self::WaitsForWork { awaited: AwaitedState::Tried, .. })
    }

    fn is_about_removal(&self) -> bool {
        matches!(
            self,
            Self::RemovedFromGit { .. }
                | Self::DeleteOptionFirst { .. }
                | Self::PruneOff { .. }
                | Self::WaitingForAgent { .. }
                | Self::WaitingToRelease { .. }
                | Self::NotYetOrphaned { .. }
                | Self::NeverInGit
                | Self::BeingDeleted { .. }
        )
    }

    fn write_held(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = self.cause().unwrap_or_default();
        match self {
            Self::HeldByBudget { hash, works, excess, .. } => write!(
                f,
                "removed from Git; held with all {works} deletions of this plan: {excess}; check \
                 the source's ref and path, or approve only these deletions with \
                 `gitwork approve {hash}`"
            ),
            Self::SuspendedOnHub { suspension } => {
                write!(f, "suspended on the hub by {suspension}; `gitwork resume` ends it")
            }
            Self::HeldByRewind { hash, .. } | Self::HeldByRestore { hash, .. } => {
                write!(f, "held: {cause}; if you mean it: `gitwork approve {hash}`")
            }
            Self::HeldByOrigin { hash, .. } => write!(
                f,
                "held: {cause}; if the repository has moved: `gitwork approve {hash}`; else give \
                 this source an id of its own with --source-id"
            ),
            Self::HeldByWindow { hash, .. } => write!(
                f,
                "held: {cause}; to approve only these changes now: `gitwork approve {hash}`"
            ),
            Self::HeldByRollout { wait } => match &wait.approval {
                Some((_, hash)) => write!(f, "held: {cause}; `gitwork approve {hash}` ends that"),
                None => write!(f, "held: {cause}"),
            },
            _ => f.write_str("suspended in Git"),
        }
    }

    fn write_removal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RemovedFromGit { by } => write!(f, "removed from Git{}", by_text(by)),
            Self::DeleteOptionFirst { hub, git } => write!(
                f,
                "removed from Git with deleteOption {}, the hub has {}: the option is written \
                 first, and the work deleted once its agent has seen it",
                git.policy(),
                hub.policy()
            ),
            Self::PruneOff { by } => write!(
                f,
                "removed from Git{} with `prune: false`: released, and stays on the hub",
                by_text(by)
            ),
            Self::WaitingForAgent { generation } => write!(
                f,
                "removed from Git; deleted once the cluster's agent has seen generation \
                 {generation} with its deleteOption"
            ),
            Self::WaitingToRelease { generation } => write!(
                f,
                "removed from Git with `prune: false`; released once the cluster's agent has seen \
                 generation {generation}, which some objects have left"
            ),
            Self::NotYetOrphaned { generation, complete: false } => write!(
                f,
                "removed from Git; not deleted, because the agent failed to apply generation \
                 {generation}, and objects that the deleteOption keeps could be deleted with it: \
                 fix what the work's status reports, or delete the ManifestWork by hand"
            ),
            Self::NotYetOrphaned { generation, complete: true } => write!(
                f,
                "removed from Git; not deleted, because the work is Complete and its agent never \
                 acts on the deleteOption of generation {generation}: objects that it keeps would \
                 be deleted; delete the ManifestWork by hand if you mean it"
            ),
            Self::NeverInGit => f.write_str(
                "not deleted: it has the label of this source, and Git's history has no such \
                 work, so another client set the label, or the history was rewritten; remove the \
                 label gitwork.dev/source, or delete the ManifestWork by hand if Git had it once",
            ),
            Self::BeingDeleted { wanted: true } => {
                f.write_str("being deleted on the hub; created again after that")
            }
            _ => f.write_str("being deleted on the hub"),
        }
    }
}

fn write_conflict(
    f: &mut fmt::Formatter<'_>,
    owner: &Option<Arc<str>>,
    holder: NameHolder,
) -> fmt::Result {
    let owner = owner_text(owner);
    match holder {
        NameHolder::Work { adoption } => {
            write!(f, "the name is taken by a ManifestWork of {owner}; rename the work")?;
            f.write_str(match adoption {
                AdoptionPolicy::Never => ": the source has `adopt: never`",
                AdoptionPolicy::Annotated | AdoptionPolicy::Unowned => {
                    ", or allow the adoption: annotate that ManifestWork with \
                     gitwork.dev/adopt=<this source's id>"
                }
            })
        }
        NameHolder::WorkOfReplicaSet => f.write_str(
            "the name is taken by a ManifestWork of a ManifestWorkReplicaSet; rename the work",
        ),
        NameHolder::ReplicaSet => {
            write!(f, "the name is taken by a ManifestWorkReplicaSet of {owner}; rename the work")
        }
    }
}

fn write_given_set(f: &mut fmt::Formatter<'_>, waiting: &[ClusterName]) -> fmt::Result {
    const SHOWN: usize = 3;
    f.write_str("removed from Git; its objects move to other works of the clusters")?;
    if waiting.is_empty() {
        return f.write_str(", which own them now");
    }
    write!(f, ", and these do not own them yet on {}", first_names(waiting.iter(), SHOWN))
}

/// The first moves; the others are counted.
fn write_moves(f: &mut fmt::Formatter<'_>, moves: &[ObjectMove]) -> fmt::Result {
    const SHOWN: usize = 3;
    for (index, one) in moves.iter().take(SHOWN).enumerate() {
        let separator = if index > 0 { "; " } else { "" };
        write!(f, "{separator}{one}")?;
    }
    match moves.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => write!(f, "; and {more} more"),
    }
}

fn by_text(commit: &Option<CommitId>) -> String {
    commit.map_or_else(String::new, |commit| format!(" by commit {}", commit.short()))
}

fn owner_text(owner: &Option<Arc<str>>) -> String {
    owner.as_ref().map_or_else(
        || "an owner other than gitwork".to_owned(),
        |owner| format!("the source {owner:?}"),
    )
}
