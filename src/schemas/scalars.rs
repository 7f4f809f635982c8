//! Texts and numbers with a type of their own, as Go's decoders read them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Whether a text is a quantity (`100m`, `1.5Gi`, `1e3`).
pub(crate) fn is_quantity(text: &str) -> bool {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(digits);
    let has_digit = number.contains(|c: char| c.is_ascii_digit());
    if !has_digit || number.matches('.').count() > 1 {
        return false;
    }
    const SUFFIXES: &[&str] =
        &["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    SUFFIXES.contains(&suffix) || is_exponent(suffix)
}

fn is_exponent(text: &str) -> bool {
    let Some(exponent) = text.strip_prefix(['e', 'E']) else { return false };
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    !digits.is_empty() && digits.len() <= 9 && digits.bytes().all(|b| b.is_ascii_digit())
}

/// The number of a quantity; of one that is larger or smaller than a number can be, the nearest.
pub(crate) fn quantity_value(text: &str) -> Option<f64> {
    if !is_quantity(text) {
        return None;
    }
    if let Ok(number) = text.parse::<f64>() {
        return Some(number);
    }
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, suffix) = text.split_at(at);
    let scale = match suffix {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        "Pi" => 1_125_899_906_842_624.0,
        "Ei" => 1_152_921_504_606_846_976.0,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * scale)
}

/// Whether a text is a time as RFC 3339 has it.
pub(crate) fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has_form = bytes.len() >= 20 && bytes[10] == b'T' && bytes[19] != b',';
    let (_, zone) = text.split_at_checked(19).unwrap_or_default();
    let has_zone =
        zone.ends_with('Z') || zone.get(zone.len().saturating_sub(6)..).is_some_and(is_offset);
    has_form && has_zone && text.parse::<jiff::Timestamp>().is_ok()
}

/// `+02:00`.
fn is_offset(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 6
        && matches!(bytes[0], b'+' | b'-')
        && bytes[3] == b':'
        && [1, 2, 4, 5].iter().all(|at| bytes[*at].is_ascii_digit())
}

/// Whether a text is a time with six digits after the second.
pub(crate) fn is_micro_time(text: &str) -> bool {
    let fraction = text.get(19..).and_then(|rest| rest.strip_prefix('.')).unwrap_or_default();
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    digits == 6 && is_time(text)
}

/// Whether a text is a duration of Go (`1h30m`, `1.5s`).
pub(crate) fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let has_digit = number.contains(|c: char| c.is_ascii_digit());
        if !has_digit || number.matches('.').count() > 1 {
            return false;
        }
        const UNITS: &[&str] = &["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let Some(unit) = UNITS.iter().find(|unit| after.starts_with(**unit)) else { return false };
        rest = &after[unit.len()..];
    }
    true
}

/// The bytes of a text in base64, as Go's decoder reads it: it ignores line breaks.
pub(crate) fn base64_bytes(text: &str) -> Option<Vec<u8>> {
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    STANDARD.decode(text).ok()
}

/// Whether a text is base64.
pub(crate) fn is_base64(text: &str) -> bool {
    base64_bytes(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        for text in ["0", "1", "-1", "100m", "1.5Gi", ".5", "5.", "1e3", "1E-3", "+2k", "3u"] {
            assert!(is_quantity(text), "{text}");
        }
        for text in ["", "m", "1 Gi", "1gi", "1GB", "1.2.3", "e3", "1e", "0x1", "1Kii", "one"] {
            assert!(!is_quantity(text), "{text}");
        }
        for (text, value) in [("100m", 0.1), ("1Ki", 1024.0), ("-2", -2.0), ("1e3", 1000.0)] {
            assert_eq!(quantity_value(text), Some(value), "{text}");
        }
    }

    #[test]
    fn times_and_durations() {
        for text in ["2026-11-25T03:00:00Z", "2026-11-25T03:00:00.5+02:00"] {
            assert!(is_time(text), "{text}");
        }
        for text in ["", "2026-11-25", "2026-11-25 03:00:00Z", "2026-13-25T03:00:00Z", "now"] {
            assert!(!is_time(text), "{text}");
        }
        assert!(is_micro_time("2026-11-25T03:00:00.000000Z"));
        assert!(!is_micro_time("2026-11-25T03:00:00Z"));
        for text in ["1h30m", "0", "1.5s", "-2ms"] {
            assert!(is_duration(text), "{text}");
        }
        for text in ["", "1", "1d", "h", "1h30"] {
            assert!(!is_duration(text), "{text}");
        }
    }

    #[test]
    fn base64_with_line_breaks() {
        assert!(is_base64("") && is_base64("YQ==") && is_base64("YW\nJj\n"));
        assert!(!is_base64("YQ") && !is_base64("plain text") && !is_base64("YQ==="));
    }
}
