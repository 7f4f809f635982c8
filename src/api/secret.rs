//! Keeping the content of Secrets out of messages: API servers quote what they refuse.

use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Values nest no deeper in anything that was read as JSON.
const DEPTH_MAX: usize = 128;
/// Where `kubectl apply` keeps a copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What stands in place of a value of a Secret.
pub const HIDDEN: &str = "(hidden)";

/// Fields of a Secret that hold no value. Any other one may, such as `data` with a typing error.
const OPEN_FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "type", "immutable"];

/// Puts [`HIDDEN`] in place of whatever the Secrets among and inside `objects` hold.
pub fn hide<'a>(message: &mut String, objects: impl IntoIterator<Item = &'a Map<String, Value>>) {
    let mut texts = Vec::new();
    for object in objects {
        collect_secrets(object, DEPTH_MAX, &mut texts);
    }
    replace_all(message, &sorted(texts));
}

/// A copy of an object in which [`HIDDEN`] stands in place of the values of a Secret: of the object
/// itself, and of each Secret inside it, such as a manifest of a ManifestWork. `None` if there is
/// no Secret in it.
///
/// Annotations of the object are searched for the values too: `kubectl apply` copies the whole
/// Secret into one.
pub fn redacted(object: &Map<String, Value>) -> Option<Map<String, Value>> {
    if !has_secret(object, DEPTH_MAX) {
        return None;
    }
    let mut texts = Vec::new();
    collect_secrets(object, DEPTH_MAX, &mut texts);
    let texts = sorted(texts);
    let mut copy = object.clone();
    redact(&mut copy, DEPTH_MAX, &texts);
    Some(copy)
}

/// Whether a text is, or contains, what stands in place of a value of a Secret.
pub fn is_hidden(text: &str) -> bool {
    text.contains(HIDDEN)
}

/// The longest first: the rest of one whose beginning is another's would stay.
fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.retain(|text| !text.is_empty());
    texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
    texts.dedup();
    texts
}

fn replace_all(message: &mut String, texts: &[String]) {
    for text in texts {
        if message.contains(text.as_str()) {
            *message = message.replace(text, HIDDEN);
        }
    }
}

fn has_secret(object: &Map<String, Value>, room: usize) -> bool {
    is_secret(object) || object.values().any(|value| value_has_secret(value, room))
}

fn value_has_secret(value: &Value, room: usize) -> bool {
    let Some(room) = room.checked_sub(1) else { return false };
    match value {
        Value::Object(fields) => has_secret(fields, room),
        Value::Array(items) => items.iter().any(|item| value_has_secret(item, room)),
        _ => false,
    }
}

fn collect_secrets(object: &Map<String, Value>, room: usize, texts: &mut Vec<String>) {
    if is_secret(object) {
        let hidden = object.iter().filter(|(field, _)| !OPEN_FIELDS.contains(&field.as_str()));
        hidden.for_each(|(_, value)| collect(value, DEPTH_MAX, texts));
    }
    object.values().for_each(|value| collect_from_value(value, room, texts));
}

fn collect_from_value(value: &Value, room: usize, texts: &mut Vec<String>) {
    let Some(room) = room.checked_sub(1) else { return };
    match value {
        Value::Object(fields) => collect_secrets(fields, room, texts),
        Value::Array(items) => items.iter().for_each(|item| collect_from_value(item, room, texts)),
        _ => {}
    }
}

fn redact(object: &mut Map<String, Value>, room: usize, texts: &[String]) {
    if is_secret(object) {
        let hidden = object.iter_mut().filter(|(field, _)| !OPEN_FIELDS.contains(&field.as_str()));
        for (_, value) in hidden {
            match value {
                Value::Object(content) => {
                    content.values_mut().for_each(|value| *value = HIDDEN.into());
                }
                Value::Null => {}
                other => *other = HIDDEN.into(),
            }
        }
        if let Some(Value::Object(annotations)) =
            object.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"))
        {
            annotations.remove(LAST_APPLIED);
            for annotation in annotations.values_mut() {
                if let Value::String(text) = annotation {
                    replace_all(text, texts);
                }
            }
        }
    }
    object.values_mut().for_each(|value| redact_value(value, room, texts));
}

fn redact_value(value: &mut Value, room: usize, texts: &[String]) {
    let Some(room) = room.checked_sub(1) else {
        // Nothing that was read as JSON nests this deep.
        *value = HIDDEN.into();
        return;
    };
    match value {
        Value::Object(fields) => redact(fields, room, texts),
        Value::Array(items) => items.iter_mut().for_each(|item| redact_value(item, room, texts)),
        _ => {}
    }
}

/// Whether an object is a Secret, by its `kind`.
pub fn is_secret(object: &Map<String, Value>) -> bool {
    object.get("kind").and_then(Value::as_str) == Some("Secret")
}

/// All texts and numbers: a Secret that is refused may have other values than texts.
fn collect(value: &Value, room: usize, texts: &mut Vec<String>) {
    let Some(room) = room.checked_sub(1) else { return };
    match value {
        Value::String(text) => {
            texts.push(text.clone());
            // `data` is base64, and who looks into it may quote what is inside.
            let decoded = ByteString::deserialize(value).ok();
            texts.extend(decoded.and_then(|bytes| String::from_utf8(bytes.0).ok()));
        }
        Value::Number(number) => texts.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, room, texts)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, room, texts)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_secrets_hold_is_hidden_whatever_its_form() {
        let secret = json!({
            "kind": "Secret",
            "data": {"a": "dDBw", "b": ["list-item", {"c": 4711}]},
            "stringdata": {"typo": "mistyped-field"},
            "stringData": {"q": "t0ps3cret", "longer": "t0ps3cret-and-more", "empty": ""},
        });
        let map = json!({"kind": "ConfigMap", "data": {"a": "open"}});
        let objects = [secret.as_object().unwrap(), map.as_object().unwrap()];
        for (message, expected) in [
            ("is dDBw, which is t0p", "is (hidden), which is (hidden)"),
            ("t0ps3cret-and-more, t0ps3cret", "(hidden), (hidden)"),
            (
                "expected string, got [list-item map[c:4711]]",
                "expected string, got [(hidden) map[c:(hidden)]]",
            ),
            ("mistyped-field", "(hidden)"),
            ("open", "open"),
        ] {
            let mut found = message.to_owned();
            hide(&mut found, objects);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn secrets_are_redacted_at_any_depth_and_nothing_else() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": "db", "annotations": {"copy": "is t0p!", "size": "3",
                "kubectl.kubernetes.io/last-applied-configuration": "anything"}},
            "data": {"a": "dDBw"}, "stringData": null});
        let redacted_secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": "db", "annotations": {"copy": "is (hidden)!", "size": "3"}},
            "data": {"a": "(hidden)"}, "stringData": null});
        let nested = |inner: &Value| {
            json!({"kind": "ManifestWork",
            "spec": {"workload": {"manifests": [
                inner, {"kind": "ConfigMap", "data": {"b": "c"}},
            ]}}})
        };
        for (object, expected) in
            [(secret.clone(), redacted_secret.clone()), (nested(&secret), nested(&redacted_secret))]
        {
            let found = redacted(object.as_object().unwrap()).unwrap();
            assert_eq!(Value::Object(found), expected);
        }
        let map = json!({"kind": "ConfigMap", "data": {"a": "open"}});
        assert_eq!(redacted(map.as_object().unwrap()), None);
        let mut message = "admission rejects t0p".to_owned();
        hide(&mut message, [nested(&secret).as_object().unwrap()]);
        assert_eq!(message, "admission rejects (hidden)");
    }
}
