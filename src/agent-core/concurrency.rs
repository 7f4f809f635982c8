//! How many requests to one API server may be under way: fewer after it said that it has too many.

use std::time::Duration;

/// One overload answers many requests with 429: those of one such time count once.
const SAME_OVERLOAD: Duration = Duration::from_secs(1);
/// The time without overload after which one more request is allowed.
const RECOVERY: Duration = Duration::from_secs(2);

/// The limit of requests under way. After a 429 it is half of those that were, and rises by one
/// every two seconds.
///
/// Times are since the agent's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConcurrencyLimit {
    allowed: usize,
    max: usize,
    /// The last change, from which the next rise counts.
    changed: Duration,
    /// The last overload.
    overloaded: Option<Duration>,
}

impl ConcurrencyLimit {
    /// No limit below `max` until the first overload.
    pub fn new(max: usize) -> Self {
        let max = max.max(1);
        Self { allowed: max, max, changed: Duration::ZERO, overloaded: None }
    }

    /// The number of requests that may be under way.
    pub fn allowed(&mut self, now: Duration) -> usize {
        let waited = now.saturating_sub(self.changed).as_millis() / RECOVERY.as_millis();
        if self.allowed < self.max && waited > 0 {
            let more = usize::try_from(waited).unwrap_or(usize::MAX);
            self.allowed = self.allowed.saturating_add(more).min(self.max);
            self.changed = now;
        }
        self.allowed
    }

    /// The API server answered with 429 while `under_way` requests were. Returns the new limit,
    /// unless the answer is one of many to the same overload.
    pub fn overloaded(&mut self, now: Duration, under_way: usize) -> Option<usize> {
        let last = self.overloaded.replace(now);
        if last.is_some_and(|last| now.saturating_sub(last) < SAME_OVERLOAD) {
            return None;
        }
        self.allowed = (self.allowed(now).min(under_way) / 2).max(1);
        self.changed = now;
        Some(self.allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn limit_halves_once_for_each_overload_and_recovers_by_one_every_two_seconds() {
        let mut limit = ConcurrencyLimit::new(40);
        assert_eq!(limit.allowed(at(0)), 40);
        assert_eq!(limit.overloaded(at(100), 40), Some(20));
        for answer in 1..20 {
            assert_eq!(limit.overloaded(at(100 + answer), 40), None, "the same overload");
        }
        assert_eq!(limit.allowed(at(200)), 20);
        assert_eq!(limit.overloaded(at(1_300), 20), Some(10));
        assert_eq!(limit.allowed(at(3_299)), 10);
        assert_eq!(limit.allowed(at(3_300)), 11);
        assert_eq!(limit.allowed(at(5_299)), 11);
        assert_eq!(limit.allowed(at(9_300)), 14);
        assert_eq!(limit.allowed(at(1_000_000)), 40, "never above the maximum");
    }

    #[test]
    fn first_overload_halves_what_was_sent_rather_than_what_was_allowed() {
        let mut limit = ConcurrencyLimit::new(64);
        assert_eq!(limit.overloaded(at(100), 10), Some(5));
    }

    #[test]
    fn one_request_is_always_allowed() {
        let mut limit = ConcurrencyLimit::new(0);
        for second in 0..20 {
            limit.overloaded(Duration::from_secs(second), 1);
            assert_eq!(limit.allowed(Duration::from_secs(second)), 1);
        }
    }
}
