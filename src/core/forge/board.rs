//! All that stands on a source's commits: the status of the whole, and one for each cluster or group of clusters that has
//! a context of its own. Each follows its own schedule; those of parts share an allowance, and wait for the whole's.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use super::answer::Rejection;
use super::schedule::{Next, Schedule};
use super::{CommitStatus, Part};

/// GitHub takes 500 requests that make content in an hour and 80 in a minute ("Rate limits for the REST API"): so many
/// at once for parts, and one more in each such time, leave some for the whole and for others with the same token.
const BURST: u32 = 30;
const EVERY: Duration = Duration::from_secs(9);

/// The statuses of one repository.
#[derive(Debug, Default)]
pub struct Board {
    whole: Schedule,
    parts: BTreeMap<Part, Schedule>,
    /// The part that was written last: the next one is its turn.
    last: Option<Part>,
    /// When the allowance of parts would be whole again, if nothing more were written.
    spent_until: Duration,
    /// The forge has asked to be left alone until then.
    not_before: Duration,
    /// A problem was told, and no write has succeeded since.
    in_trouble: bool,
}

impl Board {
    /// Takes in what is to stand on the newest commit. Parts that are no more are let go.
    pub fn want(&mut self, statuses: Vec<CommitStatus>, now: Duration) {
        let mut parts = std::mem::take(&mut self.parts);
        for status in statuses {
            match status.part.clone() {
                None => self.whole.want(status, now),
                Some(part) => {
                    let mut schedule = parts.remove(&part).unwrap_or_else(Schedule::of_part);
                    schedule.want(status, now);
                    self.parts.insert(part, schedule);
                }
            }
        }
    }

    /// What to do at `now`. Nothing is in flight when this is asked.
    pub fn next(&self, now: Duration) -> Next {
        let whole = self.whole.next(now);
        let next = match whole {
            Next::Write(_) => whole,
            // The forge does not take the whole's status: those of parts would fare no better.
            Next::Wait(until) if self.whole.is_failing() => Next::Wait(until),
            Next::Wait(until) => self.next_part(Some(until), now),
            Next::Idle => self.next_part(None, now),
        };
        match next {
            Next::Write(_) if self.not_before > now => Next::Wait(self.not_before),
            other => other,
        }
    }

    /// The next part that is due, beginning after the last one; else how long to wait, which is until `whole` at most.
    fn next_part(&self, whole: Option<Duration>, now: Duration) -> Next {
        let after = match &self.last {
            Some(part) => Bound::Excluded(part),
            None => Bound::Unbounded,
        };
        let to = match &self.last {
            Some(part) => Bound::Included(part),
            None => Bound::Unbounded,
        };
        let later = self.parts.range::<Part, _>((after, Bound::Unbounded));
        let earlier = self.parts.range::<Part, _>((Bound::Unbounded, to));
        let mut wait = whole;
        for (_, schedule) in later.chain(earlier.take(self.parts.len())) {
            let until = match schedule.next(now) {
                Next::Write(status) => match self.allowed(now) {
                    None => return Next::Write(status),
                    Some(until) => until,
                },
                Next::Wait(until) => until,
                Next::Idle => continue,
            };
            wait = Some(wait.map_or(until, |before| before.min(until)));
        }
        wait.map_or(Next::Idle, Next::Wait)
    }

    /// `None` where a part may be written now, else when.
    fn allowed(&self, now: Duration) -> Option<Duration> {
        let from = self.spent_until.saturating_sub(EVERY * (BURST - 1));
        (from > now).then_some(from)
    }

    /// Takes in what became of a write. Answers a problem to be told, once until a write succeeds.
    pub fn answered(
        &mut self,
        status: &CommitStatus,
        result: Result<(), Rejection>,
        now: Duration,
        seed: u64,
    ) -> Option<Rejection> {
        let succeeded = result.is_ok();
        if let Err(Rejection::Later { after: Some(after), .. }) = &result {
            self.not_before = now + *after;
        }
        let problem = match &status.part {
            None => self.whole.answered(status, result, now, seed),
            Some(part) => {
                self.spent_until = self.spent_until.max(now) + EVERY;
                self.last = Some(part.clone());
                self.parts.get_mut(part)?.answered(status, result, now, seed)
            }
        };
        let was_in_trouble = std::mem::replace(&mut self.in_trouble, !succeeded);
        problem.filter(|_| !was_in_trouble)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::forge::CommitState;
    use crate::core::name::CommitId;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn status(part: Option<&str>, number: u8, state: CommitState, words: &str) -> CommitStatus {
        let commit = CommitId::parse(&format!("{number:02x}").repeat(20)).unwrap();
        CommitStatus { part: part.map(str::to_owned), commit, state, description: words.into() }
    }

    /// The whole and so many parts.
    fn all(parts: usize, number: u8, state: CommitState, words: &str) -> Vec<CommitStatus> {
        let mut all = vec![status(None, number, state, words)];
        all.extend((0..parts).map(|n| status(Some(&format!("edge-{n:03}")), number, state, words)));
        all
    }

    /// Writes all that is due until `end`.
    fn run(board: &mut Board, mut now: u64, end: u64) -> Vec<(u64, CommitStatus)> {
        let mut written = Vec::new();
        while now <= end {
            match board.next(at(now)) {
                Next::Write(status) => {
                    assert_eq!(board.answered(&status, Ok(()), at(now), 0), None);
                    written.push((now, status));
                }
                Next::Wait(until) => {
                    assert!(until > at(now), "a wait must end later");
                    now = until.as_millis().div_ceil(1_000) as u64;
                }
                Next::Idle => break,
            }
        }
        written
    }

    #[test]
    fn ten_thousand_works_that_all_change_once_cost_at_most_twenty_writes() {
        // 100 clusters of 100 works, applied one after the other within four minutes; two groups have a context.
        let mut board = Board::default();
        let mut writes = Vec::new();
        for step in 0..10_000_u64 {
            let now = step / 40;
            let words = format!("{}/100 clusters applied", step / 100);
            board.want(all(2, 1, CommitState::Pending, &words), at(now));
            writes.extend(run(&mut board, now, now));
        }
        board.want(all(2, 1, CommitState::Success, "100/100 clusters applied"), at(250));
        writes.extend(run(&mut board, 250, 100_000));
        assert!((6..=20).contains(&writes.len()), "{writes:#?}");
        let ends: Vec<_> =
            writes.iter().filter(|(_, status)| status.state == CommitState::Success).collect();
        assert_eq!(ends.len(), 3, "{ends:?}");
    }

    #[test]
    fn parts_are_written_when_they_are_settled_and_not_for_words() {
        let mut board = Board::default();
        board.want(all(2, 1, CommitState::Pending, "0"), at(0));
        assert_eq!(run(&mut board, 0, 10).len(), 1, "the whole at once, parts not yet");
        board.want(all(2, 1, CommitState::Success, "1"), at(11));
        let written = run(&mut board, 11, 1_000);
        assert_eq!(written.len(), 3, "each once, at its end: {written:?}");
        board.want(all(2, 1, CommitState::Success, "other words"), at(1_000));
        assert_eq!(run(&mut board, 1_000, 9_000).len(), 1, "only the whole tells how it goes");
        board.want(all(2, 2, CommitState::Pending, "0"), at(10_000));
        let written = run(&mut board, 10_000, 19_000);
        assert_eq!(written.len(), 3, "what takes long is pending: {written:?}");
    }

    #[test]
    fn many_parts_share_an_allowance_and_take_turns() {
        let mut board = Board::default();
        board.want(all(50, 1, CommitState::Failure, "0"), at(0));
        let first = run(&mut board, 0, 10);
        assert!(first.len() <= 33, "{}", first.len());
        for (round, now) in (0..1_000_u64).map(|round| (round, 100 + round * 40)) {
            let state = if round % 2 == 0 { CommitState::Success } else { CommitState::Failure };
            board.want(all(50, 1, state, "x"), at(now));
            run(&mut board, now, now + 39);
        }
        let mut hours = BTreeMap::<u64, usize>::new();
        let mut seen = BTreeMap::<Option<String>, usize>::new();
        for (round, now) in (0..1_000_u64).map(|round| (round, 50_000 + round * 40)) {
            let state = if round % 2 == 0 { CommitState::Success } else { CommitState::Failure };
            board.want(all(50, 2, state, "x"), at(now));
            for (when, status) in run(&mut board, now, now + 39) {
                *hours.entry(when / 3_600).or_default() += 1;
                *seen.entry(status.part).or_default() += 1;
            }
        }
        assert!(hours.values().all(|writes| *writes < 600), "{hours:?}");
        assert_eq!(seen.len(), 51, "everyone had a turn: {seen:?}");
    }

    #[test]
    fn a_forge_that_is_away_is_told_of_once_and_asked_seldom() {
        let mut board = Board::default();
        let (mut told, mut tries, mut now) = (0, 0, 0);
        while now < 3_600 {
            let state = if now % 120 < 60 { CommitState::Failure } else { CommitState::Success };
            board.want(all(50, 1, state, "x"), at(now));
            match board.next(at(now)) {
                Next::Write(status) => {
                    let away = Rejection::Later { after: None, message: "away".into() };
                    told += usize::from(board.answered(&status, Err(away), at(now), now).is_some());
                    tries += 1;
                }
                Next::Wait(until) => now = until.as_secs().max(now) + 1,
                Next::Idle => now += 1,
            }
        }
        assert!(told == 1 && tries < 200, "told {told} times in {tries} tries");
        board.want(all(50, 1, CommitState::Success, "all"), at(now));
        let written = run(&mut board, now, now + 3_600);
        assert_eq!(written.len(), 51, "what was missed is made up for");
    }

    #[test]
    fn a_forge_that_asks_for_patience_gets_it_for_every_context() {
        let mut board = Board::default();
        board.want(all(3, 1, CommitState::Failure, "x"), at(0));
        let Next::Write(first) = board.next(at(5)) else { panic!("the whole is due") };
        assert!(board.answered(&first, Ok(()), at(5), 0).is_none());
        let Next::Write(part) = board.next(at(5)) else { panic!("parts are due") };
        let limited = Rejection::Later { after: Some(at(600)), message: "limit".into() };
        assert!(board.answered(&part, Err(limited), at(5), 0).is_some());
        assert_eq!(board.next(at(6)), Next::Wait(at(605)));
    }

    #[test]
    fn a_cluster_that_is_gone_is_told_of_no_more() {
        let mut board = Board::default();
        board.want(all(2, 1, CommitState::Failure, "x"), at(0));
        board.want(all(1, 1, CommitState::Failure, "x"), at(1));
        let parts = run(&mut board, 1, 1_000).into_iter().filter_map(|(_, status)| status.part);
        assert_eq!(parts.collect::<Vec<_>>(), ["edge-000"]);
        assert_eq!(board.parts.len(), 1);
    }
}
