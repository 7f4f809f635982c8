//! Whether changes may be made now, by several windows at once.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::calendar::Calendar;
use super::fields::ChangeWindows;
use crate::limits;

/// Why changes wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// When changes continue; `None` if not within a year, or unknown.
    pub until: Option<Timestamp>,
    /// A zone that is not known here.
    pub unknown_zone: Option<String>,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { until: Some(until), .. } => {
                write!(f, "no window is open for changes until {until}")
            }
            Self { unknown_zone: Some(zone), .. } => {
                write!(
                    f,
                    "the windows for changes are in the time zone {zone:?}, which is not known here"
                )
            }
            Self { .. } => {
                f.write_str("no window is open for changes, nor will one be within a year")
            }
        }
    }
}

/// How far ahead the next opening is looked for.
const DAYS_AHEAD: i32 = 370;

/// Whether changes may be made now, by all of these windows at once. `zone` knows the time zones.
pub fn closed(
    all: &[&ChangeWindows],
    zone: &dyn Fn(&str) -> Option<TimeZone>,
    now: Timestamp,
) -> Option<Closed> {
    let mut zoned = Vec::new();
    for windows in all.iter().filter(|windows| !windows.is_empty()) {
        let zone = match &windows.time_zone {
            None => TimeZone::UTC,
            Some(name) => match zone(name) {
                Some(zone) => zone,
                None => {
                    return Some(Closed { until: None, unknown_zone: Some(name.clone()) });
                }
            },
        };
        zoned.push((*windows, zone));
    }
    let opens = |days: i32| {
        let calendars: Vec<Calendar> =
            zoned.iter().map(|(windows, zone)| Calendar::new(windows, zone, now, days)).collect();
        let mut at = now;
        // Each round goes past an interval of one calendar at least.
        for _ in 0..=limits::WINDOWS_MAX * DAYS_AHEAD as usize {
            let mut later = at;
            for calendar in &calendars {
                later = later.max(calendar.opens(later)?);
            }
            if later == at {
                return Some(at);
            }
            at = later;
        }
        None
    };
    // Most are open, which the days around now tell.
    if opens(2) == Some(now) {
        return None;
    }
    Some(Closed { until: opens(DAYS_AHEAD), unknown_zone: None })
}
