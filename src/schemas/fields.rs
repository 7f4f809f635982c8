//! Fields of a mapping, with a default in place of those of another type.

use serde_json::{Map, Value};

/// The text of a field; empty without one.
pub(crate) fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list; none without one.
pub(crate) fn items<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    fields.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
