//! One object that moves, and how far it has come.

use std::fmt;

use crate::model::manifest::Identity;
use crate::model::name::WorkKey;
use crate::model::object_digest::ObjectDigest;
use crate::plan::observed::Observed;

/// How a user gets what no move does.
pub const CREATE_AGAIN: &str =
    "remove the object in one commit and add it in the next to create it again";

/// One object that moves from one work of a cluster to another.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectMove {
    /// What identifies the object.
    pub digest: ObjectDigest,
    /// The object, with the plural of its kind as in the receiving work.
    pub object: Identity,
    /// The work that lists it on the hub.
    pub from: WorkKey,
    /// The work that has it in Git.
    pub to: WorkKey,
    /// How far the move has come.
    pub progress: MoveProgress,
}

impl ObjectMove {
    /// Whether the next write of one of both works is the first one for the object, as the hub
    /// shows them: the giving work stops to apply it, or the receiving one gets it.
    pub(crate) fn begins_with_write_of(&self, work: &WorkKey, observed: &Observed) -> bool {
        let listed =
            |work: &WorkKey| observed.works.get(work).and_then(|work| work.object(self.digest));
        match &self.progress {
            MoveProgress::Applying { .. } | MoveProgress::AwaitingReport if *work == self.to => {
                !listed(&self.from).is_some_and(|object| object.create_only)
            }
            MoveProgress::Applying { .. } | MoveProgress::AwaitingReport => {
                listed(&self.to).is_none()
            }
            MoveProgress::Orphaning { .. } => *work == self.from,
            _ => false,
        }
    }
}

/// How far a move has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MoveProgress {
    /// The content of the giving work has not been read from the hub yet.
    Unread,
    /// The giving work keeps the object until the receiving one has applied it.
    Applying {
        /// Why the agent failed to apply it, if it did.
        failure: Option<String>,
    },
    /// The receiving work owns the object. The giving one keeps it until its agent has reported the
    /// work as it is on the hub: before, the agent may own the object and not have it on record,
    /// so that it would not give it up.
    AwaitingReport,
    /// The giving work orphans the object first, because one of both works does not own it. The
    /// receiving work gets it after that.
    Orphaning {
        /// Why the agent failed to apply it, if it did.
        failure: Option<String>,
    },
    /// The giving work is to orphan the object, and other works own it, too. They give it up first:
    /// an agent deletes what the last owner orphans as long as another work is to lose it.
    Shared {
        /// The receiving work lists the object already, so the giving one must not write it.
        is_received: bool,
    },
    /// Another giving work goes on owning the object, and orphans it once no other work owns it.
    KeptByAnother,
    /// Neither work changes for this object until somebody acts.
    Held {
        /// Why, as in `shop2 is suspended in Git`.
        why: String,
    },
    /// As `Held`, while one of both works is suspended: somebody wants it so.
    Suspended {
        /// Which work, and by whom.
        why: String,
    },
    /// Git no longer has the object in the giving work, and may have it in a frozen one.
    Unreadable,
    /// Another work gets the object once the wave of its cluster begins; or the giving work has an
    /// earlier content until then, which does not have the object.
    WaitsForWave,
    /// No agent has seen the giving work, so it does not own the object.
    Unseen,
    /// The giving work has orphaned the object and no longer needs it.
    Orphaned,
    /// The receiving work owns the object, and the agent has reported the giving one.
    Applied,
}

impl MoveProgress {
    /// Whether the giving work may drop the object.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Unseen | Self::Orphaned | Self::Applied | Self::KeptByAnother)
    }

    /// Whether another work waits until the giving one no longer lists the object.
    pub fn is_awaited(&self) -> bool {
        matches!(self, Self::Orphaned | Self::KeptByAnother)
    }

    /// Whether somebody has to act before the move goes on.
    pub fn is_held(&self) -> bool {
        match self {
            Self::Held { .. } | Self::Suspended { .. } | Self::Unreadable => true,
            Self::Applying { failure } | Self::Orphaning { failure } => failure.is_some(),
            Self::Unread
            | Self::WaitsForWave
            | Self::AwaitingReport
            | Self::Shared { .. }
            | Self::Unseen
            | Self::Orphaned
            | Self::KeptByAnother
            | Self::Applied => false,
        }
    }
}

/// A work of the cluster by its name, a replica set by its whole one.
fn receiver_name(to: &WorkKey) -> String {
    match to.cluster.replica_set_namespace() {
        Some(namespace) => format!("the ManifestWorkReplicaSet {namespace}/{}", to.work),
        None => to.work.to_string(),
    }
}

impl fmt::Display for ObjectMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, progress, .. } = self;
        let (from, to) = (&self.from.work, receiver_name(&self.to));
        let held = if progress.is_held() { "held: " } else { "" };
        if *progress == MoveProgress::Unreadable {
            return write!(
                f,
                "{held}{object} is no longer in {from} in Git, and may be in {to}, whose files \
                 cannot be read; {from} keeps it until then"
            );
        }
        if *progress == MoveProgress::WaitsForWave && self.from == self.to {
            return write!(
                f,
                "{object} is not in the content that {from} has until the wave of its cluster; \
                 {from} keeps it until then"
            );
        }
        write!(f, "{held}{object} moves from {from} to {to}")?;
        match progress {
            MoveProgress::Unread => write!(f, "; {from} is read first"),
            MoveProgress::Applying { failure: None } => {
                write!(f, "; {from} keeps it until {to} has applied it")
            }
            MoveProgress::Applying { failure: Some(failure) } => {
                write!(f, ", which has not applied it: {failure}; {from} keeps it")
            }
            MoveProgress::WaitsForWave => {
                write!(f, " with the wave of its cluster; {from} keeps it until then")
            }
            MoveProgress::AwaitingReport => {
                write!(f, "; {from} keeps it until the agent has reported {from}")
            }
            MoveProgress::Shared { .. } => {
                write!(f, "; {from} keeps it until no other work has it")
            }
            MoveProgress::Orphaning { failure: None } => {
                write!(f, "; {from} orphans it first, then {to} gets it")
            }
            MoveProgress::Orphaning { failure: Some(failure) } => {
                write!(f, "; {from} has not orphaned it: {failure}")
            }
            MoveProgress::Held { why } | MoveProgress::Suspended { why } => write!(f, ": {why}"),
            MoveProgress::Unreadable
            | MoveProgress::Unseen
            | MoveProgress::Orphaned
            | MoveProgress::KeptByAnother
            | MoveProgress::Applied => Ok(()),
        }
    }
}
