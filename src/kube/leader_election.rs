//! Leader election over a Lease of an API server. Each write has the resourceVersion that was read
//! as its precondition. The rules are in [`crate::lease`].

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use crate::lease;
use crate::lease::{Lease, LeaseAction};

/// The Lease of an election, and its times.
#[derive(Debug, Clone)]
pub struct Election {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The identity of this candidate. No other process has it, now or later.
    pub identity: String,
    /// How long other candidates wait for a holder that does not renew.
    pub duration: Duration,
    /// How long a holder stays the leader without a renewal; less than `duration`.
    pub renew_deadline: Duration,
    /// Between two attempts.
    pub retry_period: Duration,
}

/// One Lease on an API server.
pub trait LeaseStore: Send + Sync {
    /// Why the API server did not do it.
    type Error: std::error::Error + Send + Sync + 'static;
    /// Reads the Lease; `None` if it does not exist.
    fn get(&self) -> impl Future<Output = Result<Option<Lease>, Self::Error>> + Send;
    /// Creates the Lease and gives the stored form; `None` if it exists already.
    fn create(
        &self,
        lease: &Lease,
    ) -> impl Future<Output = Result<Option<Lease>, Self::Error>> + Send;
    /// Replaces the version that was read and gives the stored form; `None` if it changed since.
    fn replace(
        &self,
        lease: &Lease,
    ) -> impl Future<Output = Result<Option<Lease>, Self::Error>> + Send;
    /// Whether this process may take the Lease from its holder before it expires.
    fn may_take(&self, _lease: &Lease) -> impl Future<Output = Result<bool, Self::Error>> + Send {
        async { Ok(false) }
    }
}

/// The result of one attempt to hold the Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElectionResult {
    /// This process holds the Lease.
    Leader,
    /// Another process holds it.
    Standby {
        /// The identity of the holder; empty if another process took the Lease just now.
        holder: String,
    },
    /// It has no holder; this process leaves it to other replicas for `wait`.
    Free {
        /// The rest of the time for which it is left to them.
        wait: Duration,
    },
}

/// One candidate for a Lease.
#[derive(Debug)]
pub struct ElectionCandidate<S> {
    store: S,
    election: Election,
    /// The `spec` of another holder's Lease, and since when it is unchanged. The metadata does not
    /// count: an annotation of a third process must not prolong the Lease of a dead holder.
    seen: Option<(Value, Instant)>,
    /// The Lease as this process last wrote it.
    ours: Option<Lease>,
}

impl<S: LeaseStore> ElectionCandidate<S> {
    /// A candidate that has not tried yet.
    pub fn new(store: S, election: Election) -> Self {
        Self { store, election, seen: None, ours: None }
    }

    /// The Lease.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The election.
    pub fn election(&self) -> &Election {
        &self.election
    }

    /// An annotation of the Lease, while this process holds it.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        lease::annotation(self.ours.as_ref()?, name)
    }

    /// Renews the Lease until no renewal has succeeded for `renew_deadline`. An attempt that is
    /// still under way then counts as a failure. `now` is the time of day; `failed` hears of
    /// failures.
    pub async fn hold(&mut self, now: impl Fn() -> Timestamp, failed: impl Fn(&S::Error)) {
        let Election { renew_deadline, retry_period, .. } = self.election;
        let mut until = Instant::now() + renew_deadline;
        loop {
            sleep(retry_period.min(until.duration_since(Instant::now()))).await;
            let asked = Instant::now();
            match timeout_at(until, self.attempt(Duration::ZERO, now())).await {
                Ok(Ok(ElectionResult::Leader)) => until = asked + renew_deadline,
                Ok(Ok(_)) | Err(_) => return,
                Ok(Err(error)) => failed(&error),
            }
        }
    }

    /// Renews the Lease, or acquires it once it has had no holder for `acquire_delay`. If the
    /// future is dropped the write may have succeeded; the next attempt finds out. `now` is the
    /// time of day, which the Lease gets.
    pub async fn attempt(
        &mut self,
        acquire_delay: Duration,
        now: Timestamp,
    ) -> Result<ElectionResult, S::Error> {
        if let Some(lease) = self.ours.take() {
            self.ours = self.store.replace(&self.with_holder(lease, now, false)).await?;
            if self.ours.is_some() {
                return Ok(ElectionResult::Leader);
            }
        }
        let found = self.store.get().await?;
        let holder = found.as_ref().map_or("", lease::holder).to_owned();
        let spec = found.as_ref().and_then(|lease| lease.get("spec")).cloned();
        let spec = spec.unwrap_or_default();
        let since = match &self.seen {
            Some((seen, since)) if *seen == spec => *since,
            _ => Instant::now(),
        };
        self.seen = Some((spec, since));
        let default = self.election.duration;
        let valid_for = found.as_ref().map_or(default, |one| lease::duration(one, default));
        let action =
            lease::next_action(&holder, &self.election.identity, valid_for, since.elapsed());
        if let (LeaseAction::Wait, Some(lease)) = (action, &found) {
            if !self.store.may_take(lease).await? {
                return Ok(ElectionResult::Standby { holder });
            }
            self.ours = self.store.replace(&self.with_holder(lease.clone(), now, true)).await?;
            return Ok(match self.ours {
                Some(_) => ElectionResult::Leader,
                None => ElectionResult::Standby { holder },
            });
        }
        let expired_after = if holder.is_empty() { Duration::ZERO } else { valid_for };
        let free_for = since.elapsed().saturating_sub(expired_after);
        if action == LeaseAction::Acquire && free_for < acquire_delay {
            return Ok(ElectionResult::Free { wait: acquire_delay.saturating_sub(free_for) });
        }
        self.ours = match found {
            Some(lease) => {
                self.store
                    .replace(&self.with_holder(lease, now, action == LeaseAction::Acquire))
                    .await?
            }
            None => {
                let lease = lease::new_lease(&self.election.namespace, &self.election.name);
                self.store.create(&self.with_holder(lease, now, true)).await?
            }
        };
        Ok(if self.ours.is_some() {
            ElectionResult::Leader
        } else {
            ElectionResult::Standby { holder }
        })
    }

    /// Releases the Lease, so that another process can acquire it at once. `now` is the time of
    /// day.
    pub async fn release(&mut self, now: Timestamp) -> Result<(), S::Error> {
        let known = self.ours.take();
        let found = if known.is_some() { known } else { self.store.get().await? };
        let Some(lease) = found.filter(|lease| lease::holder(lease) == self.election.identity)
        else {
            return Ok(());
        };
        if self.store.replace(&released(lease, now)).await?.is_some() {
            return Ok(());
        }
        // Another process wrote an annotation in the meantime.
        match self.store.get().await? {
            Some(lease) if lease::holder(&lease) == self.election.identity => {
                self.store.replace(&released(lease, now)).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    fn with_holder(&self, lease: Lease, now: Timestamp, acquires: bool) -> Lease {
        let Election { identity, duration, .. } = &self.election;
        lease::with_holder(lease, identity, duration.as_secs(), now, acquires)
    }
}

/// `lease` without a holder. Its duration is 1 s, as in client-go: 0 is not valid.
fn released(lease: Lease, now: Timestamp) -> Lease {
    lease::with_holder(lease, "", 1, now, false)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;

    /// The time of day: a renewal is a change only if it differs.
    fn now() -> Timestamp {
        Timestamp::now()
    }

    /// One Lease in memory, with versions as an API server has them. A holder named `guest` gives
    /// way to others.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<(u64, Option<Lease>)>>);

    impl Memory {
        fn write(&self, lease: &Lease) -> Lease {
            let mut kept = self.0.lock().unwrap();
            kept.0 += 1;
            let mut lease = lease.clone();
            lease["metadata"]["resourceVersion"] = json!(kept.0.to_string());
            kept.1 = Some(lease.clone());
            lease
        }
        fn annotate(&self) {
            let mut lease = self.0.lock().unwrap().1.clone().unwrap();
            lease["metadata"]["annotations"] = json!({ "note": "now" });
            self.write(&lease);
        }
        fn holder(&self) -> String {
            self.0.lock().unwrap().1.as_ref().map_or("", lease::holder).to_owned()
        }
    }

    impl LeaseStore for Memory {
        type Error = std::io::Error;
        async fn get(&self) -> Result<Option<Lease>, Self::Error> {
            Ok(self.0.lock().unwrap().1.clone())
        }
        async fn create(&self, lease: &Lease) -> Result<Option<Lease>, Self::Error> {
            let free = self.0.lock().unwrap().1.is_none();
            Ok(free.then(|| self.write(lease)))
        }
        async fn replace(&self, lease: &Lease) -> Result<Option<Lease>, Self::Error> {
            let version = |lease: &Lease| lease["metadata"]["resourceVersion"].clone();
            let there = self.0.lock().unwrap().1.as_ref().map(version);
            Ok((there == Some(version(lease))).then(|| self.write(lease)))
        }
        async fn may_take(&self, lease: &Lease) -> Result<bool, Self::Error> {
            Ok(lease::holder(lease) == "guest")
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn candidate(store: &Memory, identity: &str) -> ElectionCandidate<Memory> {
        let election = Election {
            namespace: "gitwork".into(),
            name: "lead".into(),
            identity: identity.into(),
            duration: 15 * SECOND,
            renew_deadline: 10 * SECOND,
            retry_period: 3 * SECOND,
        };
        ElectionCandidate::new(store.clone(), election)
    }

    async fn leads(candidate: &mut ElectionCandidate<Memory>) -> bool {
        candidate.attempt(Duration::ZERO, now()).await.unwrap() == ElectionResult::Leader
    }

    #[tokio::test(start_paused = true)]
    async fn the_lease_of_a_dead_holder_expires_although_others_annotate_it() {
        let store = Memory::default();
        let (mut first, mut second) = (candidate(&store, "a"), candidate(&store, "b"));
        assert!(leads(&mut first).await && !leads(&mut second).await);
        for _ in 0..3 {
            tokio::time::advance(10 * SECOND).await;
            assert!(leads(&mut first).await && !leads(&mut second).await);
        }
        tokio::time::advance(14 * SECOND).await;
        store.annotate();
        assert!(!leads(&mut second).await);
        tokio::time::advance(SECOND).await;
        assert!(leads(&mut second).await);
        assert_eq!(store.holder(), "b");
        assert!(!leads(&mut first).await, "the first holder has come back");
    }

    #[tokio::test(start_paused = true)]
    async fn an_annotation_by_another_process_is_seen_and_does_not_cost_the_lease() {
        let store = Memory::default();
        let mut first = candidate(&store, "a");
        assert!(leads(&mut first).await);
        store.annotate();
        assert!(leads(&mut first).await);
        assert_eq!(first.annotation("note"), Some("now"));
        store.annotate();
        first.release(now()).await.unwrap();
        assert_eq!(store.holder(), "");
        let mut second = candidate(&store, "b");
        assert!(leads(&mut second).await);
        first.release(now()).await.unwrap();
        assert_eq!(store.holder(), "b", "a release leaves the Lease of another holder alone");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_may_be_taken_is_taken_at_once() {
        let store = Memory::default();
        let (mut guest, mut owner) = (candidate(&store, "guest"), candidate(&store, "owner"));
        assert!(leads(&mut guest).await);
        assert!(leads(&mut owner).await);
        assert!(!leads(&mut guest).await && leads(&mut owner).await);
        assert_eq!(store.holder(), "owner");
    }

    #[tokio::test(start_paused = true)]
    async fn a_free_lease_is_left_to_others_for_the_acquire_delay() {
        let store = Memory::default();
        let mut first = candidate(&store, "a");
        let delay = 2 * SECOND;
        assert_eq!(
            first.attempt(delay, now()).await.unwrap(),
            ElectionResult::Free { wait: delay }
        );
        tokio::time::advance(delay).await;
        assert_eq!(first.attempt(delay, now()).await.unwrap(), ElectionResult::Leader);
        let mut second = candidate(&store, "b");
        assert!(!leads(&mut second).await);
        tokio::time::advance(16 * SECOND).await;
        let wait = SECOND;
        assert_eq!(second.attempt(delay, now()).await.unwrap(), ElectionResult::Free { wait });
    }
}
