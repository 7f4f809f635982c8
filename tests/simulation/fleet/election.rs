//! The leader election between the processes of the first source. At most one of them leads at a
//! time. The engine has the real `Leadership` and the real hub that refuses the writes of others.

use std::time::Duration;

use tokio::time::Instant;

use super::process::Process;
use super::run::World;

/// Between two attempts of a process to hold the Lease.
const RETRY: Duration = Duration::from_secs(3);
/// A leader that is cut off from the hub for so long is not the leader any more.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Between the end of a term and the begin of the next one, in seconds: the rest of the Lease and
/// some attempts. A leader that shuts down releases the Lease, so that only an attempt is left.
const AFTER_LOSS: std::ops::Range<u64> = 5..20;
/// One of so many attempts finds that the Lease was lost.
const ATTEMPTS_TO_LOSS: u32 = 32;

/// Who leads, and when that changes.
pub struct Election {
    /// It has its own random numbers, so that it changes no action of the seed.
    random: fastrand::Rng,
    /// The time of the next attempts.
    pub next: Instant,
    /// Nobody leads before.
    free_at: Option<Instant>,
    /// Whether the Lease is lost now and then without a visible cause.
    is_lost_at_times: bool,
}

impl Election {
    pub fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(!seed);
        let is_lost_at_times = random.u8(..4) > 0;
        let next = Instant::now();
        Self { random, next, free_at: Some(next), is_lost_at_times }
    }

    /// From now on no Lease is lost.
    pub fn stop_faults(&mut self) {
        self.is_lost_at_times = false;
    }

    /// The leader has released the Lease.
    pub fn released(&mut self) {
        self.free_at.get_or_insert(Instant::now() + RETRY);
    }

    /// The Lease is free at once, as for a process that has no other one beside it.
    pub fn free(&mut self) {
        (self.free_at, self.next) = (Some(Instant::now()), Instant::now());
    }

    /// The attempts of all processes that are due now. Returns what has changed.
    pub fn attempt(&mut self, processes: &[Process]) -> Option<&'static str> {
        if Instant::now() < self.next {
            return None;
        }
        self.next = Instant::now() + RETRY;
        if let Some(leader) = processes.iter().find(|process| process.leads()) {
            self.free_at = None;
            return self.lose(leader);
        }
        let random = &mut self.random;
        let after = || Instant::now() + Duration::from_secs(random.u64(AFTER_LOSS));
        if Instant::now() < *self.free_at.get_or_insert_with(after) {
            return None;
        }
        let candidates: Vec<&Process> =
            processes.iter().filter(|process| process.cut_since().is_none()).collect();
        self.random.choice(candidates)?.set_leading(true);
        self.free_at = None;
        Some("a process becomes the leader")
    }

    /// Lets the leader lose the Lease at times, also while its writes are in flight.
    fn lose(&mut self, leader: &Process) -> Option<&'static str> {
        if leader.cut_since().is_some_and(|since| since.elapsed() >= RENEW_DEADLINE) {
            leader.set_leading(false);
            return Some("the leader is cut off and no longer leads");
        }
        if !self.is_lost_at_times || self.random.u32(..ATTEMPTS_TO_LOSS) > 0 {
            return None;
        }
        if self.random.bool() {
            leader.set_leading(false);
            return Some("the leader loses the Lease");
        }
        leader.lose_at(self.random.u32(..4));
        Some("the leader is to lose the Lease at a write")
    }
}

impl World {
    /// Makes the attempts that are due. A former leader's requests in flight may still arrive.
    pub(super) fn elect(&mut self) {
        if let Some(what) = self.election.attempt(&self.processes) {
            self.checker.trace(|| what.into());
        }
    }
}
