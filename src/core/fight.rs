//! When somebody else keeps changing a work of gitwork's, it is put back ever less often. Pure: time is passed in.
//!
//! One edit is put back at once. Where a work had to be put back several times, each time soon after the last, two programs
//! want different things of it, and writing faster than the other helps nobody: it costs both API servers' time and rolls
//! objects to and fro on the cluster. Then the wait doubles with every put-back that comes as soon as the wait allows, up
//! to a bound. An other that is slow is still put back at once. What Git changes goes out at once in any case.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::digest::Digest;
use super::name::WorkKey;
use super::rival::Rival;

/// So many put-backs in a row are taken for edits by hand.
const EDITS_BY_HAND: u32 = 4;
/// Being left alone for this long ends it. Other tools look after their objects every 3 to 5 minutes.
pub const CALM: Duration = Duration::from_secs(600);
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// So long a work may be as the other wants it.
pub const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// A work that somebody else keeps changing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contest {
    pub rival: Arc<Rival>,
    /// How often it was put back.
    pub times: u32,
    /// How long the next put-back waits after the last one.
    pub wait: Duration,
    /// What gitwork wrote last.
    pub content: Digest,
    /// Just that is not written again yet.
    pub waits: bool,
}

/// Contests by work, as they are at one time.
pub type Contests = BTreeMap<WorkKey, Arc<Contest>>;

impl fmt::Display for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rival, times, wait, .. } = self;
        write!(
            f,
            "{rival} keeps undoing what Git says: put back {times} times, and now {} s after the last time at the \
             soonest; stop the other one, or take the work out of Git",
            wait.as_secs()
        )
    }
}

/// A write of content to the hub that has succeeded.
#[derive(Debug, Clone)]
pub struct Written {
    pub content: Digest,
    /// What was there was gitwork's and had been edited since.
    pub edited: bool,
    /// Whose doing it was, if this puts something back.
    pub by: Arc<Rival>,
}

/// The works that were written lately. All times are since one fixed moment of the caller's choice.
#[derive(Debug, Clone, Default)]
pub struct Fights {
    works: BTreeMap<WorkKey, Last>,
}

/// The last write of a work.
#[derive(Debug, Clone)]
struct Last {
    content: Digest,
    at: Duration,
    fight: Option<Box<Fight>>,
}

#[derive(Debug, Clone)]
struct Fight {
    times: u32,
    /// How often the wait was doubled, and once more; 0 before there is one.
    rounds: u32,
    by: Arc<Rival>,
}

impl Fight {
    fn wait(&self) -> Duration {
        match self.rounds.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => {
                FIRST_WAIT.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST_WAIT)
            }
        }
    }

    /// One more put-back, so long after the write before it.
    fn go_on(&mut self, after: Duration, by: Arc<Rival>) {
        self.times = self.times.saturating_add(1);
        self.by = by;
        // Who took longer than twice the wait is slow by himself.
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

impl Fights {
    /// Notes a write. It puts the work back where it writes what gitwork wrote lately, or over an edit.
    pub fn wrote(&mut self, key: &WorkKey, written: Written, now: Duration) {
        let Written { content, edited, by } = written;
        let before = self.works.remove(key).filter(|last| !last.is_calm(now));
        let again = before.as_ref().is_some_and(|last| last.content == content);
        let after = before.as_ref().map_or(Duration::MAX, |last| now.saturating_sub(last.at));
        let mut fight = before.and_then(|last| last.fight);
        if again || edited {
            let first = || Box::new(Fight { times: 0, rounds: 0, by: by.clone() });
            fight.get_or_insert_with(first).go_on(after, by.clone());
        }
        self.works.insert(key.clone(), Last { content, at: now, fight });
    }

    /// The contests at `now`. Forgets what has been calm for long enough.
    pub fn contests(&mut self, now: Duration) -> Contests {
        self.works.retain(|_, last| !last.is_calm(now));
        let contests = self.works.iter().filter_map(|(key, last)| {
            let fight = last.fight.as_ref().filter(|fight| fight.rounds > 0)?;
            let wait = fight.wait();
            let waits = now < last.at.saturating_add(wait);
            let (rival, times, content) = (fight.by.clone(), fight.times, last.content);
            Some((key.clone(), Arc::new(Contest { rival, times, wait, content, waits })))
        });
        contests.collect()
    }

    /// When the contests are other ones than at `now`, if nothing is written until then: a wait or a contest ends.
    pub fn next_change(&self, now: Duration) -> Option<Duration> {
        let ends = self.works.values().filter_map(|last| {
            let fight = last.fight.as_ref().filter(|fight| fight.rounds > 0)?;
            Some([last.at.saturating_add(fight.wait()), last.at.saturating_add(CALM)])
        });
        ends.flatten().filter(|end| *end > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::name::{ClusterName, WorkName};

    fn key() -> WorkKey {
        WorkKey {
            cluster: ClusterName::parse("edge-1").unwrap(),
            work: WorkName::parse("web").unwrap(),
        }
    }

    fn write(content: &[u8], edited: bool) -> Written {
        Written { content: Digest::of(content), edited, by: Arc::new(Rival::Unknown) }
    }

    const fn second(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    fn contest(fights: &mut Fights, now: u64) -> Option<Contest> {
        fights.contests(second(now)).remove(&key()).map(Arc::unwrap_or_clone)
    }

    #[test]
    fn edits_by_hand_are_put_back_at_once_and_a_fight_ever_less_often() {
        let mut fights = Fights::default();
        for now in 0..4 {
            fights.wrote(&key(), write(b"git", true), second(now));
            assert_eq!(contest(&mut fights, now), None, "{now}");
        }
        assert_eq!(fights.next_change(second(3)), None);
        // From now on the other is as fast as it can be.
        let mut now = 4;
        let mut waits = Vec::new();
        for times in 5..16 {
            fights.wrote(&key(), write(b"git", true), second(now));
            let told = contest(&mut fights, now).unwrap();
            assert_eq!((told.times, told.waits), (times, true));
            waits.push(told.wait.as_secs());
            now += told.wait.as_secs();
            assert_eq!(fights.next_change(second(now - 1)), Some(second(now)), "wakes in time");
            assert!(!contest(&mut fights, now).unwrap().waits, "the wait is over");
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        let last = now - 300;
        assert_eq!(fights.next_change(second(now)), Some(second(last + 600)));
        assert!(contest(&mut fights, last + 599).is_some());
        assert_eq!(contest(&mut fights, last + 600), None, "the other gave up");
        assert_eq!(fights.next_change(second(last + 600)), None);
        fights.wrote(&key(), write(b"git", true), second(last + 700));
        assert_eq!(contest(&mut fights, last + 700), None, "counted anew");
    }

    #[test]
    fn one_who_is_slow_is_named_and_still_put_back_at_once() {
        let mut fights = Fights::default();
        for n in 0..20 {
            fights.wrote(&key(), write(b"git", true), second(180 * n));
        }
        let told = contest(&mut fights, 180 * 19 + 180).unwrap();
        assert_eq!((told.times, told.wait.as_secs(), told.waits), (20, 1, false));
    }

    #[test]
    fn what_git_changes_is_never_held_and_no_put_back() {
        let mut fights = Fights::default();
        for n in 0..50_u32 {
            fights.wrote(&key(), write(&n.to_be_bytes(), false), second(u64::from(n)));
        }
        assert_eq!(contest(&mut fights, 50), None, "a busy repository is no fight");
        for now in 50..60 {
            fights.wrote(&key(), write(b"git", true), second(now));
        }
        assert_eq!(contest(&mut fights, 60).unwrap().content, Digest::of(b"git"));
        // Git moves on: what is held is the content that was written, and no other.
        fights.wrote(&key(), write(b"mended", false), second(61));
        let told = contest(&mut fights, 61).unwrap();
        assert_eq!((told.times, told.content), (10, Digest::of(b"mended")));
    }

    #[test]
    fn writing_the_same_again_is_a_put_back_even_where_nothing_looks_edited() {
        for by in [Rival::Gitwork, Rival::Deleter] {
            let mut fights = Fights::default();
            for now in 0..6 {
                let by = Arc::new(by.clone());
                fights.wrote(&key(), Written { by, ..write(b"git", false) }, second(now));
            }
            let told = contest(&mut fights, 5).unwrap();
            assert_eq!((told.times, &*told.rival), (5, &by));
        }
    }

    #[test]
    fn it_says_who_and_what_to_do() {
        let by = Rival::Manager { name: "x".into(), fields: vec!["spec".into()], more: 0 };
        let mut fights = Fights::default();
        for now in 0..6 {
            let by = Arc::new(by.clone());
            fights.wrote(&key(), Written { by, ..write(b"git", true) }, second(now));
        }
        assert_eq!(
            contest(&mut fights, 5).unwrap().to_string(),
            "the field manager \"x\" (spec) keeps undoing what Git says: put back 6 times, and now 2 s after the last \
             time at the soonest; stop the other one, or take the work out of Git"
        );
    }
}
