//! Reads fields of JSON values by constant paths.

use serde_json::Value;

/// The field at a JSON pointer that has no escapes and no list on its way. `Value::pointer` would
/// allocate twice for each name, which counts with many small objects.
pub(crate) fn value_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(value, |value, name| value.get(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_found_as_by_a_json_pointer() {
        let value = json!({"metadata": {"name": "web"}, "kind": "Pod", "items": [1]});
        for pointer in
            ["", "/kind", "/metadata/name", "/metadata", "/metadata/x", "/kind/name", "/x/y"]
        {
            assert_eq!(value_at(&value, pointer), value.pointer(pointer), "{pointer}");
        }
    }
}
