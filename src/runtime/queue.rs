//! Keys that are due, one at a time each, in the order in which they became due.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// A queue that keeps each key once: at the earliest time that was asked for.
pub struct Queue<K> {
    inner: Mutex<Inner<K>>,
    changed: Notify,
}

struct Inner<K> {
    due: BTreeMap<(Instant, u64), K>,
    positions: HashMap<K, (Instant, u64)>,
    running: HashSet<K>,
    /// Tells keys of one instant apart, first come first.
    ticket: u64,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// An empty queue.
    pub fn new() -> Self {
        let inner = Inner {
            due: BTreeMap::new(),
            positions: HashMap::new(),
            running: HashSet::new(),
            ticket: 0,
        };
        Self { inner: Mutex::new(inner), changed: Notify::new() }
    }

    /// Makes a key due now.
    pub fn add(&self, key: K) {
        self.add_at(key, Instant::now());
    }

    /// Makes a key due at a time, or earlier if it is so already.
    pub fn add_at(&self, key: K, when: Instant) {
        let mut inner = self.lock();
        if inner.positions.get(&key).is_some_and(|(position, _)| *position <= when) {
            return;
        }
        if let Some(old) = inner.positions.remove(&key) {
            inner.due.remove(&old);
        }
        inner.ticket += 1;
        let position = (when, inner.ticket);
        inner.positions.insert(key.clone(), position);
        inner.due.insert(position, key);
        drop(inner);
        self.changed.notify_one();
    }

    /// Waits for a key that is due and not being worked on. It counts as worked on until
    /// [`Queue::done`].
    pub async fn next(&self) -> K {
        loop {
            let wake = match self.take(Instant::now()) {
                Ok(key) => return key,
                Err(wake) => wake,
            };
            let changed = self.changed.notified();
            match wake {
                Some(at) => tokio::select! { () = changed => {}, () = sleep_until(at) => {} },
                None => changed.await,
            }
        }
    }

    /// The next key, or when there may be one.
    fn take(&self, now: Instant) -> Result<K, Option<Instant>> {
        let mut inner = self.lock();
        let first = inner
            .due
            .iter()
            .find(|(_, key)| !inner.running.contains(key))
            .map(|(position, key)| (*position, key.clone()));
        let Some((position, key)) = first else { return Err(None) };
        if position.0 > now {
            return Err(Some(position.0));
        }
        inner.due.remove(&position);
        inner.positions.remove(&key);
        inner.running.insert(key.clone());
        Ok(key)
    }

    /// Ends the work on a key.
    pub fn done(&self, key: &K) {
        self.lock().running.remove(key);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> Default for Queue<K> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn keys_come_when_due_once_and_never_twice_at_a_time() {
        let queue = Queue::new();
        let start = Instant::now();
        queue.add_at("late", start + Duration::from_secs(5));
        queue.add("a");
        queue.add("b");
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        assert_eq!(queue.next().await, "b");
        assert!(
            timeout(Duration::from_secs(1), queue.next()).await.is_err(),
            "a is being worked on"
        );
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
        assert_eq!(queue.next().await, "late");
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        assert!(queue.lock().due.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_time_counts() {
        let queue = Queue::new();
        let start = Instant::now();
        queue.add_at("a", start + Duration::from_secs(60));
        queue.add_at("a", start + Duration::from_secs(2));
        queue.add_at("a", start + Duration::from_secs(30));
        queue.next().await;
        assert_eq!(start.elapsed(), Duration::from_secs(2));
    }
}
