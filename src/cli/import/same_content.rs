//! Whether two specs of a ManifestWork mean the same to an agent.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::plurals::Plurals;
use super::rules::effective;
use gitwork_core::model::defaults::without_defaults;
use gitwork_core::model::digest::Digest;
use gitwork_core::model::manifest::Identity;
use gitwork_core::model::work::DeletionPolicy;
use gitwork_core::model::work_digest;
use gitwork_core::plan::adoption;
use gitwork_core::text::style::ColorMode;

/// What an agent takes from a spec. The order of objects and of entries does not count.
#[derive(Debug, PartialEq)]
struct SpecContent {
    /// Each object with its rules.
    objects: BTreeMap<Identity, (Digest, Value)>,
    /// The number of objects: two of one name are an error of gitwork and of the hub.
    count: usize,
    deletion: DeletionPolicy,
    /// All other fields of the spec.
    rest: Value,
}

impl SpecContent {
    fn of(spec: &Value, plurals: &Plurals) -> Self {
        let mut rest = without_defaults(spec.clone());
        let manifests = rest.pointer_mut("/workload/manifests").map(Value::take);
        let manifests = manifests.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
        rest.get_mut("manifestConfigs").into_iter().for_each(|field| *field = Value::Null);
        // With their defaults: a strategy of the default type counts, too.
        let entries = spec.get("manifestConfigs").and_then(Value::as_array);
        let entries = entries.map_or(&[][..], Vec::as_slice);
        let deletion = DeletionPolicy::from_value(spec.get("deleteOption").unwrap_or(&Value::Null));
        if let Some(Value::Object(option)) = rest.get_mut("deleteOption") {
            option.remove("propagationPolicy");
            option.remove("selectivelyOrphans");
        }
        let objects = manifests.iter().map(|manifest| {
            let identity = plurals.identity(manifest);
            let rules = rules_without_defaults(effective(entries, &identity));
            (identity, (digest_of(manifest), rules))
        });
        let (objects, count) = (objects.collect(), manifests.len());
        Self { objects, count, deletion, rest: without_nothing(rest) }
    }
}

/// The rules of one object, without the fields that have the CRD's defaults.
fn rules_without_defaults(rules: Map<String, Value>) -> Value {
    let mut spec = without_defaults(json!({ "manifestConfigs": [Value::Object(rules)] }));
    spec.pointer_mut("/manifestConfigs/0").map(Value::take).unwrap_or_default()
}

/// The digest of a manifest as the API server stores it.
fn digest_of(manifest: &Value) -> Digest {
    let spec = json!({ "workload": { "manifests": [manifest] } });
    work_digest::digest(spec, &BTreeMap::new(), &BTreeMap::new())
}

/// The value without fields that are null or empty.
fn without_nothing(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        for field in fields.values_mut() {
            *field = without_nothing(field.take());
        }
        fields.retain(|_, field| match field {
            Value::Null => false,
            Value::Object(fields) => !fields.is_empty(),
            _ => true,
        });
    }
    value
}

/// How two specs differ, for people and without values of Secrets; `None` if they mean the same.
pub(super) fn difference(before: &Value, after: &Value, plurals: &Plurals) -> Option<String> {
    if SpecContent::of(before, plurals) == SpecContent::of(after, plurals) {
        return None;
    }
    let changes = adoption::changes(before.clone(), after.clone(), ColorMode::Plain);
    Some(changes.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differ(before: &Value, after: &Value) -> bool {
        let plurals = Plurals::of(before, &Value::Null);
        difference(before, after, &plurals).is_some()
    }

    #[test]
    fn order_and_defaults_do_not_count_and_everything_else_does() {
        let pod = |name: &str| {
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"namespace": "a", "name": name}})
        };
        let entry = |name: &str, kind: &str| {
            json!({"resourceIdentifier": {"resource": "pods", "namespace": "a", "name": name},
                "updateStrategy": {"type": kind}})
        };
        let spec = |manifests: [Value; 2], configs: Vec<Value>| {
            let workload = json!({ "manifests": manifests });
            json!({"workload": workload, "manifestConfigs": configs})
        };
        let one = || spec([pod("x"), pod("y")], vec![entry("*", "ReadOnly")]);
        let exact = vec![entry("y", "ReadOnly"), entry("x", "ReadOnly")];
        assert!(!differ(&one(), &spec([pod("y"), pod("x")], exact)));
        // The first entry counts, also if it has the default.
        let first = vec![entry("x", "Update"), entry("*", "ReadOnly")];
        let masked = || spec([pod("x"), pod("y")], first.clone());
        let exact = vec![entry("x", "Update"), entry("y", "ReadOnly")];
        assert!(!differ(&masked(), &spec([pod("x"), pod("y")], exact)));
        assert!(differ(&masked(), &one()));
        let mut same = one();
        same["deleteOption"] = json!({"propagationPolicy": "Foreground"});
        same["executor"] = Value::Null;
        assert!(!differ(&one(), &same));
        assert!(differ(&one(), &spec([pod("x"), pod("z")], vec![entry("*", "ReadOnly")])));
        assert!(differ(&one(), &spec([pod("x"), pod("y")], vec![entry("x", "ReadOnly")])));
        assert!(differ(&one(), &spec([pod("x"), pod("y")], vec![entry("*", "CreateOnly")])));
        for (field, value) in [
            ("deleteOption", json!({"propagationPolicy": "Orphan"})),
            ("deleteOption", json!({"ttlSecondsAfterFinished": 86_400})),
            ("executor", json!({"subject": {"type": "ServiceAccount"}})),
            ("future", json!({"a": 1})),
        ] {
            let mut other = one();
            other[field] = value;
            assert!(differ(&one(), &other), "{field}");
            assert!(differ(&other, &one()), "{field}");
        }
    }
}
