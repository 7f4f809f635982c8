//! When the certificates of the webhooks change. Each serving certificate has an authority of its
//! own, whose key is thrown away. The API servers trust a new authority before it is used, and an
//! old one for a while after its last use.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::limits;

/// The times of rotation, all from the lifetime of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotationSchedule {
    lifetime: Duration,
}

impl RotationSchedule {
    /// For certificates that are valid for so long.
    pub fn new(lifetime: Duration) -> Self {
        Self { lifetime }
    }

    /// How long a certificate is valid.
    pub fn lifetime(self) -> Duration {
        self.lifetime
    }

    /// The age at which a certificate gets a successor.
    fn renew_at(self) -> Duration {
        self.lifetime / 2
    }

    /// How long both authorities are trusted before the change, and again after it.
    pub fn overlap(self) -> Duration {
        (self.lifetime / 8).min(limits::OVERLAP_MAX)
    }

    /// Between two looks. There are several in an overlap.
    pub fn check_interval(self) -> Duration {
        (self.lifetime / 64).min(limits::CHECK_INTERVAL_MAX)
    }
}

/// When a certificate was made, and when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateDates {
    /// When it was made.
    pub created: Timestamp,
    /// When it ends.
    pub expires: Timestamp,
}

/// The dates of the stored certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredDates {
    /// Those of the certificate that is served.
    pub current: CertificateDates,
    /// Those of its successor, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<CertificateDates>,
    /// When the predecessor was replaced, if its authority is still trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Timestamp>,
}

/// The next change of the stored certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationStep {
    /// None now.
    Keep,
    /// Make a certificate and serve it at once: the present one has ended.
    Replace,
    /// Make a successor, and announce its authority.
    AddNext,
    /// Serve the successor. The authority of the predecessor stays trusted.
    Promote,
    /// No longer trust the authority of the predecessor.
    DropPrevious,
}

impl StoredDates {
    /// The next change. `next_is_trusted`: the API servers have the authority of the successor.
    pub fn step(
        &self,
        next_is_trusted: bool,
        now: Timestamp,
        schedule: RotationSchedule,
    ) -> RotationStep {
        let is_past = |from: Timestamp, wait: Duration| now.duration_since(from) >= signed(wait);
        if now >= self.current.expires {
            return RotationStep::Replace;
        }
        match (self.next, self.replaced) {
            (Some(next), _) if next_is_trusted && is_past(next.created, schedule.overlap()) => {
                RotationStep::Promote
            }
            (_, Some(at)) if is_past(at, schedule.overlap()) => RotationStep::DropPrevious,
            (None, None) if is_past(self.current.created, schedule.renew_at()) => {
                RotationStep::AddNext
            }
            _ => RotationStep::Keep,
        }
    }
}

fn signed(duration: Duration) -> jiff::SignedDuration {
    jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn dates(created: i64) -> CertificateDates {
        CertificateDates { created: at(created), expires: at(created + 800) }
    }

    fn schedule() -> RotationSchedule {
        RotationSchedule::new(Duration::from_secs(800))
    }

    #[test]
    fn default_times_are_hours_and_seconds() {
        let ninety_days = RotationSchedule::new(Duration::from_secs(90 * 86_400));
        assert_eq!(ninety_days.overlap(), Duration::from_secs(3_600));
        assert_eq!(ninety_days.check_interval(), Duration::from_secs(10));
        assert!(schedule().overlap() >= 8 * schedule().check_interval());
    }

    #[test]
    fn each_step_has_its_time() {
        use RotationStep::{AddNext, DropPrevious, Keep, Promote, Replace};
        let alone = StoredDates { current: dates(0), next: None, replaced: None };
        let announced = StoredDates { next: Some(dates(400)), ..alone };
        let replaced = StoredDates { current: dates(400), next: None, replaced: Some(at(500)) };
        for (stored, is_trusted, now, expected) in [
            (alone, false, 399, Keep),
            (alone, false, 400, AddNext),
            (announced, true, 499, Keep),
            (announced, false, 500, Keep),
            (announced, true, 500, Promote),
            (announced, false, 799, Keep),
            (replaced, false, 599, Keep),
            (replaced, false, 600, DropPrevious),
            (alone, false, 800, Replace),
            (announced, false, 800, Replace),
            (replaced, false, 1_200, Replace),
            // A clock that is behind changes nothing.
            (alone, false, -1_000, Keep),
        ] {
            let step = stored.step(is_trusted, at(now), schedule());
            assert_eq!(step, expected, "{stored:?} {is_trusted} {now}");
        }
    }

    /// Applies every step as soon as it is due, for ten lifetimes.
    #[test]
    fn rotation_goes_round_without_an_end_of_validity() {
        let mut stored = StoredDates { current: dates(0), next: None, replaced: None };
        let mut promoted = 0;
        for now in 0..8_000 {
            match stored.step(true, at(now), schedule()) {
                RotationStep::Keep => {}
                RotationStep::Replace => panic!("a certificate ended at {now}"),
                RotationStep::AddNext => stored.next = Some(dates(now)),
                RotationStep::Promote => {
                    let next = stored.next.take().unwrap();
                    stored = StoredDates { current: next, next: None, replaced: Some(at(now)) };
                    promoted += 1;
                }
                RotationStep::DropPrevious => stored.replaced = None,
            }
        }
        assert_eq!(promoted, 19);
    }
}
