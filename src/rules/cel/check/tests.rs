use super::functions::{FUNCTIONS, NAMESPACES, TYPES};
use super::*;

fn found(expression: &str) -> String {
    check(expression, &["object"]).map_or_else(|error| error.to_string(), |()| "ok".into())
}

#[test]
fn expressions_of_real_rules_pass() {
    for expression in [
        "object.status.readyReplicas == object.spec.replicas",
        "has(object.status) && object.status.?phase.orValue('') == 'Running'",
        "object.status.conditions.exists(c, c.type == 'Ready' && c.status == \"True\")",
        "object.status.conditions.filter(c, c.type == 'Ready').all(d, d.status == 'True')",
        "hasConditions(object.status) && object.metadata.name.matches('^a')",
        "object.spec.items.map(i, i.size).all(s, s in [1, 2, 3])",
        "object.?status.?x.optMap(y, y + 1).orValue(0) > 1",
        "quantity(object.spec.size).isGreaterThan(quantity('1Gi'))",
        "semver(object.spec.version).major() > 1 && type(object.x) == int",
        "size(object.items) > 0 ? 'ready' + string(size(object.items)) : \"no\"",
        "optional.none().hasValue() == false",
        "{'a': object.b}.a == [object.c][0]",
        "!object.a && -object.b < 1u && object[\"c\"] >= 1.5",
        "object.items.exists(i, object.others.exists(j, i == j))",
        "format.dns1123Label().validate(object.metadata.name).hasValue()",
    ] {
        assert_eq!(found(expression), "ok", "{expression}");
    }
}

#[test]
fn errors_name_their_place() {
    for (expression, expected) in [
        ("", "the expression is empty (line 1, character 1"),
        (
            "objekt.a == 1",
            "\"objekt\" is not declared: the variables here are object (line 1, character 1 ",
        ),
        (
            "object.a == 'ä' && x",
            "\"x\" is not declared: the variables here are object (line 1, character 20 ",
        ),
        (
            "object.a ==\n  other.b",
            "\"other\" is not declared: the variables here are object (line 2, character 3 ",
        ),
        (
            "object.a.exists(c, c.x) && c",
            "\"c\" is not declared: the variables here are object (line 1, character 28 ",
        ),
        (
            "result",
            "\"result\" is not declared: the variables here are object (line 1, character 1 ",
        ),
        (
            "object.a.beginsWith('x')",
            "there is no function beginsWith() in the CEL of OCM's work agent (line 1, \
             character 20 ",
        ),
    ] {
        let found = found(expression);
        assert!(found.starts_with(expected), "{expression}: {found}");
    }
    assert!(check("result ? 'a' : 'b'", &["object", "result"]).is_ok());
}

#[test]
fn syntax_errors_name_their_place() {
    for (expression, line, column) in [
        ("object.a ==", 1, 12),
        ("object.a = 1", 1, 10),
        ("object.a &&\n&& true", 2, 1),
        ("'abc", 1, 1),
    ] {
        let error = check(expression, &["object"]).unwrap_err();
        assert_eq!((error.line, error.column), (line, column), "{expression}: {error}");
        assert!(matches!(error.problem, CelProblem::Syntax(_)), "{expression}: {error:?}");
    }
}

#[test]
fn functions_are_sorted_for_the_search() {
    assert!(FUNCTIONS.is_sorted() && TYPES.is_sorted() && NAMESPACES.is_sorted());
}

#[test]
fn bounds_hold_before_the_parser_runs_deep() {
    let kinds = [
        ("(", "1", ")"),
        ("!", "true", ""),
        ("-", "1", ""),
        ("[", "1", "]"),
        ("1+", "1", ""),
        ("", "object", ".a"),
        ("true&&", "true", ""),
        ("1 in ", "[]", ""),
        ("true?1:", "1", ""),
        ("{1:", "1", "}"),
        ("f(", "1", ")"),
        ("", "object", "[0]"),
    ];
    let within_half_a_stack = || {
        let deepest = usize::from(CEL_DEPTH_MAX);
        for (before, middle, after) in kinds {
            for count in [deepest, deepest + 1, 100, 400, 900] {
                let text = format!("{}{middle}{}", before.repeat(count), after.repeat(count));
                let result = check(&text, &["object"]);
                if count == deepest {
                    assert!(result.is_ok() || before == "f(", "{text} {result:?}");
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(1 << 20);
        builder.spawn_scoped(scope, within_half_a_stack).unwrap();
    });
    let long = format!("object.a == '{}'", "x".repeat(CEL_BYTES_MAX));
    assert_eq!(check(&long, &["object"]).unwrap_err().problem, CelProblem::TooLong);
}
