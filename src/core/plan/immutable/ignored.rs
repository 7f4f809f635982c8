//! The fields that an agent leaves as they are on the cluster, taken out of a manifest.

use gitwork_api::escape::pointer_name;
use gitwork_rules::jq;
use gitwork_rules::jsonpath::FieldRemoval;
use serde_json::Value;

/// Work of all jq expressions of one object.
const JQ_WORK_MAX: usize = 100_000;

/// A manifest without the fields of these `ignoreFields`; `None` if that cannot be known.
pub(super) fn without(ignored: &[Value], manifest: &Value) -> Option<Value> {
    let (mut manifest, mut work) = (manifest.clone(), JQ_WORK_MAX);
    for entry in ignored {
        for path in texts(entry, "jsonPaths") {
            FieldRemoval::parse(path?).ok()?.remove(&mut manifest).ok()?;
        }
        for pointer in texts(entry, "jsonPointers") {
            remove_field(&mut manifest, pointer?)?;
        }
        for expression in texts(entry, "jqPathExpressions") {
            manifest = jq::delete_within(expression?, manifest, &mut work).ok()?;
        }
    }
    Some(manifest)
}

fn texts<'a>(entry: &'a Value, field: &str) -> impl Iterator<Item = Option<&'a str>> {
    let all = entry.get(field).and_then(Value::as_array);
    all.into_iter().flatten().map(Value::as_str)
}

/// Removes the field at a JSON pointer; `None` if it is no field of a mapping.
fn remove_field(manifest: &mut Value, pointer: &str) -> Option<()> {
    let (parent, name) = pointer.rsplit_once('/')?;
    match manifest.pointer_mut(parent) {
        None => {}
        Some(Value::Object(fields)) => drop(fields.remove(&*pointer_name(name))),
        Some(_) => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_each_kind_of_path_are_taken_out() {
        let manifest = json!({"metadata": {"annotations": {"a/b": "1", "c": "2"}},
            "spec": {"replicas": 3, "selector": {"app": "web"}, "items": [{"name": "x", "v": 1}]}});
        let ignored = [
            json!({"condition": "OnSpokePresent", "jsonPaths": [".spec.replicas"]}),
            json!({"jsonPointers": ["/metadata/annotations/a~1b", "/no/such"],
                "jqPathExpressions": [".spec.items[] | select(.name == \"x\") | .v"]}),
        ];
        let expected = json!({"metadata": {"annotations": {"c": "2"}},
            "spec": {"selector": {"app": "web"}, "items": [{"name": "x"}]}});
        assert_eq!(without(&ignored, &manifest), Some(expected));
        assert_eq!(without(&[], &manifest), Some(manifest.clone()));
        for unknown in [
            json!({"jsonPaths": [7]}),
            json!({"jsonPointers": ["/spec/items/0"]}),
            json!({"jqPathExpressions": [".spec.replicas + 1"]}),
        ] {
            assert_eq!(without(&[unknown], &manifest), None);
        }
    }
}
