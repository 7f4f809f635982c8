//! Leader election over a Lease of an API server: looks, claims and releases, each write bound to the version that was
//! read. What to do is decided in [`core::election`](crate::core::election); daemon and agent share this.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use crate::core::election::{self, Lease, Turn};

/// What a candidate goes by.
#[derive(Debug, Clone)]
pub struct Election {
    pub namespace: String,
    pub name: String,
    pub identity: String,
    /// How long others leave a silent holder its Lease.
    pub duration: Duration,
    /// How long a holder leads on without a success of its own; less than `duration`.
    pub renew_deadline: Duration,
    /// Between two looks.
    pub retry_period: Duration,
}

/// One Lease on an API server.
pub trait LeaseStore: Send + Sync {
    type Error: std::error::Error + Send + Sync + 'static;
    /// `None` where there is none.
    fn get(&self) -> impl Future<Output = Result<Option<Lease>, Self::Error>> + Send;
    /// Answers it as it is then; `None` where another was first.
    fn create(
        &self,
        lease: &Lease,
    ) -> impl Future<Output = Result<Option<Lease>, Self::Error>> + Send;
    /// Writes it over the version that it was read with; `None` where it has changed since.
    fn replace(
        &self,
        lease: &Lease,
    ) -> impl Future<Output = Result<Option<Lease>, Self::Error>> + Send;
}

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// The Lease is ours.
    Leads,
    /// Another has it.
    StandsBy { holder: String },
    /// Nobody has it; we leave it to others for so long.
    Free { wait: Duration },
}

/// One candidate.
#[derive(Debug)]
pub struct Candidate<S> {
    store: S,
    election: Election,
    /// What a Lease that is not ours was last seen to say, and since when it does. Only what its holder writes counts:
    /// an annotation by somebody else must not keep a dead holder in its place.
    seen: Option<(Value, Instant)>,
    /// Ours, as it was last written.
    ours: Option<Lease>,
}

impl<S: LeaseStore> Candidate<S> {
    pub fn new(store: S, election: Election) -> Self {
        Self { store, election, seen: None, ours: None }
    }

    pub fn store(&self) -> &S {
        &self.store
    }

    pub fn election(&self) -> &Election {
        &self.election
    }

    /// An annotation of our Lease.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.ours.as_ref()?.get("metadata")?.get("annotations")?.get(name)?.as_str()
    }

    /// Renews the Lease, or takes it where nobody has had it for `patience`. Dropped before its end, it may have
    /// succeeded: the next one sees.
    pub async fn attempt(&mut self, patience: Duration) -> Result<Attempt, S::Error> {
        if let Some(lease) = self.ours.take() {
            self.ours = self.store.replace(&self.claimed(lease, false)).await?;
            if self.ours.is_some() {
                return Ok(Attempt::Leads);
            }
        }
        let found = self.store.get().await?;
        let holder = found.as_ref().map_or("", election::holder).to_owned();
        let says = found.as_ref().and_then(|lease| lease.get("spec")).cloned();
        let says = says.unwrap_or_default();
        let since = match &self.seen {
            Some((seen, since)) if *seen == says => *since,
            _ => Instant::now(),
        };
        self.seen = Some((says, since));
        let otherwise = self.election.duration;
        let valid_for = found.as_ref().map_or(otherwise, |one| election::duration(one, otherwise));
        let turn = election::turn(&holder, &self.election.identity, valid_for, since.elapsed());
        if turn == Turn::Wait {
            return Ok(Attempt::StandsBy { holder });
        }
        let expired_after = if holder.is_empty() { Duration::ZERO } else { valid_for };
        let free_for = since.elapsed().saturating_sub(expired_after);
        if turn == Turn::Acquire && free_for < patience {
            return Ok(Attempt::Free { wait: patience.saturating_sub(free_for) });
        }
        self.ours = match found {
            Some(lease) => self.store.replace(&self.claimed(lease, turn == Turn::Acquire)).await?,
            None => {
                let lease = election::unheld(&self.election.namespace, &self.election.name);
                self.store.create(&self.claimed(lease, true)).await?
            }
        };
        Ok(if self.ours.is_some() { Attempt::Leads } else { Attempt::StandsBy { holder } })
    }

    /// Lets another lead at once.
    pub async fn release(&mut self) -> Result<(), S::Error> {
        let known = self.ours.take();
        let found = if known.is_some() { known } else { self.store.get().await? };
        let Some(lease) = found.filter(|lease| election::holder(lease) == self.election.identity)
        else {
            return Ok(());
        };
        if self.store.replace(&unheld(lease)).await?.is_some() {
            return Ok(());
        }
        // Somebody has written something else into it.
        match self.store.get().await? {
            Some(lease) if election::holder(&lease) == self.election.identity => {
                self.store.replace(&unheld(lease)).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    fn claimed(&self, lease: Lease, acquires: bool) -> Lease {
        let Election { identity, duration, .. } = &self.election;
        election::claimed(lease, identity, duration.as_secs(), Timestamp::now(), acquires)
    }
}

/// As client-go gives a Lease back: with a duration that is over soon, as 0 is not allowed.
fn unheld(lease: Lease) -> Lease {
    election::claimed(lease, "", 1, Timestamp::now(), false)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;

    /// One Lease in memory, with versions as an API server has them.
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
            self.0.lock().unwrap().1.as_ref().map_or("", election::holder).to_owned()
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
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn candidate(store: &Memory, identity: &str) -> Candidate<Memory> {
        let election = Election {
            namespace: "gitwork".into(),
            name: "lead".into(),
            identity: identity.into(),
            duration: 15 * SECOND,
            renew_deadline: 10 * SECOND,
            retry_period: 3 * SECOND,
        };
        Candidate::new(store.clone(), election)
    }

    async fn leads(candidate: &mut Candidate<Memory>) -> bool {
        candidate.attempt(Duration::ZERO).await.unwrap() == Attempt::Leads
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_holder_is_followed_after_its_time_whatever_others_write_into_the_lease() {
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
        assert!(!leads(&mut first).await, "the dead one has come back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_note_in_our_lease_is_seen_and_does_not_cost_it() {
        let store = Memory::default();
        let mut first = candidate(&store, "a");
        assert!(leads(&mut first).await);
        store.annotate();
        assert!(leads(&mut first).await);
        assert_eq!(first.annotation("note"), Some("now"));
        store.annotate();
        first.release().await.unwrap();
        assert_eq!(store.holder(), "");
        let mut second = candidate(&store, "b");
        assert!(leads(&mut second).await);
        first.release().await.unwrap();
        assert_eq!(store.holder(), "b", "nobody gives back what another has");
    }

    #[tokio::test(start_paused = true)]
    async fn a_free_lease_is_left_to_others_for_as_long_as_patience_lasts() {
        let store = Memory::default();
        let mut first = candidate(&store, "a");
        let patience = 2 * SECOND;
        assert_eq!(first.attempt(patience).await.unwrap(), Attempt::Free { wait: patience });
        tokio::time::advance(patience).await;
        assert_eq!(first.attempt(patience).await.unwrap(), Attempt::Leads);
        let mut second = candidate(&store, "b");
        assert!(!leads(&mut second).await);
        tokio::time::advance(16 * SECOND).await;
        let wait = SECOND;
        assert_eq!(second.attempt(patience).await.unwrap(), Attempt::Free { wait });
    }
}
