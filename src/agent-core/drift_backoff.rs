//! How long to wait: after failures, and where somebody else keeps changing what we put back.

use std::collections::VecDeque;
use std::time::Duration;

/// Upstream's first wait.
const FIRST: Duration = Duration::from_millis(5);
/// Upstream waits for up to 1,000 s; a work that could be applied should not wait that long.
const LONGEST: Duration = Duration::from_secs(300);
/// Where the executor may not do something.
pub const NOT_ALLOWED: Duration = Duration::from_secs(60);
/// Where another manager owns a field, upstream tries again in 4 to 6 minutes.
pub const APPLY_CONFLICT: Duration = Duration::from_secs(300);

/// The wait after `failures` in a row, the first counting as 0: it doubles.
pub fn retry_after(failures: u32) -> Duration {
    FIRST.saturating_mul(2_u32.saturating_pow(failures.min(30))).min(LONGEST)
}

/// Corrections of one object, as far as they say whether somebody fights us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DriftBackoff {
    /// When we last put it back, newest last, as time since the agent's start.
    corrections: VecDeque<Duration>,
    /// How often in a row we had to after waiting.
    rounds: u32,
}

const WINDOW: Duration = Duration::from_secs(60);
/// So many corrections within the window are taken for an edit by hand.
const FREE: usize = 5;

impl DriftBackoff {
    /// Notes that the object was put back.
    pub fn corrected(&mut self, now: Duration) {
        if let Some(last) = self.corrections.back()
            && now.saturating_sub(*last) > self.calm()
        {
            self.corrections.clear();
            self.rounds = 0;
        }
        if self.corrections.len() >= FREE {
            self.corrections.pop_front();
            self.rounds = self.rounds.saturating_add(1);
        }
        self.corrections.push_back(now);
    }

    /// Being left alone for this long ends the fight.
    fn calm(&self) -> Duration {
        WINDOW.max(self.wait().saturating_mul(2))
    }

    fn wait(&self) -> Duration {
        match self.rounds {
            0 => Duration::ZERO,
            rounds => Duration::from_secs(1)
                .saturating_mul(2_u32.saturating_pow(rounds.min(20) - 1))
                .min(LONGEST),
        }
    }

    /// How long to let the object be before it is put back again.
    pub fn hold(&self, now: Duration) -> Duration {
        let Some(last) = self.corrections.back() else { return Duration::ZERO };
        if now.saturating_sub(*last) > self.calm() || self.corrections.len() < FREE {
            return Duration::ZERO;
        }
        let wait = self.wait().max(Duration::from_secs(1));
        (*last + wait).saturating_sub(now)
    }

    /// A note for the status, if corrections are delayed or were delayed lately.
    pub fn note(&self, now: Duration) -> Option<String> {
        let hold = self.hold(now);
        if hold.is_zero() && self.rounds == 0 {
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
    fn edits_by_hand_are_put_back_at_once_and_a_fight_is_not() {
        let mut fight = DriftBackoff::default();
        for n in 0..4 {
            fight.corrected(second(n));
            assert_eq!(fight.hold(second(n)), Duration::ZERO);
        }
        fight.corrected(second(4));
        assert_eq!(fight.hold(second(4)), second(1));
        let mut now = 5;
        let mut waits = Vec::new();
        for _ in 0..12 {
            fight.corrected(second(now));
            let hold = fight.hold(second(now)).as_secs();
            waits.push(hold);
            now += hold;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert!(fight.note(second(now)).is_some());
        assert_eq!(fight.hold(second(now + 601)), Duration::ZERO, "the other gave up");
        fight.corrected(second(now + 700));
        assert_eq!(
            (fight.hold(second(now + 700)), fight.note(second(now + 700))),
            (Duration::ZERO, None)
        );
    }
}
