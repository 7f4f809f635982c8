//! `${NAME}` in manifests, where a work asks for it. Strict: an unknown name is an error.
//!
//! A text that is nothing but `${NAME}` becomes the value with its own type, so `replicas:
//! ${REPLICAS}` gives a number where cluster.yaml has a number. Inside a longer text a value is
//! inserted as text. `$${` stands for `${` itself. Keys are left alone.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::schema::{SchemaProblem, SchemaProblems, closest};
use crate::limits;
use crate::model::diagnostic::Code;
use crate::model::name::ClusterName;
use crate::text::truncate::truncate_chars;

/// The value that every cluster has: its own name.
pub const CLUSTER_NAME: &str = "CLUSTER_NAME";

/// Leaves out what stands between the braces: it may be a part of the Secret.
fn hide_names(problem: &mut SchemaProblem) {
    let message = match problem.code {
        Code::UnknownVariable => {
            "a variable in this Secret has no value for this cluster (its name is hidden)"
        }
        Code::BadVariable => {
            "this text of a Secret has a malformed variable; write $${ for ${ itself"
        }
        _ => return,
    };
    problem.hint = None;
    problem.message = message.into();
}

/// Whether an object is a Secret, has one in a list, or has a kind that is not known yet.
fn may_be_secret(object: &Value) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let items = object.get("items").and_then(Value::as_array);
    matches!(kind, "Secret" | "SecretList")
        || kind.contains("${")
        || items.into_iter().flatten().any(|item| item.get("kind").is_some_and(|k| k == "Secret"))
}

/// The values of `${NAME}` for one work, and how much they may still add to it.
#[derive(Debug)]
pub struct Substitution<'a> {
    values: &'a BTreeMap<String, Value>,
    cluster_name: Value,
    bytes_left: usize,
}

impl<'a> Substitution<'a> {
    /// Nothing is replaced yet. The value of [`CLUSTER_NAME`] is `cluster`, whatever `values` has.
    pub fn new(values: &'a BTreeMap<String, Value>, cluster: &ClusterName) -> Self {
        let cluster_name = cluster.as_str().into();
        Self { values, cluster_name, bytes_left: limits::SUBSTITUTED_BYTES_MAX }
    }

    /// The value of a variable, which is inserted once.
    fn insert<'t>(&mut self, name: &'t str) -> Result<&Value, InvalidVariable<'t>> {
        let known = self.values.get(name).ok_or(InvalidVariable::Unknown(name))?;
        let value = if name == CLUSTER_NAME { &self.cluster_name } else { known };
        // Counted before they are copied.
        let left = self.bytes_left.checked_sub(value.as_str().map_or(0, str::len));
        self.bytes_left = left.unwrap_or_default();
        left.map(|_| value).ok_or(InvalidVariable::TooLarge)
    }

    /// Replaces every variable in the texts of `object`; answers what could not be replaced.
    pub fn apply(&mut self, object: &mut Value) -> Vec<SchemaProblem> {
        let mut problems = SchemaProblems::default();
        let is_secret = may_be_secret(object);
        self.walk(object, &mut String::new(), &mut problems);
        let mut problems = problems.into_all();
        if is_secret || may_be_secret(object) {
            problems.iter_mut().for_each(hide_names);
        }
        problems
    }

    fn walk(&mut self, value: &mut Value, at: &mut String, problems: &mut SchemaProblems) {
        match value {
            Value::String(text) if text.contains("${") => match self.replaced(text) {
                Ok(new) => *value = new,
                Err(invalid) => {
                    problems.add(invalid.code(), || invalid.problem(at.clone(), self.values));
                }
            },
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let length = at.len();
                    at.push_str(&format!("/{index}"));
                    self.walk(item, at, problems);
                    at.truncate(length);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    let length = at.len();
                    at.push('/');
                    at.push_str(&name.replace('~', "~0").replace('/', "~1"));
                    self.walk(field, at, problems);
                    at.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn replaced<'t>(&mut self, text: &'t str) -> Result<Value, InvalidVariable<'t>> {
        if let Some(name) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'))
            && is_name(name)
        {
            return self.insert(name).cloned();
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            if let Some(before) = before.strip_suffix('$') {
                out.push_str(before);
                out.push_str("${");
                rest = from.strip_prefix("${").unwrap_or_default();
                continue;
            }
            out.push_str(before);
            let inside = from.strip_prefix("${").unwrap_or_default();
            let (name, after) = inside.split_once('}').ok_or(InvalidVariable::Open)?;
            if !is_name(name) {
                return Err(InvalidVariable::NoName(name));
            }
            match self.insert(name)? {
                Value::String(value) => out.push_str(value),
                other => out.push_str(&other.to_string()),
            }
            rest = after;
        }
        out.push_str(rest);
        Ok(Value::String(out))
    }
}

/// Why a text cannot be replaced.
#[derive(Clone, Copy)]
enum InvalidVariable<'t> {
    /// A `${` without its `}`.
    Open,
    /// Between the braces is no name of a variable.
    NoName(&'t str),
    /// No value has this name.
    Unknown(&'t str),
    /// All values together are too large.
    TooLarge,
}

impl InvalidVariable<'_> {
    fn code(self) -> Code {
        match self {
            Self::Open | Self::NoName(_) => Code::BadVariable,
            Self::Unknown(_) => Code::UnknownVariable,
            Self::TooLarge => Code::TooManyFiles,
        }
    }

    fn problem(self, pointer: String, values: &BTreeMap<String, Value>) -> SchemaProblem {
        let shortened = |name| truncate_chars(name, limits::MESSAGE_TEXT_CHARS_MAX).into_owned();
        let (message, hint) = match self {
            Self::Open => ("a \"${\" has no closing \"}\"".to_owned(), None),
            Self::NoName(name) => {
                (format!("${{{}}} is not a variable's name", shortened(name)), None)
            }
            Self::Unknown(name) => {
                let near = closest(name, values.keys().map(String::as_str));
                let hint = near.map(|near| format!("did you mean ${{{near}}}?"));
                let name = shortened(name);
                (format!("the variable ${{{name}}} has no value for this cluster"), hint)
            }
            Self::TooLarge => {
                let most = limits::SUBSTITUTED_BYTES_MAX;
                (format!("variables add more than {most} bytes to this work"), None)
            }
        };
        SchemaProblem { pointer, code: self.code(), message, hint }
    }
}

/// Letters, digits and `_`, not starting with a digit.
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values() -> BTreeMap<String, Value> {
        [
            ("N".into(), json!(3)),
            ("ON".into(), json!(true)),
            ("REGION".into(), json!("eu-1")),
            ("PORT".into(), json!("80")),
        ]
        .into()
    }

    fn substitution(values: &BTreeMap<String, Value>) -> Substitution<'_> {
        Substitution::new(values, &ClusterName::parse("a").unwrap())
    }

    #[test]
    fn a_lone_variable_keeps_its_type_and_others_become_text() {
        for (text, expected) in [
            ("${N}", json!(3)),
            ("${ON}", json!(true)),
            ("${PORT}", json!("80")),
            ("x-${N}-${REGION}", json!("x-3-eu-1")),
            ("$${N}", json!("${N}")),
            ("$$${N}", json!("$${N}")),
            ("a $${N} ${N}", json!("a ${N} 3")),
            ("$N", json!("$N")),
            ("${N}${N}", json!("33")),
        ] {
            let mut value = json!({"a": [text]});
            assert_eq!(substitution(&values()).apply(&mut value), [], "{text}");
            assert_eq!(value, json!({"a": [expected]}), "{text}");
        }
    }

    #[test]
    fn every_problem_is_found_with_its_location() {
        let mut value = json!({"a": "${REGIO}", "b/c": ["${", "${x-y}", "fine"]});
        let problems = substitution(&values()).apply(&mut value);
        let found: Vec<(&str, Code)> =
            problems.iter().map(|p| (p.pointer.as_str(), p.code)).collect();
        assert_eq!(
            found,
            [
                ("/a", Code::UnknownVariable),
                ("/b~1c/0", Code::BadVariable),
                ("/b~1c/1", Code::BadVariable)
            ]
        );
        assert_eq!(problems[0].hint.as_deref(), Some("did you mean ${REGION}?"));
    }

    #[test]
    fn values_are_counted_before_they_are_copied() {
        let large = [("V".to_owned(), json!("x".repeat(900 * 1024)))].into();
        for text in ["${V}".repeat(5_000), format!("{}$${{V}}", "${V}".repeat(10))] {
            let mut value = json!({ "a": text, "b": "${V}" });
            let mut substitution = substitution(&large);
            let problems = substitution.apply(&mut value);
            let found: Vec<_> = problems.iter().map(|p| (p.pointer.as_str(), p.code)).collect();
            assert_eq!(found[0], ("/a", Code::TooManyFiles));
            assert!(value.to_string().len() < 2 * 1024 * 1024, "the text stays as it was");
        }
        // Eight of them fit, over all documents of a work.
        let mut substitution = substitution(&large);
        let mut fits = json!(["${V}", "${V}${V}${V}", "${V}", "${V}${V}${V}"]);
        assert_eq!(substitution.apply(&mut fits), []);
        assert_eq!(substitution.apply(&mut json!("${V}${V}")).len(), 1);
    }

    #[test]
    fn problem_in_a_secret_shows_nothing_of_it() {
        for object in [
            json!({"kind": "Secret", "stringData": {"a": "${canary}", "b": "x${canary 1}"}}),
            json!({"kind": "List", "items": [{"kind": "Secret", "data": {"a": "${canary}"}}]}),
            json!({"kind": "${K}", "data": {"a": "${canary}"}}),
        ] {
            let problems = substitution(&values()).apply(&mut object.clone());
            assert!(!problems.is_empty());
            assert!(!format!("{problems:?}").contains("canary"), "{problems:?}");
        }
    }
}
