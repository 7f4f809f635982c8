//! Which ManifestWorks of others a source takes over, and what a take-over changes. Pure.
//!
//! Only an operator says which, in the daemon's file or by a flag: no commit gives itself the right to somebody's work.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::diff;
use super::report::{Style, harmless};

/// Which ManifestWorks of others a source takes over where it wants their names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Adoption {
    /// None, whatever is annotated.
    Never,
    /// Those whose owner consents by the annotation `gitwork.dev/adopt`.
    #[default]
    Annotated,
    /// These, and those that nobody owns and whose spec is already what Git wants.
    Unowned,
}

impl Adoption {
    pub const ALL: [(Adoption, &'static str); 3] =
        [(Self::Never, "never"), (Self::Annotated, "annotated"), (Self::Unowned, "unowned")];
}

/// What a take-over changes for people: the settings of the work, and each object. `there` and `wanted` are specs.
pub fn changes(there: Value, wanted: Value, style: Style) -> String {
    let (before, mut before_objects) = split(there);
    let (after, after_objects) = split(wanted);
    let mut out = String::new();
    tell(&mut out, "settings", &before, &after, style);
    for object in &after_objects {
        let name = name(object);
        let at = before_objects.iter().position(|other| self::name(other) == name);
        match at.map(|at| before_objects.swap_remove(at)) {
            Some(other) => tell(&mut out, &name, &other, object, style),
            None => out.push_str(&format!("{name}: new in this work\n")),
        }
    }
    for object in &before_objects {
        let name = name(object);
        out.push_str(&format!("{name}: no more in this work, so that its agent deletes it\n"));
    }
    if out.is_empty() { "no changes but the owner\n".into() } else { out }
}

/// The fields in which two values differ, where they do.
fn tell(out: &mut String, what: &str, before: &Value, after: &Value, style: Style) {
    let fields = diff::diff(before, after);
    if !fields.is_empty() {
        out.push_str(&format!("{what}\n"));
        fields.write_text(out, "    ", style);
    }
}

fn name(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let all = ["/kind", "/metadata/namespace", "/metadata/name"].map(text);
    harmless(&format!("{} {}/{}", all[0], all[1], all[2]))
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
    fn a_take_over_tells_settings_objects_and_no_secrets() {
        let object = |kind: &str, name: &str, value: &str| json!({"kind": kind, "metadata": {"namespace": "default", "name": name}, "data": {"a": value}});
        let spec = |objects: Vec<Value>, policy: &str| json!({"workload": {"manifests": objects}, "deleteOption": {"propagationPolicy": policy}});
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
        let told = changes(there.clone(), wanted, Style::Plain);
        for line in [
            "settings\n",
            "Secret default/key\n",
            "ConfigMap default/new: new in this work\n",
            "ConfigMap default/old: no more in this work, so that its agent deletes it\n",
        ] {
            assert!(told.contains(line), "{told}");
        }
        assert!(!told.contains("CANAR") && !told.contains("same"), "{told}");
        assert_eq!(changes(there.clone(), there, Style::Plain), "no changes but the owner\n");
    }
}
