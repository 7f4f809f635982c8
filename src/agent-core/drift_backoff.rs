//! Waits: after failures, and before corrections of an object that another client keeps changing.

use std::collections::VecDeque;
use std::time::Duration;

use gitwork_retry::Backoff;

/// Upstream waits for up to 1,000 s; a work that could be applied should not wait that long.
const LONGEST: Duration = Duration::from_secs(300);
/// After failed passes. The first wait is upstream's.
const FAILURES: Backoff = Backoff::new(Duration::from_millis(5), LONGEST);
/// Between corrections of a contended object.
const CONTENTIONS: Backoff = Backoff::new(Duration::from_secs(1), LONGEST);
/// Where the executor may not do something.
pub const NOT_ALLOWED: Duration = Duration::from_secs(60);
/// Where another manager owns a field, upstream tries again in 4 to 6 minutes.
pub const APPLY_CONFLICT: Duration = Duration::from_secs(300);

/// The wait after `failures` in a row, the first counting as 0: it doubles.
pub fn retry_after(failures: u32) -> Duration {
    FAILURES.wait(failures)
}

/// The latest corrections of one object. Many within a short time mean contention: another client
/// keeps undoing them. Corrections are then delayed, with exponential backoff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DriftBackoff {
    /// The latest corrections, newest last, as time since the agent's start.
    corrections: VecDeque<Duration>,
    /// The number of corrections in a row after the first [`IMMEDIATE_CORRECTIONS`].
    contentions: u32,
}

/// The shortest quiet period, after which earlier corrections do not count.
const QUIET_MIN: Duration = Duration::from_secs(60);
/// Number of corrections without delay: they may be of edits by hand.
const IMMEDIATE_CORRECTIONS: usize = 5;

impl DriftBackoff {
    /// Records a correction of the object.
    pub fn corrected(&mut self, now: Duration) {
        if let Some(last) = self.corrections.back()
            && now.saturating_sub(*last) > self.quiet_period()
        {
            self.corrections.clear();
            self.contentions = 0;
        }
        if self.corrections.len() >= IMMEDIATE_CORRECTIONS {
            self.corrections.pop_front();
            self.contentions = self.contentions.saturating_add(1);
        }
        self.corrections.push_back(now);
    }

    /// The time without corrections that ends the contention.
    fn quiet_period(&self) -> Duration {
        QUIET_MIN.max(self.backoff().saturating_mul(2))
    }

    fn backoff(&self) -> Duration {
        let doublings = self.contentions.checked_sub(1);
        doublings.map_or(Duration::ZERO, |doublings| CONTENTIONS.wait(doublings))
    }

    /// The wait before the next correction of the object; zero: correct it at once.
    pub fn delay(&self, now: Duration) -> Duration {
        let Some(last) = self.corrections.back() else { return Duration::ZERO };
        if now.saturating_sub(*last) > self.quiet_period()
            || self.corrections.len() < IMMEDIATE_CORRECTIONS
        {
            return Duration::ZERO;
        }
        let wait = CONTENTIONS.wait(self.contentions.saturating_sub(1));
        (*last + wait).saturating_sub(now)
    }

    /// A note for the status, if corrections are delayed or were delayed lately.
    pub fn note(&self, now: Duration) -> Option<String> {
        let delay = self.delay(now);
        if delay.is_zero() && self.contentions == 0 {
            return None;
        }
        Some(
            "another client keeps changing this object, so it is put back less often; \
             look for the other manager in metadata.managedFields"
                .into(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn waits_double() {
        assert_eq!(retry_after(0), Duration::from_millis(5));
        assert_eq!(retry_after(3), Duration::from_millis(40));
        assert_eq!(retry_after(u32::MAX), LONGEST);
    }

    #[test]
    fn edits_by_hand_are_corrected_at_once_and_contended_objects_with_backoff() {
        let mut drift_backoff = DriftBackoff::default();
        for n in 0..4 {
            drift_backoff.corrected(second(n));
            assert_eq!(drift_backoff.delay(second(n)), Duration::ZERO);
        }
        drift_backoff.corrected(second(4));
        assert_eq!(drift_backoff.delay(second(4)), second(1));
        let mut now = 5;
        let mut waits = Vec::new();
        for _ in 0..12 {
            drift_backoff.corrected(second(now));
            let delay = drift_backoff.delay(second(now)).as_secs();
            waits.push(delay);
            now += delay;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert!(drift_backoff.note(second(now)).is_some());
        assert_eq!(drift_backoff.delay(second(now + 601)), Duration::ZERO, "the other gave up");
        drift_backoff.corrected(second(now + 700));
        assert_eq!(
            (drift_backoff.delay(second(now + 700)), drift_backoff.note(second(now + 700))),
            (Duration::ZERO, None)
        );
    }
}
