//! Formats of texts in jq, such as `@json`.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::budget::StepBudget;
use super::error::JqError;
use super::item::{Stop, failed};
use super::value::JqValue;

/// All formats.
pub const FORMATS: &[&str] =
    &["@text", "@json", "@base64", "@base64d", "@uri", "@urid", "@html", "@csv", "@tsv", "@sh"];

/// All but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A value as text, in a format.
pub fn formatted(budget: &StepBudget, format: &str, value: &JqValue) -> Result<String, Stop> {
    if !FORMATS.contains(&format) {
        return Err(Stop::Fatal(JqError::Unsupported(format!("the format {format}"))));
    }
    budget.charge_weight(value)?;
    match format {
        "@csv" => return joined(format, value, ",", csv_field),
        "@tsv" => return joined(format, value, "\t", tsv_field),
        "@sh" if matches!(value, JqValue::List(_)) => {
            return joined(format, value, " ", shell_word);
        }
        "@sh" => return shell_word(value),
        _ => {}
    }
    let text = match value {
        JqValue::Text(text) if format != "@json" => text.to_string(),
        other => other.to_json().to_string(),
    };
    budget.charge(text.len() / 16)?;
    Ok(match format {
        "@base64" => STANDARD.encode(text),
        "@base64d" => match STANDARD_NO_PAD.decode(text.trim_end_matches('=')) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => return failed("a string is not base64"),
        },
        "@uri" => utf8_percent_encode(&text, RESERVED).to_string(),
        "@urid" => from_uri(&text)?,
        "@html" => text.chars().map(html_character).collect(),
        _ => text,
    })
}

/// The formatted items of a list.
fn joined(
    format: &str,
    value: &JqValue,
    separator: &str,
    field: impl Fn(&JqValue) -> Result<String, Stop>,
) -> Result<String, Stop> {
    let JqValue::List(items) = value else {
        return failed(format!("{format} needs an array, and this is {}", value.kind()));
    };
    let fields: Vec<String> = items.content.iter().map(field).collect::<Result<_, Stop>>()?;
    Ok(fields.join(separator))
}

/// A number, true or false as text; an array or an object is an error.
fn scalar(value: &JqValue) -> Result<String, Stop> {
    match value {
        JqValue::List(_) | JqValue::Map(_) => failed(format!("{} is no field", value.kind())),
        other => Ok(other.to_json().to_string()),
    }
}

fn csv_field(value: &JqValue) -> Result<String, Stop> {
    match value {
        JqValue::Null => Ok(String::new()),
        JqValue::Text(text) => Ok(format!("\"{}\"", text.replace('"', "\"\""))),
        other => scalar(other),
    }
}

fn tsv_field(value: &JqValue) -> Result<String, Stop> {
    let escaped = |character| match character {
        '\t' => "\\t".into(),
        '\r' => "\\r".into(),
        '\n' => "\\n".into(),
        '\\' => "\\\\".into(),
        other => String::from(other),
    };
    match value {
        JqValue::Null => Ok(String::new()),
        JqValue::Text(text) => Ok(text.chars().map(escaped).collect()),
        other => scalar(other),
    }
}

fn shell_word(value: &JqValue) -> Result<String, Stop> {
    match value {
        JqValue::Text(text) => Ok(format!("'{}'", text.replace('\'', "'\\''"))),
        other => scalar(other),
    }
}

fn from_uri(text: &str) -> Result<String, Stop> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let code = digit().zip(digit()).and_then(|(high, low)| u8::try_from(16 * high + low).ok());
        let Some(code) = code else { return failed("a string is not URI-encoded") };
        bytes.push(code);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn html_character(character: char) -> String {
    match character {
        '<' => "&lt;".into(),
        '>' => "&gt;".into(),
        '&' => "&amp;".into(),
        '\'' => "&#39;".into(),
        '"' => "&quot;".into(),
        other => other.to_string(),
    }
}
