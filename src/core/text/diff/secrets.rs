//! What a diff never shows: the values of Secrets.

use serde_json::{Map, Value};

use crate::limits;
use crate::text::truncate::truncate_bytes;

/// kubectl keeps the whole object in it, the data of a Secret included.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What stands in place of a hidden value.
pub(super) const HIDDEN: &str = "(hidden)";

/// Whether an object is a Secret.
fn is_secret(object: &Map<String, Value>) -> bool {
    object.get("kind").and_then(Value::as_str) == Some("Secret")
}

/// Fields of a Secret that hold no data. A field with a typing error may hold some.
const OPEN_FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "type", "immutable"];

/// Whether the field `name` of an object holds what must not be shown. `states`: the object before
/// and after.
pub(super) fn hides(states: &[&Map<String, Value>], name: &str) -> bool {
    if name == LAST_APPLIED {
        return true;
    }
    let secrets = || states.iter().filter(|state| is_secret(state));
    // A reference to a Secret has its kind, but no metadata.
    let is_object = secrets().any(|state| state.contains_key("metadata"));
    let is_data = matches!(name, "data" | "stringData");
    secrets().next().is_some() && (is_data || (is_object && !OPEN_FIELDS.contains(&name)))
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
            let shown = fields.iter().map(|(name, field)| {
                let hidden = match field {
                    Value::Object(data) if hides(&[fields], name) => {
                        data.keys().map(|key| (key.clone(), HIDDEN)).collect()
                    }
                    _ if hides(&[fields], name) => HIDDEN.into(),
                    _ => without_secrets(field),
                };
                (name.clone(), hidden)
            });
            Value::Object(shown.collect())
        }
        other => other.clone(),
    }
}
