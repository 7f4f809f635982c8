//! OpenSSH's allowed_signers files: principals, their keys, and when and for what these are valid
//! (ssh-keygen(1), ALLOWED SIGNERS).
//!
//! An unreadable line makes nobody trusted and is reported; the other lines count. A line with
//! `cert-authority` is treated as unreadable.

use std::collections::BTreeSet;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use ssh_key::PublicKey;
use ssh_key::public::KeyData;

use crate::key_problem::KeyProblem;
use crate::limits;

/// One line: a key and its principals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedSigner {
    /// The principals without a wildcard.
    pub names: BTreeSet<String>,
    /// The public key.
    pub key: KeyData,
    /// Patterns of namespaces; `None` if the line does not restrict them.
    pub namespaces: Option<Vec<String>>,
    /// Start of the validity, in seconds since 1970.
    pub valid_after: Option<i64>,
    /// End of the validity, in seconds since 1970.
    pub valid_before: Option<i64>,
}

#[derive(Debug, Default)]
struct Options {
    namespaces: Option<Vec<String>>,
    valid_after: Option<i64>,
    valid_before: Option<i64>,
}

/// Why a line was ignored; a clause whose subject is the line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum LineError {
    #[error("it is longer than {} bytes", limits::ALLOWED_SIGNER_BYTES_MAX)]
    TooLong,
    #[error("it has a quote without an end")]
    Quote,
    #[error("its options have a quote without an end")]
    OptionsQuote,
    #[error("it has no public key that can be read")]
    NoKey,
    #[error("it names no principal")]
    NoPrincipal,
    #[error("cert-authority is not supported: name each signer's own key")]
    CertAuthority,
    #[error("it has the option {0} twice")]
    Twice(String),
    #[error("it has an unknown option {0:?} or one without its value")]
    UnknownOption(String),
    #[error("its valid-before is not later than its valid-after")]
    Validity,
    #[error("{0:?} is not a time of the form YYYYMMDD[HHMM[SS]][Z]")]
    Time(String),
}

/// Reads a file. Times without a time zone are in `zone`.
pub fn read(text: &str, zone: &TimeZone) -> (Vec<AllowedSigner>, Vec<KeyProblem>) {
    let (mut signers, mut problems) = (Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if number > limits::ALLOWED_SIGNERS_MAX {
            let limit = limits::ALLOWED_SIGNERS_MAX;
            let message =
                format!("the limit is {limit} lines; this line and the following ones are ignored");
            problems.push(KeyProblem { number, message });
            break;
        }
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match read_line(line, zone) {
            Ok(signer) => signers.push(signer),
            Err(error) => problems.push(KeyProblem { number, message: error.to_string() }),
        }
    }
    (signers, problems)
}

fn read_line(line: &str, zone: &TimeZone) -> Result<AllowedSigner, LineError> {
    if line.len() > limits::ALLOWED_SIGNER_BYTES_MAX {
        return Err(LineError::TooLong);
    }
    let (principals, rest) = split_word(line).ok_or(LineError::Quote)?;
    let (options, key) = match public_key(rest) {
        Some(key) => (Options::default(), key),
        None => {
            let (options, rest) = split_word(rest).ok_or(LineError::OptionsQuote)?;
            let read = read_options(options, zone);
            match public_key(rest) {
                Some(key) => (read?, key),
                None => {
                    read?;
                    return Err(LineError::NoKey);
                }
            }
        }
    };
    let principals = unquoted(principals);
    let mut parts = principals.split(',').map(str::trim).filter(|part| !part.is_empty()).peekable();
    if parts.peek().is_none() {
        return Err(LineError::NoPrincipal);
    }
    let is_name = |part: &&str| !part.starts_with('!') && !part.contains(['*', '?']);
    Ok(AllowedSigner {
        names: parts.filter(is_name).map(str::to_owned).collect(),
        key: key.key_data().clone(),
        namespaces: options.namespaces,
        valid_after: options.valid_after,
        valid_before: options.valid_before,
    })
}

/// The key type and the key at the start of a text; the rest is a comment.
fn public_key(text: &str) -> Option<PublicKey> {
    let mut words = text.split_ascii_whitespace();
    let (kind, key) = (words.next()?, words.next()?);
    PublicKey::from_openssh(&format!("{kind} {key}")).ok()
}

/// The first word, in which quotes may enclose spaces, and the rest; `None` if a quote has no end.
fn split_word(text: &str) -> Option<(&str, &str)> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ' ' | '\t' if !quoted => {
                let (word, rest) = text.split_at(at);
                return Some((word, rest.trim_start()));
            }
            _ => {}
        }
    }
    if quoted { None } else { Some((text, "")) }
}

fn unquoted(text: &str) -> String {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(text).replace("\\\"", "\"")
}

fn read_options(text: &str, zone: &TimeZone) -> Result<Options, LineError> {
    let mut options = Options::default();
    for option in split_options(text) {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(unquoted(value))),
            None => (option, None),
        };
        let twice = || LineError::Twice(name.to_owned());
        match (name.to_ascii_lowercase().as_str(), value) {
            ("cert-authority", _) => return Err(LineError::CertAuthority),
            ("namespaces", Some(value)) => {
                let all = value.split(',').map(|part| part.trim().to_owned()).collect();
                if options.namespaces.replace(all).is_some() {
                    return Err(twice());
                }
            }
            ("valid-after", Some(value)) => {
                if options.valid_after.replace(parse_time(&value, zone)?).is_some() {
                    return Err(twice());
                }
            }
            ("valid-before", Some(value)) => {
                if options.valid_before.replace(parse_time(&value, zone)?).is_some() {
                    return Err(twice());
                }
            }
            _ => {
                let name: String = name.chars().take(40).collect();
                return Err(LineError::UnknownOption(name));
            }
        }
    }
    match (options.valid_after, options.valid_before) {
        (Some(after), Some(before)) if before <= after => Err(LineError::Validity),
        _ => Ok(options),
    }
}

/// The parts between commas outside of quotes.
fn split_options(text: &str) -> Vec<&str> {
    let (mut all, mut from, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ',' if !quoted => {
                all.extend(text.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    all.extend(text.get(from..));
    all
}

/// Parses `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS`, with `Z` (or `UTC`) at the end for UTC,
/// into seconds since 1970.
fn parse_time(text: &str, zone: &TimeZone) -> Result<i64, LineError> {
    let bad = || LineError::Time(text.chars().take(40).collect());
    let in_utc = text.strip_suffix('Z').or_else(|| text.strip_suffix("UTC"));
    let digits = in_utc.unwrap_or(text);
    if !matches!(digits.len(), 8 | 12 | 14) || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let number = |from: usize, to: usize| -> Result<i16, LineError> {
        digits.get(from..to).map_or(Ok(0), |part| part.parse().map_err(|_| bad()))
    };
    let small = |from, to| number(from, to).and_then(|n| i8::try_from(n).map_err(|_| bad()));
    let date = Date::new(number(0, 4)?, small(4, 6)?, small(6, 8)?).map_err(|_| bad())?;
    let (hour, minute, second) = (small(8, 10)?, small(10, 12)?, small(12, 14)?);
    let time = jiff::civil::Time::new(hour, minute, second, 0).map_err(|_| bad())?;
    let zone = if in_utc.is_some() { TimeZone::UTC } else { zone.clone() };
    let time = date.to_datetime(time).to_zoned(zone).map_err(|_| bad())?;
    Ok(time.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

    fn one(line: &str) -> Result<AllowedSigner, String> {
        let (mut signers, mut problems) = read(line, &TimeZone::UTC);
        assert_eq!(signers.len() + problems.len(), 1, "{line}");
        signers.pop().ok_or_else(|| problems.remove(0).message)
    }

    #[test]
    fn lines_have_principals_namespaces_and_validity() {
        let plain = one(&format!("ann@example.com {KEY} her laptop")).unwrap();
        assert_eq!(plain.names, ["ann@example.com".to_owned()].into());
        assert_eq!((plain.namespaces, plain.valid_after, plain.valid_before), (None, None, None));
        let full = one(&format!(
            "\"ann@example.com,*@example.org,!bob\" Namespaces=\"git,file\",\
             valid-after=\"20240101Z\",valid-before=\"20250102030405Z\" {KEY}"
        ))
        .unwrap();
        assert_eq!(full.names, ["ann@example.com".to_owned()].into());
        assert_eq!(full.namespaces, Some(vec!["git".into(), "file".into()]));
        assert_eq!(full.valid_after, Some(1_704_067_200));
        assert_eq!(full.valid_before, Some(1_735_787_045));
    }

    #[test]
    fn times_are_in_the_given_zone_unless_marked_as_utc() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        for (text, expected) in [
            ("20240101Z", 1_704_067_200),
            ("20240101UTC", 1_704_067_200),
            ("20240101", 1_704_060_000),
            ("202401010200", 1_704_067_200),
            ("20240101020001", 1_704_067_201),
        ] {
            assert_eq!(parse_time(text, &zone), Ok(expected), "{text}");
        }
        let wide = "２０２４０１０１";
        for bad in ["", "2024", "20241301", "20240101T00", "202401012460", "20240101z", wide] {
            assert!(parse_time(bad, &zone).is_err(), "{bad}");
        }
    }

    #[test]
    fn unreadable_line_is_ignored_alone() {
        for (line, expected) in [
            (format!("ca@example.com cert-authority {KEY}"), "cert-authority is not supported"),
            (format!("ann@example.com no-touch-required {KEY}"), "unknown option"),
            (format!("ann valid-before=\"soon\" {KEY}"), "not a time"),
            (
                format!("ann valid-after=\"20250101Z\",valid-before=\"20240101Z\" {KEY}"),
                "not later",
            ),
            (format!("ann namespaces=\"git {KEY}"), "quote"),
            (format!("\"ann {KEY}"), "quote"),
            (format!(", {KEY}"), "no principal"),
            ("ann ssh-ed25519 AAAA".into(), "unknown option"),
            ("ann".into(), "unknown option"),
            ("ann namespaces=\"git\"".into(), "no public key"),
            (format!("{} {KEY}", "a".repeat(limits::ALLOWED_SIGNER_BYTES_MAX)), "longer than"),
        ] {
            let message = one(&line).unwrap_err();
            assert!(message.contains(expected), "{line}: {message}");
        }
        let file = format!("# team\n\nann {KEY}\r\nbob\nkim {KEY}\n");
        let (signers, problems) = read(&file, &TimeZone::UTC);
        assert_eq!((signers.len(), problems.len(), problems[0].number), (2, 1, 4));
    }
}
