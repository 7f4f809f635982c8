//! Which effects failed, and when each is tried again. Pure: the caller reads the clock.

use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use gitwork_retry::{RetryClass, delay, jitter};

use crate::model::digest::Digest;
use crate::model::name::WorkKey;
use crate::plan::effect::Effect;

/// The wait before the next fetch of a source, after `failures` failed fetches in a row.
///
/// Without a failure it is the interval with a jitter of a tenth to each side, so that many sources
/// are not fetched together. After failures it begins at one second and grows exponentially.
pub fn next_fetch(interval: Duration, failures: u32, seed: u64) -> Duration {
    match failures.checked_sub(1) {
        None => interval * 9 / 10 + jitter(interval / 5, seed),
        Some(attempt) => {
            let class = RetryClass::Unavailable { retry_after_seconds: None };
            delay(attempt, class, seed).max(Duration::from_secs(1))
        }
    }
}

/// The state that an effect aims for. A failure counts for this state only.
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

/// The works whose effect failed, and when each is due again. All times are since one moment that
/// the caller chooses. A newer commit that changes the effect is due at once.
#[derive(Debug, Clone, Default)]
pub struct Backoffs {
    waits: BTreeMap<WorkKey, Wait>,
}

impl Backoffs {
    /// Records that `effect` failed at `now`; `seed` as for [`delay`].
    pub fn failed(
        &mut self,
        key: &WorkKey,
        effect: &Effect,
        class: RetryClass,
        now: Duration,
        seed: u64,
    ) {
        let goal = Goal::of(effect);
        let before = self.waits.get(key).filter(|wait| wait.goal == goal);
        let failures = before.map_or(0, |wait| wait.failures);
        let due = now.saturating_add(delay(failures, class, seed));
        self.waits.insert(key.clone(), Wait { goal, failures: failures.saturating_add(1), due });
    }

    /// The works that wait, or have waited.
    pub fn works(&self) -> impl Iterator<Item = &WorkKey> {
        self.waits.keys()
    }

    /// Records that the work needs no other try.
    pub fn succeeded(&mut self, key: &WorkKey) {
        self.waits.remove(key);
    }

    /// Whether `effect` may be tried at `now`.
    pub fn is_due(&self, key: &WorkKey, effect: &Effect, now: Duration) -> bool {
        self.waits.get(key).is_none_or(|wait| wait.due <= now || wait.goal != Goal::of(effect))
    }

    /// When the first effect is due; `None` if none is waiting.
    pub fn next_due(&self) -> Option<Duration> {
        self.waits.values().map(|wait| wait.due).min()
    }

    /// Drops the works that `keep` rejects: those for which the plan has no effect.
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
    use crate::model::name::{ClusterName, RepoPath, SourceId, WorkName};
    use crate::model::work::WorkBody;

    fn create(text: &str) -> Effect {
        let source = SourceId::parse("fleet").unwrap();
        let spec = json!({"workload": {"manifests": [{"data": text}]}});
        let (labels, annotations) = (BTreeMap::new(), BTreeMap::new());
        let body = WorkBody::new(&source, &RepoPath::root(), spec, labels, annotations, true);
        Effect::Create { body: Arc::new(body) }
    }

    #[test]
    fn failed_work_backs_off_exponentially_and_a_fix_does_not_wait() {
        let key = WorkKey {
            cluster: ClusterName::parse("edge").unwrap(),
            work: WorkName::parse("web").unwrap(),
        };
        let at = Duration::from_secs;
        let (broken, fixed) = (create("broken"), create("fixed"));
        let mut backoffs = Backoffs::default();
        assert!(backoffs.is_due(&key, &broken, at(0)));
        assert_eq!(backoffs.next_due(), None);

        backoffs.failed(&key, &broken, RetryClass::Rejected, at(100), 1);
        let first = backoffs.next_due().unwrap();
        assert!((at(145)..=at(175)).contains(&first), "{first:?}");
        assert!(!backoffs.is_due(&key, &broken, first - at(1)));
        assert!(backoffs.is_due(&key, &broken, first));
        assert!(backoffs.is_due(&key, &fixed, at(101)), "a fix goes through");

        backoffs.failed(&key, &broken, RetryClass::Rejected, first, 1);
        let second = backoffs.next_due().unwrap() - first;
        assert!((at(90)..=at(150)).contains(&second), "{second:?}");
        backoffs.failed(&key, &fixed, RetryClass::Rejected, at(300), 1);
        assert!(backoffs.next_due().unwrap() <= at(375), "counted from the start");

        backoffs.succeeded(&key);
        assert!(backoffs.is_due(&key, &fixed, at(0)));
        backoffs.failed(&key, &broken, RetryClass::Stale, at(0), 1);
        backoffs.retain(|_| false);
        assert_eq!(backoffs.next_due(), None);
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
}
