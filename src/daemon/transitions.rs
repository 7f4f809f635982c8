//! Tells every transition of a source's works: in the log, and as Events on the ManifestWorks. It reads the newest state
//! whenever it comes to it, so that a hub that is slow to take Events holds up nothing but itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::core::name::{CommitId, SourceId};
use crate::core::report::harmless;
use crate::core::status::State;
use crate::core::status::source::SourceStatus;
use crate::core::status::turn::{Note, Pace, Turn, turns};
use crate::forge::reporter::StatusFeed;
use crate::hub::KubeHub;
use crate::hub::events::About;

/// After an Event that the hub did not take, none is tried for so long: what they tell stands in the log too.
const PAUSE: Duration = Duration::from_secs(60);

/// Tells the transitions of one source.
pub struct TransitionReporter {
    hub: KubeHub,
    /// The pod's name.
    instance: String,
    pace: Pace,
    started: Instant,
    paused_until: Option<Instant>,
    /// Events that the pace has held back since the last one that was told.
    left_out: usize,
    in_trouble: bool,
}

impl TransitionReporter {
    pub fn new(hub: KubeHub, instance: String) -> Self {
        let (pace, started, paused_until) = (Pace::default(), Instant::now(), None);
        Self { hub, instance, pace, started, paused_until, left_out: 0, in_trouble: false }
    }

    /// Runs until `stop` is true, or the feed ends. What the first state is made of is no transition: a restart tells
    /// nothing again.
    pub async fn run(mut self, mut feed: StatusFeed, mut stop: watch::Receiver<bool>) {
        let mut before: Option<Arc<SourceStatus>> = None;
        loop {
            let now = feed.borrow_and_update().clone();
            if let (Some(before), Some(now)) = (&before, &now) {
                tokio::select! {
                    () = self.tell(before, now) => {}
                    _ = stop.wait_for(|stop| *stop) => return,
                }
            }
            before = now.or(before);
            tokio::select! {
                changed = feed.changed() => if changed.is_err() { return },
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    async fn tell(&mut self, before: &SourceStatus, now: &SourceStatus) {
        let turns = turns(before, now);
        for turn in &turns {
            log(turn, &now.source, now.commit);
        }
        for turn in &turns {
            if let Some(note) = turn.note(now) {
                self.record(turn, &note).await;
            }
        }
        if std::mem::take(&mut self.left_out) > 0 {
            tracing::info!(source = %now.source, "there is more news than Events are written for; it stands in the log");
        }
    }

    async fn record(&mut self, turn: &Turn<'_>, note: &Note) {
        // What is not on the hub has nothing that an Event could be about.
        let Some(uid) = turn.now.and_then(|work| work.uid.as_deref()) else { return };
        if self.paused_until.is_some_and(|until| until > Instant::now()) {
            return;
        }
        if !self.pace.admits(turn.key, self.started.elapsed()) {
            self.left_out += 1;
            return;
        }
        let about = About { key: turn.key, uid, at: Timestamp::now(), instance: &self.instance };
        match self.hub.record_event(&about, note).await {
            Ok(()) => (self.paused_until, self.in_trouble) = (None, false),
            Err(error) => {
                if !std::mem::replace(&mut self.in_trouble, true) {
                    tracing::warn!(work = %turn.key, %error, "Events are not written for now; the sync goes on");
                }
                self.paused_until = Some(Instant::now() + PAUSE);
            }
        }
    }
}

fn log(turn: &Turn<'_>, source: &SourceId, commit: Option<CommitId>) {
    let (cluster, work) = (turn.key.cluster.as_str(), turn.key.work.as_str());
    let before = turn.before.map(State::as_str);
    let Some(now) = turn.now else {
        tracing::info!(%source, cluster, work, before, state = "gone", "the work is gone");
        return;
    };
    let state = now.state.as_str();
    let reason = now.reason().map(|reason| harmless(&reason));
    let commit = now.commit.or(commit).map(|commit| commit.to_string());
    if now.state.is_failure() {
        let why = harmless(&now.message().unwrap_or_default());
        tracing::warn!(%source, cluster, work, before, state, reason, commit, why, "the work is {state}");
    } else {
        tracing::info!(%source, cluster, work, before, state, reason, commit, "the work is {state}");
    }
}
