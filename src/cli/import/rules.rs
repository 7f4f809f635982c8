//! `manifestConfigs` of a ManifestWork: what OCM's agent makes of them for each object.

use serde_json::{Map, Value};

use gitwork_core::config::RULE_FIELDS;
use gitwork_core::config::ocm_rules::wildcard;
use gitwork_core::model::manifest::Identity;

/// The field that the last matching entry sets. The others are of the first one that has them.
const LAST_COUNTS: &str = "feedbackScrapeType";

/// The rules of a work, divided among its files.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ImportedRules {
    /// The fields of the sidecar of each object, in the order of the objects.
    pub sidecars: Vec<Map<String, Value>>,
    /// Entries with wildcards, for work.yaml.
    pub entries: Vec<Value>,
    /// The entries that are for no object, by their identifier.
    pub unused: Vec<String>,
}

impl ImportedRules {
    /// Divides the entries of a work with these objects.
    ///
    /// Entries with wildcards stay as they are if no object has more than one entry. Otherwise
    /// each object gets what the agent takes for it: agents and gitwork combine entries
    /// differently.
    pub fn of(entries: &[Value], objects: &[Identity]) -> Self {
        let entries: Vec<Value> = entries.iter().map(without_empty_fields).collect();
        let matching =
            |identity: &Identity| entries.iter().filter(|entry| is_about(entry, identity)).count();
        let is_plain = objects.iter().all(|identity| matching(identity) <= 1);
        let mut rules = Self::default();
        let mut exact = Vec::new();
        for entry in &entries {
            if !objects.iter().any(|identity| is_about(entry, identity)) {
                let identity = Identity::of_value(entry.get("resourceIdentifier"));
                rules.unused.push(format!("the rules for {identity}, which is no object of it"));
            } else if is_plain && has_wildcard(entry) {
                rules.entries.push(entry.clone());
            } else {
                exact.push(entry.clone());
            }
        }
        rules.sidecars = objects.iter().map(|identity| effective(&exact, identity)).collect();
        rules
    }
}

fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    let field = entry.get("resourceIdentifier").and_then(|identifier| identifier.get(field));
    field.and_then(Value::as_str).unwrap_or_default()
}

fn has_wildcard(entry: &Value) -> bool {
    ["namespace", "name"].iter().any(|field| text(entry, field).contains('*'))
}

/// Whether an entry is for an object (OCM work agent, `FindManifestConfiguration`).
fn is_about(entry: &Value, identity: &Identity) -> bool {
    text(entry, "group") == identity.group
        && text(entry, "resource") == identity.resource
        && wildcard(text(entry, "namespace"), &identity.namespace)
        && wildcard(text(entry, "name"), &identity.name)
}

/// Whether a field counts as not set. An empty `updateStrategy` is one: that of type `Update`.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn without_empty_fields(entry: &Value) -> Value {
    let mut entry = entry.clone();
    if let Value::Object(fields) = &mut entry {
        fields.retain(|_, value| !is_empty(value));
    }
    entry
}

/// What the agent takes for an object: each field from the first matching entry that has it, but
/// `feedbackScrapeType` from the last one.
pub(super) fn effective(entries: &[Value], identity: &Identity) -> Map<String, Value> {
    let mut found = Map::new();
    for entry in entries.iter().filter(|entry| is_about(entry, identity)) {
        for field in RULE_FIELDS {
            let Some(value) = entry.get(field).filter(|value| !is_empty(value)) else { continue };
            if field == LAST_COUNTS || !found.contains_key(field) {
                found.insert(field.to_owned(), value.clone());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str) -> Identity {
        let (group, resource, namespace) = (String::new(), "pods".into(), "a".into());
        Identity { group, resource, namespace, name: name.into() }
    }

    fn entry(name: &str, fields: Value) -> Value {
        let mut entry = fields;
        entry["resourceIdentifier"] = json!({"resource": "pods", "namespace": "a", "name": name});
        entry
    }

    #[test]
    fn entries_with_wildcards_stay_if_no_object_has_two() {
        let strategy = json!({"updateStrategy": {"type": "ReadOnly"}});
        let entries = [
            entry("web-*", strategy.clone()),
            entry("db", json!({"feedbackScrapeType": "Watch", "feedbackRules": []})),
            entry("gone", strategy),
        ];
        let rules = ImportedRules::of(&entries, &[object("web-1"), object("db")]);
        assert_eq!(rules.entries, [entries[0].clone()]);
        assert_eq!(Value::from(rules.sidecars[0].clone()), json!({}));
        assert_eq!(Value::from(rules.sidecars[1].clone()), json!({"feedbackScrapeType": "Watch"}));
        assert_eq!(
            rules.unused,
            ["the rules for pods/gone in namespace a, which is no object of \
            it"]
        );
    }

    #[test]
    fn first_entry_counts_for_rules_and_last_one_for_the_scrape_type() {
        let both = [
            entry("*", json!({"updateStrategy": {"type": "A"}, "feedbackScrapeType": "Poll"})),
            entry("web", json!({"updateStrategy": {"type": "B"}, "feedbackScrapeType": "Watch"})),
        ];
        let rules = ImportedRules::of(&both, &[object("web")]);
        assert_eq!(rules.entries, Vec::<Value>::new());
        let expected = json!({"updateStrategy": {"type": "A"}, "feedbackScrapeType": "Watch"});
        assert_eq!(Value::from(rules.sidecars[0].clone()), expected);
    }
}
