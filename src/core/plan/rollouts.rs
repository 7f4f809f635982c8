//! Works that wait for the wave of their cluster, and what the record of a source keeps of a
//! rollout. [`crate::sync::rollouts`] finds them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::approval::{Approval, RolloutApproval};
use crate::model::digest::Digest;
use crate::model::name::{ClusterName, CommitId, GroupName, SourceId, WorkKey};
use crate::plan::guard::Guard;
use crate::rollout::Gate;
use crate::rollout::rules::REST;

/// The works that must not be changed now, because their cluster waits for its wave. Nearly all of
/// them can wait: they are made and compared by cluster, without a look at each work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolloutWaits(Arc<BTreeMap<ClusterName, Vec<WaitingWorks>>>);

/// Works of one group that wait on one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingWorks {
    /// Those in Git, sorted.
    pub works: Arc<Vec<WorkKey>>,
    /// Those that only the hub has.
    pub removed: Vec<WorkKey>,
    /// What they wait for.
    pub wait: Arc<RolloutWait>,
}

impl RolloutWaits {
    /// The works that wait, by cluster.
    pub fn new(clusters: BTreeMap<ClusterName, Vec<WaitingWorks>>) -> Self {
        Self(Arc::new(clusters))
    }

    /// The works that wait, by cluster.
    pub fn clusters(&self) -> &BTreeMap<ClusterName, Vec<WaitingWorks>> {
        &self.0
    }

    /// What a work waits for.
    pub fn of(&self, key: &WorkKey) -> Option<&Arc<RolloutWait>> {
        let has_work = |waiting: &&WaitingWorks| {
            waiting.works.binary_search(key).is_ok() || waiting.removed.contains(key)
        };
        self.0.get(&key.cluster)?.iter().find(has_work).map(|waiting| &waiting.wait)
    }
}

/// Why a cluster does not get the content of a group yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutWait {
    /// The group.
    pub group: GroupName,
    /// The wave of the cluster.
    pub wave: String,
    /// What the cluster waits for.
    pub cause: RolloutWaitCause,
    /// The approval that ends the wait, if one does, and its hash.
    pub approval: Option<(Arc<Approval>, Digest)>,
}

/// What a cluster waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutWaitCause {
    /// Its turn: other clusters of its wave are in progress, or a wave before has not ended.
    Turn {
        /// The wave before; `None` for its own.
        behind: Option<String>,
        /// What that wave waits for, beside its clusters.
        gate: Option<Gate>,
    },
    /// The window of its wave, which opens then, if that is known.
    Window(Option<Timestamp>),
    /// Somebody has to approve the wave.
    Approval(RolloutApproval),
    /// Too many clusters have failed.
    Stopped {
        /// The wave in which they have failed.
        wave: String,
        /// Some of the clusters.
        clusters: BTreeSet<ClusterName>,
        /// Lets the rollout continue.
        retry: RolloutApproval,
        /// Clusters that got the content get that of this commit back.
        returns_to: Option<CommitId>,
    },
    /// An operator has paused the rollout.
    Paused,
    /// A work of the group could not be read for the cluster, or it is unknown whether the cluster
    /// is in the group or in which wave.
    Blocked,
    /// It is unknown which clusters are in the group.
    MembersUnknown,
    /// Somebody has to confirm that the hub was restored, with this approval.
    Restored(Arc<Approval>),
    /// The record of the source has no room for another rollout.
    RecordFull,
}

/// What the record keeps of the last rollout of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRecord {
    /// The content that is rolled out.
    pub content: Digest,
    /// The last wave that has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<String>,
    /// Too many clusters have failed: the content is not rolled out further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<RejectedContent>,
    /// How often the rollout continued after that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// Clusters that had failed before it continued: they do not count again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub excused: BTreeSet<ClusterName>,
    /// Clusters where the content before failed: they come first in their waves.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub first: BTreeSet<ClusterName>,
    /// The content that was last rolled out to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good: Option<Digest>,
    /// A commit that has this content, the last good one, and each that a cluster has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub commits: BTreeMap<Digest, CommitId>,
}

/// Where a content failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RejectedContent {
    /// The wave.
    pub wave: String,
    /// The clusters, at most `limits::ROLLOUT_CLUSTERS_MAX`.
    pub clusters: BTreeSet<ClusterName>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl GroupRecord {
    /// Nothing of the content has been rolled out.
    pub fn new(content: Digest) -> Self {
        Self {
            content,
            begun: None,
            rejected: None,
            retries: 0,
            excused: BTreeSet::new(),
            first: BTreeSet::new(),
            last_good: None,
            commits: BTreeMap::new(),
        }
    }

    /// The record of a content that follows this one.
    pub fn followed_by(&self, content: Digest) -> Self {
        let failed = self.rejected.as_ref().map(|rejected| rejected.clusters.clone());
        Self {
            first: failed.unwrap_or_else(|| self.first.clone()),
            last_good: self.last_good,
            commits: self.commits.clone(),
            ..Self::new(content)
        }
    }

    /// The number of the next retry, and of what may be asked for before it.
    pub fn attempt(&self) -> u32 {
        self.retries.saturating_add(1)
    }
}

impl RolloutWait {
    /// A wait of the clusters of one wave.
    pub fn new(group: GroupName, wave: String, cause: RolloutWaitCause, source: &SourceId) -> Self {
        let step = |step: &RolloutApproval| {
            Arc::new(Approval::Rollout { source: source.clone(), step: step.clone() })
        };
        let approval = match &cause {
            RolloutWaitCause::Approval(wave) => Some(step(wave)),
            RolloutWaitCause::Stopped { retry, .. } => Some(step(retry)),
            // Without deletions that are held, nothing else names it.
            RolloutWaitCause::Restored(approval) => Some(approval.clone()),
            _ => None,
        };
        let approval = approval.map(|approval| {
            let hash = approval.hash();
            (approval, hash)
        });
        Self { group, wave, cause, approval }
    }

    /// The guard that makes it wait.
    pub fn guard(&self) -> Guard {
        match self.cause {
            RolloutWaitCause::Restored(_) => Guard::Restore,
            _ => Guard::Rollout,
        }
    }

    /// Whether somebody has to act.
    pub fn is_held(&self) -> bool {
        !matches!(self.cause, RolloutWaitCause::Turn { .. } | RolloutWaitCause::Window(_))
    }
}

/// What an operator may ask for in the rollout of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutControl {
    /// The group.
    pub group: GroupName,
    /// The content that is rolled out.
    pub content: Digest,
    /// The names of the waves.
    pub waves: Vec<String>,
    /// All clusters have the content.
    pub has_ended: bool,
    /// Somebody, or a failure, has stopped it.
    pub is_stopped: bool,
    /// Somebody has paused it.
    pub is_paused: bool,
    /// A content that clusters can get back.
    pub has_last_good: bool,
    /// The wave that waits for an approval.
    pub waiting_wave: Option<String>,
    /// How often it continued after it was stopped, with the next time.
    pub attempt: u32,
    /// The number of the last pause, or 0.
    pub pauses: u32,
}

/// Says what a wave waits for, beside its clusters.
fn write_gate(f: &mut fmt::Formatter<'_>, gate: Option<Gate>) -> fmt::Result {
    match gate {
        Some(Gate::Approval) => f.write_str(", and nobody has approved it"),
        Some(Gate::Window(until)) => {
            f.write_str(", and its window ")?;
            write_opening(f, until)
        }
        None => Ok(()),
    }
}

/// Says when a window opens.
fn write_opening(f: &mut fmt::Formatter<'_>, until: Option<Timestamp>) -> fmt::Result {
    match until {
        Some(until) => write!(f, "opens at {until}"),
        None => f.write_str("does not open within a year, or has an unknown time zone"),
    }
}

/// A wave as sentences name it.
pub(super) fn wave_text(name: &str) -> String {
    if name == REST { "the last wave".to_owned() } else { format!("wave {name}") }
}

impl fmt::Display for RolloutWait {
    /// The fact, without the remedy; reads after "changed in Git; ".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, wave, cause, approval: _ } = self;
        let wave = wave_text(wave);
        match cause {
            RolloutWaitCause::Turn { behind: None, .. } => {
                write!(f, "waits for its turn in {wave} of group {group}")
            }
            RolloutWaitCause::Turn { behind: Some(before), gate } => {
                let before = wave_text(before);
                write!(f, "waits for {wave} of group {group}; {before} has not ended")?;
                write_gate(f, *gate)
            }
            RolloutWaitCause::Window(until) => {
                write!(f, "waits for {wave} of group {group}, whose window ")?;
                write_opening(f, *until)
            }
            RolloutWaitCause::Approval(_) => {
                write!(f, "waits for {wave} of group {group}, which nobody has approved")
            }
            RolloutWaitCause::Paused => {
                write!(f, "waits for {wave} of group {group}, whose rollout is paused")
            }
            RolloutWaitCause::Stopped { wave: failed, clusters, returns_to, .. } => {
                let names: Vec<&str> = clusters.iter().take(3).map(ClusterName::as_str).collect();
                let more = clusters.len().saturating_sub(names.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let (failed, names) = (wave_text(failed), names.join(", "));
                match clusters.is_empty() {
                    true => write!(f, "an operator has stopped the rollout of group {group}")?,
                    false => write!(
                        f,
                        "the rollout of group {group} was stopped: in {failed}, it failed on \
                         {names}{more}"
                    )?,
                }
                let Some(commit) = returns_to else { return Ok(()) };
                write!(f, "; clusters that got it get that of commit {} back", commit.short())
            }
            RolloutWaitCause::Blocked => write!(
                f,
                "its cluster gets nothing of group {group}: a work of the group cannot be read for \
                 it, or facts do not say whether it is in {wave}"
            ),
            RolloutWaitCause::MembersUnknown => write!(
                f,
                "{wave} of group {group} waits until it is known which clusters are in the group"
            ),
            RolloutWaitCause::Restored(_) => write!(
                f,
                "{wave} of group {group} waits until somebody confirms that the hub was restored"
            ),
            RolloutWaitCause::RecordFull => write!(
                f,
                "the rollout of group {group} cannot begin: the source's record on the hub has no \
                 room for another one until others have ended"
            ),
        }
    }
}
