//! What has changed between two states of a source, and which Events tell of it. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::State;
use super::source::{SourceStatus, WorkState, cut};
use crate::core::name::WorkKey;
use crate::core::plan::Reason;
use crate::core::report::harmless;
use crate::limits;

/// A work that has come into another state, or is so for another reason.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turn<'a> {
    pub key: &'a WorkKey,
    /// Absent where it was not known before.
    pub before: Option<State>,
    /// Absent where it is gone.
    pub now: Option<&'a WorkState>,
}

/// Every turn from one state to the next, the worst first.
pub fn turns<'a>(before: &'a SourceStatus, now: &'a SourceStatus) -> Vec<Turn<'a>> {
    let mut turns = Vec::new();
    for (key, work) in &now.works {
        let was = before.works.get(key);
        if was.is_none_or(|was| (was.state, was.code) != (work.state, work.code)) {
            turns.push(Turn { key, before: was.map(|was| was.state), now: Some(work) });
        }
    }
    for (key, was) in before.works.iter().filter(|(key, _)| !now.works.contains_key(*key)) {
        turns.push(Turn { key, before: Some(was.state), now: None });
    }
    turns.sort_by_key(|turn| (turn.now.map(|work| work.state), turn.key));
    turns
}

/// What an Event on a ManifestWork says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub reason: &'static str,
    /// Of type Warning, not Normal.
    pub is_warning: bool,
    /// For people; harmless, and no longer than Kubernetes takes.
    pub text: String,
}

impl Turn<'_> {
    /// What an Event tells of it: that it is applied now, or that somebody should look at it.
    pub fn note(&self, of: &SourceStatus) -> Option<Note> {
        let work = self.now?;
        let source = &of.source;
        let commit = of.commit.map_or_else(String::new, |commit| format!(" at {}", commit.short()));
        let told = work.message().unwrap_or_default();
        let (reason, text) = match work.state {
            State::Failed if work.code == Some("Conflict") => {
                ("NameConflict", format!("source {source}{commit} wants this name: {told}"))
            }
            State::Degraded if work.code == Some(Reason::CONTESTED) => (Reason::CONTESTED, told),
            State::Failed => ("Failed", told),
            State::Degraded => ("Degraded", told),
            State::Frozen => (
                "Frozen",
                format!("kept as it was; source {source}{commit} cannot be read: {told}"),
            ),
            State::Held => ("Held", told),
            state if state.is_applied() && !self.before?.is_applied() => {
                let commit =
                    work.commit.map_or_else(String::new, |id| format!(" of {}", id.short()));
                ("Applied", format!("the cluster has taken the content{commit} of source {source}"))
            }
            _ => return None,
        };
        let is_warning = reason != "Applied";
        Some(Note {
            reason,
            is_warning,
            text: within(&harmless(&text), limits::EVENT_NOTE_BYTES_MAX),
        })
    }
}

/// Text of at most so many bytes.
fn within(text: &str, bytes_max: usize) -> String {
    let mut chars = text.chars().count();
    let mut kept = text.to_owned();
    while kept.len() > bytes_max {
        chars -= (kept.len() - bytes_max).div_ceil(4).min(chars);
        kept = cut(text, chars);
    }
    kept
}

/// How many Events are written: a few for each work, and no more overall than a hub bears. Each counts for some time, and
/// so many of them may count at once. Times are since whatever the caller counts from.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    /// When all that was written has ceased to count.
    overall: Duration,
    works: BTreeMap<WorkKey, Duration>,
}

/// When all ceases to count if one more is written now; `None` where it would be one too many.
fn one_more(
    counts_until: Duration,
    at_once: u32,
    every: Duration,
    now: Duration,
) -> Option<Duration> {
    let start = counts_until.max(now);
    (start - now <= every * at_once.saturating_sub(1)).then_some(start + every)
}

impl Pace {
    /// Whether an Event on this work may be written now; if so, it counts.
    pub fn admits(&mut self, key: &WorkKey, now: Duration) -> bool {
        let own = self.works.get(key).copied().unwrap_or_default();
        let (at_once, every) = (limits::EVENTS_OF_WORK_AT_ONCE, limits::EVENT_OF_WORK_EVERY);
        let own = one_more(own, at_once, every, now);
        let overall = one_more(self.overall, limits::EVENTS_AT_ONCE, limits::EVENT_EVERY, now);
        let (Some(own), Some(overall)) = (own, overall) else { return false };
        self.overall = overall;
        self.works.insert(key.clone(), own);
        if self.works.len() > limits::EVENT_WORKS_MAX {
            // Nothing of these counts any more.
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
    use crate::core::name::{ClusterName, CommitId, SourceId, WorkName};
    use crate::core::status::view::StatusView;

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
            why: code.map(|_| why.to_owned()),
            code,
            uid: Some("uid".into()),
            path: None,
            commit: CommitId::parse(&"cd".repeat(20)),
            view: StatusView::default(),
        }
    }

    fn status(works: &[(&str, WorkState)]) -> SourceStatus {
        SourceStatus {
            source: SourceId::parse("fleet").unwrap(),
            commit: CommitId::parse(&"ab".repeat(20)),
            works: works.iter().map(|(name, work)| (key(name), work.clone())).collect(),
            unreachable: BTreeSet::new(),
            moves: 0,
            errors: 0,
            first_error: None,
            findings: Vec::new(),
            held: Vec::new(),
        }
    }

    #[test]
    fn only_what_turned_is_told_the_worst_first() {
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
        let told: Vec<String> = turns(&before, &now)
            .iter()
            .map(|turn| {
                let note = turn.note(&now).map_or("-", |note| note.reason);
                format!("{} {note}", turn.key.work)
            })
            .collect();
        assert_eq!(told, ["e -", "b Failed", "d NameConflict", "f -", "a Applied"]);
        assert!(turns(&now, &now).is_empty());
    }

    #[test]
    fn notes_say_what_somebody_needs_to_know() {
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
            (State::Degraded, Some("StoredDifferently"), "changed", Some("Degraded"), "changed"),
            (State::Degraded, Some("Contested"), "x again", Some("Contested"), "x again"),
            (State::Progressing, None, "", None, ""),
            (State::Deleting, None, "", None, ""),
        ];
        for (state, code, why, reason, words) in cases {
            let now = status(&[("a", work(state, code, why))]);
            let before = status(&[("a", work(State::Pending, None, ""))]);
            let note = turns(&before, &now)[0].note(&now);
            assert_eq!(note.as_ref().map(|note| note.reason), reason);
            assert!(note.is_none_or(|note| note.text.contains(words)), "{words}");
        }
        // From one good state to a better one is no news.
        let before = status(&[("a", work(State::Applied, None, ""))]);
        let now = status(&[("a", work(State::Available, None, ""))]);
        assert_eq!(turns(&before, &now)[0].note(&now), None);
    }

    #[test]
    fn notes_are_harmless_and_short() {
        for text in ["\u{1b}[2J\u{202e}".to_owned(), "値".repeat(5_000), "x".repeat(5_000)] {
            let now = status(&[("a", work(State::Failed, Some("Refused"), &text))]);
            let before = status(&[("a", work(State::Pending, None, ""))]);
            let note = turns(&before, &now)[0].note(&now).unwrap();
            assert!(note.text.len() <= limits::EVENT_NOTE_BYTES_MAX, "{}", note.text.len());
            assert!(!note.text.chars().any(crate::core::report::is_dangerous));
        }
        assert_eq!(within("値値", 4), "…");
        assert_eq!(within("abc", 3), "abc");
    }

    #[test]
    fn a_work_that_flaps_and_a_fleet_that_turns_at_once_are_held_back() {
        let seconds = Duration::from_secs;
        let mut pace = Pace::default();
        let of_one = (0..100).filter(|_| pace.admits(&key("a"), seconds(1))).count();
        assert_eq!(of_one, limits::EVENTS_OF_WORK_AT_ONCE as usize);
        let later = seconds(1) + limits::EVENT_OF_WORK_EVERY;
        assert!(pace.admits(&key("a"), later) && !pace.admits(&key("a"), later));
        let mut pace = Pace::default();
        let count = |pace: &mut Pace, at: Duration| {
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
