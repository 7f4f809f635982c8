use serde_json::{Value, json};

use super::secrets::LAST_APPLIED;
use super::*;
use crate::limits;
use crate::text::style::ColorMode;

fn lines(before: &Value, after: &Value) -> Vec<String> {
    let mut out = String::new();
    diff(before, after).write_text(&mut out, "", ColorMode::Plain);
    out.lines().map(str::to_owned).collect()
}

#[test]
fn fields_and_items() {
    for (before, after, expected) in [
        (json!({"a": 1}), json!({"a": 1}), &[][..]),
        (json!({"a": 1}), json!({"a": "1"}), &["~ a: 1 -> \"1\""]),
        (json!({"a": {"b": 1}}), json!({"a": {"c": [1]}}), &["- a.b: 1", "+ a.c: [1]"]),
        (json!(null), json!({}), &["~ (the whole): null -> {}"]),
        (
            json!({"l": {"app.io/name": "x"}}),
            json!({"l": {"app.io/name": "y y"}}),
            &["~ l[\"app.io/name\"]: x -> \"y y\""],
        ),
        (
            json!({"c": [{"name": "web", "image": "a:1"}, {"name": "log", "image": "l"}]}),
            json!({"c": [{"name": "init", "image": "i"}, {"name": "web", "image": "a:2"}]}),
            &[
                "~ c[name=web].image: a:1 -> a:2",
                "- c[name=log]: {\"image\":\"l\",\"name\":\"log\"}",
                "+ c[name=init]: {\"image\":\"i\",\"name\":\"init\"}",
            ],
        ),
        (
            json!({"c": [{"name": "a"}, {"name": "b"}]}),
            json!({"c": [{"name": "b"}, {"name": "a"}]}),
            &["~ c: other order"],
        ),
        (
            json!({"p": [{"containerPort": 80}, {"containerPort": 81}]}),
            json!({"p": [{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}]}),
            &["+ p[containerPort=80].protocol: UDP"],
        ),
        (
            json!({"t": [{"key": "a", "effect": "x"}, {"key": "a", "effect": "y"}]}),
            json!({"t": [{"key": "a", "effect": "y"}]}),
            &["- t[0]: {\"effect\":\"x\",\"key\":\"a\"}"],
        ),
        (
            json!({"args": ["a", "b", "c"]}),
            json!({"args": ["a", "x", "c"]}),
            &["~ args[1]: b -> x"],
        ),
        (json!({"args": ["a", "b"]}), json!({"args": ["0", "a", "b"]}), &["+ args[0]: \"0\""]),
        (
            json!([{"resourceIdentifier": {"resource": "pods", "name": "x"}, "a": 1}]),
            json!([{"resourceIdentifier": {"resource": "pods", "name": "x"}, "a": 2}]),
            &["~ [pods/x].a: 1 -> 2"],
        ),
    ] {
        assert_eq!(lines(&before, &after), expected, "{before} {after}");
    }
}

#[test]
fn texts_are_compared_line_by_line() {
    let before = json!({"conf": "a\nb\nc\nd\ne\nf\ng\n"});
    let after = json!({"conf": "a\nb\nc\nD\ne\nf\ng"});
    assert_eq!(
        lines(&before, &after),
        [
            "~ conf:",
            "    @@ -2,6 +2,6 @@",
            "     b",
            "     c",
            "    -d",
            "    +D",
            "     e",
            "     f",
            "    -g",
            "    +g (no line break at the end)",
        ]
    );
}

#[test]
fn a_secret_never_shows_what_it_holds() {
    let secret = |data: Value| {
        json!({
            "kind": "Secret",
            "metadata": {"name": "s", "annotations": {LAST_APPLIED: data.to_string()}},
            "data": data,
            "stringData": {"t": "canary\ncanary"},
        })
    };
    let before = secret(json!({"a": "canary1", "b": "canary2", "o": {"x": "canary"}}));
    let after = secret(json!({"a": "canary3", "c": "canary4"}));
    assert_eq!(
        lines(&before, &after),
        [
            "~ data.a: (hidden) -> (hidden)",
            "- data.b: (hidden)",
            "+ data.c: (hidden)",
            "- data.o.x: (hidden)",
            &format!("~ metadata.annotations[\"{LAST_APPLIED}\"]: (hidden) -> (hidden)"),
        ]
    );
    let config_map = json!({"kind": "ConfigMap", "data": {"a": "canary5"}});
    let list = |item: Value| json!({"items": [item]});
    for (before, after) in [
        (json!(null), before.clone()),
        (before.clone(), json!(null)),
        (json!({}), list(before.clone())),
        (list(before.clone()), list(after)),
        (list(before.clone()), list(config_map.clone())),
        (config_map, before),
        (
            json!({"kind": "Secret", "data": "canary"}),
            json!({"kind": "Secret", "data": ["canary"]}),
        ),
        // A field with a typing error.
        (
            json!({"kind": "Secret", "metadata": {}, "stringdata": {"a": "canary"}}),
            json!({"kind": "Secret", "metadata": {}, "dat": ["canary"], "x": "canary"}),
        ),
    ] {
        let found = diff(&before, &after);
        assert!(!found.is_empty());
        let json = serde_json::to_string(&found).unwrap();
        assert!(!json.contains("canary"), "{json}");
        assert!(!lines(&before, &after).concat().contains("canary"));
    }
}

#[test]
fn reference_to_a_secret_is_shown() {
    let with = |name: &str| json!({"spec": {"ref": {"kind": "Secret", "name": name}}});
    assert_eq!(lines(&with("old"), &with("new")), ["~ spec.ref.name: old -> new"]);
}

#[test]
fn what_is_long_is_cut() {
    let many: Value = (0..limits::DIFF_FIELDS_MAX + 5).map(|n| (format!("k{n}"), n)).collect();
    let found = diff(&json!({}), &many);
    assert_eq!((found.changes.len(), found.left_out), (limits::DIFF_FIELDS_MAX, 5));
    assert_eq!(lines(&json!({}), &many).last().unwrap(), "... and 5 fields more");
    let long = json!({"a": "é".repeat(limits::DIFF_VALUE_BYTES_MAX)});
    let text = serde_json::to_string(&diff(&json!({}), &long)).unwrap();
    assert!(text.len() < limits::DIFF_VALUE_BYTES_MAX + 200, "{}", text.len());
    assert!(text.contains(&format!("{} bytes", 2 * limits::DIFF_VALUE_BYTES_MAX)));
    let lines_of = |sign: &str| -> Value {
        (0..200_000).map(|n| format!("{sign}{n}\n")).collect::<String>().into()
    };
    let FieldDiff { changes, .. } = diff(&lines_of("a"), &lines_of("b"));
    let [FieldChange { change: ChangeKind::Text { lines }, .. }] = &changes[..] else { panic!() };
    assert_eq!(lines.len(), limits::DIFF_LINES_MAX + 1);
}

#[test]
fn nothing_from_the_repository_commands_the_terminal() {
    let shown = lines(
        &json!({"a\u{1b}": "\u{1b}[2J"}),
        &json!({"a\u{1b}": "\u{202e}\nb", "\r": [{"name": "\u{7}"}]}),
    );
    assert!(!shown.concat().chars().any(gitwork_yaml::is_dangerous), "{shown:?}");
}
