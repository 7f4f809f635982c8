//! Deletes fields by a jq path expression, as OCM's agent does with gojq.
//!
//! The parser is that of jaq. The evaluation is our own: jaq's cannot be stopped, and an expression
//! such as `reduce range(1000) as $x ("a"; . + .)` would need all memory. Here work, depth and
//! sizes are bounded (see [`crate::limits`]), so every expression ends.

mod access;
mod arithmetic;
mod assignment;
mod budget;
mod calls;
mod check;
mod control;
mod dates;
mod error;
mod evaluation;
mod formats;
mod item;
mod lists;
mod locations;
mod loops;
mod names;
mod natives;
mod patterns;
mod prelude;
mod scope;
mod terms;
mod texts;
mod value;

pub use error::JqError;

use serde_json::Value;

use self::evaluation::{Evaluation, Input};
use self::item::{Item, Stop};
use self::locations::{expand, remove};
use self::scope::NameScope;
use self::value::JqValue;
use crate::limits::{JQ_PATHS_MAX, JQ_WORK_MAX};

/// Checks an expression without a manifest: whether it parses and uses only functions and
/// variables that are there.
///
/// # Errors
/// Returns the first problem.
pub fn check(expression: &str) -> Result<(), JqError> {
    check::parse(expression).map(|_| ())
}

/// Evaluates `del(<expression>)`.
///
/// # Errors
/// Fails for an expression that is not valid jq, gives other values than paths, exceeds a limit, or
/// deletes the whole object.
pub fn delete(expression: &str, value: Value) -> Result<Value, JqError> {
    delete_within(expression, value, &mut JQ_WORK_MAX.clone())
}

/// As [`delete`], for one of several expressions. Takes the work from what is left for all of them:
/// 0 is left if it does not suffice.
///
/// # Errors
/// Fails as [`delete`] does, and if no work is left.
pub fn delete_within(
    expression: &str,
    mut value: Value,
    work_left: &mut usize,
) -> Result<Value, JqError> {
    let mut locations = Vec::new();
    for path in paths(expression, &value, work_left)? {
        expand(&value, &path, &mut locations)?;
    }
    // From the end of a list to its start, as what is taken out moves what follows it; and what is
    // deeper first.
    locations.sort_by(|one, other| other.cmp(one));
    locations.dedup();
    for location in locations {
        remove(&mut value, &location);
    }
    Ok(value)
}

/// Returns all paths that an expression yields.
fn paths(
    expression: &str,
    value: &Value,
    work_left: &mut usize,
) -> Result<Vec<Vec<Value>>, JqError> {
    let term = check::parse(expression)?;
    let input = JqValue::of_json(value).map_err(|_| JqError::BadInput)?;
    let mut found: Vec<Vec<Value>> = Vec::new();
    let room = JQ_WORK_MAX.min(*work_left);
    let evaluation = Evaluation::new(room, terms::evaluate);
    let mut collect = |steps: Vec<JqValue>| {
        if found.len() >= JQ_PATHS_MAX {
            return Err(Stop::Fatal(JqError::TooManyPaths));
        }
        for step in &steps {
            evaluation.budget.charge_weight(step)?;
        }
        found.push(steps.iter().map(JqValue::to_json).collect());
        Ok(())
    };
    // The conversion took time, too.
    let flow = evaluation.budget.charge(input.weight(room)).and_then(|()| {
        let (scope, item) = (NameScope::default(), Item::root(input));
        evaluation.each_path(&term, Input { scope: &scope, item: &item }, &mut collect)
    });
    *work_left = work_left.saturating_sub(evaluation.budget.spent());
    match flow {
        Ok(()) => Ok(found),
        Err(Stop::Fatal(error)) => Err(error),
        // The message of the error may have values of the manifest.
        Err(Stop::Error(_) | Stop::Break(_) | Stop::Passed) => Err(JqError::Evaluation),
    }
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
    fn jq_of_ocms_agent_is_there() {
        for (expression, expected) in [
            // Variables, also of patterns.
            (r#""web" as $name | .spec.containers[] | select(.name == $name)"#, "proxy log"),
            (
                r#". as {spec: {containers: [$first]}} | .spec.containers[] | select(. == $first)"#,
                "proxy log",
            ),
            (
                r#"(["web", "log"] | join("|")) as $all
                | .spec.containers[] | select(.name | test("^(\($all))$"))"#,
                "proxy",
            ),
            // Arithmetic.
            (".spec.containers[.spec.replicas + 1]", "web proxy"),
            (".spec.containers[] | select((.env | length) * 2 - 1 == 5)", "proxy log"),
            (".spec.containers[(7 % 2):(6 / 2)]", "web"),
            (r#".spec.containers[] | select(.name == ("pro" + "xy"))"#, "web log"),
            // Folds and loops.
            ("reduce (0, 1) as $i (.spec.containers; if $i == 0 then .[1] else . end)", "web log"),
            ("foreach (0, 2) as $i (.; .; .spec.containers[$i])", "proxy"),
            (".spec.containers[range(0; 2)]", "log"),
            (".spec.containers[] | select(any(.env[]?; .name == \"C\"))", "proxy log"),
            (".spec.containers[[limit(2; repeat(1))] | length]", "web proxy"),
            (".spec.containers[0 | until(. >= 2; . + 1)]", "web proxy"),
            ("first(.spec.containers[] | select(.image))", "proxy log"),
            // Definitions, also recursive, and labels.
            (
                "def named($n): .spec.containers[] | select(.name == $n); named(\"log\", \"web\")",
                "proxy",
            ),
            (
                "def l: if .[1:] == [] then .[0] else .[1:] | l end; .spec.containers | l",
                "web proxy",
            ),
            ("label $x | .spec.containers[] | if .name == \"log\" then break $x else . end", "log"),
            // Errors.
            (".spec.containers[] | select(try (.name | error) catch . == \"web\")", "proxy log"),
            (
                ".spec.containers[] | (.nothing[]?, .name | select(. == \"x\")?), select(.env)",
                "proxy log",
            ),
            // Objects, assignments, texts and dates of texts.
            (".spec.containers[] | select({name, x: 1} == {name: \"web\", x: 1})", "proxy log"),
            (
                ".spec.containers[] | select((.name |= ascii_upcase | .name) == \"WEB\")",
                "proxy log",
            ),
            (".spec.containers[] | select((.name | @base64) == \"d2Vi\")", "proxy log"),
            (
                r#".spec.containers[] | select((.name | gsub("(?<c>e)"; "<\(.c)>")) == "w<e>b")"#,
                "proxy log",
            ),
            (r#".spec.containers[] | select(.name | [scan("[a-z]")] | length == 5)"#, "web log"),
            (
                ".spec.containers[] | select(to_entries | map(.key) | contains([\"env\"]))",
                "proxy log",
            ),
            (".spec.containers[] | select([.name, \"log\"] | unique | length == 1)", "web proxy"),
            (
                ".spec.containers | group_by(.image == null)[1][0] as $c | .[] | select(. == $c)",
                "web proxy",
            ),
            ("paths(. == \"log\") as $p | getpath($p[:-1])", "web proxy"),
        ] {
            assert_eq!(names(expression).join(" "), expected, "{expression}");
        }
    }

    /// The results are gojq's.
    #[test]
    fn formats_are_those_of_ocms_agent() {
        for (expression, expected) in [
            (r#"["a\"b", 1, true, null] | @csv"#, r#""a""b",1,true,"#),
            (r#"["a\tb", "c\\d\ne", 1.5, null] | @tsv"#, "a\\tb\tc\\\\d\\ne\t1.5\t"),
            (r#"["it's", 1] | @sh"#, r"'it'\''s' 1"),
            (r#""a b" | @sh"#, "'a b'"),
            (r#""a b/ü~" | @uri"#, "a%20b%2F%C3%BC~"),
            (r#""a%20b%2f%C3%BC" | @urid"#, "a b/ü"),
            (r#""<&'\">" | @html"#, "&lt;&amp;&#39;&quot;&gt;"),
            (r#"@base64 "x\("web")y""#, "xd2Viy"),
            (r#""d2Vi" | @base64d"#, "web"),
            (r#"{a: 1} | @json"#, r#"{"a":1}"#),
            (r#"[[1, 2], [3]] | [combinations] | tojson"#, "[[1,3],[2,3]]"),
            (r#"[0, 1] | [combinations(2)] | length | tojson"#, "4"),
            (r#"[{k: "a"}] | INDEX(.k) | tojson"#, r#"{"a":{"k":"a"}}"#),
            (r#"[2 | IN(1, 2)] + (1 | toarray) | tojson"#, "[true,1]"),
            (r#""aba" | trimstr("a")"#, "b"),
        ] {
            let condition = format!("select(({expression}) == {})", json!(expected));
            let left = delete(&format!(".spec | {condition}"), json!({"spec": 1, "a": 1}));
            assert_eq!(left, Ok(json!({"a": 1})), "{expression}");
        }
        for expression in ["{} | @csv", "[[1]] | @tsv", "[{}] | @sh", r#""%2" | @urid"#] {
            let found = delete(&format!("select({expression})"), json!({}));
            assert_eq!(found, Err(JqError::Evaluation), "{expression}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for expression in [
            ".spec.replicas + 1",
            "[.spec]",
            "\"spec\"",
            ". as $x | $x",
            "{a: .spec}",
            ".spec.replicas |= 2",
            "reduce .spec[] as $x (0; 1)",
            "@base64",
        ] {
            assert_eq!(
                delete(expression, json!({"spec": {"replicas": 1}})),
                Err(JqError::NotAPath)
            );
        }
    }

    #[test]
    fn unknown_names_and_broken_text_are_refused_before_any_manifest() {
        let unknown =
            |name: &str, arguments| JqError::UnknownFunction { name: name.into(), arguments };
        let unsupported = |what: &str| JqError::Unsupported(what.into());
        for (expression, expected) in [
            (".spec[", JqError::Syntax),
            (".) | (.", JqError::Syntax),
            ("unknown", unknown("unknown", 0)),
            ("select(.a; .b)", unknown("select", 2)),
            ("input", unsupported("the function input")),
            ("now", unsupported("the function now")),
            ("select(.at | localtime == [])", unsupported("the function localtime")),
            (
                "select(.at | strflocaltime(\"%Y\") == \"\")",
                unsupported("the function strflocaltime"),
            ),
            ("def halt: .; halt | halt(1)", unsupported("the function halt")),
            ("$x", JqError::UnknownName),
            (". as $x | $y", JqError::UnknownName),
            ("break $out", JqError::UnknownName),
            ("select(@base32 == \"\")", unsupported("the format @base32")),
        ] {
            assert_eq!(check(expression), Err(expected.clone()), "{expression}");
            assert_eq!(delete(expression, json!({})), Err(expected), "{expression}");
        }
        let long = ".a".repeat(600);
        assert_eq!(check(&long), Err(JqError::TooLong));
        assert_eq!(delete(".", json!({})).unwrap_err(), JqError::NotAnObject);
        assert_eq!(delete(".spec.deeper", json!({"spec": 1})), Err(JqError::Evaluation));
    }

    /// A sort panics without an order of all numbers.
    #[test]
    fn numbers_have_one_order() {
        let mixed = "[range(100) | if . % 3 == 0 then nan else . * 7919 % 61 end]";
        let large = "[range(40) | 9007199254740992 + (., . * 1.5)]";
        for (expression, is_true) in [
            (format!("{mixed} | sort | map(isnan) | .[:34] | all"), true),
            (format!("{mixed} | sort | .[34:] | . == sort and length == 66"), true),
            (format!("{large} | sort | length == 80"), true),
            ("[nan] == [nan] or nan == nan".to_owned(), false),
            ("[nan] < [nan] and nan < nan".to_owned(), true),
            ("\"abab aba\" | indices(\"aba\") == [0, 5]".to_owned(), true),
            ("\"é-aaa\" | indices(\"aa\") == [2, 3]".to_owned(), true),
        ] {
            let object = json!({"spec": 1, "a": 1});
            let left = delete(&format!(".spec | select(null | {expression})"), object);
            let expected = if is_true { json!({"a": 1}) } else { json!({"spec": 1, "a": 1}) };
            assert_eq!(left, Ok(expected), "{expression}");
        }
    }

    #[test]
    fn every_expression_ends_and_needs_bounded_memory() {
        for expression in [
            "last(repeat(.))",
            "def f: f; f",
            "def f: ., f; last(f)",
            "range(1000000000)",
            "last(range(1000000000))",
            "until(false; .)",
            "last(recurse(.))",
            "[recurse([.])] | .[0]",
            "reduce range(1000) as $x (\"a\"; . + .) | .",
            "reduce range(1000) as $x ([1]; . + .) | .",
            "reduce range(1000) as $x ([]; [., .]) | . == .",
            "reduce range(100000) as $x (null; [.])",
            "reduce range(100000) as $x (.; .a)",
            "\"a\" * 1000000000",
            "[range(100000)] | combinations",
            "[limit(100000; repeat(\"x\"))] | join(\"x\") | [scan(\"(x*)*y\")] | .[0]",
            "(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)",
            "[..] | . == . and contains(.) and (sort | unique | length > 0)",
            ". as $x | [range(1000) | $x] | . - .",
            "..|..|..|..",
            "[splits(\"a\")] | .[0] = 1 | .[1000000000] = 1",
            // Values that have others very many times.
            "reduce range(100) as $x ([]; [., .]) | . == .",
            "reduce range(100) as $x ([]; [., .]) | tojson",
            "reduce range(100) as $x ([]; [., .]) | sort == unique",
            "(reduce range(100) as $x ([]; [., .])) as $d | getpath([\"no\", $d])",
            "(\"a\" * 100000) as $t | [range(10000) | $t] | @csv",
            "[range(100000)] as $x | [range(100000) | $x] | transpose",
            // What is compared without end costs.
            "(\"a\" * 1700000) as $t | $t | indices(\"a\" * 850000)",
            "[range(300000) | 0] as $x | $x | indices([range(100000) | 0])",
            "[range(300000) | 0] as $x | $x - [range(300000) | 1]",
            "[range(300000) | 0] as $x | $x | contains([range(300000) | \"\"])",
            "range(50000) | select(\"a\" | test(\"[a-z]{900}\" + \"x\" * (. % 3)))",
        ] {
            let items: Vec<Value> = (0..2_000).map(|item| json!({"name": item})).collect();
            let found = delete(expression, json!({"items": items}));
            assert!(found.is_err(), "{expression}");
        }
        for (open, close) in [("(", ")"), ("[", "]"), ("try ", ""), ("-", ""), (".[", "]")] {
            let depth = 900 / (open.len() + close.len());
            let deep = format!("{}.a{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(check(&deep), Err(JqError::TooDeep), "{open}");
        }
        for (part, many) in [(".|", 500), (".,", 500), (".a", 500), (".+", 500), (".//", 300)] {
            let long = format!("{}.a", part.repeat(many));
            let _ends = delete(&long, json!({}));
        }
    }

    /// Bodies of a function `f` that calls itself, one for each construct of jq.
    const RECURSIVE: &str = r#"f
[f]
{a: f}
{(f): 1}
-f
f + 1
1 + f
f | f
f, f
f // 1
f and f
f == 1
if f then 1 else 2 end
if . then f else 2 end
try f
try error catch f
label $l | f
"\(f)"
.[f]
.[f:]
f[]
f?
f as [$x] | $x
f as {(f): $x} | $x
reduce f as $x (.; .)
reduce . as $x (f; .)
reduce . as $x (.; f)
foreach f as $x (.; .; .)
foreach . as $x (.; .; f)
.a = f
.a |= f
.a += f
.a //= f
path(f)
getpath(f)
first(f)
last(f)
limit(1; f)
limit(f; 1)
isempty(f)
range(f; 1; 1)
recurse(f)
until(f; .)
while(f; .)
[.] | sort_by(f)
has(f)
any(f; .)
all(.; f)
select(f)
[.] | map(f)
walk(f)
[f] | join(",")
"a" | sub("a"; f)
def g: f; g
def g(h): h; g(f)
def g($h): $h; g(f)
f as $x | $x
@json "\(f)""#;

    #[test]
    fn recursion_ends_within_half_a_stack() {
        let delete_all = || {
            for body in RECURSIVE.lines() {
                let found = delete(&format!("def f: {body}; .a | f"), json!({"a": {"b": [1]}}));
                assert_eq!(found, Err(JqError::TooDeep), "{body}");
            }
        };
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().stack_size(1 << 20);
            builder.spawn_scoped(scope, delete_all).unwrap();
        });
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
