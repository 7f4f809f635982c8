use serde::Deserialize;
use serde_json::{Value, json};

use super::types::Part;
use super::*;
use crate::limits::{JSONPATH_BYTES_MAX, JSONPATH_DEPTH_MAX};

#[derive(Deserialize)]
struct Table {
    object: Value,
    outcomes: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    path: String,
    error: Option<String>,
    #[serde(default)]
    found: Vec<Vec<Value>>,
    #[serde(default)]
    random: bool,
}

fn sorted(mut groups: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    for group in &mut groups {
        group.sort_by_key(ToString::to_string);
    }
    groups
}

/// What we answer, in the table's terms.
fn answer(path: &str, object: &Value) -> Result<Vec<Vec<Value>>, String> {
    let path = JsonPathQuery::parse(path).map_err(|_| "parse")?;
    let found = path.find_in_parts(object).map_err(|_| "find")?;
    Ok(found.into_iter().map(|group| group.into_iter().cloned().collect()).collect())
}

#[test]
fn the_answers_are_those_of_client_go() {
    let table: Table =
        serde_json::from_str(include_str!("../../../tests/jsonpath/table.json")).unwrap();
    let mut wrong = Vec::new();
    for outcome in &table.outcomes {
        let mut expected = match &outcome.error {
            Some(error) => Err(error.clone()),
            None => Ok(outcome.found.clone()),
        };
        let mut ours = answer(&outcome.path, &table.object);
        if outcome.random {
            (expected, ours) = (expected.map(sorted), ours.map(sorted));
        }
        if ours != expected {
            wrong.push(format!("{:?}: {ours:?}, client-go: {expected:?}", outcome.path));
        }
    }
    assert!(table.outcomes.len() > 500, "the table has {} paths", table.outcomes.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn problems_name_their_place() {
    for (path, column, start) in [
        (".a[", 3, "'[' is never closed"),
        ("{.a}", 1, "'{' has no meaning here: write the path without braces"),
        (".a}", 3, "the path ends at this '}'"),
        (".a[x]", 4, "[x] is no index"),
        ("status.phase", 1, "\"status\" is neither field nor text: a field is .status, a text"),
        (".a[?(@.b==c)]", 11, "\"c\" is neither"),
        (".a[?(@.b=='c' && @.d)]", 15, "'&' has no meaning here: a filter knows no &&"),
        (".a[?(@.b=~'c')]", 10, "'~' has no meaning here"),
        (".a[?(@.b='c')]", 9, "\"=\" is no comparison"),
        (".a[0,x]", 6, "[x] is no index"),
        (".a[0, x]", 7, "[x] is no index"),
        (".ä['x.y/z']", 4, "a '.' in a quoted key separates fields: write '\\.'"),
        (".a['b{']", 6, "'{' has no meaning here"),
        (".a[::0]", 4, "a step must be greater than 0"),
        (".a ['b c']", 8, "\"c\" is neither"),
        (".a.'b", 3, ""),
        ("\"a", 1, "the quote is never closed"),
        ("....a", 3, "'..' may not follow"),
        (".a.b\\", 6, "the path breaks off here"),
    ] {
        match check(path) {
            Err(error) => {
                let message = error.to_string();
                assert!(message.starts_with(start), "{path}: {message}");
                assert_eq!(error.column, column, "{path}: {message}");
            }
            // A quote within a name belongs to the name.
            Ok(()) => assert_eq!(start, "", "{path}"),
        }
    }
    for path in
        [".status.phase", "$.a['b\\.c/d'].e", ".a[?(@.b==\"x\")].c", ".a[-1:]", "..a", " .a "]
    {
        assert_eq!(check(path), Ok(()), "{path}");
    }
}

#[test]
fn the_first_expression_counts() {
    let object = json!({"a": 1, "b": 2});
    let path = JsonPathQuery::parse(".a}{.b").unwrap();
    assert_eq!(path.find(&object), Ok(vec![&json!(1)]));
    assert_eq!(JsonPathQuery::parse(".c").unwrap().find(&object), Ok(vec![]));
}

#[test]
fn work_is_bounded() {
    let long = format!(".{}", "a".repeat(JSONPATH_BYTES_MAX - 1));
    assert!(JsonPathQuery::parse(&long).is_ok());
    assert_eq!(
        JsonPathQuery::parse(&format!("{long}a")).unwrap_err().problem,
        JsonPathProblem::TooLong
    );

    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!({"a": deep});
    }
    let many = JsonPathQuery::parse(&format!("..a{}", "...a".repeat(8))).unwrap();
    assert_eq!(many.find(&deep), Err(EvaluateError::TooManySteps));
    let hidden = JsonPathQuery::parse(&format!(".l[?(..a{})]", "...a".repeat(8))).unwrap();
    assert_eq!(hidden.find(&json!({"l": [deep]})), Err(EvaluateError::TooManySteps));
}

/// Filters nest only where the quotes around an inner one are no quotes to the outer one.
#[test]
fn nesting_is_bounded() {
    let mut path = "@.a".to_owned();
    for level in 0..=JSONPATH_DEPTH_MAX {
        let quote = format!("{}'", "\\".repeat(level.min(1)));
        path = format!("@.a{quote}[?({path})].c{quote}");
    }
    let error = JsonPathQuery::parse(&format!(".l[?({path})]")).unwrap_err();
    assert_eq!(error.problem, JsonPathProblem::UnclosedFilter);
    let inner = JsonPathQuery::parse(".l[?(@.k'[?(@.b)].c')]").unwrap();
    assert!(matches!(inner.parts.first(), Some(Part::Expression(nodes)) if nodes.len() == 2));
}

#[test]
fn fields_are_removed_as_the_agent_does() {
    let object = json!({
        "spec": {"replicas": 3, "items": [{"n": 1, "m": {"n": 2}}, {"n": 3}, 4]},
        "operation": {"x": 1},
    });
    for (path, pointer, left) in [
        (".operation", "/operation", Value::Null),
        (".spec.replicas", "/spec/replicas", Value::Null),
        (".spec.missing", "/spec", object["spec"].clone()),
        (".spec.items[*].n", "/spec/items", json!([{"m": {"n": 2}}, {}, 4])),
        (".spec.items[?(@.n==1)].n", "/spec/items", json!([{"m": {"n": 2}}, {"n": 3}, 4])),
        (".spec...n", "/spec/items", json!([{"m": {}}, {}, 4])),
    ] {
        let mut changed = object.clone();
        FieldRemoval::parse(path).unwrap().remove(&mut changed).unwrap();
        assert_eq!(changed.pointer(pointer).cloned().unwrap_or_default(), left, "{path}");
    }
    let mut same = object.clone();
    assert!(FieldRemoval::parse(".spec.items[9].n").unwrap().remove(&mut same).is_err());
    assert_eq!(same, object);
}

#[test]
fn removals_that_remove_nothing_are_refused() {
    for (path, start) in [
        ("operation", "\"operation\" has no field to take out"),
        (".spec.", "\".spec.\" has no field to take out"),
        (".spec.items[0]", "\"items[0]\" is no plain key"),
        (".metadata.annotations['a.b/c']", "\"b/c']\" is no plain key"),
        (".metadata.annotations.a\\.b", "the path before the last '.' does not parse"),
        ("spec.replicas", "the path before the last '.' does not parse"),
        (".spec.*", "\"*\" is no plain key"),
    ] {
        let message = FieldRemoval::parse(path).unwrap_err().to_string();
        assert!(message.starts_with(start), "{path}: {message}");
    }
}
