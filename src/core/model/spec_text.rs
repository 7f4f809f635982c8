//! The spec of a ManifestWork as text, in parts that works can share.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::digest::CanonicalJson;

/// A spec with fewer bytes is one part: a part costs some 50 bytes, and small manifests are seldom
/// equal, as they have names of their own.
const PARTS_FROM_BYTES: usize = 4 * 1024;

/// The spec of a ManifestWork: first all of it but the manifests, then the manifests. A small one
/// is one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecText(Arc<[CanonicalJson]>);

impl SpecText {
    /// The text of a spec.
    pub fn new(spec: &Value) -> Self {
        let whole = CanonicalJson::new(spec);
        let manifests = spec.pointer("/workload/manifests").and_then(Value::as_array);
        let (Some(manifests), Value::Object(fields)) = (manifests, spec) else {
            return Self([whole].into());
        };
        if whole.as_str().len() < PARTS_FROM_BYTES {
            return Self([whole].into());
        }
        let rest = CanonicalJson::new(&Value::Object(without_manifests(fields)));
        Self(std::iter::once(rest).chain(manifests.iter().map(CanonicalJson::new)).collect())
    }

    /// The spec of these parts, which are those of another spec.
    pub fn from_parts(parts: Arc<[CanonicalJson]>) -> Self {
        Self(parts)
    }

    /// All that it consists of.
    pub fn parts(&self) -> &Arc<[CanonicalJson]> {
        &self.0
    }

    /// The parsed spec.
    pub fn value(&self) -> Value {
        let Some((first, manifests)) = self.0.split_first() else { return Value::Null };
        let mut spec = first.value();
        let place = spec.pointer_mut("/workload/manifests").and_then(Value::as_array_mut);
        place.into_iter().for_each(|all| all.extend(manifests.iter().map(CanonicalJson::value)));
        spec
    }
}

/// The fields of a spec, with an empty list of manifests.
fn without_manifests(spec: &Map<String, Value>) -> Map<String, Value> {
    let rest_of = |fields: &Map<String, Value>, name: &str, value: Value| {
        let others = fields.iter().filter(|(field, _)| *field != name);
        let mut all: Map<String, Value> =
            others.map(|(field, value)| (field.clone(), value.clone())).collect();
        all.insert(name.into(), value);
        all
    };
    let workload = spec.get("workload").and_then(Value::as_object);
    let workload = workload.map(|fields| rest_of(fields, "manifests", Value::Array(Vec::new())));
    rest_of(spec, "workload", workload.map_or(Value::Null, Value::Object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spec_of_any_size_reads_back_the_same() {
        let large = json!({"kind": "ConfigMap", "data": {"a": "x".repeat(PARTS_FROM_BYTES)}});
        let small = json!({"kind": "ConfigMap", "data": {"a": 1.5}});
        for (spec, parts) in [
            (json!({"workload": {"manifests": [small]}}), 1),
            (json!({"workload": {"manifests": [small, large], "x": 1}, "executor": {}}), 3),
            (json!({"workload": {"manifests": []}, "a": "x".repeat(PARTS_FROM_BYTES)}), 1),
            (json!({"workload": large}), 1),
            (large.clone(), 1),
            (json!({}), 1),
            (Value::Null, 1),
        ] {
            let text = SpecText::new(&spec);
            assert_eq!((text.value(), text.parts().len()), (spec, parts));
        }
    }
}
