//! How long to wait before an effect is tried again. Pure: the caller counts attempts and knows the time.

use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use super::digest::Digest;
use super::name::WorkKey;
use super::plan::Effect;

/// Why an effect did not succeed, as far as trying again goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setback {
    /// The hub has moved on since the plan was made: look again, plan anew.
    Stale,
    /// The hub did not answer, or asked for patience.
    Unavailable { retry_after_seconds: Option<u64> },
    /// Somebody must act on the hub first: a namespace, a permission or a CRD is missing.
    Blocked,
    /// Only a change in Git mends it. Tried again all the same, as webhooks and CRDs change too.
    Refused,
}

/// No wait is longer than the hub asks for, up to this: a broken proxy must not stop gitwork for a day.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

impl Setback {
    /// The first wait and the longest one; it doubles in between.
    fn bounds(self) -> (Duration, Duration) {
        let (first_ms, longest_ms) = match self {
            Self::Stale => (50, 5_000),
            Self::Unavailable { .. } => (500, 60_000),
            Self::Blocked => (5_000, 120_000),
            Self::Refused => (60_000, 900_000),
        };
        (Duration::from_millis(first_ms), Duration::from_millis(longest_ms))
    }
}

/// The wait before the next try. `attempt` counts the failures of this key in a row, from 0. The wait is spread by
/// a quarter to each side as `seed` says (best one seed per key and attempt), so that many keys that failed at once
/// do not come back at once. What the hub asks for (`Retry-After`) is never undercut.
pub fn delay(attempt: u32, setback: Setback, seed: u64) -> Duration {
    let (first, longest) = setback.bounds();
    let wait = first.saturating_mul(2_u32.saturating_pow(attempt)).min(longest);
    let asked = match setback {
        Setback::Unavailable { retry_after_seconds: Some(seconds) } => {
            Duration::from_secs(seconds).min(RETRY_AFTER_MAX)
        }
        _ => Duration::ZERO,
    };
    if asked > wait {
        asked + spread(asked / 4, seed)
    } else {
        (wait * 3 / 4 + spread(wait / 2, seed)).max(asked)
    }
}

/// The wait before the next fetch of a source, after `failures` failed ones in a row: its interval, spread by a tenth
/// to each side so that many sources do not fetch at once; after failures seconds at first, and ever more.
pub fn next_fetch(interval: Duration, failures: u32, seed: u64) -> Duration {
    match failures.checked_sub(1) {
        None => interval * 9 / 10 + spread(interval / 5, seed),
        Some(attempt) => {
            let setback = Setback::Unavailable { retry_after_seconds: None };
            delay(attempt, setback, seed).max(Duration::from_secs(1))
        }
    }
}

/// A part of `range`, chosen by `seed`: SplitMix64's output function over it.
fn spread(range: Duration, seed: u64) -> Duration {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    range.mul_f64((mixed >> 11) as f64 / (1_u64 << 53) as f64)
}

/// What a work is to become: a failure to get there says nothing about anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Goal {
    kind: Discriminant<Effect>,
    content: Option<Digest>,
}

impl Goal {
    fn of(effect: &Effect) -> Self {
        Self { kind: discriminant(effect), content: effect.body().map(|body| body.digest) }
    }
}

#[derive(Debug, Clone)]
struct Wait {
    goal: Goal,
    failures: u32,
    due: Duration,
}

/// Which works failed, and when each is due again. All times are since one fixed moment of the caller's choice. A
/// newer commit that changes what is to be done is due at once: a fix always goes through.
#[derive(Debug, Clone, Default)]
pub struct Backoffs {
    waits: BTreeMap<WorkKey, Wait>,
}

impl Backoffs {
    /// Notes that `effect` failed at `now`; `seed` as for [`delay`].
    pub fn failed(
        &mut self,
        key: &WorkKey,
        effect: &Effect,
        setback: Setback,
        now: Duration,
        seed: u64,
    ) {
        let goal = Goal::of(effect);
        let before = self.waits.get(key).filter(|wait| wait.goal == goal);
        let failures = before.map_or(0, |wait| wait.failures);
        let due = now.saturating_add(delay(failures, setback, seed));
        self.waits.insert(key.clone(), Wait { goal, failures: failures.saturating_add(1), due });
    }

    /// Notes that the work is as wanted, or wanted no more.
    pub fn succeeded(&mut self, key: &WorkKey) {
        self.waits.remove(key);
    }

    /// Whether `effect` may be tried at `now`.
    pub fn is_due(&self, key: &WorkKey, effect: &Effect, now: Duration) -> bool {
        self.waits.get(key).is_none_or(|wait| wait.due <= now || wait.goal != Goal::of(effect))
    }

    /// When the first one is due; `None` where nothing waits.
    pub fn next_due(&self) -> Option<Duration> {
        self.waits.values().map(|wait| wait.due).min()
    }

    /// Forgets the works that `keep` does not want: those of which a plan has nothing to do any more.
    pub fn retain(&mut self, mut keep: impl FnMut(&WorkKey) -> bool) {
        self.waits.retain(|key, _| keep(key));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::core::name::{ClusterName, RepoPath, SourceId, WorkName};
    use crate::core::work::WorkBody;

    fn create(text: &str) -> Effect {
        let source = SourceId::parse("fleet").unwrap();
        let spec = json!({"workload": {"manifests": [{"data": text}]}});
        let (labels, annotations) = (BTreeMap::new(), BTreeMap::new());
        let body = WorkBody::new(&source, &RepoPath::root(), spec, labels, annotations, true);
        Effect::Create { body: Arc::new(body) }
    }

    #[test]
    fn a_failed_work_waits_ever_longer_and_a_fix_does_not() {
        let key = WorkKey {
            cluster: ClusterName::parse("edge").unwrap(),
            work: WorkName::parse("web").unwrap(),
        };
        let at = Duration::from_secs;
        let (broken, mended) = (create("broken"), create("mended"));
        let mut backoffs = Backoffs::default();
        assert!(backoffs.is_due(&key, &broken, at(0)));
        assert_eq!(backoffs.next_due(), None);

        backoffs.failed(&key, &broken, Setback::Refused, at(100), 1);
        let first = backoffs.next_due().unwrap();
        assert!((at(145)..=at(175)).contains(&first), "{first:?}");
        assert!(!backoffs.is_due(&key, &broken, first - at(1)));
        assert!(backoffs.is_due(&key, &broken, first));
        assert!(backoffs.is_due(&key, &mended, at(101)), "a fix goes through");

        backoffs.failed(&key, &broken, Setback::Refused, first, 1);
        let second = backoffs.next_due().unwrap() - first;
        assert!((at(90)..=at(150)).contains(&second), "{second:?}");
        backoffs.failed(&key, &mended, Setback::Refused, at(300), 1);
        assert!(backoffs.next_due().unwrap() <= at(375), "counted anew");

        backoffs.succeeded(&key);
        assert!(backoffs.is_due(&key, &mended, at(0)));
        backoffs.failed(&key, &broken, Setback::Stale, at(0), 1);
        backoffs.retain(|_| false);
        assert_eq!(backoffs.next_due(), None);
    }

    fn within(actual: Duration, middle_ms: u64) -> bool {
        let middle = Duration::from_millis(middle_ms);
        middle * 3 / 4 <= actual && actual <= middle * 5 / 4
    }

    #[test]
    fn waits_double_up_to_their_bound() {
        let unavailable = Setback::Unavailable { retry_after_seconds: None };
        for (attempt, setback, middle_ms) in [
            (0, Setback::Stale, 50),
            (1, Setback::Stale, 100),
            (30, Setback::Stale, 5_000),
            (0, unavailable, 500),
            (3, unavailable, 4_000),
            (u32::MAX, unavailable, 60_000),
            (0, Setback::Blocked, 5_000),
            (9, Setback::Blocked, 120_000),
            (0, Setback::Refused, 60_000),
            (40, Setback::Refused, 900_000),
        ] {
            for seed in [0, 1, 7, u64::MAX] {
                let actual = delay(attempt, setback, seed);
                assert!(within(actual, middle_ms), "{setback:?} {attempt} {seed}: {actual:?}");
            }
        }
    }

    #[test]
    fn the_hub_is_never_asked_sooner_than_it_wants_and_cannot_stop_us_for_long() {
        for (asked, attempt, at_least, at_most) in
            [(7, 0, 7, 9), (1, 5, 12, 20), (30, 6, 30, 40), (1 << 40, 0, 300, 375)]
        {
            for seed in 0..100 {
                let setback = Setback::Unavailable { retry_after_seconds: Some(asked) };
                let actual = delay(attempt, setback, seed).as_secs_f64();
                assert!(actual >= f64::from(at_least), "{asked} {attempt} {seed}: {actual}");
                assert!(actual <= f64::from(at_most), "{asked} {attempt} {seed}: {actual}");
            }
        }
    }

    #[test]
    fn fetches_are_spread_around_their_interval_and_leave_a_broken_remote_alone() {
        let interval = Duration::from_secs(100);
        let waits: std::collections::BTreeSet<Duration> =
            (0..1_000).map(|seed| next_fetch(interval, 0, seed)).collect();
        assert!(waits.len() > 990, "{}", waits.len());
        let (first, last) = (waits.first().unwrap(), waits.last().unwrap());
        assert!((90.0..92.0).contains(&first.as_secs_f64()), "{first:?}");
        assert!((108.0..=110.0).contains(&last.as_secs_f64()), "{last:?}");
        for seed in 0..100 {
            for (failures, at_least, at_most) in [(1, 1.0, 1.0), (4, 3.0, 5.0), (90, 45.0, 75.0)] {
                let wait = next_fetch(interval, failures, seed).as_secs_f64();
                assert!((at_least..=at_most).contains(&wait), "{failures} {seed}: {wait}");
            }
        }
    }

    #[test]
    fn keys_that_failed_together_come_back_apart() {
        let waits: std::collections::BTreeSet<Duration> =
            (0..1_000).map(|seed| delay(4, Setback::Blocked, seed)).collect();
        assert!(waits.len() > 990, "{}", waits.len());
        let middle = waits.iter().sum::<Duration>() / u32::try_from(waits.len()).unwrap();
        assert!((70.0..90.0).contains(&middle.as_secs_f64()), "{middle:?}");
    }
}
