//! `${NAME}` in manifests, where a work asks for it. Strict: an unknown name is an error.
//!
//! A text that is nothing but `${NAME}` becomes the value with its own type, so `replicas:
//! ${REPLICAS}` gives a number where cluster.yaml has a number. Inside a longer text a value is
//! inserted as text. `$${` stands for `${` itself. Keys are left alone.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::schema::{SchemaProblem, closest};
use crate::model::diagnostic::Code;

/// The value that every cluster has: its own name.
pub const CLUSTER_NAME: &str = "CLUSTER_NAME";

/// Replaces every variable in the texts of `object`; answers what could not be replaced.
pub fn substitute(object: &mut Value, values: &BTreeMap<String, Value>) -> Vec<SchemaProblem> {
    let mut problems = Vec::new();
    walk(object, values, &mut String::new(), &mut problems);
    problems
}

fn walk(
    value: &mut Value,
    values: &BTreeMap<String, Value>,
    at: &mut String,
    problems: &mut Vec<SchemaProblem>,
) {
    match value {
        Value::String(text) if text.contains("${") => match replaced(text, values) {
            Ok(new) => *value = new,
            Err((code, message, hint)) => {
                problems.push(SchemaProblem { pointer: at.clone(), code, message, hint });
            }
        },
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let length = at.len();
                at.push_str(&format!("/{index}"));
                walk(item, values, at, problems);
                at.truncate(length);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let length = at.len();
                at.push('/');
                at.push_str(&name.replace('~', "~0").replace('/', "~1"));
                walk(field, values, at, problems);
                at.truncate(length);
            }
        }
        _ => {}
    }
}

type Refusal = (Code, String, Option<String>);

fn replaced(text: &str, values: &BTreeMap<String, Value>) -> Result<Value, Refusal> {
    if let Some(name) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'))
        && is_name(name)
    {
        return lookup(name, values).cloned();
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
        let Some((name, after)) = inside.split_once('}') else {
            return Err((Code::BadVariable, "a \"${\" has no closing \"}\"".into(), None));
        };
        if !is_name(name) {
            return Err((Code::BadVariable, format!("${{{name}}} is not a variable's name"), None));
        }
        match lookup(name, values)? {
            Value::String(value) => out.push_str(value),
            other => out.push_str(&other.to_string()),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(Value::String(out))
}

fn lookup<'a>(name: &str, values: &'a BTreeMap<String, Value>) -> Result<&'a Value, Refusal> {
    values.get(name).ok_or_else(|| {
        let hint = closest(name, values.keys().map(String::as_str))
            .map(|near| format!("did you mean ${{{near}}}?"));
        (
            Code::UnknownVariable,
            format!("the variable ${{{name}}} has no value for this cluster"),
            hint,
        )
    })
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
            assert_eq!(substitute(&mut value, &values()), [], "{text}");
            assert_eq!(value, json!({"a": [expected]}), "{text}");
        }
    }

    #[test]
    fn every_problem_is_found_with_its_location() {
        let mut value = json!({"a": "${REGIO}", "b/c": ["${", "${x-y}", "fine"]});
        let problems = substitute(&mut value, &values());
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
}
