//! `ignoreFields` of server-side apply: which fields are left out, and the hash by which it is
//! known that nothing else has changed.

use std::fmt::Write;

use gitwork_api::work::IgnoreField;
use md5::{Digest, Md5};
use serde_json::Value;

use super::identity::SPEC_HASH_ANNOTATION;
use super::object::{Object, edit_metadata};
pub use gitwork_rules::ignored_fields::IgnoreError;
use gitwork_rules::ignored_fields::without;
use gitwork_rules::jq::{self, JqError};

/// What server-side apply is to send, where some fields are ignored.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedManifest {
    /// The whole manifest, for an object that is not there yet.
    pub original: Object,
    /// The manifest without the ignored fields.
    pub reduced: Object,
    /// On a live object with this hash, nothing is applied.
    pub hash: String,
}

/// Takes the ignored fields out. Both forms carry the hash as an annotation.
pub fn ignore(manifest: &Object, rules: &[IgnoreField]) -> Result<PreparedManifest, IgnoreError> {
    let value = without(Value::Object(manifest.clone()), rules, jq::delete)?;
    let Value::Object(mut reduced) = value else {
        return Err(IgnoreError::Jq { expression: String::new(), problem: JqError::NotAnObject });
    };
    let hash = hex::encode(Md5::digest(go_print(&reduced).as_bytes()));
    let mut original = manifest.clone();
    for object in [&mut original, &mut reduced] {
        edit_metadata(object, |metadata| {
            let mut annotations = match metadata.remove("annotations") {
                Some(Value::Object(annotations)) => annotations,
                _ => Object::new(),
            };
            annotations.insert(SPEC_HASH_ANNOTATION.into(), hash.clone().into());
            metadata.insert("annotations".into(), Value::Object(annotations));
        });
    }
    Ok(PreparedManifest { original, reduced, hash })
}

/// Drops `metadata.creationTimestamp` where it is null, at any depth: a nested ManifestWork would
/// otherwise get a new generation with each apply.
pub fn drop_null_creation_timestamps(object: &mut Object) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata")
        && metadata.get("creationTimestamp").is_some_and(Value::is_null)
    {
        metadata.remove("creationTimestamp");
    }
    for value in object.values_mut() {
        visit(value);
    }
    fn visit(value: &mut Value) {
        match value {
            Value::Object(fields) => drop_null_creation_timestamps(fields),
            Value::Array(items) => items.iter_mut().for_each(visit),
            _ => {}
        }
    }
}

/// Go's `%v` of an unstructured object, over which upstream takes its hash.
fn go_print(object: &Object) -> String {
    let mut text = String::from("&{");
    print_map(object, &mut text);
    text.push('}');
    text
}

fn print_map(fields: &Object, text: &mut String) {
    text.push_str("map[");
    let mut first = true;
    for (key, value) in fields {
        if !std::mem::take(&mut first) {
            text.push(' ');
        }
        text.push_str(key);
        text.push(':');
        print_value(value, text);
    }
    text.push(']');
}

fn print_value(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("<nil>"),
        Value::String(string) => text.push_str(string),
        Value::Bool(flag) => {
            let _infallible = write!(text, "{flag}");
        }
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => {
                let _infallible = write!(text, "{integer}");
            }
            (None, Some(float)) => text.push_str(&go_float(float)),
            _ => {}
        },
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(' ');
                }
                print_value(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => print_map(fields, text),
    }
}

/// Go's `%v` of a float: shortest form, with an exponent of at least two digits below 1e-4 and from
/// 1e21 on.
fn go_float(float: f64) -> String {
    let size = float.abs();
    if float == 0.0 || (1e-4..1e21).contains(&size) {
        return format!("{float}");
    }
    let text = format!("{float:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("+", exponent), |rest| ("-", rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::object::tests::object;
    use super::*;

    fn rule(condition: &str, field: &str, path: &str) -> IgnoreField {
        serde_json::from_value(json!({"condition": condition, field: [path]})).unwrap()
    }

    #[test]
    fn hash_without_ignored_fields_is_that_of_ocms_agent() {
        let manifest = object(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "test", "namespace": "default"},
            "data": {"foo1": "bar1", "foo2": "x"}}));
        let ignored =
            ignore(&manifest, &[rule("OnSpokePresent", "jsonPaths", ".data.foo2")]).unwrap();
        assert_eq!(ignored.hash, "4c07ba481d04e9c38e5ed3bf24139537");
        assert_eq!(ignored.reduced["data"], json!({"foo1": "bar1"}));
        assert_eq!(ignored.original["data"], json!({"foo1": "bar1", "foo2": "x"}));
        assert_eq!(ignored.original["metadata"]["annotations"][SPEC_HASH_ANNOTATION], ignored.hash);
        let changed =
            ignore(&manifest, &[rule("OnSpokeChange", "jsonPaths", ".data.foo2")]).unwrap();
        assert_ne!(changed.hash, ignored.hash, "such fields stay in");
    }

    #[test]
    fn fields_are_taken_out() {
        let manifest = json!({"metadata": {"name": "a"},
            "spec": {"replicas": 1, "list": [{"a": 1, "b": 2}, {"a": 3}], "x/y": 1}});
        for (field, path, spec) in [
            (
                "jsonPaths",
                ".spec.replicas",
                json!({"list": [{"a": 1, "b": 2}, {"a": 3}], "x/y": 1}),
            ),
            (
                "jsonPaths",
                ".spec.list[*].a",
                json!({"list": [{"b": 2}, {}], "replicas": 1, "x/y": 1}),
            ),
            ("jsonPaths", ".spec.missing.a", manifest["spec"].clone()),
            ("jsonPaths", ".spec.list[0]", manifest["spec"].clone()),
            (
                "jsonPointers",
                "/spec/x~1y",
                json!({"list": [{"a": 1, "b": 2}, {"a": 3}], "replicas": 1}),
            ),
            (
                "jsonPointers",
                "/spec/list/1",
                json!({"list": [{"a": 1, "b": 2}], "replicas": 1, "x/y": 1}),
            ),
            ("jsonPointers", "/none/at/all", manifest["spec"].clone()),
        ] {
            let ignored =
                ignore(&object(manifest.clone()), &[rule("OnSpokePresent", field, path)]).unwrap();
            assert_eq!(ignored.reduced["spec"], spec, "{path}");
        }
        for pointer in ["spec", "spec/x", "/spec/list/x"] {
            let error = ignore(
                &object(manifest.clone()),
                &[rule("OnSpokePresent", "jsonPointers", pointer)],
            );
            assert!(
                error
                    .unwrap_err()
                    .to_string()
                    .starts_with(&format!("JSON Pointer error in '{pointer}': "))
            );
        }
    }

    #[test]
    fn go_prints() {
        let all =
            object(json!({"b": [1, "x", null, true], "a": {}, "c": 1.5, "d": 1e21, "e": 0.00001}));
        assert_eq!(go_print(&all), "&{map[a:map[] b:[1 x <nil> true] c:1.5 d:1e+21 e:1e-05]}");
    }

    #[test]
    fn null_creation_timestamps_are_removed_at_any_depth() {
        let mut work = object(
            json!({"metadata": {"creationTimestamp": null, "name": "a"}, "spec": {"workload":
            {"manifests": [{"metadata": {"creationTimestamp": null}}, {"spec": {"template":
                {"metadata": {"creationTimestamp": null, "x": 1}}}}]}}}),
        );
        drop_null_creation_timestamps(&mut work);
        assert_eq!(
            Value::Object(work),
            json!({"metadata": {"name": "a"}, "spec": {"workload":
            {"manifests": [{"metadata": {}}, {"spec": {"template": {"metadata": {"x": 1}}}}]}}})
        );
    }
}
