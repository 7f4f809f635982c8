//! The differences between two states of a source, and their Events. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::State;
use super::source::{SourceStatus, WorkState};
use super::work_states::ChangedWork;
use gitwork_core::limits;
use gitwork_core::model::name::WorkKey;
use gitwork_core::plan::Reason;
use gitwork_core::text::escape::escape_untrusted;
use gitwork_core::text::truncate::truncate_bytes;

/// A work whose state or reason changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StateTransition<'a> {
    /// The work.
    pub key: &'a WorkKey,
    /// `None` if the work is new.
    pub before: Option<State>,
    /// `None` if the work was removed.
    pub now: Option<&'a WorkState>,
}

/// All transitions between two states, worst first.
pub fn transitions<'a>(
    before: &'a SourceStatus,
    now: &'a SourceStatus,
) -> Vec<StateTransition<'a>> {
    let word = |work: &WorkState| (work.state, work.code);
    let changes = now.works.changes_since(&before.works).into_iter();
    let changes = changes.filter(|change| change.before.map(word) != change.now.map(word));
    let mut transitions: Vec<StateTransition<'_>> = changes
        .map(|ChangedWork { key, before, now }| {
            let before = before.map(|before| before.state);
            StateTransition { key, before, now }
        })
        .collect();
    transitions.sort_by_key(|transition| (transition.now.map(|work| work.state), transition.key));
    transitions
}

/// The content of an Event on a ManifestWork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventNote {
    /// `reason` of the Event: one word in CamelCase, such as `Failed` or `Applied`.
    pub reason: &'static str,
    /// Whether the type is Warning instead of Normal.
    pub is_warning: bool,
    /// Escaped text for people, within Kubernetes' limit.
    pub text: String,
}

impl StateTransition<'_> {
    /// The Event of this transition: the work is applied, or it needs attention.
    pub fn note(&self, of: &SourceStatus) -> Option<EventNote> {
        let work = self.now?;
        let source = &of.source;
        let commit = of.commit.map_or_else(String::new, |commit| format!(" at {}", commit.short()));
        let reported = work.message().unwrap_or_default();
        let (reason, text) = match work.state {
            State::Failed if work.code == Some("Conflict") => {
                ("NameConflict", format!("source {source}{commit} wants this name: {reported}"))
            }
            State::Degraded if work.code == Some(Reason::BACKED_OFF) => {
                (Reason::BACKED_OFF, reported)
            }
            State::Failed => ("Failed", reported),
            State::Degraded => ("Degraded", reported),
            State::Frozen => (
                "Frozen",
                format!("kept unchanged; source {source}{commit} cannot be read: {reported}"),
            ),
            State::Held => ("Held", reported),
            state if state.is_applied() && !self.before?.is_applied() => {
                let commit =
                    work.commit.map_or_else(String::new, |id| format!(" of {}", id.short()));
                (
                    "Applied",
                    format!("the cluster has applied the content{commit} of source {source}"),
                )
            }
            _ => return None,
        };
        let is_warning = reason != "Applied";
        Some(EventNote {
            reason,
            is_warning,
            text: truncate_bytes(&escape_untrusted(&text), limits::EVENT_NOTE_BYTES_MAX)
                .into_owned(),
        })
    }
}

/// Limits Events per work and overall. Each Event counts for an interval, and a number of them may
/// count at once. Times are durations since any fixed start.
#[derive(Debug, Clone, Default)]
pub struct EventRate {
    /// When no written Event counts any more.
    overall: Duration,
    works: BTreeMap<WorkKey, Duration>,
}

/// When no Event counts any more after one more at `now`; `None` if that exceeds the limit.
fn one_more(
    counts_until: Duration,
    at_once: u32,
    every: Duration,
    now: Duration,
) -> Option<Duration> {
    let start = counts_until.max(now);
    (start - now <= every * at_once.saturating_sub(1)).then_some(start + every)
}

impl EventRate {
    /// Whether an Event on this work may be written now. If so it counts.
    pub fn admits(&mut self, key: &WorkKey, now: Duration) -> bool {
        let own = self.works.get(key).copied().unwrap_or_default();
        let (at_once, every) = (limits::EVENTS_OF_WORK_AT_ONCE, limits::EVENT_OF_WORK_EVERY);
        let own = one_more(own, at_once, every, now);
        let overall = one_more(self.overall, limits::EVENTS_AT_ONCE, limits::EVENT_EVERY, now);
        let (Some(own), Some(overall)) = (own, overall) else { return false };
        self.overall = overall;
        self.works.insert(key.clone(), own);
        if self.works.len() > limits::EVENT_WORKS_MAX {
            // Events of these works no longer count.
            self.works.retain(|_, counts_until| *counts_until > now);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::Timestamp;

    use super::*;
    use gitwork_core::model::name::{ClusterName, CommitId, SourceId, WorkName};

    fn key(work: &str) -> WorkKey {
        WorkKey {
            cluster: ClusterName::parse("edge-1").unwrap(),
            work: WorkName::parse(work).unwrap(),
        }
    }

    fn work(state: State, code: Option<&'static str>, why: &str) -> WorkState {
        WorkState {
            state,
            since: Timestamp::UNIX_EPOCH,
            why: code.map(|_| why.into()),
            code,
            uid: Some("uid".into()),
            path: None,
            commit: CommitId::parse(&"cd".repeat(20)),
            view: Default::default(),
        }
    }

    fn status(works: &[(&str, WorkState)]) -> SourceStatus {
        SourceStatus {
            source: SourceId::parse("fleet").unwrap(),
            commit: CommitId::parse(&"ab".repeat(20)),
            works: works.iter().map(|(name, work)| (key(name), work.clone())).collect(),
            unreachable: BTreeSet::new(),
            record_generation: 0,
            errors: 0,
            first_error: None,
            findings: Vec::new(),
            facts: None,
            held: Vec::new(),
            rollouts: Vec::new(),
        }
    }

    #[test]
    fn only_changed_works_give_transitions_worst_first() {
        let before = status(&[
            ("a", work(State::Pending, None, "")),
            ("b", work(State::Pending, None, "")),
            ("c", work(State::Applied, None, "")),
            ("d", work(State::Failed, Some("Refused"), "x")),
            ("e", work(State::Deleting, None, "")),
        ]);
        let now = status(&[
            ("a", work(State::Available, None, "")),
            ("b", work(State::Failed, None, "")),
            ("c", work(State::Applied, None, "")),
            ("d", work(State::Failed, Some("Conflict"), "taken")),
            ("f", work(State::Pending, None, "")),
        ]);
        let reported: Vec<String> = transitions(&before, &now)
            .iter()
            .map(|transition| {
                let note = transition.note(&now).map_or("-", |note| note.reason);
                format!("{} {note}", transition.key.work)
            })
            .collect();
        assert_eq!(reported, ["e -", "b Failed", "d NameConflict", "f -", "a Applied"]);
        assert!(transitions(&now, &now).is_empty());
    }

    #[test]
    fn notes_have_reason_and_message() {
        let cases = [
            (State::Available, None, "", Some("Applied"), "of cdcdcdcd of source fleet"),
            (State::Frozen, Some("Frozen"), "a.yaml:3: bad", Some("Frozen"), "a.yaml:3: bad"),
            (State::Held, Some("HeldByBudget"), "held", Some("Held"), "held"),
            (State::Failed, Some("Refused"), "too large", Some("Failed"), "too large"),
            (
                State::Failed,
                Some("Conflict"),
                "taken",
                Some("NameConflict"),
                "fleet at abababab wants",
            ),
            (State::Degraded, Some("ChangedByServer"), "changed", Some("Degraded"), "changed"),
            (State::Degraded, Some("BackedOff"), "x again", Some("BackedOff"), "x again"),
            (State::Progressing, None, "", None, ""),
            (State::Deleting, None, "", None, ""),
        ];
        for (state, code, why, reason, words) in cases {
            let now = status(&[("a", work(state, code, why))]);
            let before = status(&[("a", work(State::Pending, None, ""))]);
            let note = transitions(&before, &now)[0].note(&now);
            assert_eq!(note.as_ref().map(|note| note.reason), reason);
            assert!(note.is_none_or(|note| note.text.contains(words)), "{words}");
        }
        // A transition between two good states has no Event.
        let before = status(&[("a", work(State::Applied, None, ""))]);
        let now = status(&[("a", work(State::Available, None, ""))]);
        assert_eq!(transitions(&before, &now)[0].note(&now), None);
    }

    #[test]
    fn notes_are_escaped_and_bounded() {
        for text in ["\u{1b}[2J\u{202e}".to_owned(), "値".repeat(5_000), "x".repeat(5_000)] {
            let now = status(&[("a", work(State::Failed, Some("Refused"), &text))]);
            let before = status(&[("a", work(State::Pending, None, ""))]);
            let note = transitions(&before, &now)[0].note(&now).unwrap();
            assert!(note.text.len() <= limits::EVENT_NOTE_BYTES_MAX, "{}", note.text.len());
            assert!(!note.text.chars().any(gitwork_yaml::is_dangerous));
        }
    }

    #[test]
    fn events_are_limited_per_work_and_overall() {
        let seconds = Duration::from_secs;
        let mut pace = EventRate::default();
        let of_one = (0..100).filter(|_| pace.admits(&key("a"), seconds(1))).count();
        assert_eq!(of_one, limits::EVENTS_OF_WORK_AT_ONCE as usize);
        let later = seconds(1) + limits::EVENT_OF_WORK_EVERY;
        assert!(pace.admits(&key("a"), later) && !pace.admits(&key("a"), later));
        let mut pace = EventRate::default();
        let count = |pace: &mut EventRate, at: Duration| {
            (0..10_000).filter(|n| pace.admits(&key(&format!("w{n}")), at)).count()
        };
        assert_eq!(count(&mut pace, seconds(1)), limits::EVENTS_AT_ONCE as usize);
        assert_eq!(count(&mut pace, seconds(1) + limits::EVENT_EVERY * 3), 3);
        for n in 0..(2 * limits::EVENT_WORKS_MAX) {
            pace.admits(&key(&format!("w{n}")), limits::EVENT_EVERY * (n as u32) * 10);
        }
        assert!(pace.works.len() <= limits::EVENT_WORKS_MAX, "{}", pace.works.len());
    }
}
