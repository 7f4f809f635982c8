//! What a diff never shows: the values of Secrets.

use serde_json::{Map, Value};

use crate::limits;
use crate::text::truncate::truncate_bytes;

/// kubectl keeps the whole object in it, the data of a Secret included.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What stands in place of a hidden value.
pub(super) const HIDDEN: &str = "(hidden)";

/// Whether an object is a Secret.
pub(super) fn is_secret(object: &Map<String, Value>) -> bool {
    object.get("kind").and_then(Value::as_str) == Some("Secret")
}

/// Whether the field `name` of an object holds what must not be shown.
pub(super) fn hides(secret: bool, name: &str) -> bool {
    name == LAST_APPLIED || (secret && matches!(name, "data" | "stringData"))
}

/// A value as a diff keeps it: without what Secrets in it hold, and cut where it is long.
pub(super) fn shown(value: &Value) -> Value {
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
