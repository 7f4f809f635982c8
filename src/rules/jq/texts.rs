//! Functions of jq over texts.

use std::rc::Rc;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::access::index;
use super::budget::StepBudget;
use super::error::JqError;
use super::formats::formatted;
use super::item::{Item, Stop, failed};
use super::value::{Fields, JqValue};

/// Memory of one compiled regular expression.
const REGEX_BYTES_MAX: usize = 1024 * 1024;

/// A function whose input, or whose argument, is a text.
pub fn text_function(
    budget: &StepBudget,
    name: &str,
    input: &JqValue,
    values: &[JqValue],
) -> Result<JqValue, Stop> {
    match (name, values) {
        ("tojson", []) => formatted(budget, "@json", input).map(JqValue::text),
        ("tostring", []) => formatted(budget, "@text", input).map(JqValue::text),
        ("implode", []) => implode(budget, input),
        ("indices", [part]) => indices(budget, input, part),
        ("tonumber", []) if input.as_float().is_some() => Ok(input.clone()),
        ("startswith" | "endswith" | "ltrimstr" | "rtrimstr", [JqValue::Text(part)]) => {
            at_an_end(budget, name, input, part)
        }
        ("ltrimstr" | "rtrimstr", [_]) => Ok(input.clone()),
        _ => {
            let JqValue::Text(text) = input else {
                return failed(format!("{name} needs a string, and this is {}", input.kind()));
            };
            budget.charge(1 + text.len() / 16)?;
            of_text(budget, name, text, values)
        }
    }
}

fn of_text(
    budget: &StepBudget,
    name: &str,
    text: &Rc<str>,
    values: &[JqValue],
) -> Result<JqValue, Stop> {
    match (name, values) {
        ("utf8bytelength", []) => Ok(JqValue::integer(text.len())),
        ("trim", []) => Ok(JqValue::text(text.trim())),
        ("ltrim", []) => Ok(JqValue::text(text.trim_start())),
        ("rtrim", []) => Ok(JqValue::text(text.trim_end())),
        ("ascii_case", [JqValue::Boolean(true)]) => Ok(JqValue::text(text.to_ascii_uppercase())),
        ("ascii_case", [_]) => Ok(JqValue::text(text.to_ascii_lowercase())),
        ("explode", []) => {
            budget.charge(text.len())?;
            let points = text.chars().map(|one| JqValue::Integer(i64::from(u32::from(one))));
            Ok(JqValue::list(points.collect())?)
        }
        ("split", [JqValue::Text(separator)]) => split(budget, text, separator),
        ("tonumber", []) => {
            let integer = text.parse().map(JqValue::Integer).ok();
            let number = integer.or_else(|| text.parse().map(JqValue::number).ok());
            number.map_or_else(|| failed("a string cannot be read as a number"), Ok)
        }
        ("fromjson", []) => {
            budget.charge(text.len())?;
            match serde_json::from_str::<Value>(text) {
                Ok(value) => Ok(JqValue::of_json(&value)?),
                Err(_) => failed("a string cannot be read as JSON"),
            }
        }
        ("match_all", [JqValue::Text(pattern), flags]) => match_all(budget, text, pattern, flags),
        ("match_all" | "split" | "startswith" | "endswith", [..]) => {
            failed(format!("{name} needs a string as its argument"))
        }
        _ => Err(Stop::Fatal(JqError::UnknownName)),
    }
}

fn at_an_end(
    budget: &StepBudget,
    name: &str,
    input: &JqValue,
    part: &str,
) -> Result<JqValue, Stop> {
    let JqValue::Text(text) = input else {
        return match name {
            "ltrimstr" | "rtrimstr" => Ok(input.clone()),
            _ => failed(format!("{name} needs a string, and this is {}", input.kind())),
        };
    };
    budget.charge(1 + text.len() / 16)?;
    Ok(match name {
        "startswith" => JqValue::Boolean(text.starts_with(part)),
        "endswith" => JqValue::Boolean(text.ends_with(part)),
        "ltrimstr" => JqValue::text(text.strip_prefix(part).unwrap_or(text)),
        _ => JqValue::text(text.strip_suffix(part).unwrap_or(text)),
    })
}

/// The parts of a text between separators.
pub fn split(budget: &StepBudget, text: &str, separator: &str) -> Result<JqValue, Stop> {
    budget.charge(text.len())?;
    let parts = if text.is_empty() {
        Vec::new()
    } else if separator.is_empty() {
        text.chars().map(|character| JqValue::text(character.to_string())).collect()
    } else {
        text.split(separator).map(JqValue::text).collect()
    };
    Ok(JqValue::list(parts)?)
}

fn implode(budget: &StepBudget, input: &JqValue) -> Result<JqValue, Stop> {
    let JqValue::List(points) = input else { return failed("implode needs an array") };
    budget.charge(points.content.len())?;
    let characters = points.content.iter().map(|point| {
        let point = point.as_index().and_then(|point| u32::try_from(point).ok());
        point.and_then(char::from_u32)
    });
    let text: Option<String> = characters.collect();
    text.map_or_else(|| failed("implode needs code points"), |text| Ok(JqValue::text(text)))
}

fn indices(budget: &StepBudget, input: &JqValue, part: &JqValue) -> Result<JqValue, Stop> {
    match (input, part) {
        (JqValue::Null, _) => Ok(JqValue::Null),
        (JqValue::Text(text), JqValue::Text(part)) => {
            budget.charge(text.len())?;
            Ok(JqValue::list(text_indices(budget, text, part)?)?)
        }
        (JqValue::List(_), JqValue::List(_)) => {
            Ok(index(budget, &Item::computed(input.clone()), part)?.value)
        }
        (JqValue::List(_), item) => {
            let items = JqValue::list(vec![item.clone()])?;
            indices(budget, input, &items)
        }
        (input, part) => failed(format!("{} has no {} in it", input.kind(), part.kind())),
    }
}

/// Where a text is in another one, in characters. One may begin within the one before.
fn text_indices(budget: &StepBudget, text: &str, part: &str) -> Result<Vec<JqValue>, Stop> {
    let (mut found, mut place, mut rest) = (Vec::new(), 0, text);
    let Some(first) = part.chars().next() else { return Ok(found) };
    while let Some(at) = rest.find(part) {
        // The search for the next one begins in this one.
        budget.charge(1 + part.len())?;
        place += rest.get(..at).unwrap_or_default().chars().count();
        found.push(JqValue::integer(place));
        place += 1;
        rest = rest.get(at + first.len_utf8()..).unwrap_or_default();
    }
    Ok(found)
}

/// All matches of a regular expression: all of them with the flag `g`, otherwise the first.
fn match_all(
    budget: &StepBudget,
    text: &str,
    pattern: &str,
    flags: &JqValue,
) -> Result<JqValue, Stop> {
    let flags = match flags {
        JqValue::Null => "",
        JqValue::Text(flags) => flags,
        _ => return failed("the flags of a regular expression are not a string"),
    };
    let regex = budget.regex(pattern, flags, || regex(pattern, flags))?;
    // The engine is linear in both, with a factor.
    budget.charge((text.len() / 4 + 1).saturating_mul(pattern.len() / 16 + 1))?;
    let limit = if flags.contains('g') { usize::MAX } else { 1 };
    let mut found = Vec::new();
    for captures in regex.captures_iter(text).take(limit) {
        budget.charge(1 + captures.len() + text.len() / 64)?;
        let Some(whole) = captures.get(0) else { continue };
        let names = regex.capture_names().skip(1);
        let groups = captures.iter().skip(1).zip(names).map(|(group, name)| {
            let name = name.map_or(JqValue::Null, JqValue::text);
            let found = group.map(|group| group.range());
            Ok(JqValue::map(matched(text, found, [("name", name)]))?)
        });
        let groups = JqValue::list(groups.collect::<Result<_, Stop>>()?)?;
        found.push(JqValue::map(matched(text, Some(whole.range()), [("captures", groups)]))?);
    }
    Ok(JqValue::list(found)?)
}

fn regex(pattern: &str, flags: &str) -> Result<Regex, Stop> {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(REGEX_BYTES_MAX).nest_limit(32);
    for flag in flags.chars() {
        match flag {
            'g' | 'n' => {}
            'i' => {
                builder.case_insensitive(true);
            }
            'x' => {
                builder.ignore_whitespace(true);
            }
            's' => {
                builder.dot_matches_new_line(true);
            }
            _ => return failed("unknown flag of a regular expression"),
        }
    }
    builder.build().or_else(|_| failed("a regular expression cannot be read"))
}

/// The object that `match` gives for a part of a text, with offsets in characters.
fn matched(
    text: &str,
    range: Option<std::ops::Range<usize>>,
    more: [(&str, JqValue); 1],
) -> Fields {
    let part = range.as_ref().and_then(|range| text.get(range.clone()));
    let before = range.and_then(|range| text.get(..range.start));
    let offset = before.map_or(JqValue::Integer(-1), |text| JqValue::integer(text.chars().count()));
    let fields = [
        ("offset", offset),
        ("length", JqValue::integer(part.unwrap_or_default().chars().count())),
        ("string", part.map_or(JqValue::Null, JqValue::text)),
    ];
    fields.into_iter().chain(more).map(|(key, value)| (Rc::from(key), value)).collect()
}
