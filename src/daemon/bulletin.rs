//! What an engine tells of its source: the state of its works, made anew at most once in a while, for whoever listens.
//! The listeners are behind a channel that keeps the newest value only, so none of them can hold the engine up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;

use super::state::State;
use crate::core::backoff::Setback;
use crate::core::name::{ClusterName, CommitId, WorkKey};
use crate::core::status::source::{Refusal, SourceStatus};
use crate::forge::reporter::StatusFeed;
use crate::hub::execute::{ExecuteError, Outcome};

/// Clusters that the hub has lost touch with, as last read.
pub type Reach = watch::Receiver<Arc<BTreeSet<ClusterName>>>;

/// Why a source cannot be read now; `None` where it can.
pub type Trouble = watch::Receiver<Option<String>>;

/// Between two states: events come in bursts, and making one costs some milliseconds with 10,000 works.
const PAUSE: Duration = Duration::from_millis(500);

/// The newest state of one source.
#[derive(Debug)]
pub struct Bulletin {
    sender: watch::Sender<Option<Arc<SourceStatus>>>,
    reach: Reach,
    refusals: BTreeMap<WorkKey, Refusal>,
    /// The newest commit, where it is not applied, and why.
    unverified: Option<(CommitId, String)>,
    /// When the next state is to be made; `None` where nothing has changed.
    due: Option<Instant>,
    last: Instant,
}

impl Bulletin {
    /// Answers what listens to it, too.
    pub fn new(reach: Reach) -> (Self, StatusFeed) {
        let (sender, feed) = watch::channel(None);
        let (refusals, unverified, last) = (BTreeMap::new(), None, Instant::now());
        (Self { sender, reach, refusals, unverified, due: None, last }, feed)
    }

    /// Something has changed that a state is made of.
    pub fn touch(&mut self) {
        self.due.get_or_insert(self.last + PAUSE);
    }

    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Git wants something else now: what the hub said of the old is no word on the new.
    pub fn forget_refusals(&mut self) {
        self.refusals.clear();
    }

    /// The newest commit is not applied, for this reason, or it is.
    pub fn set_unverified(&mut self, unverified: Option<(CommitId, String)>) {
        if self.unverified != unverified {
            self.unverified = unverified;
            self.touch();
        }
    }

    /// Takes in what became of a write.
    pub fn note(&mut self, outcome: &Outcome) {
        let key = &outcome.task.key;
        match &outcome.result {
            Ok(_) => drop(self.refusals.remove(key)),
            Err(ExecuteError::Hub(error)) => {
                let passing =
                    matches!(error.setback(), Setback::Stale | Setback::Unavailable { .. });
                let refusal = Refusal { message: error.to_string(), passing };
                self.refusals.insert(key.clone(), refusal);
            }
            Err(_) => {}
        }
        self.touch();
    }

    /// Tells the state as it is, where it is due and differs from the one before, and answers it.
    pub fn publish(&mut self, state: &State, now: Instant) -> Option<Arc<SourceStatus>> {
        if self.reach.has_changed().unwrap_or_default() {
            self.touch();
        }
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        (self.due, self.last) = (None, now);
        let unreachable = self.reach.borrow_and_update().clone();
        let before = self.sender.borrow().clone();
        let status =
            state.status(&self.refusals, &unreachable, Timestamp::now(), before.as_deref());
        let status = status.map(|mut status| {
            if let Some((commit, why)) = &self.unverified {
                status.refuse(*commit, why);
            }
            status
        });
        let status = status.filter(|status| before.as_deref() != Some(status))?;
        tracing::debug!(source = %status.source, "{}", status.line(1_000));
        let status = Arc::new(status);
        self.sender.send_replace(Some(Arc::clone(&status)));
        Some(status)
    }

    /// The state as it was last told.
    pub fn last(&self) -> Option<Arc<SourceStatus>> {
        self.sender.borrow().clone()
    }

    /// Ends when the clusters' reach has changed; never where nobody reads it any more.
    pub async fn reach_changed(reach: &mut Reach) {
        if reach.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub fn reach(&self) -> Reach {
        self.reach.clone()
    }
}
