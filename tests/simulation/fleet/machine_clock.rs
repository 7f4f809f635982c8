//! The wall clock of gitwork's machine, which people and time servers set, and the hours for
//! changes.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gitwork_core::config::window::ChangeWindows;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The longest time from the planning of a write to its arrival, without the machine's sleep.
const ON_ITS_WAY: Duration = Duration::from_secs(120);
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// A period in which the clock ran evenly.
#[derive(Debug, Clone, Copy)]
struct ClockPeriod {
    began: Instant,
    ended: Option<Instant>,
    /// The wall-clock time at the begin.
    machine_clock: Timestamp,
}

/// A wall clock on virtual time. Clones share their state.
#[derive(Clone)]
pub struct MachineClock(Arc<Mutex<Vec<ClockPeriod>>>);

fn later(machine_clock: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or_default();
    machine_clock.saturating_add(by).unwrap_or(machine_clock)
}

impl MachineClock {
    /// A clock that begins at this hour of a day.
    pub fn new(hour: i64) -> Self {
        let midnight: Timestamp = "2026-11-20T00:00:00Z".parse().unwrap();
        let machine_clock = midnight.saturating_add(SignedDuration::from_hours(hour)).unwrap();
        Self(Arc::new(Mutex::new(vec![ClockPeriod {
            began: Instant::now(),
            ended: None,
            machine_clock,
        }])))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ClockPeriod>> {
        self.0.lock().unwrap()
    }

    pub fn now(&self) -> Timestamp {
        let last = *self.lock().last().unwrap();
        later(last.machine_clock, last.began.elapsed())
    }

    /// Ends the period now. From `began` on the clock runs from `wall`.
    fn go_on(&self, began: Instant, machine_clock: Timestamp) {
        let mut periods = self.lock();
        periods.last_mut().unwrap().ended = Some(Instant::now());
        periods.push(ClockPeriod { began, ended: None, machine_clock });
    }

    /// Sets the clock forward or back.
    pub fn jump(&self, by: SignedDuration) {
        let now = self.now();
        self.go_on(Instant::now(), now.saturating_add(by).unwrap_or(now));
    }

    /// Puts the machine to sleep for this time. Call it before the time passes: the machine does
    /// its pending work when it wakes up.
    pub fn sleeps(&self, time: Duration) {
        self.go_on(Instant::now() + time, later(self.now(), time));
    }

    /// The moment since which the machine has been awake for this long; `None` before the world
    /// began.
    pub fn awake_ago(&self, time: Duration) -> Option<Instant> {
        let mut left = time;
        for period in self.lock().iter().rev() {
            let ended = period.ended.unwrap_or_else(Instant::now);
            let lasted = ended - period.began;
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

    /// The wall-clock times at which a write may have been planned that arrives now.
    pub fn recently(&self) -> Vec<Timestamp> {
        let (mut found, mut left) = (Vec::new(), ON_ITS_WAY);
        for period in self.lock().iter().rev() {
            let lasted = period.ended.unwrap_or_else(Instant::now) - period.began;
            let span = lasted.min(left);
            let mut back = Duration::ZERO;
            while back <= span {
                found.push(later(period.machine_clock, lasted - back));
                back += Duration::from_secs(10);
            }
            found.push(later(period.machine_clock, lasted - span));
            left -= span;
            if left.is_zero() {
                break;
            }
        }
        found
    }
}

/// Changes are made within the hours of `allow` and outside those of `deny`, each day, in UTC. The
/// hours from 12 to 15 are always open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DailyHours {
    allow: Option<(i64, i64)>,
    deny: Option<(i64, i64)>,
}

fn within((start, end): (i64, i64), hour: i64) -> bool {
    if start < end { start <= hour && hour < end } else { start <= hour || hour < end }
}

impl DailyHours {
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

    /// The form of `gitwork.yaml` and of the operator's file.
    pub fn to_value(self) -> Value {
        let list = |hours: Option<(i64, i64)>| {
            let time = |hour: i64| format!("{hour:02}:00");
            let window = |(start, end)| json!({"start": time(start), "end": time(end)});
            hours.map(window).into_iter().collect::<Vec<Value>>()
        };
        json!({"allow": list(self.allow), "deny": list(self.deny)})
    }

    pub fn to_windows(self) -> ChangeWindows {
        serde_json::from_value(self.to_value()).unwrap()
    }
}
