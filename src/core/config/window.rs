//! Change windows: `(windows, now) -> open, or closed until`. Pure: time zones come in as values.
//!
//! A window begins and ends at times of the wall clock of its zone. Where a clock change skips such
//! a time, it is the time as much later as the clock jumps; where one comes twice, it is the first
//! (RFC 5545, section 3.3.5).

use std::fmt;

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits;

/// When changes may be made. Outside of it changes wait; what somebody edits on the hub is still
/// put back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ChangeWindows {
    /// The zone of all times, as in `Europe/Berlin`; UTC where it is absent.
    pub time_zone: Option<String>,
    /// Changes are made only within one of these, where there is any.
    pub allow: Vec<ChangeWindow>,
    /// Changes are never made within one of these.
    pub deny: Vec<ChangeWindow>,
}

/// A stretch of each day that is named; of every day where none is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ChangeWindow {
    /// Days of the week; all of them where it is empty.
    pub days: Vec<Day>,
    /// When it begins, as in `09:00`; with the day where it is absent.
    pub start: Option<String>,
    /// When it ends, as in `17:00`: the next day where that is not after `start`. With the day
    /// where it is absent.
    pub end: Option<String>,
    /// The first day, as in `2026-12-24`.
    pub from: Option<String>,
    /// The last day.
    pub until: Option<String>,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl Day {
    fn weekday(self) -> Weekday {
        match self {
            Self::Mon => Weekday::Monday,
            Self::Tue => Weekday::Tuesday,
            Self::Wed => Weekday::Wednesday,
            Self::Thu => Weekday::Thursday,
            Self::Fri => Weekday::Friday,
            Self::Sat => Weekday::Saturday,
            Self::Sun => Weekday::Sunday,
        }
    }
}

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

/// What a field of windows is wrong about; reads after "`deny[0].start` ".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowProblem {
    /// As a JSON Pointer below the windows.
    pub pointer: String,
    pub message: String,
}

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

/// How far ahead the next opening is looked for.
const DAYS_AHEAD: i32 = 370;

impl ChangeWindows {
    /// All that is wrong with them but the zone's name, which only the time zone database can tell.
    pub fn problems(&self) -> Vec<WindowProblem> {
        let mut found = Vec::new();
        let mut say = |pointer: String, message: &str| {
            found.push(WindowProblem { pointer, message: message.to_owned() });
        };
        if self.allow.len() + self.deny.len() > limits::WINDOWS_MAX {
            say(String::new(), &format!("has more than {} windows", limits::WINDOWS_MAX));
        }
        let zone = self.time_zone.as_ref().map_or(0, |zone| zone.chars().count());
        if zone > limits::TIME_ZONE_CHARS_MAX {
            say("/timeZone".into(), "is longer than the name of any time zone");
        }
        for (list, windows) in [("allow", &self.allow), ("deny", &self.deny)] {
            for (index, window) in windows.iter().enumerate() {
                let at = |field: &str| format!("/{list}/{index}/{field}");
                if window.days.len() > 7 {
                    say(at("days"), "names more days than a week has");
                }
                for (field, text) in [("start", &window.start), ("end", &window.end)] {
                    if text.as_ref().is_some_and(|text| time(text).is_none()) {
                        say(at(field), "is no time as in 09:00");
                    }
                }
                for (field, text) in [("from", &window.from), ("until", &window.until)] {
                    if text.as_ref().is_some_and(|text| date(text).is_none()) {
                        say(at(field), "is no day as in 2026-12-24");
                    }
                }
            }
        }
        found
    }

    /// Whether there is no window at all, so that changes are made at any time.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }
}

/// `HH:MM`.
fn time(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(hour) || !digits(minute) {
        return None;
    }
    Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()
}

/// `YYYY-MM-DD`, and no other form: of a day with a time the time would be dropped in silence.
fn date(text: &str) -> Option<Date> {
    let plain = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    let fits = text.len() == 10 && text.bytes().enumerate().all(plain);
    fits.then(|| text.parse().ok()).flatten()
}

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

    /// The stretch that begins on this day.
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

/// The stretches of so many days, put together where they touch.
fn intervals(stretches: &[DailyWindow], zone: &TimeZone, first: Date, days: i32) -> Vec<Interval> {
    let mut all: Vec<Interval> = Vec::new();
    for offset in 0..days {
        let Ok(day) = first.checked_add(Span::new().days(offset)) else { break };
        all.extend(stretches.iter().filter_map(|stretch| stretch.on(day, zone)));
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
struct Calendar {
    allow: Vec<Interval>,
    deny: Vec<Interval>,
    allows_always: bool,
    /// What comes from here on is not known.
    end: Timestamp,
}

impl Calendar {
    fn new(windows: &ChangeWindows, zone: &TimeZone, now: Timestamp, days: i32) -> Self {
        // A stretch of the day before may last into today, and a clock change moves it a little.
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
    fn opens(&self, mut at: Timestamp) -> Option<Timestamp> {
        // Each round goes past one stretch.
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
        // Each round goes past a stretch of one calendar at least.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Central European time by its rule, so that the test needs no database.
    fn zone(name: &str) -> Option<TimeZone> {
        (name == "Europe/Berlin").then(|| TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap())
    }

    fn windows(yaml: &str) -> ChangeWindows {
        let windows: ChangeWindows = serde_yaml::from_str(yaml).unwrap();
        assert_eq!(windows.problems(), []);
        windows
    }

    /// `open`, or until when it is closed.
    fn state(all: &[&ChangeWindows], now: &str) -> String {
        match closed(all, &zone, now.parse().unwrap()) {
            None => "open".into(),
            Some(Closed { until: Some(until), .. }) => until.to_string(),
            Some(Closed { unknown_zone: Some(name), .. }) => format!("no zone {name}"),
            Some(_) => "for ever".into(),
        }
    }

    #[track_caller]
    fn check(yaml: &str, cases: &[(&str, &str)]) {
        let windows = windows(yaml);
        for (now, expected) in cases {
            assert_eq!(state(&[&windows], now), *expected, "{now}");
        }
    }

    #[test]
    fn changes_are_made_in_what_is_allowed_and_not_in_what_is_denied() {
        // 2026-11-20 is a Friday.
        check("{}", &[("2026-11-20T00:00:00Z", "open")]);
        check(
            "{allow: [{days: [mon, fri], start: '09:00', end: '17:00'}], deny: [{days: [fri], start: '12:00', end: '13:00'}]}",
            &[
                ("2026-11-20T08:59:59Z", "2026-11-20T09:00:00Z"),
                ("2026-11-20T09:00:00Z", "open"),
                ("2026-11-20T12:00:00Z", "2026-11-20T13:00:00Z"),
                ("2026-11-20T13:00:00Z", "open"),
                ("2026-11-20T17:00:00Z", "2026-11-23T09:00:00Z"),
                ("2026-11-22T10:00:00Z", "2026-11-23T09:00:00Z"),
            ],
        );
        // Over midnight, and a freeze of many days that begins within.
        check(
            "{allow: [{start: '22:00', end: '04:00'}], deny: [{from: 2026-12-24, until: 2027-01-01}]}",
            &[
                ("2026-12-23T23:00:00Z", "open"),
                ("2026-12-23T21:00:00Z", "2026-12-23T22:00:00Z"),
                ("2026-12-24T01:00:00Z", "2027-01-02T00:00:00Z"),
                ("2026-12-30T23:00:00Z", "2027-01-02T00:00:00Z"),
                ("2027-01-02T03:59:59Z", "open"),
                ("2027-01-02T04:00:00Z", "2027-01-02T22:00:00Z"),
            ],
        );
        check("{deny: [{}]}", &[("2026-11-20T00:00:00Z", "for ever")]);
        check(
            "{allow: [{until: 2026-01-01}]}",
            &[("2026-11-20T00:00:00Z", "for ever"), ("2026-01-01T23:59:59Z", "open")],
        );
    }

    #[test]
    fn a_window_keeps_the_wall_clock_of_its_zone_over_clock_changes() {
        let nine_to_five = "{timeZone: Europe/Berlin, allow: [{start: '09:00', end: '17:00'}]}";
        check(
            nine_to_five,
            &[
                ("2026-03-28T07:59:59Z", "2026-03-28T08:00:00Z"),
                ("2026-03-29T07:00:00Z", "open"),
                ("2026-03-29T06:59:59Z", "2026-03-29T07:00:00Z"),
                ("2026-10-25T07:59:59Z", "2026-10-25T08:00:00Z"),
                ("2026-10-25T15:59:59Z", "open"),
                ("2026-10-25T16:00:00Z", "2026-10-26T08:00:00Z"),
            ],
        );
        // 02:30 does not exist on 29 March, when 02:00 becomes 03:00: it is 03:30 then.
        let night = "{timeZone: Europe/Berlin, deny: [{start: '02:30', end: '06:00'}]}";
        check(
            night,
            &[
                ("2026-03-29T00:59:59Z", "open"),
                ("2026-03-29T01:29:59Z", "open"),
                ("2026-03-29T01:30:00Z", "2026-03-29T04:00:00Z"),
                ("2026-03-29T04:00:00Z", "open"),
                // 02:30 comes twice on 25 October: the first one counts, at 00:30 UTC.
                ("2026-10-25T00:29:59Z", "open"),
                ("2026-10-25T00:30:00Z", "2026-10-25T05:00:00Z"),
                ("2026-10-25T01:30:00Z", "2026-10-25T05:00:00Z"),
            ],
        );
        // An hour that is skipped altogether is no window on that day.
        let skipped = "{timeZone: Europe/Berlin, allow: [{start: '02:00', end: '03:00'}]}";
        check(
            skipped,
            &[
                ("2026-03-28T01:30:00Z", "open"),
                ("2026-03-28T02:00:00Z", "2026-03-30T00:00:00Z"),
                ("2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"),
            ],
        );
    }

    #[test]
    fn of_several_windows_the_stricter_counts() {
        let working =
            windows("{allow: [{days: [mon, tue, wed, thu, fri], start: '08:00', end: '18:00'}]}");
        let berlin = windows("{timeZone: Europe/Berlin, allow: [{start: '16:00', end: '23:00'}]}");
        let freeze = windows("{deny: [{from: 2026-11-20, until: 2026-11-22}]}");
        for (now, expected) in [
            ("2026-11-19T16:00:00Z", "open"),
            ("2026-11-19T09:00:00Z", "2026-11-19T15:00:00Z"),
            ("2026-11-19T18:00:00Z", "2026-11-20T15:00:00Z"),
        ] {
            assert_eq!(state(&[&working, &berlin], now), expected, "{now}");
        }
        let all = [&working, &berlin, &freeze];
        assert_eq!(state(&all, "2026-11-19T18:00:00Z"), "2026-11-23T15:00:00Z");
        let never = windows("{allow: [{until: 2020-01-01}]}");
        assert_eq!(state(&[&working, &never], "2026-11-19T09:00:00Z"), "for ever");
    }

    #[test]
    fn what_cannot_be_read_closes() {
        let nowhere = windows("{timeZone: Mars/Olympus, allow: [{}]}");
        assert_eq!(state(&[&nowhere], "2026-11-20T00:00:00Z"), "no zone Mars/Olympus");
        for (yaml, pointer, expected) in [
            ("{allow: [{start: '9:00'}]}", "/allow/0/start", "for ever"),
            ("{deny: [{}, {end: '24:00'}]}", "/deny/1/end", "for ever"),
            ("{deny: [{from: tomorrow}]}", "/deny/0/from", "for ever"),
            ("{allow: [{until: 2026-02-30}]}", "/allow/0/until", "for ever"),
            ("{deny: [{from: '2026-11-21T18:00'}]}", "/deny/0/from", "for ever"),
            ("{deny: [{until: '20261121'}]}", "/deny/0/until", "for ever"),
        ] {
            let windows: ChangeWindows = serde_yaml::from_str(yaml).unwrap();
            let problems: Vec<String> =
                windows.problems().into_iter().map(|problem| problem.pointer).collect();
            assert_eq!(problems, [pointer], "{yaml}");
            assert_eq!(state(&[&windows], "2026-11-20T00:00:00Z"), expected, "{yaml}");
        }
        let many = ChangeWindows {
            allow: vec![ChangeWindow::default(); limits::WINDOWS_MAX + 1],
            ..ChangeWindows::default()
        };
        assert_eq!(many.problems().len(), 1);
        // All of it is kept on the hub, where there is not room for everything.
        let long = ChangeWindows { time_zone: Some("x".repeat(65)), ..ChangeWindows::default() };
        assert_eq!(long.problems()[0].pointer, "/timeZone");
        let days = ChangeWindow { days: vec![Day::Mon; 8], ..ChangeWindow::default() };
        let days = ChangeWindows { deny: vec![days], ..ChangeWindows::default() };
        assert_eq!(days.problems()[0].pointer, "/deny/0/days");
    }
}
