//! Change windows as a file has them, and whether their fields can be read.

use jiff::civil::{Date, Time, Weekday};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits;

/// When changes may be made. At other times, changes from Git wait. Edits on the hub are still
/// reverted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ChangeWindows {
    /// Time zone of all times, for example `Europe/Berlin`. Default: UTC.
    pub time_zone: Option<String>,
    /// Changes are made only within one of these time ranges. Default: at any time.
    pub allow: Vec<ChangeWindow>,
    /// Changes are never made within one of these time ranges.
    pub deny: Vec<ChangeWindow>,
}

/// Time range on the listed days. Default: every day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ChangeWindow {
    /// Days of the week. Default: all days.
    pub days: Vec<Day>,
    /// Start, for example `09:00`. Default: the start of the day.
    pub start: Option<String>,
    /// End, for example `17:00`. If it is not after `start`, it is on the next day. Default: the
    /// end of the day.
    pub end: Option<String>,
    /// First day, for example `2026-12-24`.
    pub from: Option<String>,
    /// Last day; it is part of the range.
    pub until: Option<String>,
}

/// Day of the week.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Day {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}

impl Day {
    pub(super) fn weekday(self) -> Weekday {
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

/// What is wrong with a field of windows; reads after "`deny[0].start` ".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowProblem {
    /// As a JSON Pointer below the windows.
    pub pointer: String,
    /// What is wrong, as a clause.
    pub message: String,
}

impl ChangeWindows {
    /// All problems but an unknown time zone, which only the time zone database shows.
    pub fn problems(&self) -> Vec<WindowProblem> {
        let mut found = Vec::new();
        let mut report = |pointer: String, message: &str| {
            found.push(WindowProblem { pointer, message: message.to_owned() });
        };
        if self.allow.len() + self.deny.len() > limits::WINDOWS_MAX {
            report(String::new(), &format!("has more than {} windows", limits::WINDOWS_MAX));
        }
        let zone = self.time_zone.as_ref().map_or(0, |zone| zone.chars().count());
        if zone > limits::TIME_ZONE_CHARS_MAX {
            report("/timeZone".into(), "is longer than the name of any time zone");
        }
        for (list, windows) in [("allow", &self.allow), ("deny", &self.deny)] {
            for (index, window) in windows.iter().enumerate() {
                let at = |field: &str| format!("/{list}/{index}/{field}");
                if window.days.len() > 7 {
                    report(at("days"), "names more days than a week has");
                }
                for (field, text) in [("start", &window.start), ("end", &window.end)] {
                    if text.as_ref().is_some_and(|text| time(text).is_none()) {
                        report(at(field), "is no time as in 09:00");
                    }
                }
                for (field, text) in [("from", &window.from), ("until", &window.until)] {
                    if text.as_ref().is_some_and(|text| date(text).is_none()) {
                        report(at(field), "is no day as in 2026-12-24");
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
pub(super) fn time(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(hour) || !digits(minute) {
        return None;
    }
    Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()
}

/// `YYYY-MM-DD`, and no other form: of a day with a time the time would be dropped in silence.
pub(super) fn date(text: &str) -> Option<Date> {
    let plain = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    let fits = text.len() == 10 && text.bytes().enumerate().all(plain);
    fits.then(|| text.parse().ok()).flatten()
}
