//! Reading and editing Kubernetes objects as JSON: what an API server sends is never trusted to
//! have a shape.

use serde_json::{Map, Value};

/// A JSON object: a whole Kubernetes object, or its metadata.
pub type Object = Map<String, Value>;

/// The string at a dotted place, or an empty one.
pub fn text<'a>(object: &'a Object, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The value at a place.
pub fn at<'a>(object: &'a Object, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, key| value.get(key))
}

/// The string of a metadata field, or an empty one.
pub fn meta<'a>(object: &'a Object, field: &str) -> &'a str {
    text(object, &["metadata", field])
}

/// A list, or an empty one.
pub fn list<'a>(object: &'a Object, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether somebody has asked for the object to be deleted.
pub fn is_deleting(object: &Object) -> bool {
    !meta(object, "deletionTimestamp").is_empty()
}

/// Changes the metadata, which is made where it is missing.
pub fn edit_metadata(object: &mut Object, edit: impl FnOnce(&mut Object)) {
    let mut metadata = match object.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Object::new(),
    };
    edit(&mut metadata);
    object.insert("metadata".into(), Value::Object(metadata));
}

/// `group` and `version` of an apiVersion: the core group is "".
pub fn group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Go's print form of a GVK, as upstream's messages have it.
pub fn gvk(object: &Object) -> String {
    let (group, version) = group_version(text(object, &["apiVersion"]));
    format!("{group}/{version}, Kind={}", text(object, &["kind"]))
}

/// Drops nulls and empty lists: Go's semantic comparison of typed objects sees no difference
/// between them and nothing. Empty maps stay, as a selector that is there and empty selects
/// everything.
pub fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .filter(|(_, value)| !is_empty(value))
                .map(|(key, value)| (key.clone(), without_empty(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_empty).collect()),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// Whether two fields mean the same to Go's semantic comparison of typed objects.
pub fn same_meaning(one: Option<&Value>, other: Option<&Value>) -> bool {
    let plain = |value: Option<&Value>| {
        value.filter(|value| !is_empty(value)).map_or(Value::Null, without_empty)
    };
    plain(one) == plain(other)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// The fields of a JSON object.
    pub(crate) fn object(value: Value) -> Object {
        match value {
            Value::Object(fields) => fields,
            other => panic!("not an object: {other}"),
        }
    }

    #[test]
    fn meaning() {
        for (one, other, same) in [
            (json!({"a": []}), json!({}), true),
            (json!({"a": null, "b": [1]}), json!({"b": [1]}), true),
            (json!({"from": [{"podSelector": {}}]}), json!({"from": [{}]}), false),
            (json!([]), Value::Null, true),
        ] {
            assert_eq!(same_meaning(Some(&one), Some(&other)), same, "{one} {other}");
        }
        assert!(same_meaning(None, Some(&json!([]))));
    }

    #[test]
    fn places() {
        let pod = object(json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}));
        assert_eq!(meta(&pod, "name"), "a");
        assert_eq!(meta(&pod, "uid"), "");
        assert_eq!(text(&object(json!({"metadata": "odd"})), &["metadata", "name"]), "");
        assert_eq!(gvk(&pod), "/v1, Kind=Pod");
        assert!(list(&pod, &["metadata", "finalizers"]).is_empty());
    }
}
