use jiff::tz::TimeZone;

use super::*;
use crate::limits;

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
        "{allow: [{days: [mon, fri], start: '09:00', end: '17:00'}], \
          deny: [{days: [fri], start: '12:00', end: '13:00'}]}",
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
        "{allow: [{start: '22:00', end: '04:00'}], \
          deny: [{from: 2026-12-24, until: 2027-01-01}]}",
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
