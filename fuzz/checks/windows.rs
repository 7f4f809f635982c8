//! Change windows: a second since 1970, a line break, then windows in YAML documents. The result is
//! that of a second, simple implementation, and the time of the next change is right.

use gitwork_core::config::window::{ChangeWindow, ChangeWindows, Closed, closed};
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

const DOCUMENTS_MAX: usize = 3;

/// Some time zones with odd clock changes, by their rules, so that no database is needed: by an
/// hour, by half an hour, in a summer over the new year, at midnight.
fn zone(name: &str) -> Option<TimeZone> {
    let rule = match name {
        "UTC" => return Some(TimeZone::UTC),
        "Europe/Berlin" => "CET-1CEST,M3.5.0,M10.5.0/3",
        "Australia/Lord_Howe" => "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
        "America/Santiago" => "<-04>4<-03>,M9.1.6/24,M4.1.6/24",
        "America/Havana" => "CST5CDT,M3.2.0/0,M11.1.0/1",
        _ => return None,
    };
    TimeZone::posix(rule).ok()
}

/// The moment of a wall-clock time.
fn moment(zone: &TimeZone, day: Date, time: Time) -> Option<Timestamp> {
    Some(day.to_datetime(time).to_zoned(zone.clone()).ok()?.timestamp())
}

fn time(text: &Option<String>) -> Time {
    let midnight = Time::midnight();
    let Some((hour, minute)) = text.as_deref().and_then(|text| text.split_once(':')) else {
        return midnight;
    };
    Time::new(hour.parse().unwrap(), minute.parse().unwrap(), 0, 0).unwrap()
}

/// Whether a moment is within a window, for windows without problems: tries the days around it one
/// by one.
fn is_within(window: &ChangeWindow, zone: &TimeZone, at: Timestamp) -> bool {
    let today = at.to_zoned(zone.clone()).date();
    let date = |text: &Option<String>| text.as_ref().map(|text| text.parse::<Date>().unwrap());
    let (from, until) = (date(&window.from), date(&window.until));
    (-2..=1).any(|offset| {
        let Ok(day) = today.checked_add(Span::new().days(offset)) else { return false };
        let name = format!("{:?}", day.weekday()).to_lowercase();
        let named = window.days.is_empty()
            || window.days.iter().any(|d| name.starts_with(&format!("{d:?}").to_lowercase()));
        let (start, end) = (time(&window.start), time(&window.end));
        let last = if window.end.is_some() && end > start { Ok(day) } else { day.tomorrow() };
        let Some(begins) = moment(zone, day, start) else { return false };
        let Some(ends) = last.ok().and_then(|last| moment(zone, last, end)) else { return false };
        named
            && from.is_none_or(|from| from <= day)
            && until.is_none_or(|until| day <= until)
            && begins <= at
            && at < ends
    })
}

fn is_open(all: &[ChangeWindows], at: Timestamp) -> bool {
    all.iter().filter(|windows| !windows.is_empty()).all(|windows| {
        let name = windows.time_zone.as_deref().unwrap_or("UTC");
        let zone = zone(name).unwrap();
        let within = |window: &ChangeWindow| is_within(window, &zone, at);
        (windows.allow.is_empty() || windows.allow.iter().any(within))
            && !windows.deny.iter().any(within)
    })
}

fn read(bytes: &[u8]) -> Option<(Timestamp, Vec<ChangeWindows>)> {
    let (now, yaml) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
    let now = Timestamp::from_second(now.parse().ok()?).ok()?;
    let documents = yaml.split("\n---\n").take(DOCUMENTS_MAX);
    let all: Result<Vec<ChangeWindows>, _> = documents.map(serde_yaml::from_str).collect();
    Some((now, all.ok()?))
}

pub fn check(bytes: &[u8]) -> bool {
    let Some((now, all)) = read(bytes) else { return false };
    let each: Vec<&ChangeWindows> = all.iter().collect();
    let ask = |at: Timestamp| closed(&each, &zone, at);
    let answer = ask(now);
    assert_eq!(answer, ask(now));
    if let Some(Closed { unknown_zone: Some(name), until }) = &answer {
        assert!(zone(name).is_none() && until.is_none());
        return false;
    }
    let until = answer.as_ref().and_then(|closed| closed.until);
    if let Some(until) = until {
        assert!(until > now);
        assert_eq!(ask(until), None, "closed until {until}, and then open");
    }
    let fine = all.iter().all(|windows| windows.problems().is_empty());
    // Some days near the limits of time have no end.
    let usual = (-10_000_000_000..200_000_000_000).contains(&now.as_second());
    if !fine || !usual {
        return false;
    }
    assert_eq!(answer.is_none(), is_open(&all, now), "at {now}");
    if let Some(until) = until {
        // In between it is closed, until the same moment.
        let seconds = until.as_second() - now.as_second();
        for part in [1, 2, 3, 7, 64] {
            let at = Timestamp::from_second(now.as_second() + seconds * (part - 1) / part).unwrap();
            let at = at.max(now);
            assert!(!is_open(&all, at), "at {at}, before {until}");
            assert_eq!(ask(at).and_then(|closed| closed.until), Some(until), "at {at}");
        }
        let last = Timestamp::from_nanosecond(until.as_nanosecond() - 1).unwrap();
        assert!(last < now || !is_open(&all, last), "just before {until}");
    } else if answer.is_some() {
        for day in [0, 1, 2, 30, 180, 364] {
            let at = now.checked_add(Span::new().hours(24 * day)).unwrap();
            assert!(!is_open(&all, at), "closed for ever, and open at {at}");
        }
    }
    all.iter().any(|windows| !windows.is_empty())
}
