//! Puts a work that another writer keeps changing back with exponential backoff. Pure:
//! time is passed in.
//!
//! One edit is put back at once. If a work has to be put back several times in quick succession,
//! two programs disagree about it. To write faster than the other loads both API servers, and
//! changes objects back and forth on the cluster. So the wait doubles with every put-back that
//! comes as soon as the wait allows, up to a bound. The edits of a slow writer are still put back
//! at once, and changes in Git are always written at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gitwork_retry::Backoff;

use crate::model::digest::Digest;
use crate::model::name::WorkKey;
use crate::model::works_by_cluster::WorksByCluster;
use crate::plan::conflicting_manager::ConflictingManager;

/// Up to this number of put-backs in a row count as edits by hand.
const EDITS_BY_HAND: u32 = 4;
/// No edit for this long ends a contention. Other tools reconcile every 3 to 5 minutes.
pub const CALM: Duration = Duration::from_secs(600);
/// The longest wait before a put-back.
pub const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// Between the put-backs of a contended work.
const PUT_BACKS: Backoff = Backoff::new(Duration::from_secs(1), LONGEST_WAIT);

/// A work that another writer keeps changing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contention {
    /// The client that changed the work last.
    pub manager: Arc<ConflictingManager>,
    /// How often it was put back.
    pub times: u32,
    /// How long the next put-back waits after the last one.
    pub wait: Duration,
    /// What gitwork wrote last.
    pub content: Digest,
    /// Just that is not written again yet.
    pub waits: bool,
}

/// Contentions by work, at one time.
pub type Contentions = BTreeMap<WorkKey, Arc<Contention>>;

impl fmt::Display for Contention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { manager, times, wait, .. } = self;
        write!(
            f,
            "{manager} keeps undoing gitwork's writes: put back {times} times, now at most every \
             {} s; stop the other writer, or remove the work from Git",
            wait.as_secs()
        )
    }
}

/// A write of content to the hub that has succeeded.
#[derive(Debug, Clone)]
pub struct Written {
    /// The digest of the written body.
    pub content: Digest,
    /// The write replaced an edit of gitwork's last write.
    pub edited: bool,
    /// The writer of the edit, if this is a put-back.
    pub by: Arc<ConflictingManager>,
}

/// The works that were written recently. All times are since one fixed moment of the caller's
/// choice.
#[derive(Debug, Clone, Default)]
pub struct DriftBackoffs {
    /// Some are calm: they are forgotten together, every [`CALM`].
    works: WorksByCluster<Last>,
    /// Those that were put back.
    put_back: BTreeSet<WorkKey>,
    /// When calm works were last forgotten.
    forgotten_at: Duration,
}

/// The last write of a work.
#[derive(Debug, Clone)]
struct Last {
    content: Digest,
    at: Duration,
    drift: Option<Box<Drift>>,
}

#[derive(Debug, Clone)]
struct Drift {
    times: u32,
    /// One more than the number of doublings of the wait; 0 if there is no wait yet.
    rounds: u32,
    by: Arc<ConflictingManager>,
}

impl Drift {
    fn wait(&self) -> Duration {
        let doublings = self.rounds.checked_sub(1);
        doublings.map_or(Duration::ZERO, |doublings| PUT_BACKS.wait(doublings))
    }

    /// Counts one more put-back, `after` the write before it.
    fn go_on(&mut self, after: Duration, by: Arc<ConflictingManager>) {
        self.times = self.times.saturating_add(1);
        self.by = by;
        // A writer that takes longer than twice the wait is slow by itself.
        let fast = after <= self.wait().saturating_mul(2);
        if self.times > EDITS_BY_HAND && (self.rounds == 0 || fast) {
            self.rounds = self.rounds.saturating_add(1);
        }
    }
}

impl Last {
    fn is_calm(&self, now: Duration) -> bool {
        now.saturating_sub(self.at) >= CALM
    }
}

impl DriftBackoffs {
    /// Records a write. It is a put-back if gitwork wrote the same content recently, or if it
    /// replaces an edit.
    pub fn wrote(&mut self, key: &WorkKey, written: Written, now: Duration) {
        let Written { content, edited, by } = written;
        let before = self.works.get(key).filter(|last| !last.is_calm(now)).cloned();
        let again = before.as_ref().is_some_and(|last| last.content == content);
        let after = before.as_ref().map_or(Duration::MAX, |last| now.saturating_sub(last.at));
        let mut drift = before.and_then(|last| last.drift);
        if again || edited {
            let first = || Box::new(Drift { times: 0, rounds: 0, by: by.clone() });
            drift.get_or_insert_with(first).go_on(after, by.clone());
        }
        match &drift {
            Some(_) => self.put_back.insert(key.clone()),
            None => self.put_back.remove(key),
        };
        self.works.insert(key.clone(), Last { content, at: now, drift });
    }

    /// The contentions at `now`. Forgets the works without an edit for [`CALM`], sooner or later.
    pub fn contentions(&mut self, now: Duration) -> Contentions {
        if now.saturating_sub(self.forgotten_at) >= CALM {
            self.forget_calm(now);
        }
        let contentions = self.drifting(now).map(|(key, last, drift)| {
            let wait = drift.wait();
            let waits = now < last.at.saturating_add(wait);
            let (manager, times, content) = (drift.by.clone(), drift.times, last.content);
            (key.clone(), Arc::new(Contention { manager, times, wait, content, waits }))
        });
        contentions.collect()
    }

    /// The next time at which the contentions change without a write: a wait or a contention ends.
    pub fn next_change(&self, now: Duration) -> Option<Duration> {
        let ends = self.drifting(now).flat_map(|(_, last, drift)| {
            [last.at.saturating_add(drift.wait()), last.at.saturating_add(CALM)]
        });
        ends.filter(|end| *end > now).min()
    }

    /// The works with a wait that are not calm.
    fn drifting(&self, now: Duration) -> impl Iterator<Item = (&WorkKey, &Last, &Drift)> {
        self.put_back.iter().filter_map(move |key| {
            let last = self.works.get(key).filter(|last| !last.is_calm(now))?;
            let drift = last.drift.as_deref().filter(|drift| drift.rounds > 0)?;
            Some((key, last, drift))
        })
    }

    fn forget_calm(&mut self, now: Duration) {
        self.forgotten_at = now;
        let Self { works, put_back, .. } = self;
        works.retain(|_, last| !last.is_calm(now));
        put_back.retain(|key| works.contains_key(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::name::{ClusterName, WorkName};

    fn key() -> WorkKey {
        WorkKey {
            cluster: ClusterName::parse("edge-1").unwrap(),
            work: WorkName::parse("web").unwrap(),
        }
    }

    fn write(content: &[u8], edited: bool) -> Written {
        Written { content: Digest::of(content), edited, by: Arc::new(ConflictingManager::Unknown) }
    }

    const fn second(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    fn contention(backoffs: &mut DriftBackoffs, now: u64) -> Option<Contention> {
        backoffs.contentions(second(now)).remove(&key()).map(Arc::unwrap_or_clone)
    }

    #[test]
    fn edits_by_hand_are_put_back_at_once_and_contended_works_with_backoff() {
        let mut backoffs = DriftBackoffs::default();
        for now in 0..4 {
            backoffs.wrote(&key(), write(b"git", true), second(now));
            assert_eq!(contention(&mut backoffs, now), None, "{now}");
        }
        assert_eq!(backoffs.next_change(second(3)), None);
        // From now on the other is as fast as it can be.
        let mut now = 4;
        let mut waits = Vec::new();
        for times in 5..16 {
            backoffs.wrote(&key(), write(b"git", true), second(now));
            let found = contention(&mut backoffs, now).unwrap();
            assert_eq!((found.times, found.waits), (times, true));
            waits.push(found.wait.as_secs());
            now += found.wait.as_secs();
            assert_eq!(backoffs.next_change(second(now - 1)), Some(second(now)), "wakes in time");
            assert!(!contention(&mut backoffs, now).unwrap().waits, "the wait is over");
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        let last = now - 300;
        assert_eq!(backoffs.next_change(second(now)), Some(second(last + 600)));
        assert!(contention(&mut backoffs, last + 599).is_some());
        assert_eq!(contention(&mut backoffs, last + 600), None, "the other writer gave up");
        assert_eq!(backoffs.next_change(second(last + 600)), None);
        backoffs.wrote(&key(), write(b"git", true), second(last + 700));
        assert_eq!(contention(&mut backoffs, last + 700), None, "counted again");
    }

    #[test]
    fn a_slow_writer_is_reported_and_still_put_back_at_once() {
        let mut backoffs = DriftBackoffs::default();
        for n in 0..20 {
            backoffs.wrote(&key(), write(b"git", true), second(180 * n));
        }
        let found = contention(&mut backoffs, 180 * 19 + 180).unwrap();
        assert_eq!((found.times, found.wait.as_secs(), found.waits), (20, 1, false));
    }

    #[test]
    fn changes_in_git_are_never_held_and_do_not_count_as_put_backs() {
        let mut backoffs = DriftBackoffs::default();
        for n in 0..50_u32 {
            backoffs.wrote(&key(), write(&n.to_be_bytes(), false), second(u64::from(n)));
        }
        assert_eq!(contention(&mut backoffs, 50), None, "a busy repository is not a contention");
        for now in 50..60 {
            backoffs.wrote(&key(), write(b"git", true), second(now));
        }
        assert_eq!(contention(&mut backoffs, 60).unwrap().content, Digest::of(b"git"));
        // Git moves on: what is held is the content that was written, and no other.
        backoffs.wrote(&key(), write(b"fixed", false), second(61));
        let found = contention(&mut backoffs, 61).unwrap();
        assert_eq!((found.times, found.content), (10, Digest::of(b"fixed")));
    }

    #[test]
    fn writing_the_same_again_is_a_put_back_even_where_nothing_looks_edited() {
        for by in [ConflictingManager::Gitwork, ConflictingManager::Deleter] {
            let mut backoffs = DriftBackoffs::default();
            for now in 0..6 {
                let by = Arc::new(by.clone());
                backoffs.wrote(&key(), Written { by, ..write(b"git", false) }, second(now));
            }
            let found = contention(&mut backoffs, 5).unwrap();
            assert_eq!((found.times, &*found.manager), (5, &by));
        }
    }

    #[test]
    fn the_message_names_the_writer_and_the_remedy() {
        let by =
            ConflictingManager::Manager { name: "x".into(), fields: vec!["spec".into()], more: 0 };
        let mut backoffs = DriftBackoffs::default();
        for now in 0..6 {
            let by = Arc::new(by.clone());
            backoffs.wrote(&key(), Written { by, ..write(b"git", true) }, second(now));
        }
        assert_eq!(
            contention(&mut backoffs, 5).unwrap().to_string(),
            "the field manager \"x\" (spec) keeps undoing gitwork's writes: put back 6 times, now \
             at most every 2 s; stop the other writer, or remove the work from Git"
        );
    }

    #[test]
    fn works_are_forgotten_when_they_are_calm() {
        let mut backoffs = DriftBackoffs::default();
        backoffs.wrote(&key(), write(b"git", false), second(0));
        assert!(backoffs.put_back.is_empty(), "a first write puts nothing back");
        backoffs.wrote(&key(), write(b"git", true), second(1));
        assert_eq!(backoffs.put_back.len(), 1);
        let _none = contention(&mut backoffs, 600);
        assert_eq!(backoffs.works.len(), 1);
        let _none = contention(&mut backoffs, 1_200);
        assert!(backoffs.works.is_empty() && backoffs.put_back.is_empty());
    }

    #[test]
    fn a_plan_looks_only_at_works_that_were_put_back() {
        let mut backoffs = DriftBackoffs::default();
        for now in 0..8 {
            backoffs.wrote(&key(), write(b"git", now > 0), second(now));
        }
        assert!(contention(&mut backoffs, 8).is_some());
        backoffs.put_back.clear();
        assert!(contention(&mut backoffs, 8).is_none(), "it looks at all works written lately");
    }
}
