//! The clock on the wall of gitwork's machine, which people and time servers set, and the hours in which changes may be
//! made by it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gitwork::core::window::ChangeWindows;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

/// How long a write may be on its way that was planned when it was allowed, not counting the machine's sleep.
const ON_ITS_WAY: Duration = Duration::from_secs(120);
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// A time in which the clock went on evenly.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    began: Instant,
    ended: Option<Instant>,
    /// What the clock said when it began.
    wall: Timestamp,
}

/// Cloning it gives another look at the same clock.
#[derive(Clone)]
pub struct Wall(Arc<Mutex<Vec<Stretch>>>);

fn later(wall: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or_default();
    wall.saturating_add(by).unwrap_or(wall)
}

impl Wall {
    /// A clock that says this hour of a day.
    pub fn new(hour: i64) -> Self {
        let midnight: Timestamp = "2026-11-20T00:00:00Z".parse().unwrap();
        let wall = midnight.saturating_add(SignedDuration::from_hours(hour)).unwrap();
        Self(Arc::new(Mutex::new(vec![Stretch { began: Instant::now(), ended: None, wall }])))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Stretch>> {
        self.0.lock().unwrap()
    }

    pub fn now(&self) -> Timestamp {
        let last = *self.lock().last().unwrap();
        later(last.wall, last.began.elapsed())
    }

    /// Ends the stretch now; from `began` on the clock goes on from `wall`.
    fn go_on(&self, began: Instant, wall: Timestamp) {
        let mut stretches = self.lock();
        stretches.last_mut().unwrap().ended = Some(Instant::now());
        stretches.push(Stretch { began, ended: None, wall });
    }

    /// Somebody sets the clock, forward or back.
    pub fn jump(&self, by: SignedDuration) {
        let now = self.now();
        self.go_on(Instant::now(), now.saturating_add(by).unwrap_or(now));
    }

    /// The machine is going to sleep for so long. Said before: what it was about to do, it does as it wakes up.
    pub fn sleeps(&self, time: Duration) {
        self.go_on(Instant::now() + time, later(self.now(), time));
    }

    /// The moment since which the machine has been awake for so long; `None` before the world began.
    pub fn awake_ago(&self, time: Duration) -> Option<Instant> {
        let mut left = time;
        for stretch in self.lock().iter().rev() {
            let ended = stretch.ended.unwrap_or_else(Instant::now);
            let lasted = ended - stretch.began;
            if left <= lasted {
                return Some(ended - left);
            }
            left -= lasted;
        }
        None
    }

    /// Sets the clock to the next noon.
    pub fn set_to_noon(&self) {
        let of_day = self.now().as_second().rem_euclid(DAY);
        self.jump(SignedDuration::from_secs((12 * HOUR - of_day).rem_euclid(DAY)));
    }

    /// What the clock said when a write may have been planned that arrives now.
    pub fn recently(&self) -> Vec<Timestamp> {
        let (mut found, mut left) = (Vec::new(), ON_ITS_WAY);
        for stretch in self.lock().iter().rev() {
            let lasted = stretch.ended.unwrap_or_else(Instant::now) - stretch.began;
            let span = lasted.min(left);
            let mut back = Duration::ZERO;
            while back <= span {
                found.push(later(stretch.wall, lasted - back));
                back += Duration::from_secs(10);
            }
            found.push(later(stretch.wall, lasted - span));
            left -= span;
            if left.is_zero() {
                break;
            }
        }
        found
    }
}

/// Changes are made within the hours of `allow` and not in those of `deny`, each day, in UTC. It is open from 12 to 15 in
/// any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hours {
    allow: Option<(i64, i64)>,
    deny: Option<(i64, i64)>,
}

fn within((start, end): (i64, i64), hour: i64) -> bool {
    if start < end { start <= hour && hour < end } else { start <= hour || hour < end }
}

impl Hours {
    pub fn any(random: &mut fastrand::Rng) -> Self {
        let allow = [None, Some((9, 17)), Some((22, 16)), Some((11, 15))];
        let deny = [None, Some((17, 9)), Some((0, 11)), Some((15, 23)), Some((16, 11))];
        Self { allow: allow[random.usize(..allow.len())], deny: deny[random.usize(..deny.len())] }
    }

    pub fn are_open(self, at: Timestamp) -> bool {
        let hour = at.as_second().rem_euclid(DAY) / HOUR;
        self.allow.is_none_or(|allow| within(allow, hour))
            && !self.deny.is_some_and(|deny| within(deny, hour))
    }

    /// As `gitwork.yaml` and an operator have them.
    pub fn to_value(self) -> Value {
        let list = |hours: Option<(i64, i64)>| {
            let window = |(start, end)| json!({"start": format!("{start:02}:00"), "end": format!("{end:02}:00")});
            hours.map(window).into_iter().collect::<Vec<Value>>()
        };
        json!({"allow": list(self.allow), "deny": list(self.deny)})
    }

    pub fn to_windows(self) -> ChangeWindows {
        serde_json::from_value(self.to_value()).unwrap()
    }
}
