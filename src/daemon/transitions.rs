//! Reports each state transition of a source's works: in the log, and as Events on the
//! ManifestWorks. It reads the newest status each time, so that a slow hub delays nothing else.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use gitwork_core::model::name::{CommitId, SourceId};
use gitwork_core::report::status::State;
use gitwork_core::report::status::source::SourceStatus;
use gitwork_core::report::status::transition::{
    EventNote, EventRate, StateTransition, transitions,
};
use gitwork_core::text::escape::escape_untrusted;
use gitwork_forge::reporter::StatusFeed;
use gitwork_hub::events::{About, EventRecorder};
use gitwork_runtime::clock::WallClock;

/// Wait after a failed Event. The log has the transitions, too.
const PAUSE: Duration = Duration::from_secs(60);

/// Reports the state transitions of one source.
pub struct TransitionReporter {
    events: EventRecorder,
    /// The pod's name.
    instance: String,
    clock: WallClock,
    rate: EventRate,
    started: Instant,
    paused_until: Option<Instant>,
    /// Events over the rate limit since the last log line.
    skipped: usize,
    is_failing: bool,
}

impl TransitionReporter {
    /// `instance` is the name of the reporting pod. Events have the time of `clock`.
    pub fn new(events: EventRecorder, instance: String, clock: WallClock) -> Self {
        let (rate, started, paused_until) = (EventRate::default(), Instant::now(), None);
        Self { events, instance, clock, rate, started, paused_until, skipped: 0, is_failing: false }
    }

    /// Runs until `stop` is true, or the feed ends. The first status has no transitions, so that a
    /// restart reports nothing twice.
    pub async fn run(mut self, mut feed: StatusFeed, mut stop: watch::Receiver<bool>) {
        let mut before: Option<Arc<SourceStatus>> = None;
        loop {
            let now = feed.borrow_and_update().clone();
            if let (Some(before), Some(now)) = (&before, &now) {
                tokio::select! {
                    () = self.report(before, now) => {}
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

    async fn report(&mut self, before: &SourceStatus, now: &SourceStatus) {
        let transitions = transitions(before, now);
        for transition in &transitions {
            log(transition, &now.source, now.commit);
        }
        for transition in &transitions {
            if let Some(note) = transition.note(now) {
                self.record(transition, &note).await;
            }
        }
        if std::mem::take(&mut self.skipped) > 0 {
            tracing::info!(source = %now.source, "skipped Events over the rate limit; the log \
                has all transitions");
        }
    }

    async fn record(&mut self, transition: &StateTransition<'_>, note: &EventNote) {
        // An Event needs the uid of a work on the hub.
        let Some(uid) = transition.now.and_then(|work| work.uid.as_deref()) else { return };
        if self.paused_until.is_some_and(|until| until > Instant::now()) {
            return;
        }
        if !self.rate.admits(transition.key, self.started.elapsed()) {
            self.skipped += 1;
            return;
        }
        let about =
            About { key: transition.key, uid, at: self.clock.now(), instance: &self.instance };
        match self.events.record(&about, note).await {
            Ok(()) => (self.paused_until, self.is_failing) = (None, false),
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(
                        work = %transition.key, %error, "cannot write Events; the sync continues"
                    );
                }
                self.paused_until = Some(Instant::now() + PAUSE);
            }
        }
    }
}

fn log(transition: &StateTransition<'_>, source: &SourceId, commit: Option<CommitId>) {
    let (cluster, work) = (transition.key.cluster.as_str(), transition.key.work.as_str());
    let before = transition.before.map(State::as_str);
    let Some(now) = transition.now else {
        tracing::info!(%source, cluster, work, before, state = "gone", "the work is gone");
        return;
    };
    let state = now.state.as_str();
    let reason = now.reason().map(|reason| escape_untrusted(&reason));
    let commit = now.commit.or(commit).map(|commit| commit.to_string());
    if now.state.is_failure() {
        let why = escape_untrusted(&now.message().unwrap_or_default());
        tracing::warn!(
            %source, cluster, work, before, state, reason, commit, why, "the work is {state}"
        );
    } else {
        tracing::info!(
            %source, cluster, work, before, state, reason, commit, "the work is {state}"
        );
    }
}
