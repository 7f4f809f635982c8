//! Durations as Go writes them, such as `1h30m` or `1.5s`: OCM's fields have them.

use std::time::Duration;

/// The longest duration that is read: a hundred years.
const SECONDS_MAX: f64 = 100.0 * 366.0 * 86_400.0;

/// Reads a duration; `None` if it is none, or negative, or too long. `0` needs no unit.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut total, mut rest) = (Duration::ZERO, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(digits)?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(end)?;
        let seconds = match unit {
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        let part = number * seconds;
        let is_in_range = (0.0..=SECONDS_MAX).contains(&part);
        total = is_in_range.then(|| total.checked_add(Duration::from_secs_f64(part)))??;
        rest = next;
    }
    (!text.is_empty() && total.as_secs_f64() <= SECONDS_MAX).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, milliseconds) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("5m", Some(300_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            ("100ms", Some(100)),
            ("+2s", Some(2_000)),
            ("", None),
            ("5", None),
            ("5 minutes", None),
            ("5mx", None),
            ("-5m", None),
            ("s", None),
            (".s", None),
            ("1e3s", None),
            ("99999999999999h", None),
            ("5\u{6d}\u{301}", None),
        ] {
            assert_eq!(parse(text), milliseconds.map(Duration::from_millis), "{text:?}");
        }
    }
}
