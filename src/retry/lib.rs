//! Failures: the view of an operation's error that callers, the command line and the log share
//! ([`operation_error`]); exponential backoff with jitter, and the class that selects its bounds.
//!
//! Pure: the caller counts failures, reads the clock and supplies the random seed.
//!
//! ```
//! use gitwork_retry::{RetryClass, delay};
//!
//! let class = RetryClass::Unavailable { retry_after_seconds: Some(7) };
//! // Never sooner than the server asks for.
//! assert!(delay(0, class, 42).as_secs() >= 7);
//! ```

use std::time::Duration;

pub mod operation_error;

/// What a failure means for the next try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryClass {
    /// The object changed since it was read: read it again and plan again.
    Stale,
    /// The server did not answer, is overloaded, or asked to wait (`Retry-After`, in seconds).
    Unavailable {
        /// The wait that the server requests.
        retry_after_seconds: Option<u64>,
    },
    /// A person must act on the server first: a namespace, a permission or a CRD is missing.
    Blocked,
    /// The server rejects the object. Only a change in Git fixes it, or a change of a webhook or
    /// CRD, so it is tried again at long intervals.
    Rejected,
}

impl RetryClass {
    /// The bounds of the waits of this class.
    pub fn backoff(self) -> Backoff {
        let (first_ms, longest_ms) = match self {
            Self::Stale => (50, 5_000),
            Self::Unavailable { .. } => (500, 60_000),
            Self::Blocked => (5_000, 120_000),
            Self::Rejected => (60_000, 900_000),
        };
        Backoff::new(Duration::from_millis(first_ms), Duration::from_millis(longest_ms))
    }
}

/// A wait that doubles with each failure in a row, between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    /// Waits `first` after one failure, and never longer than `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The wait without jitter. `failures` counts the failures in a row before this one, from 0.
    pub fn wait(self, failures: u32) -> Duration {
        self.first.saturating_mul(2_u32.saturating_pow(failures)).min(self.longest)
    }

    /// The wait with jitter: see [`spread_by_quarter`].
    pub fn delay(self, failures: u32, seed: u64) -> Duration {
        spread_by_quarter(self.wait(failures), seed)
    }
}

/// The longest `Retry-After` that is followed: a broken proxy must not stop gitwork for a day.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// The wait before the next try. `failures` counts the failures in a row before this one, from 0.
///
/// The wait has a jitter of a quarter to each side, chosen by `seed`. Use one seed for each key and
/// failure, so that keys that failed together are not retried together. The wait is never shorter
/// than the server's `Retry-After`, up to 300 s.
pub fn delay(failures: u32, class: RetryClass, seed: u64) -> Duration {
    let wait = class.backoff().wait(failures);
    let asked = match class {
        RetryClass::Unavailable { retry_after_seconds: Some(seconds) } => {
            Duration::from_secs(seconds).min(RETRY_AFTER_MAX)
        }
        _ => Duration::ZERO,
    };
    if asked > wait {
        asked + jitter(asked / 4, seed)
    } else {
        spread_by_quarter(wait, seed).max(asked)
    }
}

/// Retries of one call within a bound of time, for a program that ends afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundedRetries {
    bound: Duration,
    failures: u32,
}

impl BoundedRetries {
    /// Retries until `bound` after the first try.
    pub const fn new(bound: Duration) -> Self {
        Self { bound, failures: 0 }
    }

    /// The wait after a failure; `None` if the next try would come after the bound. `elapsed`:
    /// since the first try. A server that asks for a longer wait than the bound is not asked again.
    pub fn wait(&mut self, elapsed: Duration, class: RetryClass, seed: u64) -> Option<Duration> {
        let wait = delay(self.failures, class, seed);
        self.failures = self.failures.saturating_add(1);
        (elapsed.saturating_add(wait) <= self.bound).then_some(wait)
    }
}

/// `wait`, made shorter or longer by at most a quarter, as `seed` chooses.
pub fn spread_by_quarter(wait: Duration, seed: u64) -> Duration {
    wait * 3 / 4 + jitter(wait / 2, seed)
}

/// A part of `range`, chosen by `seed`: SplitMix64's output function over it.
pub fn jitter(range: Duration, seed: u64) -> Duration {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    range.mul_f64((mixed >> 11) as f64 / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn bounded_retries_end_at_their_bound_and_follow_the_server() {
        let bound = Duration::from_secs(20);
        for seed in 0..100 {
            let mut retries = BoundedRetries::new(bound);
            let (mut elapsed, mut tries) = (Duration::ZERO, 1);
            let class = RetryClass::Unavailable { retry_after_seconds: None };
            while let Some(wait) = retries.wait(elapsed, class, seed) {
                elapsed += wait;
                tries += 1;
            }
            assert!((5..=8).contains(&tries) && elapsed <= bound, "{tries} {elapsed:?}");
            let asked = |seconds| RetryClass::Unavailable { retry_after_seconds: Some(seconds) };
            let mut retries = BoundedRetries::new(bound);
            let wait = retries.wait(Duration::ZERO, asked(7), seed);
            assert!(wait.is_some_and(|wait| wait >= Duration::from_secs(7)), "{wait:?}");
            assert_eq!(retries.wait(Duration::ZERO, asked(21), seed), None);
            assert_eq!(retries.wait(bound, asked(0), seed), None);
        }
    }

    fn within(actual: Duration, middle_ms: u64) -> bool {
        let middle = Duration::from_millis(middle_ms);
        middle * 3 / 4 <= actual && actual <= middle * 5 / 4
    }

    #[test]
    fn waits_double_up_to_their_bound() {
        let unavailable = RetryClass::Unavailable { retry_after_seconds: None };
        for (failures, class, middle_ms) in [
            (0, RetryClass::Stale, 50),
            (1, RetryClass::Stale, 100),
            (30, RetryClass::Stale, 5_000),
            (0, unavailable, 500),
            (3, unavailable, 4_000),
            (u32::MAX, unavailable, 60_000),
            (0, RetryClass::Blocked, 5_000),
            (9, RetryClass::Blocked, 120_000),
            (0, RetryClass::Rejected, 60_000),
            (40, RetryClass::Rejected, 900_000),
        ] {
            for seed in [0, 1, 7, u64::MAX] {
                let actual = delay(failures, class, seed);
                assert!(within(actual, middle_ms), "{class:?} {failures} {seed}: {actual:?}");
            }
        }
    }

    #[test]
    fn retry_after_is_followed_up_to_five_minutes() {
        for (asked, failures, at_least, at_most) in
            [(7, 0, 7, 9), (1, 5, 12, 20), (30, 6, 30, 40), (1 << 40, 0, 300, 375)]
        {
            for seed in 0..100 {
                let class = RetryClass::Unavailable { retry_after_seconds: Some(asked) };
                let actual = delay(failures, class, seed).as_secs_f64();
                assert!(actual >= f64::from(at_least), "{asked} {failures} {seed}: {actual}");
                assert!(actual <= f64::from(at_most), "{asked} {failures} {seed}: {actual}");
            }
        }
    }

    #[test]
    fn keys_that_failed_together_are_retried_apart() {
        let waits: BTreeSet<Duration> =
            (0..1_000).map(|seed| delay(4, RetryClass::Blocked, seed)).collect();
        assert!(waits.len() > 990, "{}", waits.len());
        let middle = waits.iter().sum::<Duration>() / u32::try_from(waits.len()).unwrap();
        assert!((70.0..90.0).contains(&middle.as_secs_f64()), "{middle:?}");
    }
}
