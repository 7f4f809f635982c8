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
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::file::problems_of;
    use crate::config::file_kind::FileKind;

    /// A value that breaks a bound, and one that just keeps it, where it can be made.
    type Examples = (Value, Option<Value>);

    /// Values for each keyword of a schema that bounds a value.
    fn examples(schema: &Value) -> Vec<(&'static str, Examples)> {
        let number = |keyword: &str| schema.get(keyword).and_then(Value::as_i64);
        let length = |keyword: &str| number(keyword).map(|n| n as usize);
        let mut found = Vec::new();
        if let Some(min) = number("minimum") {
            found.push(("minimum", (json!(min - 1), Some(json!(min)))));
        }
        if let Some(max) = number("maximum") {
            found.push(("maximum", (json!(max + 1), Some(json!(max)))));
        }
        if schema.get("format") == Some(&json!("uint32")) && number("maximum").is_none() {
            found.push(("format", (json!(1_u64 << 32), Some(json!(u32::MAX)))));
        }
        if length("minLength") == Some(1) {
            found.push(("minLength", (json!(""), Some(json!("a")))));
        }
        if let Some(max) = length("maxLength") {
            found.push(("maxLength", (json!("a".repeat(max + 1)), Some(json!("a".repeat(max))))));
        }
        if schema.get("pattern").is_some() {
            found.push(("pattern", (json!("-Not this-"), None)));
        }
        if let Some(max) = length("maxItems") {
            found.push(("maxItems", (json!(vec!["a"; max + 1]), None)));
        }
        if length("minItems") == Some(1) {
            found.push(("minItems", (json!([]), None)));
        }
        found
    }

    /// Wraps a value into the fields that lead to it.
    fn wrap(path: &[&str], value: Value) -> Value {
        path.iter().rev().fold(value, |inner, part| match *part {
            "0" => json!([inner]),
            name => json!({ name: inner }),
        })
    }

    /// Visits each schema with the path to its value.
    fn visit<'a>(
        schema: &'a Value,
        path: &mut Vec<&'a str>,
        call: &mut dyn FnMut(&[&str], &Value),
    ) {
        call(path, schema);
        for (name, inner) in
            schema.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            path.push(name);
            visit(inner, path, call);
            path.pop();
        }
        for (keyword, part) in [("items", "0"), ("additionalProperties", "any")] {
            if let Some(inner) = schema.get(keyword).filter(|inner| inner.is_object()) {
                path.push(part);
                visit(inner, path, call);
                path.pop();
            }
        }
    }

    #[test]
    fn every_bound_of_every_published_schema_is_enforced() {
        let mut checked = Vec::new();
        for kind in FileKind::ALL {
            let schema = kind.schema();
            visit(&schema, &mut Vec::new(), &mut |path, at| {
                for (keyword, (bad, good)) in examples(at) {
                    let pointer: String = path.iter().map(|part| format!("/{part}")).collect();
                    let of = |value: Value| {
                        let all = problems_of(&wrap(path, value), kind);
                        all.into_iter().filter(|found| found.pointer == pointer).count()
                    };
                    assert_ne!(of(bad.clone()), 0, "{kind:?} {pointer} {keyword}: {bad}");
                    if let Some(good) = good {
                        assert_eq!(of(good.clone()), 0, "{kind:?} {pointer} {keyword}: {good}");
                    }
                    checked.push(keyword);
                }
            });
        }
        for keyword in
            ["minimum", "maximum", "format", "minLength", "maxLength", "pattern", "maxItems"]
        {
            assert!(checked.contains(&keyword), "no schema has {keyword}: {checked:?}");
        }
    }

    #[test]
    fn every_keyword_of_every_published_schema_is_known() {
        // Keywords of notes, and those of Kubernetes that ocm_rules checks by its own rules.
        let notes = ["$schema", "title", "description", "default"];
        let enforced = [
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "enum",
            "oneOf",
            "anyOf",
            "const",
            "minimum",
            "maximum",
            "minLength",
            "maxLength",
            "pattern",
            "minItems",
            "maxItems",
            "format",
        ];
        let by_rules =
            ["x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-validations"];
        for kind in FileKind::ALL {
            visit(&kind.schema(), &mut Vec::new(), &mut |path, at| {
                for keyword in at.as_object().into_iter().flatten().map(|(name, _)| name.as_str()) {
                    let known = [&notes[..], &enforced, &by_rules].concat();
                    assert!(known.contains(&keyword), "{kind:?} {path:?}: {keyword}");
                }
                if let Some(pattern) = at.get("pattern").and_then(Value::as_str) {
                    assert!(Regex::new(pattern).is_ok(), "{pattern}");
                }
            });
        }
    }

    #[test]
    fn each_broken_bound_has_its_clause() {
        let schema = json!({"minimum": 1, "maximum": 3600});
        assert_eq!(broken_bounds(&json!(0), &schema), ["must be at least 1"]);
        assert_eq!(broken_bounds(&json!(3601), &schema), ["must be at most 3600"]);
        let schema = json!({"minLength": 1, "maxLength": 2, "pattern": "^a"});
        assert_eq!(
            broken_bounds(&json!(""), &schema),
            ["must have at least 1 character", "must start with a"]
        );
        assert_eq!(
            broken_bounds(&json!("abc"), &schema),
            ["must have at most 2 characters, not 3"]
        );
        assert_eq!(
            broken_bounds(&json!([]), &json!({"minItems": 1})),
            ["must have at least 1 item"]
        );
    }
}
