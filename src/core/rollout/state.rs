//! How far a cluster has come with the content that is rolled out.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::model::name::ClusterName;

/// How far a cluster has come with the content. A cluster without a state has not got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterState {
    /// It has not got the content, or not all of it.
    ToApply,
    /// It got the content at this time, and is not done.
    Progressing {
        /// When it got the content.
        since: Timestamp,
    },
    /// It has been done since this time.
    Succeeded {
        /// From then on, it soaks.
        since: Timestamp,
    },
    /// It has failed since this time, and may still succeed.
    Failed {
        /// When it failed.
        since: Timestamp,
    },
    /// It was not done within the deadline.
    TimedOut,
    /// It got the content at this time, and cannot be reached.
    Offline {
        /// When it got the content.
        since: Timestamp,
    },
    /// It is left out. OCM has this state and never sets it.
    Skipped,
}

/// The clusters that get the content now, or are in progress.
pub type ActiveClusters = BTreeMap<ClusterName, ActiveCluster>;

/// Why a cluster is among the active ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActiveCluster {
    /// It gets the content now.
    ToApply,
    /// It has the content and is not done.
    Progressing,
    /// It is done and soaks.
    Soaking,
    /// It has failed, and the deadline has not passed.
    Failed,
}

/// What becomes of a cluster that has the content.
#[derive(Clone, Copy)]
pub(super) enum Judged {
    /// It has not got it.
    Waiting,
    /// It is active until then at most; `None` without a bound.
    Active(ActiveCluster, Option<Timestamp>),
    /// The deadline has passed just now.
    TimesOut,
    /// It timed out before.
    TimedOut,
    /// Nothing is to be waited for.
    Free,
}

/// Times of a rollout, and the present.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub soak: Duration,
    /// `None` for no end.
    pub deadline: Option<Duration>,
    pub now: Timestamp,
}

impl Times {
    pub fn judge(self, state: Option<ClusterState>) -> Judged {
        let Some(state) = state else { return Judged::Waiting };
        match state {
            ClusterState::ToApply => Judged::Waiting,
            ClusterState::Succeeded { since } => {
                let end = later(since, self.soak);
                let soaks = self.now < end;
                if soaks { Judged::Active(ActiveCluster::Soaking, Some(end)) } else { Judged::Free }
            }
            ClusterState::Progressing { since } => self.until(ActiveCluster::Progressing, since),
            ClusterState::Failed { since } => self.until(ActiveCluster::Failed, since),
            ClusterState::Offline { since } => {
                match self.until(ActiveCluster::Progressing, since) {
                    Judged::TimesOut => Judged::Free,
                    judged => judged,
                }
            }
            ClusterState::TimedOut => Judged::TimedOut,
            ClusterState::Skipped => Judged::Free,
        }
    }

    fn until(self, active: ActiveCluster, since: Timestamp) -> Judged {
        let Some(deadline) = self.deadline else { return Judged::Active(active, None) };
        let end = later(since, deadline);
        if self.now < end { Judged::Active(active, Some(end)) } else { Judged::TimesOut }
    }
}

/// This much later, or the end of time.
pub fn later(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).ok();
    by.and_then(|by| at.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}
