//! Reports each state transition of a source's works: in the log, and as Events on the
//! ManifestWorks. It reads the newest status each time, so that a slow hub delays nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::limits;
use gitwork_core::model::name::{CommitId, SourceId};
use gitwork_core::plan::rollout_progress::GroupProgress;
use gitwork_core::text::escape::escape_untrusted;
use gitwork_forge::reporter::StatusFeed;
use gitwork_hub::events::{About, EventRecorder};
use gitwork_report::status::State;
use gitwork_report::status::source::SourceStatus;
use gitwork_report::status::transition::{EventNote, EventRate, StateTransition, transitions};
use gitwork_retry::log_error;
use gitwork_runtime::clock::WallClock;

/// Wait after a failed Event. The log has the transitions, too.
const PAUSE: Duration = Duration::from_secs(60);
/// The end of a line with counts.
const MORE: &str = "each of them is logged at debug";

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
        log_all(&transitions, now);
        log_rollouts(before, now);
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
                    log_error!(
                        warn, &error, work = %transition.key,
                        "cannot write Events; the sync continues"
                    );
                }
                self.paused_until = Some(Instant::now() + PAUSE);
            }
        }
    }
}

/// Logs each transition, or one line with their counts if there are many.
fn log_all(transitions: &[StateTransition<'_>], now: &SourceStatus) {
    let is_summarised = transitions.len() > limits::WORK_LINES_MAX;
    for transition in transitions {
        log(transition, &now.source, now.commit, is_summarised);
    }
    if is_summarised {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for transition in transitions {
            *counts.entry(transition.now.map_or("gone", |now| now.state.as_str())).or_default() +=
                1;
        }
        let states: Vec<String> =
            counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let (source, works, states) = (&now.source, transitions.len(), states.join(", "));
        let commit = now.commit.map(|commit| commit.to_string());
        if transitions.iter().any(|one| one.now.is_some_and(|now| now.state.is_failure())) {
            tracing::warn!(%source, works, states, commit, "works changed their state; {MORE}");
        } else {
            tracing::info!(%source, works, states, commit, "works changed their state; {MORE}");
        }
    }
}

/// Logs each rollout whose content or wave is another one, or that somebody has to act on now.
fn log_rollouts(before: &SourceStatus, now: &SourceStatus) {
    for rollout in &now.rollouts {
        let mut earlier = before.rollouts.iter();
        let earlier = earlier.find(|earlier| earlier.group == rollout.group);
        let place = |one: &GroupProgress| {
            (one.content.clone(), one.wave.clone(), one.held, one.approval.clone())
        };
        if earlier.map(place) == Some(place(rollout)) {
            continue;
        }
        let (source, content) = (&now.source, &rollout.content);
        let rollout_text = escape_untrusted(&rollout.to_string());
        if rollout.held {
            tracing::warn!(%source, group = rollout.group, content, "{rollout_text}");
        } else {
            tracing::info!(%source, group = rollout.group, content, "{rollout_text}");
        }
    }
}

/// `is_summarised`: the line is one of many, and at `debug`.
fn log(
    transition: &StateTransition<'_>,
    source: &SourceId,
    commit: Option<CommitId>,
    is_summarised: bool,
) {
    let (cluster, work) = (transition.key.cluster.as_str(), transition.key.work.as_str());
    let before = transition.before.map(State::as_str);
    let Some(now) = transition.now else {
        if is_summarised {
            tracing::debug!(%source, cluster, work, before, state = "gone", "the work is gone");
        } else {
            tracing::info!(%source, cluster, work, before, state = "gone", "the work is gone");
        }
        return;
    };
    let state = now.state.as_str();
    if is_summarised {
        tracing::debug!(%source, cluster, work, before, state, "the work is {state}");
        return;
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use jiff::Timestamp;
    use tracing::span;
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;
    use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
    use gitwork_report::status::source::WorkState;

    /// The levels of all log lines.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<BTreeMap<Level, usize>>>);

    impl Subscriber for Lines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, event: &Event<'_>) {
            *self.0.lock().unwrap().entry(*event.metadata().level()).or_default() += 1;
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    /// A source with so many works in this state.
    fn status(works: usize, state: State) -> SourceStatus {
        let cluster = ClusterName::parse("edge-1").unwrap();
        let key = |number: usize| WorkKey {
            cluster: cluster.clone(),
            work: WorkName::parse(&format!("work-{number}")).unwrap(),
        };
        let work = WorkState {
            state,
            since: Timestamp::UNIX_EPOCH,
            why: None,
            code: None,
            uid: None,
            path: None,
            commit: None,
            view: Default::default(),
        };
        SourceStatus {
            source: SourceId::parse("fleet").unwrap(),
            commit: None,
            record_generation: 0,
            works: (0..works).map(|number| (key(number), work.clone())).collect(),
            unreachable: BTreeSet::new(),
            errors: 0,
            first_error: None,
            findings: Vec::new(),
            facts: None,
            held: Vec::new(),
            rollouts: Vec::new(),
        }
    }

    /// How many lines of each level log that so many works changed.
    fn lines(works: usize, state: State) -> Vec<(Level, usize)> {
        let (before, now) = (status(works, State::Pending), status(works, state));
        let lines = Lines::default();
        tracing::subscriber::with_default(lines.clone(), || {
            log_all(&transitions(&before, &now), &now);
        });
        let counts = lines.0.lock().unwrap().clone();
        counts.into_iter().rev().collect()
    }

    #[test]
    fn transitions_of_many_works_are_one_line_with_counts() {
        let most = limits::WORK_LINES_MAX;
        assert_eq!(lines(most, State::Applied), [(Level::INFO, most)]);
        assert_eq!(lines(most, State::Failed), [(Level::WARN, most)]);
        let many = most + 1;
        assert_eq!(lines(many, State::Applied), [(Level::DEBUG, many), (Level::INFO, 1)]);
        assert_eq!(lines(many, State::Failed), [(Level::DEBUG, many), (Level::WARN, 1)]);
    }
}
