//! Values of flags as Go's flag package reads them.

use std::net::SocketAddr;
use std::time::Duration;

/// Why the value of a flag is invalid. Each variant holds the value as given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlagValueError {
    #[error("{0:?} is neither true nor false")]
    Boolean(String),
    #[error("{0:?} is no address and port")]
    Address(String),
    #[error("{0:?} is no duration; write for example 10s, 5m or 1h30m")]
    Duration(String),
}

/// A boolean as Go reads it.
pub fn go_bool(text: &str) -> Result<bool, FlagValueError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(FlagValueError::Boolean(text.to_owned())),
    }
}

/// Go's `host:port`, where the host may be missing.
pub fn listen(text: &str) -> Result<SocketAddr, FlagValueError> {
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    full.parse().map_err(|_| FlagValueError::Address(text.to_owned()))
}

/// A duration as Go writes it: `1h30m`, `10s`, `1.5m`, `300ms`.
pub fn go_duration(text: &str) -> Result<Duration, FlagValueError> {
    let error = || FlagValueError::Duration(text.to_owned());
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let factor = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(error()),
        };
        seconds += number.parse::<f64>().map_err(|_| error())? * factor;
        rest = tail;
    }
    if text.is_empty() {
        Err(error())
    } else {
        Duration::try_from_secs_f64(seconds).map_err(|_| error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in
            [("10s", 10.0), ("1h30m", 5400.0), ("1.5m", 90.0), ("300ms", 0.3), ("0", 0.0)]
        {
            assert_eq!(go_duration(text).unwrap(), Duration::from_secs_f64(seconds), "{text}");
        }
        for text in ["", "s", "10", "1d", "1e400s", "-1s"] {
            assert!(go_duration(text).is_err(), "{text}");
        }
    }
}
