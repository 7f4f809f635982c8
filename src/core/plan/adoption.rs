//! Which ManifestWorks of other owners a source adopts, and the changes of an adoption. Pure.
//!
//! Only an operator allows adoption, in the daemon's file or by a flag. A commit cannot.

use serde_json::Value;

use crate::plan::immutable::ImmutableChange;
use crate::plan::work_spec::WorkSpec;
use crate::text::diff;
use crate::text::escape::escape_untrusted;
use crate::text::style::ColorMode;

/// The changes of an adoption, for people: the settings of the work, and each object. `there` and
/// `wanted` are specs.
pub fn changes(there: Value, wanted: Value, style: ColorMode) -> String {
    let (before, mut before_objects) = split(there);
    let (after, after_objects) = split(wanted);
    let work = WorkSpec::of(after.clone());
    let mut out = String::new();
    write_changes(&mut out, "settings", &before, &after, style);
    for object in &after_objects {
        let name = name(object);
        let at = before_objects.iter().position(|other| self::name(other) == name);
        match at.map(|at| before_objects.swap_remove(at)) {
            Some(other) => {
                let immutable = ImmutableChange::in_work(&work, &other, object);
                let words =
                    immutable.map(|change| escape_untrusted(&format!(": {}", change.words())));
                let what = name + &words.unwrap_or_default();
                write_changes(&mut out, &what, &other, object, style);
            }
            None => out.push_str(&format!("{name}: new in this work\n")),
        }
    }
    for object in &before_objects {
        let name = name(object);
        out.push_str(&format!("{name}: no longer in this work; its agent deletes it\n"));
    }
    if out.is_empty() { "no changes but the owner\n".into() } else { out }
}

/// Writes the fields in which two values differ, if any.
fn write_changes(out: &mut String, what: &str, before: &Value, after: &Value, style: ColorMode) {
    let fields = diff::diff(before, after);
    if !fields.is_empty() {
        out.push_str(&format!("{what}\n"));
        fields.write_text(out, "    ", style);
    }
}

fn name(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let all = ["/kind", "/metadata/namespace", "/metadata/name"].map(text);
    escape_untrusted(&format!("{} {}/{}", all[0], all[1], all[2]))
}

/// A spec without its objects, and the objects.
fn split(mut spec: Value) -> (Value, Vec<Value>) {
    let objects = spec.pointer_mut("/workload/manifests").map(Value::take);
    (spec, objects.and_then(|all| all.as_array().cloned()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_adoption_prints_settings_and_objects_without_secrets() {
        let object = |kind: &str, name: &str, value: &str| {
            let metadata = json!({"namespace": "default", "name": name});
            json!({"kind": kind, "metadata": metadata, "data": {"a": value}})
        };
        let spec = |objects: Vec<Value>, policy: &str| {
            let delete_option = json!({"propagationPolicy": policy});
            json!({"workload": {"manifests": objects}, "deleteOption": delete_option})
        };
        let there = spec(
            vec![
                object("ConfigMap", "same", "1"),
                object("ConfigMap", "old", "1"),
                object("Secret", "key", "CANARY"),
            ],
            "Orphan",
        );
        let wanted = spec(
            vec![
                object("Secret", "key", "CANARIES"),
                object("ConfigMap", "same", "1"),
                object("ConfigMap", "new", "1"),
            ],
            "Foreground",
        );
        let text = changes(there.clone(), wanted, ColorMode::Plain);
        for line in [
            "settings\n",
            "Secret default/key\n",
            "ConfigMap default/new: new in this work\n",
            "ConfigMap default/old: no longer in this work; its agent deletes it\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("CANAR") && !text.contains("same"), "{text}");
        assert_eq!(changes(there.clone(), there, ColorMode::Plain), "no changes but the owner\n");
    }
}
