//! Keeping the content of Secrets out of messages: API servers quote what they refuse.

use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Values nest no deeper in anything that was read as JSON.
const DEPTH_MAX: usize = 128;

/// Puts `(hidden)` in place of whatever the Secrets among `objects` hold.
pub fn hide<'a>(message: &mut String, objects: impl IntoIterator<Item = &'a Map<String, Value>>) {
    let mut texts = Vec::new();
    for object in objects.into_iter().filter(|object| is_secret(object)) {
        for field in ["data", "stringData"] {
            object.get(field).into_iter().for_each(|value| collect(value, DEPTH_MAX, &mut texts));
        }
    }
    // The longest first: the rest of one whose beginning is another's would stay.
    texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
    for text in texts.iter().filter(|text| !text.is_empty()) {
        if message.contains(text.as_str()) {
            *message = message.replace(text, "(hidden)");
        }
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
            ("open", "open"),
        ] {
            let mut found = message.to_owned();
            hide(&mut found, objects);
            assert_eq!(found, expected);
        }
    }
}
