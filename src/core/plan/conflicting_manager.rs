//! Who has changed a work of gitwork's on the hub, as far as the hub tells:
//! `metadata.managedFields`. Pure.
//!
//! The API server keeps there, for each field manager, which fields it set last and when
//! (Kubernetes: Server-Side Apply, "Field management"). Its times are in whole seconds, and do not
//! move where another manager takes a field away. Names and fields are whatever clients sent: they
//! are bounded and escaped here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::limits;
use crate::model::work::{MANAGER, OWN_ANNOTATIONS, OWN_LABELS};
use crate::text::escape::escape_untrusted;
use crate::text::truncate::truncate_chars;

/// The writer that changed or deleted a work of gitwork's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConflictingManager {
    /// A client of the API server.
    Manager {
        /// Its field manager.
        name: String,
        /// Some of the fields that it took over, as in `spec.workload.manifests`.
        fields: Vec<String>,
        /// How many more these are.
        more: usize,
    },
    /// Another gitwork that writes works of the same source id.
    Gitwork,
    /// A client that deletes it: no object is left that names it.
    Deleter,
    /// Unknown: a writer that removes a field and sets none leaves no trace.
    Unknown,
}

impl ConflictingManager {
    /// Who has changed the work since gitwork last wrote it. `labels` and `annotations` are those
    /// that a user set through Git, which count like gitwork's own; what else there is in the
    /// metadata is no business of ours.
    pub fn of(metadata: &Value, labels: &BTreeSet<String>, annotations: &BTreeSet<String>) -> Self {
        let all = metadata.get("managedFields").and_then(Value::as_array);
        let entries: Vec<Entry> = all
            .into_iter()
            .flatten()
            .take(limits::MANAGED_FIELDS_ENTRIES_MAX)
            .filter_map(|entry| Entry::of(entry, labels, annotations))
            .collect();
        let (ours, others): (Vec<&Entry>, Vec<&Entry>) =
            entries.iter().partition(|entry| entry.manager == MANAGER);
        // Who has not touched the work since gitwork wrote it did not undo that.
        let since = ours.iter().map(|entry| entry.time).max().unwrap_or_default();
        let shared: BTreeSet<&String> = ours.iter().flat_map(|entry| &entry.fields).collect();
        let taken = others.into_iter().filter(|entry| entry.time >= since).filter_map(|entry| {
            let fields: Vec<&String> =
                entry.fields.iter().filter(|field| !shared.contains(field)).collect();
            (!fields.is_empty()).then_some((entry, fields))
        });
        let Some((entry, fields)) = taken.max_by_key(|(entry, _)| entry.time) else {
            return Self::Unknown;
        };
        let some = fields.iter().take(limits::MANAGER_FIELDS_MAX);
        Self::Manager {
            name: bounded(entry.manager),
            more: fields.len().saturating_sub(limits::MANAGER_FIELDS_MAX),
            fields: some.map(|field| (*field).clone()).collect(),
        }
    }
}

impl fmt::Display for ConflictingManager {
    /// As the subject of a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manager { name, fields, more } => {
                write!(f, "the field manager {name:?} ({}", fields.join(", "))?;
                if *more > 0 {
                    write!(f, " and {more} more")?;
                }
                f.write_str(")")
            }
            Self::Gitwork => f.write_str("another gitwork with this source id"),
            Self::Deleter => f.write_str("a client that deletes it"),
            Self::Unknown => f.write_str("a writer that metadata.managedFields does not name"),
        }
    }
}

/// One manager's fields, as far as they are gitwork's business.
struct Entry<'a> {
    manager: &'a str,
    /// RFC 3339 in UTC and whole seconds, as Kubernetes writes it, so that the order of texts is
    /// that of times.
    time: &'a str,
    fields: BTreeSet<String>,
}

impl<'a> Entry<'a> {
    fn of(
        entry: &'a Value,
        labels: &BTreeSet<String>,
        annotations: &BTreeSet<String>,
    ) -> Option<Self> {
        let text = |name| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        // The agent's status.
        if !text("subresource").is_empty() {
            return None;
        }
        let root = entry.get("fieldsV1")?;
        let mut fields = BTreeSet::new();
        if let Some(spec) = root.get("f:spec") {
            walk(spec, "spec", &mut fields, 0);
        }
        let maps: BTreeMap<&str, (&[&str], &BTreeSet<String>)> = BTreeMap::from([
            ("labels", (OWN_LABELS.as_slice(), labels)),
            ("annotations", (OWN_ANNOTATIONS.as_slice(), annotations)),
        ]);
        for (map, (own, users)) in maps {
            let set = root.get("f:metadata").and_then(|metadata| metadata.get(format!("f:{map}")));
            let keys = set.and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key);
            let keys = keys.filter_map(|key| key.strip_prefix("f:"));
            for key in keys.filter(|key| own.contains(key) || users.contains(*key)) {
                fields.insert(bounded(&format!("metadata.{map}[{key}]")));
            }
        }
        Some(Self { manager: text("manager"), time: text("time"), fields })
    }
}

/// Adds the leaves of a `fieldsV1` tree: `f:` a field, `k:` an item by its keys, `v:` by its value,
/// `i:` by its place.
fn walk(node: &Value, path: &str, found: &mut BTreeSet<String>, depth: usize) {
    if found.len() >= limits::MANAGED_FIELDS_MAX {
        return;
    }
    let children = node.as_object().into_iter().flatten();
    let mut is_leaf = true;
    for (key, child) in children.filter(|(key, _)| *key != ".") {
        is_leaf = false;
        let next = match key.split_once(':') {
            Some(("f", name)) => format!("{path}.{name}"),
            Some((_, item)) => format!("{path}[{item}]"),
            None => continue,
        };
        if depth < limits::MANAGED_FIELDS_DEPTH_MAX && next.len() <= limits::MANAGER_CHARS_MAX {
            walk(child, &next, found, depth + 1);
        } else {
            found.insert(bounded(&next));
        }
    }
    if is_leaf {
        found.insert(bounded(path));
    }
}

/// Text of a client, escaped and shortened.
fn bounded(text: &str) -> String {
    escape_untrusted(&truncate_chars(text, limits::MANAGER_CHARS_MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, time: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": "Update", "time": time, "fieldsV1": fields})
    }

    fn conflict(entries: &Value) -> String {
        let team = ["team".to_owned()].into();
        ConflictingManager::of(&json!({"managedFields": entries}), &team, &BTreeSet::new())
            .to_string()
    }

    const BEFORE: &str = "2026-01-01T00:00:00Z";
    const LATER: &str = "2026-01-01T00:00:09Z";

    #[test]
    fn the_manager_that_took_a_field_of_ours_since_our_write_is_named() {
        let ours = |time| entry("gitwork", time, &json!({"f:spec": {"f:executor": {}}}));
        let manifests = json!({"f:spec": {".": {}, "f:workload": {"f:manifests": {}}}});
        let unknown = "a writer that metadata.managedFields does not name";
        for (entries, expected) in [
            (
                json!([ours(BEFORE), entry("argocd", LATER, &manifests)]),
                "the field manager \"argocd\" (spec.workload.manifests)",
            ),
            // In the same second.
            (
                json!([entry("argocd", LATER, &manifests), ours(LATER)]),
                "the field manager \"argocd\" (spec.workload.manifests)",
            ),
            // Who had it before it was adopted.
            (json!([entry("kubectl", BEFORE, &manifests), ours(LATER)]), unknown),
            // The newest counts.
            (
                json!([
                    ours(BEFORE),
                    entry(
                        "b",
                        LATER,
                        &json!({"f:metadata": {"f:labels": {"f:team": {}, "f:foreign": {}}}})
                    ),
                    entry("a", BEFORE, &manifests),
                ]),
                "the field manager \"b\" (metadata.labels[team])",
            ),
            // Server-side apply shares a field that it does not change.
            (
                json!([ours(BEFORE), entry("flux", LATER, &json!({"f:spec": {"f:executor": {}}}))]),
                unknown,
            ),
            // What is not ours to put back.
            (
                json!([
                    ours(BEFORE),
                    entry("x", LATER, &json!({"f:metadata": {"f:labels": {"f:foreign": {}}}}))
                ]),
                unknown,
            ),
            (
                json!([{
                    "manager": "agent", "subresource": "status", "time": LATER,
                    "fieldsV1": manifests,
                }]),
                unknown,
            ),
            (json!([]), unknown),
            (Value::Null, unknown),
        ] {
            assert_eq!(conflict(&entries), expected, "{entries}");
        }
    }

    #[test]
    fn fields_are_listed_as_paths_up_to_a_bound() {
        let keys: serde_json::Map<String, Value> =
            (0..9).map(|n| (format!("f:field{n}"), json!({}))).collect();
        assert_eq!(
            conflict(&json!([entry("x", LATER, &json!({"f:spec": keys}))])),
            "the field manager \"x\" \
             (spec.field0, spec.field1, spec.field2, spec.field3 and 5 more)"
        );
        let configs = json!({"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}});
        let items = json!({"f:spec": {"f:manifestConfigs": configs}});
        assert_eq!(
            conflict(&json!([entry("x", LATER, &items)])),
            "the field manager \"x\" (spec.manifestConfigs[{\"name\":\"a\"}].name)"
        );
    }

    #[test]
    fn hostile_managed_fields_stay_small_and_escaped() {
        let mut deep = json!({});
        for _ in 0..100 {
            deep = json!({"f:a": deep});
        }
        let many: serde_json::Map<String, Value> =
            (0..50_000).map(|n| (format!("f:{n}"), json!({}))).collect();
        let long = format!("f:{}", "x".repeat(100_000));
        for fields in [
            json!({"f:spec": deep}),
            json!({"f:spec": many}),
            json!({"f:spec": {(long): {}}}),
            json!({"f:spec": {"no colon": {}, "f:\u{1b}[2J": {}}}),
            json!({"f:spec": 7}),
            json!({"f:metadata": {"f:labels": 7}, "f:spec": []}),
        ] {
            let name = format!("\u{1b}]0;evil\u{7}\u{202e}{}", "y".repeat(100_000));
            let text = conflict(&json!([entry(&name, LATER, &fields)]));
            assert!(text.len() < 2_000, "{}", text.len());
            assert_eq!(escape_untrusted(&text), text);
        }
        let entries: Vec<Value> = (0..10_000).map(|_| json!({"manager": []})).collect();
        assert!(conflict(&json!(entries)).starts_with("a writer"));
    }
}
