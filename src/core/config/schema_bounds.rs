//! The bounds that a JSON Schema sets for one value: of numbers, texts and lists. Source of the
//! keywords' meaning: JSON Schema 2020-12, "A Vocabulary for Structural Validation".

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use regex::Regex;
use serde_json::Value;

/// What is wrong with `value` by the bounds of `schema` itself: one clause for each broken bound.
pub(super) fn broken_bounds(value: &Value, schema: &Value) -> Vec<String> {
    match value {
        Value::Number(_) => of_number(value, schema),
        Value::String(text) => of_text(text, schema),
        Value::Array(items) => of_list(items, schema),
        _ => Vec::new(),
    }
}

fn of_number(value: &Value, schema: &Value) -> Vec<String> {
    let Some(number) = value.as_f64() else { return Vec::new() };
    let (format_min, format_max) = format_range(schema);
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let min = [bound("minimum"), format_min].into_iter().flatten().reduce(f64::max);
    let max = [bound("maximum"), format_max].into_iter().flatten().reduce(f64::min);
    let below = min.filter(|min| number < *min).map(|min| format!("must be at least {min}"));
    let above = max.filter(|max| number > *max).map(|max| format!("must be at most {max}"));
    below.into_iter().chain(above).collect()
}

/// The range of the Rust types that schemars names as formats. Numbers of 64 bits need no check:
/// the reader of the file holds no others.
fn format_range(schema: &Value) -> (Option<f64>, Option<f64>) {
    match schema.get("format").and_then(Value::as_str) {
        Some("uint32") => (Some(0.0), Some(u32::MAX.into())),
        Some("uint" | "uint64") => (Some(0.0), None),
        Some("int32") => (Some(i32::MIN.into()), Some(i32::MAX.into())),
        _ => (None, None),
    }
}

fn of_text(text: &str, schema: &Value) -> Vec<String> {
    let length = text.chars().count() as u64;
    let mut broken = broken_lengths(length, schema, ["minLength", "maxLength"], "character");
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && !matches(pattern, text)
    {
        let prefix = pattern.strip_prefix('^').filter(|rest| is_literal(rest));
        broken.push(match prefix {
            Some(prefix) => format!("must start with {prefix}"),
            None => format!("must match the pattern {pattern}"),
        });
    }
    broken
}

/// Whether a pattern is plain text.
fn is_literal(pattern: &str) -> bool {
    pattern.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

fn of_list(items: &[Value], schema: &Value) -> Vec<String> {
    broken_lengths(items.len() as u64, schema, ["minItems", "maxItems"], "item")
}

fn broken_lengths(length: u64, schema: &Value, [min, max]: [&str; 2], noun: &str) -> Vec<String> {
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
    let nouns = |count: u64| if count == 1 { noun.to_owned() } else { format!("{noun}s") };
    let few = bound(min).filter(|min| length < *min);
    let many = bound(max).filter(|max| length > *max);
    let few = few.map(|min| format!("must have at least {min} {}", nouns(min)));
    let many = many.map(|max| format!("must have at most {max} {}, not {length}", nouns(max)));
    few.into_iter().chain(many).collect()
}

/// Whether a pattern of one of our schemas matches. Each pattern is compiled once: a file may have
/// thousands of values. A pattern that cannot be compiled matches all; a test compiles each.
fn matches(pattern: &str, text: &str) -> bool {
    static COMPILED: LazyLock<Mutex<HashMap<String, Option<Regex>>>> =
        LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if !compiled.contains_key(pattern) {
        compiled.insert(pattern.to_owned(), Regex::new(pattern).ok());
    }
    compiled.get(pattern).and_then(Option::as_ref).is_none_or(|regex| regex.is_match(text))
}

#[cfg(test)]
mod tests;
