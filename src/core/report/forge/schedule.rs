//! Decides which commit status is written now. Writes only changes, within the forge's limits, and
//! skips superseded steps. Times are durations since any fixed start.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::response::Rejection;
use super::{CommitState, CommitStatus};
use gitwork_retry::RetryClass;

use crate::model::name::CommitId;

/// How long a state must last before it is written. A new commit's first state is written at once.
const SETTLE: Duration = Duration::from_secs(2);
/// Time between two writes of a commit that change only the description.
const PROGRESS: Duration = Duration::from_secs(20);
/// GitHub accepts 1,000 statuses for one commit and context. The last ones are reserved for changes
/// of state.
const PROGRESS_WRITES_MAX: u32 = 700;
const WRITES_MAX: u32 = 990;
/// Commits in memory. Older ones get no more statuses.
const COMMITS_MAX: usize = 64;
/// Retry interval of a rejection that the operator must fix, for example by a new token.
const BLOCKED: Duration = Duration::from_secs(120);

/// How long a part's first pending status waits. A part that is done sooner gets one status only.
const PART_PENDING: Duration = Duration::from_secs(30);

/// The next action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Write this status, then call [`Schedule::answered`].
    Write(CommitStatus),
    /// Wait until this time.
    Wait(Duration),
    /// Wait until the status changes.
    Idle,
}

/// The writes for one commit.
#[derive(Debug, Clone, Default)]
struct Written {
    last: Option<(CommitState, String)>,
    writes: u32,
    at: Duration,
    /// The forge accepts no more statuses for it, or does not know it.
    closed: bool,
    order: u64,
}

/// The statuses of one repository under one context.
#[derive(Debug, Default)]
pub struct Schedule {
    /// A part gets changes of state only, once they have settled.
    is_part: bool,
    wanted: Option<CommitStatus>,
    /// When the wanted state began.
    wanted_since: Duration,
    written: BTreeMap<CommitId, Written>,
    /// Older commits that are pending on the forge and superseded.
    overtaken: VecDeque<CommitStatus>,
    failures: u32,
    not_before: Duration,
    order: u64,
}

impl Schedule {
    /// The schedule of a cluster or group with its own context.
    pub fn of_part() -> Self {
        Self { is_part: true, ..Self::default() }
    }

    /// Whether the last write failed.
    pub fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Sets the wanted status of the newest commit.
    pub fn want(&mut self, status: CommitStatus, now: Duration) {
        match &self.wanted {
            Some(before) if before.commit == status.commit => {
                if before.state != status.state {
                    self.wanted_since = now;
                }
            }
            before => {
                if let Some(before) = before.clone() {
                    self.overtake(&before, status.commit);
                }
                self.overtaken.retain(|old| old.commit != status.commit);
                self.wanted_since = now;
            }
        }
        self.wanted = Some(status);
    }

    /// Marks a commit that is pending on the forge as superseded.
    fn overtake(&mut self, before: &CommitStatus, by: CommitId) {
        let last = self.written.get(&before.commit).and_then(|written| written.last.as_ref());
        if last.is_some_and(|(state, _)| *state == CommitState::Pending) {
            let description = format!("superseded by {}; {}", by.short(), before.description);
            let state = CommitState::Superseded;
            let part = before.part.clone();
            self.overtaken.push_back(CommitStatus {
                part,
                commit: before.commit,
                state,
                description,
            });
            if self.overtaken.len() > COMMITS_MAX {
                self.overtaken.pop_front();
            }
        }
    }

    /// The next action at `now`. Call it only while no write is in flight.
    pub fn next(&self, now: Duration) -> Next {
        let due = self.newest_due();
        let is_due = due.is_some_and(|due| due <= now);
        let newest = self.wanted.as_ref().filter(|_| is_due);
        match (newest.or(self.overtaken.front()), due) {
            (Some(_), _) if self.not_before > now => Next::Wait(self.not_before),
            (Some(status), _) => Next::Write(status.clone()),
            (None, Some(due)) => Next::Wait(due.max(self.not_before)),
            (None, None) => Next::Idle,
        }
    }

    /// When to write the newest commit's status; `None` if the forge has it.
    fn newest_due(&self) -> Option<Duration> {
        let wanted = self.wanted.as_ref()?;
        let first = match wanted.state {
            _ if !self.is_part => Duration::ZERO,
            CommitState::Pending => self.wanted_since + PART_PENDING,
            _ => self.wanted_since + SETTLE,
        };
        let Some(written) = self.written.get(&wanted.commit) else { return Some(first) };
        if written.closed || written.writes >= WRITES_MAX {
            return None;
        }
        match &written.last {
            None => Some(first),
            Some((state, _)) if *state != wanted.state => {
                Some((self.wanted_since + SETTLE).max(written.at + gap(written.writes, SETTLE)))
            }
            Some((_, words)) if self.is_part || *words == wanted.description => None,
            Some(_) if written.writes >= PROGRESS_WRITES_MAX => None,
            Some(_) => Some(written.at + gap(written.writes, PROGRESS)),
        }
    }

    /// Records the outcome of a write. Returns a rejection that is new, to be logged once.
    pub fn answered(
        &mut self,
        status: &CommitStatus,
        result: Result<(), Rejection>,
        now: Duration,
        seed: u64,
    ) -> Option<Rejection> {
        let first = self.failures == 0;
        match result {
            Ok(()) => {
                self.failures = 0;
                self.not_before = Duration::ZERO;
                self.note(status, now);
                None
            }
            Err(Rejection::Later { after, message }) => {
                let class = RetryClass::Unavailable { retry_after_seconds: None };
                let wait =
                    gitwork_retry::delay(self.failures, class, seed).max(Duration::from_secs(2));
                self.not_before = now + wait.max(after.unwrap_or_default());
                self.failures = self.failures.saturating_add(1);
                first.then_some(Rejection::Later { after, message })
            }
            Err(rejection @ Rejection::Blocked { .. }) => {
                // An old commit may be gone without any other problem.
                let is_newest = self.wanted.as_ref().is_none_or(|new| new.commit == status.commit);
                if is_newest {
                    self.not_before = now + BLOCKED;
                    self.failures = self.failures.saturating_add(1);
                }
                self.overtaken.retain(|old| old.commit != status.commit);
                first.then_some(rejection)
            }
            Err(rejection @ (Rejection::NoCommit { .. } | Rejection::Full { .. })) => {
                self.overtaken.retain(|old| old.commit != status.commit);
                self.entry(status.commit).closed = true;
                Some(rejection)
            }
        }
    }

    fn note(&mut self, status: &CommitStatus, now: Duration) {
        self.overtaken.retain(|old| old != status);
        let written = self.entry(status.commit);
        written.last = Some((status.state, status.description.clone()));
        written.writes = written.writes.saturating_add(1);
        written.at = now;
        // A newer commit may have arrived during the write.
        if let Some(wanted) = self.wanted.clone()
            && wanted.commit != status.commit
        {
            self.overtake(status, wanted.commit);
        }
    }

    fn entry(&mut self, commit: CommitId) -> &mut Written {
        self.order += 1;
        let order = self.order;
        if self.written.len() >= COMMITS_MAX && !self.written.contains_key(&commit) {
            let oldest = self.written.iter().min_by_key(|(_, written)| written.order);
            if let Some(oldest) = oldest.map(|(commit, _)| *commit) {
                self.written.remove(&oldest);
            }
        }
        let entry = self.written.entry(commit).or_default();
        entry.order = order;
        entry
    }
}

/// Time between two writes of a commit. It grows with the number of writes, so that a flapping
/// fleet stays within the forge's limit for one commit.
fn gap(writes: u32, first: Duration) -> Duration {
    match writes {
        0..50 => first,
        50..200 => first.max(Duration::from_secs(60)),
        200..500 => first.max(Duration::from_secs(300)),
        _ => first.max(Duration::from_secs(1_800)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(number: u8) -> CommitId {
        CommitId::parse(&format!("{number:02x}").repeat(20)).unwrap()
    }

    fn status(number: u8, state: CommitState, description: &str) -> CommitStatus {
        CommitStatus { part: None, commit: commit(number), state, description: description.into() }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Writes every due status until `end`. Returns times and statuses.
    fn run(schedule: &mut Schedule, mut now: u64, end: u64) -> Vec<(u64, CommitStatus)> {
        let mut written = Vec::new();
        while now <= end {
            match schedule.next(at(now)) {
                Next::Write(status) => {
                    assert_eq!(schedule.answered(&status, Ok(()), at(now), 0), None);
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
    fn the_first_status_comes_at_once_and_an_unchanged_one_never_again() {
        let mut schedule = Schedule::default();
        assert_eq!(schedule.next(at(0)), Next::Idle);
        let pending = status(1, CommitState::Pending, "0/2");
        schedule.want(pending.clone(), at(0));
        assert_eq!(run(&mut schedule, 0, 1_000), [(0, pending.clone())]);
        schedule.want(pending, at(5));
        assert_eq!(run(&mut schedule, 5, 1_000), []);
        let done = status(1, CommitState::Success, "2/2");
        schedule.want(done.clone(), at(10));
        assert_eq!(run(&mut schedule, 10, 1_000), [(12, done)]);
    }

    #[test]
    fn a_storm_of_changes_costs_few_writes() {
        let mut schedule = Schedule::default();
        let mut writes = 0;
        for step in 0..10_000_u64 {
            let now = step / 40;
            schedule.want(status(1, CommitState::Pending, &format!("{step}/10000")), at(now));
            writes += run(&mut schedule, now, now).len();
        }
        schedule.want(status(1, CommitState::Success, "10000/10000"), at(250));
        writes += run(&mut schedule, 250, 10_000).len();
        assert!((10..=20).contains(&writes), "{writes}");
    }

    #[test]
    fn a_state_that_does_not_last_is_not_written() {
        let mut schedule = Schedule::default();
        schedule.want(status(1, CommitState::Pending, "a"), at(0));
        run(&mut schedule, 0, 0);
        for second in 10..40 {
            let state = if second % 2 == 0 { CommitState::Failure } else { CommitState::Pending };
            schedule.want(status(1, state, "a"), at(second));
            assert_eq!(run(&mut schedule, second, second), []);
        }
    }

    #[test]
    fn a_fleet_that_flaps_for_weeks_stays_within_the_forges_limit() {
        let mut schedule = Schedule::default();
        let mut writes = 0;
        for step in 0..200_000_u64 {
            let state = if step % 2 == 0 { CommitState::Failure } else { CommitState::Success };
            schedule.want(status(1, state, &step.to_string()), at(step * 10));
            writes += run(&mut schedule, step * 10, step * 10 + 9).len();
        }
        assert!((500..1_000).contains(&writes), "{writes}");
    }

    #[test]
    fn only_pending_older_commits_are_superseded() {
        let mut schedule = Schedule::default();
        schedule.want(status(1, CommitState::Pending, "1/9"), at(0));
        run(&mut schedule, 0, 0);
        schedule.want(status(2, CommitState::Pending, "0/9"), at(1));
        let superseded = status(1, CommitState::Superseded, "superseded by 02020202; 1/9");
        let second = status(2, CommitState::Pending, "0/9");
        assert_eq!(run(&mut schedule, 1, 9), [(1, second), (1, superseded)]);
        schedule.want(status(2, CommitState::Failure, "8/9"), at(10));
        run(&mut schedule, 10, 100);
        schedule.want(status(3, CommitState::Pending, "0/9"), at(200));
        assert_eq!(run(&mut schedule, 200, 300), [(200, status(3, CommitState::Pending, "0/9"))]);
        // Never written, so nothing to supersede.
        schedule.want(status(4, CommitState::Pending, "x"), at(400));
        schedule.want(status(5, CommitState::Pending, "y"), at(400));
        let words: Vec<CommitId> =
            run(&mut schedule, 400, 500).into_iter().map(|(_, status)| status.commit).collect();
        assert_eq!(words, [commit(5), commit(3)]);
    }

    #[test]
    fn a_commit_that_comes_back_is_pending_again() {
        let mut schedule = Schedule::default();
        schedule.want(status(1, CommitState::Pending, "a"), at(0));
        run(&mut schedule, 0, 0);
        schedule.want(status(2, CommitState::Pending, "b"), at(1));
        schedule.want(status(1, CommitState::Pending, "a"), at(2));
        let written = run(&mut schedule, 2, 100);
        assert!(written.iter().all(|(_, s)| s.state != CommitState::Superseded), "{written:?}");
    }

    #[test]
    fn forge_gets_newest_status_after_an_hour_of_unavailability() {
        let mut schedule = Schedule::default();
        schedule.want(status(1, CommitState::Pending, "0"), at(0));
        let (mut reported, mut tries, mut now) = (0, 0, 0);
        while now < 3_600 {
            schedule.want(status(1, CommitState::Pending, &now.to_string()), at(now));
            match schedule.next(at(now)) {
                Next::Write(status) => {
                    let away = Rejection::Later { after: None, message: "away".into() };
                    reported +=
                        usize::from(schedule.answered(&status, Err(away), at(now), now).is_some());
                    tries += 1;
                }
                Next::Wait(until) => now = until.as_secs() + 1,
                Next::Idle => unreachable!(),
            }
        }
        assert!(
            reported == 1 && (40..200).contains(&tries),
            "reported {reported} times in {tries} tries"
        );
        schedule.want(status(1, CommitState::Success, "all"), at(now));
        let written = run(&mut schedule, now, now + 600);
        assert_eq!(written.len(), 1);
        assert_eq!(written[0].1.state, CommitState::Success);
    }

    #[test]
    fn retry_after_delays_next_write() {
        let mut schedule = Schedule::default();
        let pending = status(1, CommitState::Pending, "0");
        schedule.want(pending.clone(), at(0));
        let limited = Rejection::Later { after: Some(at(1_800)), message: "limit".into() };
        assert!(schedule.answered(&pending, Err(limited), at(0), 0).is_some());
        assert_eq!(schedule.next(at(1_000)), Next::Wait(at(1_800)));
        assert_eq!(schedule.next(at(1_800)), Next::Write(pending));
    }

    #[test]
    fn full_or_unknown_commit_does_not_affect_next_commit() {
        for rejection in [
            Rejection::Full { message: "full".into() },
            Rejection::NoCommit { message: "none".into() },
        ] {
            let mut schedule = Schedule::default();
            let first = status(1, CommitState::Pending, "0");
            schedule.want(first.clone(), at(0));
            assert!(schedule.answered(&first, Err(rejection), at(0), 0).is_some());
            schedule.want(status(1, CommitState::Success, "1"), at(1));
            assert_eq!(schedule.next(at(100)), Next::Idle);
            schedule.want(status(2, CommitState::Pending, "0"), at(200));
            assert!(matches!(schedule.next(at(200)), Next::Write(_)));
        }
    }

    #[test]
    fn missing_old_commit_does_not_delay_new_commit() {
        let mut schedule = Schedule::default();
        schedule.want(status(1, CommitState::Pending, "0"), at(0));
        run(&mut schedule, 0, 0);
        let new = status(2, CommitState::Success, "1");
        schedule.want(new.clone(), at(1));
        assert!(schedule.answered(&new, Ok(()), at(1), 0).is_none());
        let Next::Write(old) = schedule.next(at(1)) else { panic!("the old one is overtaken") };
        let blocked = Rejection::Blocked { message: "404".into() };
        assert!(schedule.answered(&old, Err(blocked), at(1), 0).is_some());
        assert_eq!(schedule.next(at(1)), Next::Idle);
        let newer = status(3, CommitState::Pending, "0");
        schedule.want(newer.clone(), at(2));
        assert_eq!(schedule.next(at(2)), Next::Write(newer));
    }

    #[test]
    fn memory_is_bounded() {
        let mut schedule = Schedule::default();
        for number in 0..=255 {
            schedule.want(status(number, CommitState::Success, "x"), at(number.into()));
            run(&mut schedule, number.into(), number.into());
        }
        assert!(schedule.written.len() <= COMMITS_MAX);
    }
}
