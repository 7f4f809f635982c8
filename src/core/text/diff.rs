//! What differs between two JSON values, field by field, as people think of Kubernetes objects:
//! list items are matched by their name or other key, texts line by line, and values of Secrets are
//! never shown.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::{Map, Value};
use similar::{Algorithm, DiffOp, DiffTag};

use super::escape::escape_untrusted;
use super::style::{ColorMode, TextStyle, count};
use super::truncate::truncate_bytes;
use crate::limits;

/// The fields in which two values differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct FieldDiff {
    pub changes: Vec<FieldChange>,
    /// Changes past `limits::DIFF_FIELDS_MAX`: counted, not kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct FieldChange {
    /// As in `spec.template.spec.containers[name=web].image`; empty for the value as a whole.
    pub path: String,
    #[serde(flatten)]
    pub change: Change,
}

/// How a field differs. Values are cut to `limits::DIFF_VALUE_BYTES_MAX`; what a Secret holds is
/// not in them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "change", rename_all = "camelCase")]
pub enum Change {
    Added {
        after: Value,
    },
    Removed {
        before: Value,
    },
    Changed {
        before: Value,
        after: Value,
    },
    /// A text of several lines, as the lines of a unified diff.
    Text {
        lines: Vec<String>,
    },
    /// The same items in another order.
    Reordered,
    /// A value of a Secret: it was not there before.
    SecretAdded,
    /// A value of a Secret: it is no longer there.
    SecretRemoved,
    /// A value of a Secret: it differs.
    SecretChanged,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Compares two values. Equal values give no changes.
pub fn diff(before: &Value, after: &Value) -> FieldDiff {
    let mut walk = Walk::default();
    walk.value(before, after, false);
    walk.found
}

/// By what an item of a list is known, the first that all items have and none shares. The order is
/// that of what people call things by: a container port has a name and a number.
const ITEM_KEYS: [&str; 13] = [
    "name",
    "resourceIdentifier",
    "mountPath",
    "key",
    "containerPort",
    "port",
    "type",
    "ip",
    "host",
    "path",
    "topologyKey",
    "devicePath",
    "uid",
];

/// kubectl keeps the whole object in it, the data of a Secret included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[derive(Default)]
struct Walk {
    path: String,
    found: FieldDiff,
}

impl Walk {
    fn say(&mut self, change: Change) {
        if self.found.changes.len() < limits::DIFF_FIELDS_MAX {
            self.found.changes.push(FieldChange { path: self.path.clone(), change });
        } else {
            self.found.left_out += 1;
        }
    }

    /// Does `inner` with `part` at the path's end.
    fn below(&mut self, part: &str, inner: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(part);
        inner(self);
        self.path.truncate(length);
    }

    fn added(&mut self, value: &Value, hidden: bool) {
        match value {
            Value::Object(fields) if hidden => self.fields(&Map::new(), fields, true),
            _ if hidden => self.say(Change::SecretAdded),
            _ => self.say(Change::Added { after: shown(value) }),
        }
    }

    fn removed(&mut self, value: &Value, hidden: bool) {
        match value {
            Value::Object(fields) if hidden => self.fields(fields, &Map::new(), true),
            _ if hidden => self.say(Change::SecretRemoved),
            _ => self.say(Change::Removed { before: shown(value) }),
        }
    }

    fn value(&mut self, before: &Value, after: &Value, hidden: bool) {
        if before == after {
            return;
        }
        match (before, after) {
            (Value::Object(before), Value::Object(after)) => self.fields(before, after, hidden),
            _ if hidden => self.say(Change::SecretChanged),
            (Value::Array(before), Value::Array(after)) => self.list(before, after),
            (Value::String(before), Value::String(after))
                if before.contains('\n') || after.contains('\n') =>
            {
                self.say(Change::Text { lines: unified(before, after) });
            }
            _ => self.say(Change::Changed { before: shown(before), after: shown(after) }),
        }
    }

    fn fields(&mut self, before: &Map<String, Value>, after: &Map<String, Value>, hidden: bool) {
        let secret = is_secret(before) || is_secret(after);
        let names: std::collections::BTreeSet<&String> =
            before.keys().chain(after.keys()).collect();
        for name in names {
            let hidden = hidden || hides(secret, name);
            let part = field_part(name, self.path.is_empty());
            self.below(&part, |walk| match (before.get(name), after.get(name)) {
                (Some(before), Some(after)) => walk.value(before, after, hidden),
                (Some(before), None) => walk.removed(before, hidden),
                (None, Some(after)) => walk.added(after, hidden),
                (None, None) => {}
            });
        }
    }

    fn list(&mut self, before: &[Value], after: &[Value]) {
        let keyed = ITEM_KEYS
            .iter()
            .find_map(|key| Some((*key, labels(before, key)?, labels(after, key)?)));
        match keyed {
            Some((key, old, new)) => self.keyed_list(key, (before, &old), (after, &new)),
            None => self.plain_list(before, after),
        }
    }

    fn keyed_list(
        &mut self,
        key: &str,
        (before, old): (&[Value], &[String]),
        (after, new): (&[Value], &[String]),
    ) {
        let new_by_label: BTreeMap<&String, &Value> = new.iter().zip(after).collect();
        let old_by_label: BTreeMap<&String, &Value> = old.iter().zip(before).collect();
        for (label, item) in old.iter().zip(before) {
            self.below(&item_part(key, label), |walk| match new_by_label.get(label) {
                Some(now) => walk.value(item, now, false),
                None => walk.removed(item, false),
            });
        }
        for (label, item) in new.iter().zip(after) {
            if !old_by_label.contains_key(label) {
                self.below(&item_part(key, label), |walk| walk.added(item, false));
            }
        }
        let kept_old = old.iter().filter(|label| new_by_label.contains_key(label));
        let kept_new = new.iter().filter(|label| old_by_label.contains_key(label));
        if !kept_old.eq(kept_new) {
            self.say(Change::Reordered);
        }
    }

    /// A list whose items have no key: what is equal is matched, what stands in its place is
    /// compared.
    fn plain_list(&mut self, before: &[Value], after: &[Value]) {
        for op in operations(before, after) {
            if op.tag() == DiffTag::Equal {
                continue;
            }
            let (old, new) = (op.old_range(), op.new_range());
            let pairs = old.len().min(new.len());
            for (was, is) in old.clone().zip(new.clone()) {
                let (Some(was), Some(now)) = (before.get(was), after.get(is)) else { continue };
                self.below(&format!("[{is}]"), |walk| walk.value(was, now, false));
            }
            for index in old.skip(pairs) {
                let Some(item) = before.get(index) else { continue };
                self.below(&format!("[{index}]"), |walk| walk.removed(item, false));
            }
            for index in new.skip(pairs) {
                let Some(item) = after.get(index) else { continue };
                self.below(&format!("[{index}]"), |walk| walk.added(item, false));
            }
        }
    }
}

/// The items' labels, if every item has one of its own under `key`.
fn labels(items: &[Value], key: &str) -> Option<Vec<String>> {
    let labels: Vec<String> =
        items.iter().map(|item| label(item.get(key)?)).collect::<Option<_>>()?;
    let distinct: std::collections::BTreeSet<&String> = labels.iter().collect();
    (distinct.len() == labels.len()).then_some(labels)
}

/// The label of an item: the text of its key, or the parts of OCM's `resourceIdentifier`.
fn label(key: &Value) -> Option<String> {
    match key {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(identifier) => {
            let parts = ["group", "resource", "namespace", "name"];
            let text: Vec<&str> =
                parts.iter().filter_map(|part| identifier.get(*part)?.as_str()).collect();
            Some(text.join("/"))
        }
        _ => None,
    }
}

fn is_secret(object: &Map<String, Value>) -> bool {
    object.get("kind").and_then(Value::as_str) == Some("Secret")
}

/// Whether the field `name` of an object holds what must not be shown.
fn hides(secret: bool, name: &str) -> bool {
    name == LAST_APPLIED || (secret && matches!(name, "data" | "stringData"))
}

/// `.image`, or `["app.kubernetes.io/name"]` where the name is no plain word.
fn field_part(name: &str, first: bool) -> String {
    let plain = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '$'));
    match (plain, first) {
        (true, true) => name.to_owned(),
        (true, false) => format!(".{name}"),
        (false, _) => format!("[{name:?}]"),
    }
}

fn item_part(key: &str, label: &str) -> String {
    let plain = !label.is_empty()
        && label.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:*".contains(c));
    // OCM's word for the key is long and says no more than the label does.
    match (key, plain) {
        ("resourceIdentifier", true) => format!("[{label}]"),
        ("resourceIdentifier", false) => format!("[{label:?}]"),
        (_, true) => format!("[{key}={label}]"),
        (_, false) => format!("[{key}={label:?}]"),
    }
}

const HIDDEN: &str = "(hidden)";

/// A value as a diff keeps it: without what Secrets in it hold, and cut where it is long.
fn shown(value: &Value) -> Value {
    let value = without_secrets(value);
    let text = match &value {
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => value.to_string(),
        _ => return value,
    };
    if text.len() <= limits::DIFF_VALUE_BYTES_MAX {
        return value;
    }
    format!("{} ({} bytes)", truncate_bytes(&text, limits::DIFF_VALUE_BYTES_MAX), text.len()).into()
}

fn without_secrets(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_secrets).collect(),
        Value::Object(fields) => {
            let secret = is_secret(fields);
            let shown = fields.iter().map(|(name, field)| {
                let hidden = match field {
                    Value::Object(data) if hides(secret, name) => {
                        data.keys().map(|key| (key.clone(), HIDDEN)).collect()
                    }
                    _ if hides(secret, name) => HIDDEN.into(),
                    _ => without_secrets(field),
                };
                (name.clone(), hidden)
            });
            Value::Object(shown.collect())
        }
        other => other.clone(),
    }
}

/// The edits from one list to another. Past `limits::DIFF_ITEMS_MAX` items that differ all of them
/// count as replaced: the cost of finding the shortest edit grows with the square.
fn operations<T: std::hash::Hash + Eq>(before: &[T], after: &[T]) -> Vec<DiffOp> {
    let mut numbers: HashMap<&T, u32> = HashMap::new();
    let mut number = |item| {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        *numbers.entry(item).or_insert(next)
    };
    let old: Vec<u32> = before.iter().map(&mut number).collect();
    let new: Vec<u32> = after.iter().map(&mut number).collect();
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (old.get(head..).unwrap_or_default(), new.get(head..).unwrap_or_default());
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_len, new_len) = (old.len() - tail, new.len() - tail);
    let old = old.get(..old_len).unwrap_or_default();
    let new = new.get(..new_len).unwrap_or_default();
    let mut operations = Vec::new();
    if head > 0 {
        operations.push(DiffOp::Equal { old_index: 0, new_index: 0, len: head });
    }
    if old_len + new_len > limits::DIFF_ITEMS_MAX {
        operations.push(DiffOp::Replace { old_index: head, old_len, new_index: head, new_len });
    } else {
        let middle = similar::capture_diff_slices(Algorithm::Myers, old, new);
        operations.extend(middle.into_iter().map(|op| shifted(&op, head)));
    }
    if tail > 0 {
        let (old_index, new_index) = (head + old_len, head + new_len);
        operations.push(DiffOp::Equal { old_index, new_index, len: tail });
    }
    operations
}

fn shifted(op: &DiffOp, by: usize) -> DiffOp {
    let (old, new) = (op.old_range(), op.new_range());
    let (old_index, new_index) = (old.start + by, new.start + by);
    let (old_len, new_len) = (old.len(), new.len());
    match op.tag() {
        DiffTag::Equal => DiffOp::Equal { old_index, new_index, len: old_len },
        DiffTag::Delete => DiffOp::Delete { old_index, old_len, new_index },
        DiffTag::Insert => DiffOp::Insert { old_index, new_index, new_len },
        DiffTag::Replace => DiffOp::Replace { old_index, old_len, new_index, new_len },
    }
}

/// Unchanged lines around a changed one.
const CONTEXT_LINES: usize = 2;

/// The lines of a unified diff, at most `limits::DIFF_LINES_MAX` of them and a last one that says
/// what is left.
fn unified(before: &str, after: &str) -> Vec<String> {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let mut lines = Lines::default();
    for group in similar::group_diff_ops(operations(&old, &new), CONTEXT_LINES) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let header = |start: usize, end: usize| format!("{},{}", start + 1, end - start);
        lines.push(format!(
            "@@ -{} +{} @@",
            header(first.old_range().start, last.old_range().end),
            header(first.new_range().start, last.new_range().end)
        ));
        for op in &group {
            if op.tag() == DiffTag::Equal {
                lines.all(' ', old.get(op.old_range()));
            } else {
                lines.all('-', old.get(op.old_range()));
                lines.all('+', new.get(op.new_range()));
            }
        }
    }
    lines.finish()
}

#[derive(Default)]
struct Lines {
    kept: Vec<String>,
    left_out: usize,
}

impl Lines {
    fn push(&mut self, line: String) {
        if self.kept.len() < limits::DIFF_LINES_MAX {
            self.kept.push(line);
        } else {
            self.left_out += 1;
        }
    }
    fn all(&mut self, sign: char, lines: Option<&[&str]>) {
        for line in lines.into_iter().flatten() {
            let text = line.strip_suffix('\n').unwrap_or(line);
            let text = truncate_bytes(text, limits::DIFF_VALUE_BYTES_MAX);
            let end = if line.ends_with('\n') { "" } else { " (no line break at the end)" };
            self.push(format!("{sign}{text}{end}"));
        }
    }
    fn finish(mut self) -> Vec<String> {
        if self.left_out > 0 {
            self.kept.push(format!("... and {} more", count(self.left_out, "line")));
        }
        self.kept
    }
}

impl FieldDiff {
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.left_out == 0
    }

    /// One line for each field, each with `indent` before it; texts take several.
    pub fn write_text(&self, out: &mut String, indent: &str, style: ColorMode) {
        for change in &self.changes {
            for (paint, line) in change.lines() {
                let line = escape_untrusted(&line);
                let line = paint.map_or(line.clone(), |paint| style.styled(paint, &line));
                out.push_str(&format!("{indent}{line}\n"));
            }
        }
        if self.left_out > 0 {
            out.push_str(&format!("{indent}... and {} more\n", count(self.left_out, "field")));
        }
    }
}

impl FieldChange {
    /// As text, each line with its meaning.
    fn lines(&self) -> Vec<(Option<TextStyle>, String)> {
        let path = if self.path.is_empty() { "(the whole)" } else { &self.path };
        let one = |paint, text: String| vec![(paint, text)];
        match &self.change {
            Change::Added { after } => {
                one(Some(TextStyle::Good), format!("+ {path}: {}", brief(after)))
            }
            Change::Removed { before } => {
                one(Some(TextStyle::Bad), format!("- {path}: {}", brief(before)))
            }
            Change::Changed { before, after } => {
                one(None, format!("~ {path}: {} -> {}", brief(before), brief(after)))
            }
            Change::Reordered => one(None, format!("~ {path}: other order")),
            Change::SecretAdded => one(Some(TextStyle::Good), format!("+ {path}: {HIDDEN}")),
            Change::SecretRemoved => one(Some(TextStyle::Bad), format!("- {path}: {HIDDEN}")),
            Change::SecretChanged => one(None, format!("~ {path}: {HIDDEN} -> {HIDDEN}")),
            Change::Text { lines } => {
                let mut all = one(None, format!("~ {path}:"));
                all.extend(lines.iter().map(|line| {
                    let paint = match line.chars().next() {
                        Some('+') => Some(TextStyle::Good),
                        Some('-') => Some(TextStyle::Bad),
                        Some('@') => Some(TextStyle::Dim),
                        _ => None,
                    };
                    (paint, format!("    {line}"))
                }));
                all
            }
        }
    }
}

/// The longest value on one line of text, in bytes.
const BRIEF_BYTES_MAX: usize = 240;

/// A value on one line. Text stands in quotes where it would be read as something else.
fn brief(value: &Value) -> String {
    let text = match value {
        Value::String(text) if is_plain(text) => text.clone(),
        other => other.to_string(),
    };
    if text.len() <= BRIEF_BYTES_MAX {
        return text;
    }
    truncate_bytes(&text, BRIEF_BYTES_MAX).into_owned()
}

fn is_plain(text: &str) -> bool {
    text == HIDDEN
        || (text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:@".contains(c))
            && !matches!(text, "true" | "false" | "null"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        let secret = |data: Value| json!({"kind": "Secret", "metadata": {"name": "s", "annotations": {LAST_APPLIED: data.to_string()}}, "data": data, "stringData": {"t": "canary\ncanary"}});
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
        ] {
            let found = diff(&before, &after);
            assert!(!found.is_empty());
            let json = serde_json::to_string(&found).unwrap();
            assert!(!json.contains("canary"), "{json}");
            assert!(!lines(&before, &after).concat().contains("canary"));
        }
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
        let [FieldChange { change: Change::Text { lines }, .. }] = &changes[..] else { panic!() };
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
}
