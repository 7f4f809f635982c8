//! Taking fields out by a jq path expression, with a part of jq that always ends.

use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::load::{Arena, File, Loader};
use jaq_core::path::Part;
use jaq_core::{Compiler, Ctx, Vars, data, unwrap_valr};
use jaq_json::Val;
use serde_json::Value;

/// Longer expressions are none that a person wrote for a path.
const BYTES_MAX: usize = 1_024;
/// Each `,` and each list that is made may double what is looked at.
const BRANCHES_MAX: usize = 8;
/// Each `..` looks at all that the one before it led to, and below.
const RECURSIONS_MAX: usize = 1;
/// Places that one expression may lead to. A manifest has at most some 500 KiB.
const PATHS_MAX: usize = 10_000;

/// Functions of jq that end soon, whatever they are given. Those that loop by themselves, or make
/// much of little, are left out: `range`, `repeat`, `while`, `until`, `recurse` with a filter,
/// `add`, `join`, `input`, `now`, `env`, and so on.
const FUNCTIONS: &[&str] = &[
    "abs",
    "all",
    "any",
    "arrays",
    "ascii_downcase",
    "ascii_upcase",
    "booleans",
    "ceil",
    "empty",
    "explode",
    "false",
    "first",
    "flatten",
    "floor",
    "getpath",
    "group_by",
    "isempty",
    "iterables",
    "keys",
    "keys_unsorted",
    "last",
    "length",
    "limit",
    "ltrim",
    "map",
    "max",
    "max_by",
    "min",
    "min_by",
    "not",
    "nth",
    "null",
    "nulls",
    "numbers",
    "objects",
    "reverse",
    "round",
    "rtrim",
    "scalars",
    "select",
    "sort",
    "sort_by",
    "strings",
    "to_entries",
    "tonumber",
    "tostring",
    "trim",
    "true",
    "type",
    "unique",
    "unique_by",
    "utf8bytelength",
    "values",
];

/// Functions that compare or search. Their arguments are constants: one part of an object searched
/// in another takes time without end.
const SEARCHES: &[&str] = &[
    "contains",
    "endswith",
    "has",
    "in",
    "index",
    "inside",
    "ltrimstr",
    "rindex",
    "rtrimstr",
    "split",
    "startswith",
    "test",
];

/// Why fields cannot be deleted by an expression. No message quotes the object: it may be a Secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JqError {
    #[error("it is longer than {BYTES_MAX} bytes")]
    TooLong,
    #[error("it does not parse")]
    Syntax,
    #[error("it holds more than {BRANCHES_MAX} commas and lists")]
    TooManyBranches,
    #[error("it holds '..' more than {RECURSIONS_MAX} times")]
    TooManyRecursions,
    #[error(
        "{0} is not supported in a path; use select, test, startswith and the like, or jsonPointers"
    )]
    Unsupported(String),
    #[error("it names a function or variable that jq does not have")]
    UnknownName,
    #[error("the manifest is no JSON for jq")]
    BadInput,
    #[error("it cannot be followed in this manifest")]
    Evaluation,
    #[error("it gives something else than paths")]
    NotAPath,
    #[error("it leads to more than {PATHS_MAX} places")]
    TooManyPaths,
    #[error("the result is not an object")]
    NotAnObject,
}

/// Evaluates `del(<expression>)`.
///
/// # Errors
/// An expression that is no jq, is outside the supported part of jq, or deletes the whole object.
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

/// One step of a path to a place that is there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Index(usize),
    Key(String),
}

/// All paths that an expression leads to, as jq tells them. (jaq's own `del` fails where a path
/// leads through what is not there.)
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
        if found.len() >= PATHS_MAX {
            return Err(JqError::TooManyPaths);
        }
        let path = serde_json::from_str(&path.to_string());
        found.push(path.map_err(|_| JqError::NotAPath)?);
    }
    Ok(found)
}

/// The places that a path leads to: indices may count from the end, and slices hold several. What
/// is not there is left out.
fn expand(value: &Value, path: &[Value], places: &mut Vec<Vec<Step>>) -> Result<(), JqError> {
    if path.is_empty() {
        return Err(JqError::NotAnObject);
    }
    let mut here = value;
    let mut steps = Vec::with_capacity(path.len());
    // The part of the present list that slices have left.
    let mut window: Option<(usize, usize)> = None;
    for step in path {
        match (here, step) {
            (Value::Object(fields), Value::String(key)) => {
                let Some(field) = fields.get(key) else { return Ok(()) };
                steps.push(Step::Key(key.clone()));
                here = field;
            }
            (Value::Array(items), Value::Object(slice)) => {
                let (start, end) = window.unwrap_or((0, items.len()));
                let bound = |name: &str, otherwise: usize| match slice.get(name) {
                    Some(Value::Number(number)) => clamped(number.as_i64(), end - start),
                    _ => otherwise,
                };
                let from = start + bound("start", 0);
                window = Some((from, (start + bound("end", end - start)).max(from)));
            }
            (Value::Array(items), Value::Number(number)) => {
                let (start, end) = window.take().unwrap_or((0, items.len()));
                let place = place(number.as_i64(), end - start).map(|place| start + place);
                let Some((place, item)) = place.and_then(|at| Some((at, items.get(at)?))) else {
                    return Ok(());
                };
                steps.push(Step::Index(place));
                here = item;
            }
            _ => return Ok(()),
        }
    }
    match window {
        Some((start, end)) => places.extend((start..end).map(|place| {
            let mut steps = steps.clone();
            steps.push(Step::Index(place));
            steps
        })),
        None => places.push(steps),
    }
    if places.len() > PATHS_MAX {
        return Err(JqError::TooManyPaths);
    }
    Ok(())
}

/// An index, which may count from the end.
fn place(index: Option<i64>, length: usize) -> Option<usize> {
    let index = index?;
    let place = match usize::try_from(index) {
        Ok(place) => place,
        Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
    };
    (place < length).then_some(place)
}

/// A bound of a slice: what is beyond either end counts as that end.
fn clamped(bound: Option<i64>, length: usize) -> usize {
    let bound = bound.unwrap_or_default();
    match usize::try_from(bound) {
        Ok(bound) => bound.min(length),
        Err(_) => length.saturating_sub(usize::try_from(bound.unsigned_abs()).unwrap_or(length)),
    }
}

/// Takes out one place. Its parent is there: of two places, the deeper and later one goes first.
fn remove(value: &mut Value, place: &[Step]) {
    let Some((last, parents)) = place.split_last() else { return };
    let parent = parents.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(index) => value.get_mut(*index),
    });
    match (parent, last) {
        (Some(Value::Object(fields)), Step::Key(key)) => {
            fields.remove(key);
        }
        (Some(Value::Array(items)), Step::Index(index)) if *index < items.len() => {
            items.remove(*index);
        }
        _ => {}
    }
}

fn check(expression: &str) -> Result<(), JqError> {
    if expression.len() > BYTES_MAX {
        return Err(JqError::TooLong);
    }
    let term = jaq_core::load::parse(expression, |parser| parser.term()).ok_or(JqError::Syntax)?;
    let mut checked = Checked::default();
    checked.term(&term)?;
    if checked.branches > BRANCHES_MAX {
        return Err(JqError::TooManyBranches);
    }
    if checked.recursions > RECURSIONS_MAX {
        return Err(JqError::TooManyRecursions);
    }
    Ok(())
}

/// Refuses what may not end: definitions, folds and functions that loop. Counts what multiplies.
#[derive(Default)]
struct Checked {
    branches: usize,
    recursions: usize,
}

impl Checked {
    fn term(&mut self, term: &Term<&str>) -> Result<(), JqError> {
        match term {
            Term::Id | Term::Num(_) => Ok(()),
            Term::Recurse => {
                self.recursions += 1;
                Ok(())
            }
            Term::Str(None, parts) => {
                let plain = |part: &_| !matches!(part, jaq_core::load::lex::StrPart::Term(_));
                if parts.iter().all(plain) {
                    Ok(())
                } else {
                    unsupported("text with parts to fill in")
                }
            }
            Term::Arr(inner) => {
                self.branches += usize::from(!is_constant(term));
                inner.iter().try_for_each(|term| self.term(term))
            }
            Term::Neg(inner) => self.term(inner),
            Term::BinOp(left, operator, right) => self.operation(left, operator, right),
            Term::TryCatch(inner, handler) => {
                self.term(inner)?;
                handler.iter().try_for_each(|term| self.term(term))
            }
            Term::IfThenElse(cases, otherwise) => {
                for (condition, then) in cases {
                    self.term(condition)?;
                    self.term(then)?;
                }
                otherwise.iter().try_for_each(|term| self.term(term))
            }
            Term::Call(name, arguments) => self.call(name, arguments),
            Term::Path(start, path) => {
                self.term(start)?;
                path.0.iter().try_for_each(|(part, _)| match part {
                    Part::Index(index) => self.term(index),
                    Part::Range(from, to) => from.iter().chain(to).try_for_each(|t| self.term(t)),
                })
            }
            _ => unsupported("a definition, variable, fold, label, object or format"),
        }
    }

    fn operation(
        &mut self,
        left: &Term<&str>,
        operator: &BinaryOp<&str>,
        right: &Term<&str>,
    ) -> Result<(), JqError> {
        use BinaryOp::{Alt, And, Cmp, Comma, Or, Pipe};
        match operator {
            Pipe(None) | Alt | Or | And | Cmp(_) => {}
            Comma => self.branches += 1,
            _ => return unsupported("an operator that computes, assigns or names a variable"),
        }
        self.term(left)?;
        self.term(right)
    }

    fn call(&mut self, name: &str, arguments: &[Term<&str>]) -> Result<(), JqError> {
        if name == "recurse" && arguments.is_empty() {
            self.recursions += 1;
            return Ok(());
        }
        if SEARCHES.contains(&name) {
            return if arguments.iter().all(is_constant) {
                Ok(())
            } else {
                unsupported(format!("an argument of {name} that is no constant"))
            };
        }
        if !FUNCTIONS.contains(&name) {
            return unsupported(format!("the function {name}"));
        }
        arguments.iter().try_for_each(|argument| self.term(argument))
    }
}

/// A text, number, or list of such.
fn is_constant(term: &Term<&str>) -> bool {
    match term {
        Term::Num(_) => true,
        Term::Str(None, parts) => {
            !parts.iter().any(|part| matches!(part, jaq_core::load::lex::StrPart::Term(_)))
        }
        Term::Neg(inner) => is_constant(inner),
        Term::Arr(inner) => inner.as_deref().is_none_or(is_constant),
        Term::BinOp(left, BinaryOp::Comma, right) => is_constant(left) && is_constant(right),
        Term::Call(name, arguments) => {
            arguments.is_empty() && matches!(*name, "true" | "false" | "null")
        }
        _ => false,
    }
}

fn unsupported(what: impl Into<String>) -> Result<(), JqError> {
    Err(JqError::Unsupported(what.into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        let many = json!({"items": vec![0; PATHS_MAX + 1]});
        for expression in [".items[]", ".items[0:]", ".. | numbers"] {
            let problem = delete(expression, many.clone()).unwrap_err();
            assert_eq!(problem, JqError::TooManyPaths, "{expression}");
            assert_eq!(problem.to_string(), "it leads to more than 10000 places");
        }
        assert!(delete(".items", many).is_ok());
    }
}
