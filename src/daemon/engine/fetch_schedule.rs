//! When an engine fetches its source.

use std::time::{Duration, Instant};

use gitwork_core::plan::backoff;

/// The time of the next fetch: after the interval, after a backoff, or at once for a hint.
#[derive(Debug)]
pub(super) struct FetchSchedule {
    interval: Duration,
    next: Instant,
    /// Failed fetches in a row.
    failures: u32,
    /// A hint came during the running fetch, which may have missed its cause: fetch again.
    hinted: bool,
    /// A fetch has ended since the last plan.
    ended: bool,
}

impl FetchSchedule {
    /// The first fetch is due at `now`. `interval` is the time between two fetches.
    pub fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, next: now, failures: 0, hinted: false, ended: false }
    }

    /// Whether a fetch is due.
    pub fn is_due(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// When the next fetch is due.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Makes a fetch due, and another one if a fetch is running.
    pub fn hint(&mut self, now: Instant) {
        (self.next, self.hinted) = (now, true);
    }

    /// Makes a fetch due because the last one may have been too early. If it failed, its backoff
    /// decides.
    pub fn repeat(&mut self, now: Instant) {
        if self.failures == 0 {
            self.next = now;
        }
    }

    /// Whether a fetch has ended since the last plan began.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// A plan begins, with what the last fetch brought.
    pub fn planned(&mut self) {
        self.ended = false;
    }

    /// A fetch begins: it serves all hints up to now. Gives whether there were any since the last
    /// one began.
    pub fn begin(&mut self) -> bool {
        std::mem::take(&mut self.hinted)
    }

    /// A fetch has ended. `seed` spreads the time of the next one.
    pub fn end(&mut self, succeeded: bool, now: Instant, seed: u64) {
        self.ended = true;
        self.failures = if succeeded { 0 } else { self.failures.saturating_add(1) };
        let wait = backoff::next_fetch(self.interval, self.failures, seed);
        self.next = now + if self.hinted { Duration::ZERO } else { wait };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(60);

    #[test]
    fn a_hint_during_a_fetch_makes_the_next_one_due_at_once() {
        let start = Instant::now();
        let mut schedule = FetchSchedule::new(INTERVAL, start);
        assert!(schedule.is_due(start));
        assert!(!schedule.begin());
        schedule.end(true, start, 7);
        assert!(!schedule.is_due(start + INTERVAL / 2));
        assert!(schedule.is_due(start + INTERVAL * 2));
        schedule.hint(start);
        assert!(schedule.is_due(start));
        assert!(schedule.begin(), "what was fetched before the hint must not serve it");
        schedule.hint(start);
        schedule.end(false, start, 7);
        assert!(schedule.is_due(start), "a failed fetch does not serve the hint");
        schedule.begin();
        schedule.end(true, start, 7);
        assert!(!schedule.is_due(start), "the hint was served");
    }

    #[test]
    fn a_doubtful_read_is_repeated_at_once_unless_fetches_fail() {
        let start = Instant::now();
        let mut schedule = FetchSchedule::new(INTERVAL, start);
        schedule.begin();
        schedule.end(true, start, 7);
        schedule.repeat(start);
        assert!(schedule.is_due(start));
        schedule.begin();
        schedule.end(false, start, 7);
        let backoff = schedule.next();
        assert!(backoff > start);
        schedule.repeat(start);
        assert_eq!(schedule.next(), backoff);
    }
}
