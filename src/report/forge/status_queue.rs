//! The statuses of a source's commits: one for the whole source, and one for each cluster or group
//! with its own context. Each has its own schedule. Parts share a rate limit, and wait for the
//! whole.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use super::response::Rejection;
use super::schedule::{Next, Schedule};
use super::{CommitState, CommitStatus, OpenStatus, Part};

/// GitHub accepts 500 requests that create content per hour and 80 per minute ("Rate limits for the
/// REST API"). Parts get this burst and one more per interval. The rest is for the whole, and for
/// other clients with the same token.
const BURST: u32 = 30;
const EVERY: Duration = Duration::from_secs(9);

/// Statuses that are stored as open: those of a few commits, under every context. An object on the
/// hub has 256 KiB for all annotations.
const OPEN_MAX: usize = 256;

/// The statuses of one repository.
#[derive(Debug, Default)]
pub struct StatusQueue {
    whole: Schedule,
    parts: BTreeMap<Part, Schedule>,
    /// The part that was written last. The next one follows it.
    last: Option<Part>,
    /// When the rate limit of parts is unused again, without further writes.
    spent_until: Duration,
    /// The forge asked for no request until then.
    not_before: Duration,
    /// A rejection was returned, and no write has succeeded since.
    is_failing: bool,
    /// Statuses of the newest commit that are about to be pending on the forge.
    intended: BTreeSet<OpenStatus>,
}

impl StatusQueue {
    /// Sets the wanted statuses of the newest commit. Drops parts that no longer exist.
    pub fn want(&mut self, statuses: Vec<CommitStatus>, now: Duration) {
        let mut parts = std::mem::take(&mut self.parts);
        let newest = statuses.first().map(|status| status.commit);
        self.intended.retain(|open| Some(open.commit) == newest);
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

    /// Adopts the statuses that an earlier process left pending on the forge. Those of older
    /// commits are closed once the newest commit is known.
    pub fn resume(&mut self, open: &[OpenStatus]) {
        for OpenStatus { commit, part } in open {
            let schedule = match part {
                None => &mut self.whole,
                Some(part) => self.parts.entry(part.clone()).or_insert_with(Schedule::of_part),
            };
            schedule.resume(*commit);
        }
    }

    /// Counts a status that is about to be written as open, if it will be pending; otherwise
    /// `None`.
    pub fn intend(&mut self, status: &CommitStatus) -> Option<OpenStatus> {
        if status.state != CommitState::Pending {
            return None;
        }
        let open = OpenStatus { commit: status.commit, part: status.part.clone() };
        self.intended.insert(open.clone());
        self.open().contains(&open).then_some(open)
    }

    /// The statuses that are pending on the forge or are about to be, up to [`OPEN_MAX`].
    pub fn open(&self) -> Vec<OpenStatus> {
        let of = |part: Option<&Part>, schedule: &Schedule| {
            let part = part.cloned();
            let open = schedule.open().into_iter();
            open.map(move |commit| OpenStatus { commit, part: part.clone() }).collect::<Vec<_>>()
        };
        let parts = self.parts.iter().flat_map(|(part, schedule)| of(Some(part), schedule));
        let mut all = of(None, &self.whole);
        all.extend(parts);
        let known: BTreeSet<&OpenStatus> = all.iter().collect();
        let intended = self.intended.iter().filter(|open| !known.contains(open));
        let intended: Vec<OpenStatus> = intended.cloned().collect();
        all.into_iter().chain(intended).take(OPEN_MAX).collect()
    }

    /// The next action at `now`. Call it only while no write is in flight.
    pub fn next(&self, now: Duration) -> Next {
        let whole = self.whole.next(now);
        let next = match whole {
            Next::Write(_) => whole,
            // The forge rejects the status of the whole; it would reject those of parts, too.
            Next::Wait(until) if self.whole.is_failing() => Next::Wait(until),
            Next::Wait(until) => self.next_part(Some(until), now),
            Next::Idle => self.next_part(None, now),
        };
        match next {
            Next::Write(_) if self.not_before > now => Next::Wait(self.not_before),
            other => other,
        }
    }

    /// The next due part, starting after the last one. Otherwise the wait, until `whole` at most.
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

    /// `None` if a part may be written now, otherwise the time from which it may.
    fn allowed(&self, now: Duration) -> Option<Duration> {
        let from = self.spent_until.saturating_sub(EVERY * (BURST - 1));
        (from > now).then_some(from)
    }

    /// Records the outcome of a write. Returns a rejection once, until a write succeeds.
    pub fn answered(
        &mut self,
        status: &CommitStatus,
        result: Result<(), Rejection>,
        now: Duration,
        seed: u64,
    ) -> Option<Rejection> {
        let succeeded = result.is_ok();
        // After another rejection, the status is written later.
        if let Ok(()) | Err(Rejection::NoCommit { .. } | Rejection::Full { .. }) = &result {
            let open = OpenStatus { commit: status.commit, part: status.part.clone() };
            self.intended.remove(&open);
        }
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
        let was_failing = std::mem::replace(&mut self.is_failing, !succeeded);
        problem.filter(|_| !was_failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forge::schedule::tests::{at, write_due};
    use gitwork_core::model::name::CommitId;

    fn status(part: Option<&str>, number: u8, state: CommitState, words: &str) -> CommitStatus {
        let commit = CommitId::parse(&format!("{number:02x}").repeat(20)).unwrap();
        CommitStatus { part: part.map(str::to_owned), commit, state, description: words.into() }
    }

    /// The whole and this many parts.
    fn all(parts: usize, number: u8, state: CommitState, words: &str) -> Vec<CommitStatus> {
        let mut all = vec![status(None, number, state, words)];
        all.extend((0..parts).map(|n| status(Some(&format!("edge-{n:03}")), number, state, words)));
        all
    }

    fn run(queue: &mut StatusQueue, now: u64, end: u64) -> Vec<(u64, CommitStatus)> {
        let wrote = |queue: &mut StatusQueue, status: &CommitStatus, now| {
            queue.answered(status, Ok(()), now, 0)
        };
        write_due(queue, StatusQueue::next, wrote, now, end)
    }

    #[test]
    fn ten_thousand_works_that_all_change_once_cost_at_most_twenty_writes() {
        // 100 clusters of 100 works are applied one after the other in four minutes; two groups
        // have a context.
        let mut queue = StatusQueue::default();
        let mut writes = Vec::new();
        for step in 0..10_000_u64 {
            let now = step / 40;
            let words = format!("{}/100 clusters applied", step / 100);
            queue.want(all(2, 1, CommitState::Pending, &words), at(now));
            writes.extend(run(&mut queue, now, now));
        }
        queue.want(all(2, 1, CommitState::Success, "100/100 clusters applied"), at(250));
        writes.extend(run(&mut queue, 250, 100_000));
        assert!((6..=20).contains(&writes.len()), "{writes:#?}");
        let ends: Vec<_> =
            writes.iter().filter(|(_, status)| status.state == CommitState::Success).collect();
        assert_eq!(ends.len(), 3, "{ends:?}");
    }

    #[test]
    fn parts_are_written_when_they_are_settled_and_not_for_words() {
        let mut queue = StatusQueue::default();
        queue.want(all(2, 1, CommitState::Pending, "0"), at(0));
        assert_eq!(run(&mut queue, 0, 10).len(), 1, "the whole at once, parts not yet");
        queue.want(all(2, 1, CommitState::Success, "1"), at(11));
        let written = run(&mut queue, 11, 1_000);
        assert_eq!(written.len(), 3, "each once, at its end: {written:?}");
        queue.want(all(2, 1, CommitState::Success, "other words"), at(1_000));
        assert_eq!(run(&mut queue, 1_000, 9_000).len(), 1, "only the whole tells how it goes");
        queue.want(all(2, 2, CommitState::Pending, "0"), at(10_000));
        let written = run(&mut queue, 10_000, 19_000);
        assert_eq!(written.len(), 3, "what takes long is pending: {written:?}");
    }

    #[test]
    fn many_parts_share_an_allowance_and_take_turns() {
        let mut queue = StatusQueue::default();
        queue.want(all(50, 1, CommitState::Failure, "0"), at(0));
        let first = run(&mut queue, 0, 10);
        assert!(first.len() <= 33, "{}", first.len());
        for (round, now) in (0..1_000_u64).map(|round| (round, 100 + round * 40)) {
            let state = if round % 2 == 0 { CommitState::Success } else { CommitState::Failure };
            queue.want(all(50, 1, state, "x"), at(now));
            run(&mut queue, now, now + 39);
        }
        let mut hours = BTreeMap::<u64, usize>::new();
        let mut seen = BTreeMap::<Option<String>, usize>::new();
        for (round, now) in (0..1_000_u64).map(|round| (round, 50_000 + round * 40)) {
            let state = if round % 2 == 0 { CommitState::Success } else { CommitState::Failure };
            queue.want(all(50, 2, state, "x"), at(now));
            for (when, status) in run(&mut queue, now, now + 39) {
                *hours.entry(when / 3_600).or_default() += 1;
                *seen.entry(status.part).or_default() += 1;
            }
        }
        assert!(hours.values().all(|writes| *writes < 600), "{hours:?}");
        assert_eq!(seen.len(), 51, "everyone had a turn: {seen:?}");
    }

    #[test]
    fn unavailable_forge_is_reported_once_and_retried_with_backoff() {
        let mut queue = StatusQueue::default();
        let (mut reported, mut tries, mut now) = (0, 0, 0);
        while now < 3_600 {
            let state = if now % 120 < 60 { CommitState::Failure } else { CommitState::Success };
            queue.want(all(50, 1, state, "x"), at(now));
            match queue.next(at(now)) {
                Next::Write(status) => {
                    let away = Rejection::Later { after: None, message: "away".into() };
                    reported +=
                        usize::from(queue.answered(&status, Err(away), at(now), now).is_some());
                    tries += 1;
                }
                Next::Wait(until) => now = until.as_secs().max(now) + 1,
                Next::Idle => now += 1,
            }
        }
        assert!(reported == 1 && tries < 200, "reported {reported} times in {tries} tries");
        queue.want(all(50, 1, CommitState::Success, "all"), at(now));
        let written = run(&mut queue, now, now + 3_600);
        assert_eq!(written.len(), 51, "what was missed is made up for");
    }

    #[test]
    fn retry_after_applies_to_every_context() {
        let mut queue = StatusQueue::default();
        queue.want(all(3, 1, CommitState::Failure, "x"), at(0));
        let Next::Write(first) = queue.next(at(5)) else { panic!("the whole is due") };
        assert!(queue.answered(&first, Ok(()), at(5), 0).is_none());
        let Next::Write(part) = queue.next(at(5)) else { panic!("parts are due") };
        let limited = Rejection::Later { after: Some(at(600)), message: "limit".into() };
        assert!(queue.answered(&part, Err(limited), at(5), 0).is_some());
        assert_eq!(queue.next(at(6)), Next::Wait(at(605)));
    }

    #[test]
    fn statuses_of_an_earlier_process_are_closed_and_no_others() {
        let mut before = StatusQueue::default();
        before.want(all(2, 1, CommitState::Pending, "0"), at(0));
        assert_eq!(before.open(), [], "nothing is on the forge");
        run(&mut before, 0, 1_000);
        before.want(vec![status(None, 1, CommitState::Success, "1")], at(1_000));
        run(&mut before, 1_000, 2_000);
        before.want(all(1, 2, CommitState::Pending, "0"), at(3_000));
        run(&mut before, 3_000, 4_000);
        let open = before.open();
        let of = |part: Option<&str>| OpenStatus {
            commit: CommitId::parse(&"02".repeat(20)).unwrap(),
            part: part.map(str::to_owned),
        };
        assert_eq!(open, [of(None), of(Some("edge-000"))]);

        for resume_first in [true, false] {
            let mut next = StatusQueue::default();
            if resume_first {
                next.resume(&open);
                assert_eq!((next.open(), next.next(at(0))), (open.clone(), Next::Idle));
            }
            next.want(all(1, 3, CommitState::Success, "1"), at(0));
            if !resume_first {
                next.resume(&open);
            }
            let written = run(&mut next, 0, 1_000);
            let closed: Vec<_> = written
                .iter()
                .filter(|(_, status)| status.state == CommitState::Superseded)
                .map(|(_, status)| (status.commit, status.part.clone(), &*status.description))
                .collect();
            let line = "superseded by 03030303";
            let expected = [of(None), of(Some("edge-000"))].map(|one| (one.commit, one.part, line));
            assert_eq!((closed, written.len()), (expected.to_vec(), 4));
            assert_eq!(next.open(), []);
        }

        // The same commit goes on.
        let mut same = StatusQueue::default();
        same.resume(&open);
        same.want(all(1, 2, CommitState::Success, "1"), at(0));
        let written = run(&mut same, 0, 1_000);
        assert!(written.iter().all(|(_, status)| status.state == CommitState::Success));
        assert_eq!((written.len(), same.open()), (2, Vec::new()));
    }

    #[test]
    fn status_counts_as_open_from_before_its_write() {
        let mut queue = StatusQueue::default();
        let pending = status(None, 1, CommitState::Pending, "0");
        let open = OpenStatus { commit: pending.commit, part: None };
        queue.want(vec![pending.clone()], at(0));
        assert_eq!(queue.intend(&pending), Some(open.clone()));
        assert_eq!(queue.open(), std::slice::from_ref(&open));
        let later = Rejection::Later { after: None, message: "no answer".into() };
        queue.answered(&pending, Err(later), at(1), 0);
        assert_eq!(queue.open(), std::slice::from_ref(&open), "the forge may have it");
        queue.answered(&pending, Ok(()), at(2), 0);
        assert_eq!(queue.open(), std::slice::from_ref(&open));
        let done = status(None, 1, CommitState::Success, "1");
        queue.want(vec![done.clone()], at(3));
        assert_eq!((queue.intend(&done), queue.open()), (None, vec![open]));
        queue.answered(&done, Ok(()), at(4), 0);
        assert_eq!(queue.open(), []);

        // A commit that the forge does not know, and one that a newer commit has replaced.
        let mut queue = StatusQueue::default();
        queue.intend(&pending);
        let gone = Rejection::NoCommit { message: "unknown".into() };
        queue.answered(&pending, Err(gone), at(0), 0);
        assert_eq!(queue.open(), []);
        queue.want(vec![pending.clone()], at(0));
        queue.intend(&pending);
        queue.want(vec![status(None, 2, CommitState::Pending, "0")], at(1));
        assert_eq!(queue.open(), []);
    }

    #[test]
    fn removed_cluster_gets_no_more_statuses() {
        let mut queue = StatusQueue::default();
        queue.want(all(2, 1, CommitState::Failure, "x"), at(0));
        queue.want(all(1, 1, CommitState::Failure, "x"), at(1));
        let parts = run(&mut queue, 1, 1_000).into_iter().filter_map(|(_, status)| status.part);
        assert_eq!(parts.collect::<Vec<_>>(), ["edge-000"]);
        assert_eq!(queue.parts.len(), 1);
    }
}
