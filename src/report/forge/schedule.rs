//! Decides which commit status is written now. Writes only changes, within the forge's limits, and
//! skips superseded steps. Times are durations since any fixed start.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::response::Rejection;
use super::{CommitState, CommitStatus};
use gitwork_retry::RetryClass;

use gitwork_core::model::name::CommitId;

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
    /// Commits that are pending on the forge since an earlier process.
    resumed: BTreeSet<CommitId>,
    failures: u32,
    not_before: Duration,
    order: u64,
}

impl Schedule {
    /// The schedule of a cluster or group with its own context.
    pub(crate) fn of_part() -> Self {
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
        self.overtake_resumed();
    }

    /// Adopts a status that an earlier process left pending on the forge.
    pub fn resume(&mut self, commit: CommitId) {
        let is_known = self.written.contains_key(&commit);
        if !is_known && self.resumed.len() < COMMITS_MAX {
            self.resumed.insert(commit);
            self.overtake_resumed();
        }
    }

    /// Marks the resumed commits as superseded, but for the newest one.
    fn overtake_resumed(&mut self) {
        let Some(wanted) = self.wanted.clone() else { return };
        for commit in self.resumed.extract_if(.., |commit| *commit != wanted.commit) {
            let description = format!("superseded by {}", wanted.commit.short());
            let state = CommitState::Superseded;
            let status = CommitStatus { commit, state, description, ..wanted.clone() };
            self.overtaken.push_back(status);
        }
    }

    /// The commits that are pending on the forge.
    pub fn open(&self) -> BTreeSet<CommitId> {
        let is_open = |written: &Written| {
            let state = written.last.as_ref().map(|(state, _)| *state);
            state == Some(CommitState::Pending) && !written.closed
        };
        let written = self.written.iter().filter(|(_, written)| is_open(written));
        let overtaken = self.overtaken.iter().map(|status| status.commit);
        written.map(|(commit, _)| *commit).chain(overtaken).chain(self.resumed.clone()).collect()
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
                self.resumed.remove(&status.commit);
                self.entry(status.commit).closed = true;
                Some(rejection)
            }
        }
    }

    fn note(&mut self, status: &CommitStatus, now: Duration) {
        self.overtaken.retain(|old| old != status);
        self.resumed.remove(&status.commit);
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
pub(super) mod tests;
