//! Taking fields out by a jq path expression, with a part of jq that always ends.

use std::cmp::Ordering;

use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::load::{Arena, File, Loader};
use jaq_core::path::Part;
use jaq_core::{Compiler, Ctx, Vars, data, unwrap_valr};
use jaq_json::Val;
use serde_json::Value;

/// Longer expressions are none that a person wrote for a path.
const BYTES_MAX: usize = 1_024;
/// Each `[]`, `..` and `,` may multiply what is looked at.
const FAN_OUT_MAX: usize = 8;

/// Functions of jq that end, whatever they are given. Those that loop by themselves or take time are left out:
/// `range`, `repeat`, `while`, `until`, `recurse` with a filter, `limit`, `input`, `now`, `env`, and so on.
const FUNCTIONS: &[&str] = &[
    "all",
    "any",
    "arrays",
    "ascii_downcase",
    "ascii_upcase",
    "booleans",
    "contains",
    "empty",
    "endswith",
    "explode",
    "first",
    "flatten",
    "floor",
    "has",
    "in",
    "index",
    "inside",
    "iterables",
    "join",
    "keys",
    "keys_unsorted",
    "last",
    "length",
    "ltrimstr",
    "map",
    "map_values",
    "max",
    "min",
    "not",
    "nulls",
    "numbers",
    "objects",
    "rtrimstr",
    "scalars",
    "select",
    "split",
    "startswith",
    "strings",
    "test",
    "to_entries",
    "tonumber",
    "tostring",
    "type",
    "unique",
    "values",
];

/// Evaluates `del(<expression>)`.
///
/// # Errors
/// What is no jq, is left out of our part of it, or gives no object. Nothing of `value` is told: it may be a Secret.
pub fn delete(expression: &str, mut value: Value) -> Result<Value, String> {
    check(expression)?;
    let mut paths = paths(expression, &value)?;
    // From the end of a list to its start, as what is taken out moves what follows it.
    paths.sort_by(|one, other| compare(other, one));
    paths.dedup();
    for path in paths {
        remove(&mut value, &path)?;
    }
    Ok(value)
}

/// One path: keys and indices.
type Path = Vec<Value>;

/// All paths that an expression leads to. (jaq's own `del` fails where a path leads through what is not there.)
fn paths(expression: &str, value: &Value) -> Result<Vec<Path>, String> {
    let input: Val =
        serde_json::from_value(value.clone()).map_err(|_| "the manifest is no JSON for jq")?;
    let code = format!("[path({expression})]");
    let arena = Arena::default();
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let modules = Loader::new(definitions)
        .load(&arena, File { code: code.as_str(), path: () })
        .map_err(|_| "it does not parse".to_owned())?;
    let filter = Compiler::default()
        .with_funs(functions)
        .compile(modules)
        .map_err(|_| "it names a function or variable that jq does not have".to_owned())?;
    let context = Ctx::<data::JustLut<Val>>::new(&filter.lut, Vars::new([]));
    match filter.id.run((context, input)).map(unwrap_valr).next() {
        Some(Ok(output)) => serde_json::from_str(&output.to_string())
            .map_err(|_| "it gives something else than paths".to_owned()),
        _ => Err("it cannot be followed in this manifest".into()),
    }
}

/// Orders paths so that of two indices in one list the larger is greater, and what is deeper too.
fn compare(one: &Path, other: &Path) -> Ordering {
    let key = |step: &Value| (step.as_i64(), step.as_str().map(str::to_owned));
    one.iter().map(key).cmp(other.iter().map(key))
}

/// Takes out one place; one that is not there is no error.
fn remove(value: &mut Value, path: &Path) -> Result<(), String> {
    let Some((last, parents)) = path.split_last() else {
        return Err("the result is not an object".into());
    };
    let parent = parents.iter().try_fold(value, |value, step| match step {
        Value::String(key) => value.get_mut(key),
        _ => value.get_mut(place(step, value.as_array()?.len())?),
    });
    match (parent, last) {
        (Some(Value::Object(fields)), Value::String(key)) => {
            fields.remove(key);
        }
        (Some(Value::Array(items)), Value::Number(_)) => {
            if let Some(place) = place(last, items.len()) {
                items.remove(place);
            }
        }
        (_, Value::Object(_)) => return Err("slices are not supported; name each place".into()),
        _ => {}
    }
    Ok(())
}

/// An index, which may count from the end.
fn place(step: &Value, length: usize) -> Option<usize> {
    let index = step.as_i64()?;
    let place = match usize::try_from(index) {
        Ok(place) => place,
        Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
    };
    (place < length).then_some(place)
}

fn check(expression: &str) -> Result<(), String> {
    if expression.len() > BYTES_MAX {
        return Err(format!("it is longer than {BYTES_MAX} bytes"));
    }
    let fan_out = expression.matches("[]").count()
        + expression.matches("..").count()
        + expression.matches(',').count()
        + expression.matches(':').count();
    if fan_out > FAN_OUT_MAX {
        return Err(format!("it holds more than {FAN_OUT_MAX} of '[]', '..', ',' and ':'"));
    }
    let term = jaq_core::load::parse(expression, |parser| parser.term())
        .ok_or_else(|| "it does not parse".to_owned())?;
    check_term(&term)
}

/// Refuses what may not end: definitions, folds and functions that loop.
fn check_term(term: &Term<&str>) -> Result<(), String> {
    match term {
        Term::Id | Term::Recurse | Term::Num(_) | Term::Var(_) => Ok(()),
        Term::Str(None, parts) => {
            let plain = |part: &_| !matches!(part, jaq_core::load::lex::StrPart::Term(_));
            if parts.iter().all(plain) { Ok(()) } else { refuse("text with parts to fill in") }
        }
        Term::Arr(inner) => inner.iter().try_for_each(|term| check_term(term)),
        Term::Neg(inner) => check_term(inner),
        Term::BinOp(left, operator, right) => {
            if !matches!(
                operator,
                BinaryOp::Pipe(None)
                    | BinaryOp::Comma
                    | BinaryOp::Alt
                    | BinaryOp::Or
                    | BinaryOp::And
                    | BinaryOp::Cmp(_)
            ) {
                return refuse("an operator that computes, assigns or names a variable");
            }
            check_term(left)?;
            check_term(right)
        }
        Term::TryCatch(inner, handler) => {
            check_term(inner)?;
            handler.iter().try_for_each(|term| check_term(term))
        }
        Term::Call(name, arguments) => {
            let recurses = *name == "recurse" && arguments.is_empty();
            if !recurses && !FUNCTIONS.contains(name) {
                return refuse(&format!("the function {name}"));
            }
            arguments.iter().try_for_each(check_term)
        }
        Term::Path(start, path) => {
            check_term(start)?;
            path.0.iter().try_for_each(|(part, _)| match part {
                Part::Index(index) => check_term(index),
                Part::Range(from, to) => from.iter().chain(to).try_for_each(check_term),
            })
        }
        _ => refuse("a definition, fold, label, condition, object or format"),
    }
}

fn refuse(what: &str) -> Result<(), String> {
    Err(format!(
        "{what} is not supported in a path; use select, test, startswith and the like, or jsonPointers"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_behaviour_table() {
        let deployment = || {
            json!({"spec": {"replicas": 1, "containers": [
            {"name": "web", "image": "a", "resources": {"x": 1}}, {"name": "proxy", "image": "b"}]}})
        };
        for (expression, containers) in [
            (
                ".spec.containers[0].image",
                json!([{"name": "web", "resources": {"x": 1}}, {"name": "proxy", "image": "b"}]),
            ),
            (
                ".spec.containers[].image",
                json!([{"name": "web", "resources": {"x": 1}}, {"name": "proxy"}]),
            ),
            (
                r#".spec.containers[] | select(.name == "web").resources"#,
                json!([{"name": "web", "image": "a"}, {"name": "proxy", "image": "b"}]),
            ),
            (
                r#".spec.containers[] | select(.name | startswith("pro"))"#,
                json!([{"name": "web", "image": "a", "resources": {"x": 1}}]),
            ),
            (".spec.missing.field", deployment()["spec"]["containers"].clone()),
            (
                r#".spec["containers"][1]"#,
                json!([{"name": "web", "image": "a", "resources": {"x": 1}}]),
            ),
        ] {
            let found = delete(expression, deployment()).unwrap();
            assert_eq!(found["spec"]["containers"], containers, "{expression}");
        }
    }

    #[test]
    fn what_does_not_parse_or_may_not_end_is_refused() {
        for expression in [
            ".spec[",
            "repeat(.)",
            "def f: f; f",
            "range(1000000000)",
            "reduce .[] as $x (0; . + 1)",
            "last(recurse(.))",
            "..|..|..|..|..|..|..|..|..",
            "until(false; .)",
            ".spec.replicas.deeper",
            "unknown",
            "input",
            "env",
            ".) | (.",
        ] {
            assert!(delete(expression, json!({"spec": {"replicas": 1}})).is_err(), "{expression}");
        }
        assert!(delete(&".a".repeat(600), json!({})).is_err());
        assert_eq!(delete(".", json!({})).unwrap_err(), "the result is not an object");
    }
}
