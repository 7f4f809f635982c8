//! JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386), as far as gitwork's own requests need
//! them.

use serde_json::{Map, Value};

/// Applies the operations `add`, `replace` and `remove` on members of objects.
pub fn json_patch(object: &mut Value, operations: &Value) -> Result<(), String> {
    for operation in operations.as_array().ok_or("a JSON Patch is a list")? {
        let text = |field: &str| operation.get(field).and_then(Value::as_str).unwrap_or_default();
        let (parent, key) = text("path").rsplit_once('/').ok_or("a path is absolute")?;
        let key = key.replace("~1", "/").replace("~0", "~");
        let parent: &mut Map<String, Value> = object
            .pointer_mut(parent)
            .and_then(Value::as_object_mut)
            .ok_or_else(|| format!("there is no object at {parent:?}"))?;
        let value = || operation.get("value").cloned().ok_or("an operation lacks its value");
        match text("op") {
            "add" => drop(parent.insert(key, value()?)),
            "replace" if parent.contains_key(&key) => drop(parent.insert(key, value()?)),
            "remove" if parent.contains_key(&key) => drop(parent.remove(&key)),
            op => return Err(format!("cannot {op} {key:?}")),
        }
    }
    Ok(())
}

/// Members of `patch` replace those of `target`; null removes.
pub fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(key);
        } else {
            merge_patch(fields.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
