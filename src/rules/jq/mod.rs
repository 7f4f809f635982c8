//! Deletes fields by a jq path expression, in a subset of jq that always terminates.

mod check;
mod error;
mod places;

pub use error::JqError;

use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, data, unwrap_valr};
use jaq_json::Val;
use serde_json::Value;

use self::check::check;
use self::places::{expand, remove};
use crate::limits::JQ_PATHS_MAX;

/// Evaluates `del(<expression>)`.
///
/// # Errors
/// Fails for an expression that is not valid jq, is outside the supported subset, or deletes the
/// whole object.
pub fn delete(expression: &str, mut value: Value) -> Result<Value, JqError> {
    check(expression)?;
    let mut places = Vec::new();
    for path in paths(expression, &value)? {
        expand(&value, &path, &mut places)?;
    }
    // From the end of a list to its start, as what is taken out moves what follows it; and what is
    // deeper first.
    places.sort_by(|one, other| other.cmp(one));
    places.dedup();
    for place in places {
        remove(&mut value, &place);
    }
    Ok(value)
}

/// Returns all paths that an expression yields. (jaq's own `del` fails if a path leads through a
/// missing value.)
fn paths(expression: &str, value: &Value) -> Result<Vec<Vec<Value>>, JqError> {
    let input: Val = serde_json::from_value(value.clone()).map_err(|_| JqError::BadInput)?;
    let code = format!("path({expression})");
    let arena = Arena::default();
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let modules = Loader::new(definitions)
        .load(&arena, File { code: code.as_str(), path: () })
        .map_err(|_| JqError::Syntax)?;
    let filter = Compiler::default()
        .with_funs(functions)
        .compile(modules)
        .map_err(|_| JqError::UnknownName)?;
    let context = Ctx::<data::JustLut<Val>>::new(&filter.lut, Vars::new([]));
    let mut found = Vec::new();
    for output in filter.id.run((context, input)).map(unwrap_valr) {
        let path = output.map_err(|_| JqError::Evaluation)?;
        if found.len() >= JQ_PATHS_MAX {
            return Err(JqError::TooManyPaths);
        }
        let path = serde_json::from_str(&path.to_string());
        found.push(path.map_err(|_| JqError::NotAPath)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::check::{FUNCTIONS, SEARCHES};
    use super::*;

    /// What is left of three containers.
    fn left(expression: &str) -> Value {
        let manifest = json!({"spec": {"replicas": 1, "paused": true, "containers": [
            {"name": "web", "image": "a", "env": [{"name": "A"}, {"name": "B"}, {"name": "C"}]},
            {"name": "proxy", "image": "b"},
            {"name": "log"}]}});
        let found = delete(expression, manifest).unwrap_or_else(|e| panic!("{expression}: {e}"));
        found["spec"].clone()
    }

    /// The names of the containers that are left.
    fn names(expression: &str) -> Vec<String> {
        let spec = left(expression);
        let containers = spec["containers"].as_array().unwrap();
        containers.iter().map(|one| one["name"].as_str().unwrap_or("-").to_owned()).collect()
    }

    #[test]
    fn which_elements_go() {
        for (expression, expected) in [
            (".spec.containers[0]", "proxy log"),
            (".spec.containers[-1]", "web proxy"),
            (".spec.containers[7]", "web proxy log"),
            (".spec[\"containers\"][1,0]", "log"),
            (".spec.containers[0,0,-3]", "proxy log"),
            (".spec.containers[1:]", "web"),
            (".spec.containers[:-1]", "log"),
            (".spec.containers[-2:-1]", "web log"),
            (".spec.containers[1:][1:]", "web proxy"),
            (".spec.containers[1:][0]", "web log"),
            (".spec.containers[0:2], .spec.containers[1]", "log"),
            (".spec.containers[5:]", "web proxy log"),
            (".spec.containers[]", ""),
            (r#".spec.containers[] | select(.name == "web")"#, "proxy log"),
            (r#".spec.containers[] | select(.name | startswith("pro"))"#, "web log"),
            (r#".spec.containers[] | select(.name | test("^(web|log)$"))"#, "proxy"),
            (r#".spec.containers[] | select(.name | ascii_upcase | contains("O"))"#, "web"),
            (".spec.containers[] | select(has(\"image\") | not)", "web proxy"),
            (".spec.containers[] | select(.image == null)", "web proxy"),
            (".spec.containers[] | select(.env | length > 2)", "proxy log"),
            (".spec.containers[] | select(any(.env[]?; .name == \"B\"))", "proxy log"),
            (
                ".spec.containers[] | select((.image // \"none\") == \"none\" or .name == \"web\")",
                "proxy",
            ),
            (".spec.containers[] | if .image then select(.image == \"a\") else . end", "proxy"),
            (".spec | if .paused == true then .containers[0] else .replicas end", "proxy log"),
            ("first(.spec.containers[])", "proxy log"),
            ("last(.spec.containers[])", "web proxy"),
            ("limit(2; .spec.containers[])", "log"),
            ("getpath([\"spec\", \"containers\", 1])", "web log"),
            (".spec.containers[] | .. | select(.name? == \"log\")", "web proxy"),
        ] {
            assert_eq!(names(expression).join(" "), expected, "{expression}");
        }
    }

    #[test]
    fn which_fields_go() {
        let images = json!([{"name": "web"}, {"name": "proxy"}, {"name": "log"}]);
        assert_eq!(left(".spec.containers[] | .image, .env")["containers"], images);
        assert_eq!(
            left(".spec.containers[]?.image?, .spec.containers[0].env")["containers"],
            images
        );
        assert_eq!(left(".spec.containers[0].env[1:][0].name")["replicas"], 1);
        assert_eq!(left(".spec.missing.field"), left(".missing"));
        assert_eq!(left(".spec.replicas")["replicas"], Value::Null);
        assert_eq!(left(".spec.replicas, .spec"), Value::Null);
        assert_eq!(left(".. | .image?, .env?")["containers"], images);
    }

    #[test]
    fn what_does_not_parse_or_may_not_end_is_refused() {
        for expression in [
            ".spec[",
            "repeat(.)",
            "def f: f; f",
            "range(1000000000)",
            "reduce .[] as $x (0; . + 1)",
            ". as $x | $x",
            "last(recurse(.))",
            "..|..",
            "recurse|..",
            "until(false; .)",
            ".spec.replicas.deeper",
            ".. | .image",
            "unknown",
            "input",
            "env",
            ".) | (.",
            ".spec + .spec",
            "select(contains(.))",
            "select(.a | test(.b))",
            "\"\\(.)\"",
            "@base64",
            ".a = 1",
            "(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)",
        ] {
            assert!(delete(expression, json!({"spec": {"replicas": 1}})).is_err(), "{expression}");
        }
        assert!(delete(&".a".repeat(600), json!({})).is_err());
        assert_eq!(delete(".", json!({})).unwrap_err(), JqError::NotAnObject);
    }

    #[test]
    fn every_function_that_is_let_through_is_there() {
        for name in FUNCTIONS.iter().chain(SEARCHES) {
            let calls = [format!("[{name}]"), format!("[{name}(1)]"), format!("[{name}(1; .)]")];
            let is_there = calls.iter().any(|call| {
                let found = paths(&format!("select({call})"), &json!({}));
                found != Err(JqError::UnknownName)
            });
            assert!(is_there, "{name}");
        }
    }

    #[test]
    fn a_path_to_very_many_places_is_refused() {
        let many = json!({"items": vec![0; JQ_PATHS_MAX + 1]});
        for expression in [".items[]", ".items[0:]", ".. | numbers"] {
            let problem = delete(expression, many.clone()).unwrap_err();
            assert_eq!(problem, JqError::TooManyPaths, "{expression}");
            assert_eq!(problem.to_string(), "it leads to more than 10000 places");
        }
        assert!(delete(".items", many).is_ok());
    }
}
