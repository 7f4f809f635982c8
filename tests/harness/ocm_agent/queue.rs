//! The work queue of one controller, as client-go's: a key is in it once, and is never with two
//! workers at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::context::{Requeue, RunOutcome};

/// The keys of one controller.
#[derive(Default)]
pub struct WorkQueue {
    ready: Vec<String>,
    running: BTreeSet<String>,
    /// Keys that were added while they ran.
    dirty: BTreeSet<String>,
    /// Keys whose delay, a rate limit, may end at any time.
    delayed: BTreeMap<String, Delay>,
    /// Keys that come back at a time of the agent's clock.
    timers: BTreeMap<String, Duration>,
}

/// Why a key comes back after a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// The run failed. The number counts failures with nothing else to do in between.
    Failed(u32),
    /// It waits for something, such as the end of an object.
    Waiting,
}

/// With this many failures in a row and nothing else to do, another try changes nothing.
const FAILURES_MAX: u32 = 10;

impl WorkQueue {
    pub fn add(&mut self, key: &str) {
        if self.running.contains(key) {
            self.dirty.insert(key.to_owned());
        } else if !self.ready.iter().any(|other| other == key) {
            self.ready.push(key.to_owned());
        }
    }

    pub fn ready(&self) -> &[String] {
        &self.ready
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Keys that can be tried again. A key that failed too often is not among them.
    pub fn retries(&self) -> impl Iterator<Item = (&str, Delay)> {
        let is_useful = |delay: &Delay| !matches!(delay, Delay::Failed(FAILURES_MAX..));
        let retries = self.delayed.iter().filter(move |(_, delay)| is_useful(delay));
        let free = retries.filter(|(key, _)| !self.running.contains(*key));
        free.map(|(key, delay)| (key.as_str(), *delay))
    }

    /// Takes a key that is ready.
    pub fn take(&mut self, key: &str) {
        self.ready.retain(|other| other != key);
        self.running.insert(key.to_owned());
    }

    /// Ends the delay of a key, and takes it.
    pub fn take_retry(&mut self, key: &str) {
        if let Some(Delay::Failed(count)) = self.delayed.remove(key) {
            // The count goes on if the run fails again.
            self.delayed.insert(key.to_owned(), Delay::Failed(count + 1));
        }
        self.take(key);
    }

    /// Something has changed, so failures may not repeat.
    pub fn expect_success(&mut self) {
        for delay in self.delayed.values_mut() {
            if let Delay::Failed(count) = delay {
                *count = 0;
            }
        }
    }

    pub fn done(&mut self, key: &str, outcome: &RunOutcome, now: Duration) {
        self.running.remove(key);
        let earlier = self.delayed.remove(key);
        match (outcome, earlier) {
            (Ok(Requeue::No), _) => {}
            (Ok(Requeue::After(time)), _) => {
                let due = self.timers.entry(key.to_owned()).or_insert(now + *time);
                *due = (*due).min(now + *time);
            }
            (Ok(Requeue::Waiting), _) => {
                self.delayed.insert(key.to_owned(), Delay::Waiting);
            }
            (Err(_), Some(Delay::Failed(count))) => {
                self.delayed.insert(key.to_owned(), Delay::Failed(count));
            }
            (Err(_), _) => {
                self.delayed.insert(key.to_owned(), Delay::Failed(0));
            }
        }
        if self.dirty.remove(key) {
            self.add(key);
        }
    }

    /// When the next timer elapses.
    pub fn next_timer(&self) -> Option<Duration> {
        self.timers.values().min().copied()
    }

    /// Adds the keys whose time has come.
    pub fn elapse(&mut self, now: Duration) {
        let is_due = |(_, due): &(&String, &Duration)| **due <= now;
        let keys: Vec<String> =
            self.timers.iter().filter(is_due).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.timers.remove(&key);
            self.add(&key);
        }
    }
}
