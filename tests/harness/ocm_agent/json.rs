//! Objects as JSON.

use serde_json::{Map, Value, json};

/// The text at a JSON Pointer; empty if there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The list at a JSON Pointer; empty if there is none.
pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}

pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    list(object, "/metadata/finalizers").iter().any(|one| one == finalizer)
}

/// Sets or, with null, removes a field of the metadata.
pub fn set_metadata(object: &mut Value, field: &str, value: Value) {
    let metadata = object.as_object_mut().unwrap().entry("metadata").or_insert(json!({}));
    let metadata = metadata.as_object_mut().unwrap();
    match value {
        Value::Null => drop(metadata.remove(field)),
        value => drop(metadata.insert(field.to_owned(), value)),
    }
}

/// The JSON merge patch (RFC 7386) that makes one value of another. Lists are replaced as a whole.
pub fn merge_patch(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(before) => drop(patch.insert(key.clone(), merge_patch(before, value))),
            None => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}
