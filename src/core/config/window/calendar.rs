//! When windows are open and closed, as intervals of time.

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use super::fields::{ChangeWindow, ChangeWindows, date, time};
use crate::limits;

/// A window with its fields read.
#[derive(Debug, Clone)]
struct DailyWindow {
    days: Vec<Weekday>,
    start: Time,
    /// `None`: the end of the day.
    end: Option<Time>,
    from: Option<Date>,
    until: Option<Date>,
}

/// Half open, and sorted where there are several.
type Interval = (Timestamp, Timestamp);

impl DailyWindow {
    /// A window that cannot be read is the whole of every day where it denies, and nothing where it
    /// allows.
    fn all(windows: &[ChangeWindow], denies: bool) -> Vec<Self> {
        let whole =
            Self { days: Vec::new(), start: Time::midnight(), end: None, from: None, until: None };
        let read =
            |window: &ChangeWindow| Self::read(window).or_else(|| denies.then(|| whole.clone()));
        windows.iter().take(limits::WINDOWS_MAX).filter_map(read).collect()
    }

    fn read(window: &ChangeWindow) -> Option<Self> {
        let day = |text: &Option<String>| match text {
            Some(text) => date(text).map(Some),
            None => Some(None),
        };
        Some(Self {
            days: window.days.iter().map(|day| day.weekday()).collect(),
            start: match &window.start {
                Some(text) => time(text)?,
                None => Time::midnight(),
            },
            end: match &window.end {
                Some(text) => Some(time(text)?),
                None => None,
            },
            from: day(&window.from)?,
            until: day(&window.until)?,
        })
    }

    /// The interval that begins on this day.
    fn on(&self, day: Date, zone: &TimeZone) -> Option<Interval> {
        let named = self.days.is_empty() || self.days.contains(&day.weekday());
        let within =
            self.from.is_none_or(|from| day >= from) && self.until.is_none_or(|until| day <= until);
        if !named || !within {
            return None;
        }
        let at = |day: Date, time: Time| {
            Some(day.to_datetime(time).to_zoned(zone.clone()).ok()?.timestamp())
        };
        let end = match self.end {
            Some(end) if end > self.start => at(day, end)?,
            Some(end) => at(day.tomorrow().ok()?, end)?,
            None => at(day.tomorrow().ok()?, Time::midnight())?,
        };
        let start = at(day, self.start)?;
        (start < end).then_some((start, end))
    }
}

/// The intervals of so many days, merged where they touch.
fn intervals(windows: &[DailyWindow], zone: &TimeZone, first: Date, days: i32) -> Vec<Interval> {
    let mut all: Vec<Interval> = Vec::new();
    for offset in 0..days {
        let Ok(day) = first.checked_add(Span::new().days(offset)) else { break };
        all.extend(windows.iter().filter_map(|window| window.on(day, zone)));
    }
    all.sort_unstable();
    let mut merged: Vec<Interval> = Vec::new();
    for (start, end) in all {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

/// The interval that holds this time.
fn around(intervals: &[Interval], at: Timestamp) -> Option<Interval> {
    let begun = intervals.partition_point(|(start, _)| *start <= at);
    intervals.get(begun.checked_sub(1)?).filter(|(_, end)| at < *end).copied()
}

/// Windows with their zone: one calendar.
pub(super) struct Calendar {
    allow: Vec<Interval>,
    deny: Vec<Interval>,
    allows_always: bool,
    /// What comes from here on is not known.
    end: Timestamp,
}

impl Calendar {
    /// The openings of so many days from now on.
    pub(super) fn new(windows: &ChangeWindows, zone: &TimeZone, now: Timestamp, days: i32) -> Self {
        // A window of the day before may last into today, and a clock change moves it a little.
        let today = now.to_zoned(zone.clone()).date();
        let first = today.checked_sub(Span::new().days(2)).unwrap_or(today);
        let of = |windows: &[ChangeWindow], denies| {
            intervals(&DailyWindow::all(windows, denies), zone, first, days + 3)
        };
        Self {
            allow: of(&windows.allow, false),
            deny: of(&windows.deny, true),
            allows_always: windows.allow.is_empty(),
            end: now
                .saturating_add(Span::new().hours(24 * i64::from(days)))
                .unwrap_or(Timestamp::MAX),
        }
    }

    /// The first time from `at` on at which it is open; `None` where there is none ahead.
    pub(super) fn opens(&self, mut at: Timestamp) -> Option<Timestamp> {
        // Each round goes past one interval.
        for _ in 0..=self.allow.len() + self.deny.len() {
            if at > self.end {
                return None;
            }
            if let Some((_, end)) = around(&self.deny, at) {
                at = end;
            } else if self.allows_always || around(&self.allow, at).is_some() {
                return Some(at);
            } else {
                let next = self.allow.partition_point(|(start, _)| *start <= at);
                at = self.allow.get(next)?.0;
            }
        }
        None
    }
}
