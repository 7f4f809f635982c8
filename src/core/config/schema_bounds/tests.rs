//! Every keyword of every published schema, by values just inside and just outside of it.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::config::file::{problems_of, read_all};
use crate::config::file_kind::FileKind;
use crate::model::diagnostic::{Code, Scope, Severity};
use crate::model::name::RepoPath;

/// Keywords for readers, which set no bound.
const NOTES: [&str; 4] = ["$schema", "title", "description", "default"];
/// A name that no schema has.
const UNKNOWN: &str = "noSuchField";
/// Takes the place of a value, to find its line and column.
const MARK: &str = "the-value-is-here";

/// A keyword of one schema, with what it forbids and what it allows.
struct Example {
    keyword: &'static str,
    bad: Vec<Value>,
    good: Vec<Value>,
    /// From the value to the place of the problem.
    below: &'static str,
}

impl Example {
    fn new(keyword: &'static str, bad: Vec<Value>, good: Vec<Value>) -> Self {
        Self { keyword, bad, good, below: "" }
    }
}

/// Fields whose simplest values break a rule that no schema keyword expresses, such as the syntax
/// of an expression. Other tests are about these rules.
const OTHER_RULES: &[&str] = &["/executor", "/jqPathExpressions/0", "/jsonPointers/0"];

/// Values for each keyword of a schema.
fn examples(schema: &Value) -> Vec<Example> {
    let mut found = bounds(schema);
    let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
    let allowed: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !allowed.is_empty() {
        let is_allowed = |value: &Value| {
            allowed.iter().any(|name| match *name {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" | "number" => value.is_number(),
                _ => value.is_null(),
            })
        };
        let all = vec![json!(true), json!(1), json!("text"), json!([]), json!({}), Value::Null];
        let bad = all.into_iter().filter(|value| !is_allowed(value)).collect();
        found.push(Example::new("type", bad, vec![sample(schema)]));
    }
    if let Some(choices) = list("enum") {
        // This one needs a field beside it, which the tests of `ocm_rules` are about.
        let good = choices.iter().filter(|choice| **choice != "SelectivelyOrphan").cloned();
        found.push(Example::new("enum", vec![json!(UNKNOWN)], good.collect()));
    }
    if let Some(choices) = list("oneOf") {
        let constants = choices.iter().map(|one| one["const"].clone()).collect();
        found.push(Example::new("oneOf", vec![json!(UNKNOWN)], constants));
    }
    if let Some(names) = list("required") {
        let whole = sample_object(schema);
        let without = |name: &Value| {
            let mut part = whole.clone();
            part.as_object_mut().unwrap().remove(name.as_str().unwrap());
            part
        };
        let bad = names.iter().map(without).collect();
        found.push(Example::new("required", bad, vec![whole.clone()]));
    }
    if schema.get("properties").is_some() {
        let good = vec![sample_object(schema)];
        let mut bad = good[0].clone();
        bad[UNKNOWN] = json!(1);
        let below = "/noSuchField";
        found.push(Example { keyword: "additionalProperties", bad: vec![bad], good, below });
    }
    found
}

/// Values for the keywords that bound numbers, texts and lists.
fn bounds(schema: &Value) -> Vec<Example> {
    let number = |keyword: &str| schema.get(keyword).and_then(Value::as_i64);
    let length = |keyword: &str| number(keyword).map(|n| usize::try_from(n).unwrap());
    let text = |length: usize| json!("a".repeat(length));
    let list = |length: usize| Value::Array(vec![sample(&schema["items"]); length]);
    let mut found = Vec::new();
    if let Some(min) = number("minimum") {
        found.push(Example::new("minimum", vec![json!(min - 1)], vec![json!(min)]));
    }
    if let Some(max) = number("maximum") {
        found.push(Example::new("maximum", vec![json!(max + 1)], vec![json!(max)]));
    }
    if schema.get("format") == Some(&json!("uint32")) && number("maximum").is_none() {
        found.push(Example::new("format", vec![json!(1_u64 << 32)], vec![json!(u32::MAX)]));
    }
    if let Some(min) = length("minLength").filter(|min| *min > 0) {
        found.push(Example::new("minLength", vec![text(min - 1)], vec![text(min)]));
    }
    if let Some(max) = length("maxLength") {
        found.push(Example::new("maxLength", vec![text(max + 1)], vec![text(max)]));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        let good = ["a", "a-b.c9", "work-agent", "work-agent-2"].map(Value::from);
        let good = good.into_iter().filter(|text| matches(pattern, text.as_str().unwrap()));
        found.push(Example::new("pattern", vec![json!("-Not this-")], good.collect()));
    }
    if let Some(max) = length("maxItems") {
        found.push(Example::new("maxItems", vec![list(max + 1)], vec![list(max)]));
    }
    if let Some(min) = length("minItems").filter(|min| *min > 0) {
        found.push(Example::new("minItems", vec![list(min - 1)], vec![list(min)]));
    }
    found
}

/// A value that a schema allows, with its required fields.
fn sample(schema: &Value) -> Value {
    let first = |keyword: &str| schema.get(keyword).and_then(|all| all.get(0));
    if let Some(choice) = first("enum") {
        return choice.clone();
    }
    if let Some(one) = first("oneOf") {
        return one["const"].clone();
    }
    if let Some(inner) = first("anyOf") {
        return sample(inner);
    }
    let name = schema.get("type").map(|name| name.get(0).unwrap_or(name));
    match name.and_then(Value::as_str) {
        Some("object") => {
            let required = schema.get("required").and_then(Value::as_array);
            let names = required.into_iter().flatten().map(|name| name.as_str().unwrap());
            names.map(|name| (name.to_owned(), sample(&schema["properties"][name]))).collect()
        }
        Some("array") => {
            let length = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
            (0..length).map(|_| sample(&schema["items"])).collect()
        }
        Some("boolean") => json!(true),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("string") => match schema.get("pattern").and_then(Value::as_str) {
            Some(pattern) if !matches(pattern, "a") => json!("work-agent"),
            _ => json!("a"),
        },
        _ => json!("a"),
    }
}

/// As [`sample`], of a schema that also allows other types than an object.
fn sample_object(schema: &Value) -> Value {
    sample(&json!({
        "type": "object", "required": schema["required"], "properties": schema["properties"],
    }))
}

/// Wraps a value into the fields that lead to it.
fn wrap(path: &[&str], value: Value) -> Value {
    path.iter().rev().fold(value, |inner, part| match *part {
        "0" => json!([inner]),
        name => json!({ name: inner }),
    })
}

/// Visits each schema with the path to its value.
fn visit<'a>(schema: &'a Value, path: &mut Vec<&'a str>, call: &mut dyn FnMut(&[&str], &Value)) {
    call(path, schema);
    for inner in schema.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
        if inner["type"] != "null" {
            visit(inner, path, call);
        }
    }
    for (name, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
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

/// The line and column of the value, or of the name of a field below it, in the text of a file.
fn text_and_place(path: &[&str], value: &Value, below: &str) -> (String, (u32, u32)) {
    let value = value.to_string();
    let text = serde_json::to_string_pretty(&wrap(path, MARK.into())).unwrap();
    let before = text.split(&format!("\"{MARK}\"")).next().unwrap().to_owned();
    let name =
        below.strip_prefix('/').map_or(0, |name| value.find(&format!("\"{name}\"")).unwrap());
    let column = before.rsplit('\n').next().unwrap().chars().count() + name + 1;
    let place = (before.matches('\n').count() + 1, column);
    let text = text.replace(&format!("\"{MARK}\""), &value);
    (text, (u32::try_from(place.0).unwrap(), u32::try_from(place.1).unwrap()))
}

/// Whether a file with this text has an error at this place.
fn is_error_at(kind: FileKind, text: &str, place: (u32, u32)) -> bool {
    let file = RepoPath::parse("folder/file.yaml").unwrap();
    let (_, found) = read_all::<Value>(&file, text.as_bytes(), kind, &Scope::Source);
    found.iter().any(|one| {
        one.severity == Severity::Error
            && one.location.file == file
            && one.location.span.is_some_and(|span| (span.line, span.column) == place)
    })
}

#[test]
fn every_keyword_of_every_published_schema_is_enforced_with_line_and_column() {
    for kind in FileKind::ALL {
        let schema = kind.schema();
        let mut checked = BTreeSet::new();
        let mut there = BTreeSet::new();
        let (mut accepted, mut rejected, mut misplaced) = (Vec::new(), Vec::new(), Vec::new());
        visit(&schema, &mut Vec::new(), &mut |path, at| {
            there.extend(at.as_object().into_iter().flatten().map(|(name, _)| name.clone()));
            for Example { keyword, bad, good, below } in examples(at) {
                let pointer: String = path.iter().map(|part| format!("/{part}")).collect();
                let pointer = format!("{pointer}{below}");
                let case = format!("{kind:?} {pointer} {keyword}");
                assert!(!bad.is_empty() && !good.is_empty(), "{case} has no example");
                let errors = |value: &Value| {
                    let all = problems_of(&wrap(path, value.clone()), kind);
                    let of = all.into_iter().filter(|found| found.pointer == pointer);
                    of.filter(|found| is_of_schema(found.code)).count()
                };
                for bad in bad {
                    if errors(&bad) == 0 {
                        accepted.push(format!("{case}: {bad}"));
                    }
                    let (text, place) = text_and_place(path, &bad, below);
                    // A file that is only `null` is empty: it sets nothing.
                    let is_empty = path.is_empty() && bad.is_null();
                    if is_error_at(kind, &text, place) == is_empty {
                        misplaced.push(format!("{case}: {place:?} of {text}"));
                    }
                }
                if !OTHER_RULES.iter().any(|of| pointer.ends_with(of)) {
                    let bad = good.iter().filter(|good| errors(good) > 0);
                    rejected.extend(bad.map(|good| format!("{case}: {good}")));
                }
                checked.insert(keyword.to_owned());
            }
        });
        assert_eq!((accepted, rejected, misplaced), (vec![], vec![], vec![]), "{kind:?}");
        // Their schemas are checked, or they say what another keyword is about.
        for other in NOTES.iter().chain(&["properties", "items", "anyOf", "const"]) {
            there.remove(*other);
        }
        // Of Kubernetes: the test below.
        there.retain(|keyword| !keyword.starts_with("x-kubernetes-"));
        // 64 bits, as the reader of the file has them.
        let formats = there.take("format").is_some();
        assert!(formats || kind == FileKind::Manifest, "{kind:?}");
        checked.remove("format");
        assert_eq!(there, checked, "{kind:?}: keywords that are there, and those that are tested");
    }
}

fn is_of_schema(code: Code) -> bool {
    matches!(code, Code::BadValue | Code::WrongType | Code::UnknownField)
}

#[test]
fn every_format_of_every_published_schema_is_known() {
    for kind in FileKind::ALL {
        visit(&kind.schema(), &mut Vec::new(), &mut |path, at| {
            let format = at.get("format").and_then(Value::as_str).unwrap_or("uint");
            assert!(["uint32", "uint", "uint64", "int64"].contains(&format), "{path:?}: {format}");
            if let Some(pattern) = at.get("pattern").and_then(Value::as_str) {
                assert!(Regex::new(pattern).is_ok(), "{pattern}");
            }
        });
    }
}

/// Lists that are maps have one entry for each key; the only rule is about the same entries.
#[test]
fn keywords_of_kubernetes_are_enforced_by_rules() {
    let mut lists = 0;
    for kind in FileKind::ALL.into_iter().filter(|kind| *kind != FileKind::Daemon) {
        visit(&kind.schema(), &mut Vec::new(), &mut |path, at| {
            if let Some(keys) = at.get("x-kubernetes-list-map-keys") {
                let key = keys[0].as_str().unwrap();
                let entry = sample(&at["items"]);
                let mut whole = entry.clone();
                whole[key] = sample(&at["items"]["properties"][key]);
                let found = |entries: Value| {
                    problems_of(&wrap(path, entries), kind)
                        .iter()
                        .filter(|found| found.code == Code::RuleConflict)
                        .count()
                };
                assert_eq!(found(json!([whole])), 0, "{kind:?} {path:?}");
                assert_eq!(found(json!([whole, whole])), 1, "{kind:?} {path:?}: {whole}");
                lists += 1;
            }
            if let Some(rules) = at.get("x-kubernetes-validations") {
                assert_eq!(rules.as_array().unwrap().len(), 1, "{kind:?} {path:?}");
                let entry = json!({"type": "CEL", "condition": "", "celExpressions": ["true"]});
                let found = problems_of(&wrap(path, entry), kind);
                let pointer: String = path.iter().map(|part| format!("/{part}")).collect();
                let at = format!("{pointer}/condition");
                assert!(found.iter().any(|one| one.pointer == at), "{kind:?} {path:?}: {found:?}");
            }
        });
    }
    assert_eq!(lists, 15, "three in each of five files");
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
    assert_eq!(broken_bounds(&json!("abc"), &schema), ["must have at most 2 characters, not 3"]);
    assert_eq!(broken_bounds(&json!([]), &json!({"minItems": 1})), ["must have at least 1 item"]);
}
