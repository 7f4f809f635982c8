//! Resolves scalars as go-yaml v2 does (YAML 1.1 with deviations), then Go's JSON.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use serde_json::{Number, Value};

/// The meaning of a scalar.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    Value(Value),
    /// `.nan` and the infinities: JSON has no such numbers.
    NoJson,
}

/// Why a plain scalar is ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmbiguousReading {
    /// `yes`, `on`, `n`: a boolean.
    Word,
    /// `0644`, `1_000`, `08`: a number whose value differs from its digits, or between readers.
    Digits,
}

/// Why a tag does not fit its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagError {
    /// The text is not a value of this tag, which has no `!!` here.
    Mismatch(String),
    /// The text with the tag `!!binary` is not base64 of UTF-8.
    Base64,
    /// Kubernetes does not know the tag; its spelling in the file.
    Unknown(String),
}

impl fmt::Display for TagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch(tag) => write!(f, "this is no {tag}"),
            Self::Base64 => f.write_str("this is not base64 of UTF-8 text"),
            Self::Unknown(tag) => write!(f, "the tag {tag} is not known to Kubernetes"),
        }
    }
}

impl Error for TagError {}

/// Resolves a plain scalar.
pub fn plain(text: &str) -> (Scalar, Option<AmbiguousReading>) {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return (Scalar::Value(Value::Null), None),
        "true" | "True" | "TRUE" => return (Scalar::Value(true.into()), None),
        "false" | "False" | "FALSE" => return (Scalar::Value(false.into()), None),
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
            return (Scalar::Value(true.into()), Some(AmbiguousReading::Word));
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            return (Scalar::Value(false.into()), Some(AmbiguousReading::Word));
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF"
        | "-.inf" | "-.Inf" | "-.INF" => return (Scalar::NoJson, None),
        _ => {}
    }
    match number(text) {
        Some(number) => {
            let digits = text.trim_start_matches(['+', '-']);
            let octal = digits.len() > 1
                && digits.starts_with('0')
                && !digits.contains(['.', 'x', 'o', 'b', 'e', 'E']);
            let surprise = (octal || text.contains('_')).then_some(AmbiguousReading::Digits);
            (Scalar::Value(number), surprise)
        }
        None => (Scalar::Value(text.into()), None),
    }
}

/// Parses a plain scalar as a number.
fn number(text: &str) -> Option<Value> {
    let first = text.bytes().next()?;
    if first == b'.' {
        return float(text).map(json_number);
    }
    if !first.is_ascii_digit() && first != b'+' && first != b'-' {
        return None;
    }
    if !text.bytes().all(may_be_in_number) || is_timestamp(text) {
        return None;
    }
    let text = without_underscores(text);
    integer(&text).or_else(|| float(&text)).map(json_number)
}

/// Whether a number may have this byte: a digit of any base, the letter of a base, a point, an
/// exponent or a sign. Most texts that begin with a digit have another one.
fn may_be_in_number(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
        || matches!(byte, b'x' | b'X' | b'o' | b'O' | b'.' | b'_' | b'+' | b'-')
}

fn without_underscores(text: &str) -> Cow<'_, str> {
    match text.contains('_') {
        true => Cow::Owned(text.replace('_', "")),
        false => Cow::Borrowed(text),
    }
}

#[derive(Clone, Copy)]
enum Parsed {
    Integer(i128),
    Float(f64),
}

/// Parses like Go's `strconv.ParseInt(text, 0, 64)` and `ParseUint`: a sign, a base prefix, digits.
fn integer(text: &str) -> Option<Parsed> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let (radix, digits) = match (digits.get(..2), digits.get(2..)) {
        (Some("0x" | "0X"), Some(rest)) => (16, rest),
        (Some("0o" | "0O"), Some(rest)) => (8, rest),
        (Some("0b" | "0B"), Some(rest)) => (2, rest),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = i128::from_str_radix(digits, radix).ok()?;
    let value = if negative { -magnitude } else { magnitude };
    // A sign keeps ParseUint from taking it.
    let fits =
        i64::try_from(value).is_ok() || (u64::try_from(value).is_ok() && !text.starts_with('+'));
    fits.then_some(Parsed::Integer(value))
}

/// Parses `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?` within the range of a float.
fn float(text: &str) -> Option<Parsed> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (unsigned.get(..at)?, unsigned.get(at + 1..)),
        None => (unsigned, None),
    };
    let (whole, fraction) =
        mantissa.split_once('.').map_or((mantissa, None), |(w, f)| (w, Some(f)));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !fraction.is_none_or(all_digits) {
        return None;
    }
    if whole.is_empty() && fraction.is_none_or(str::is_empty) {
        return None;
    }
    if let Some(exponent) = exponent {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if digits.is_empty() || !all_digits(digits) {
            return None;
        }
    }
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Parsed::Float(value))
}

/// Converts a number as Go writes it to JSON and Kubernetes reads it back: to an integer if it fits
/// into 64 bits.
fn json_number(parsed: Parsed) -> Value {
    let float = match parsed {
        Parsed::Integer(value) => match i64::try_from(value) {
            Ok(value) => return value.into(),
            Err(_) => value as f64,
        },
        Parsed::Float(value) => value,
    };
    whole(float)
        .map_or_else(|| Number::from_f64(float).map_or(Value::Null, Value::Number), Value::from)
}

/// Returns the integer that a float equals, if Go prints it without an exponent and it fits.
pub fn whole(float: f64) -> Option<i64> {
    // Both bounds are exact floats; 2^63 itself does not fit.
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    (fits && float.fract() == 0.0).then_some(float as i64)
}

/// Whether go-yaml may read a timestamp: four digits and a dash. Such scalars stay text.
fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().take_while(|b| b.is_ascii_digit()).count() == 4 && bytes.get(4) == Some(&b'-')
}

/// Resolves a scalar with one of YAML's own tags (`!!str` without the `!!`).
pub fn tagged(tag: &str, text: &str) -> Result<Scalar, TagError> {
    let refuse = || Err(TagError::Mismatch(tag.to_owned()));
    match tag {
        "str" => Ok(Scalar::Value(text.into())),
        "binary" => match decode_base64(text) {
            Some(text) => Ok(Scalar::Value(text.into())),
            None => Err(TagError::Base64),
        },
        "timestamp" if is_timestamp(text) => Ok(Scalar::Value(text.into())),
        "null" | "bool" | "int" | "float" => match plain(text).0 {
            Scalar::NoJson if tag == "float" => Ok(Scalar::NoJson),
            Scalar::Value(value) => {
                let fits = match tag {
                    "null" => value.is_null(),
                    "bool" => value.is_boolean(),
                    "int" => value.is_number() && is_integer(text),
                    _ => value.is_number(),
                };
                if fits { Ok(Scalar::Value(value)) } else { refuse() }
            }
            Scalar::NoJson => refuse(),
        },
        _ => refuse(),
    }
}

/// Whether a plain scalar that is a number is written as an integer: no point, no exponent.
fn is_integer(text: &str) -> bool {
    integer(&without_underscores(text)).is_some()
}

/// Returns the text of a mapping key that is a number. go-yaml writes fractions with the digits of
/// a 32-bit float, and large and small ones with an exponent. It has no integer keys beyond signed
/// 64 bits.
pub fn number_key(text: &str) -> Option<String> {
    match number(text)? {
        Value::Number(whole) if is_integer(text) => whole.as_i64().map(|whole| whole.to_string()),
        Value::Number(fraction) => {
            let short = fraction.as_f64()? as f32;
            // Within these bounds Go's format 'g' has no exponent.
            (short == 0.0 || (1e-4..1e6).contains(&short.abs())).then(|| short.to_string())
        }
        _ => None,
    }
}

/// Decodes Go's base64.StdEncoding: padded, line breaks ignored.
fn decode_base64(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let clean = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(&text);
    if !text.len().is_multiple_of(4) {
        return None;
    }
    for byte in clean.bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).ok()?);
        }
    }
    String::from_utf8(bytes).ok()
}
