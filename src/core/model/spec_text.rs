//! The spec of a ManifestWork as text, in parts that works can share.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::value_path::value_at;
use gitwork_api::compressed_json::CompressedJson;

/// A spec with fewer bytes is one part: a part costs some 50 bytes, and small manifests are seldom
/// equal, as they have names of their own.
const PARTS_FROM_BYTES: usize = 4 * 1024;

/// The spec of a ManifestWork: first all of it but the manifests, then the manifests. A small one
/// is one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecText(Arc<[CompressedJson]>);

impl SpecText {
    /// The text of a spec, not compressed.
    pub fn new(spec: &Value) -> Self {
        if let Some(whole) = SmallText::of(spec) {
            return Self([whole].into());
        }
        let manifests = value_at(spec, "/workload/manifests").and_then(Value::as_array);
        let (Some(manifests), Value::Object(fields)) = (manifests, spec) else {
            return Self([CompressedJson::plain(&text_of(spec))].into());
        };
        let parts = manifests.iter().map(text_of);
        let parts = std::iter::once(text_of(&without_manifests(fields))).chain(parts);
        Self(parts.map(|part| CompressedJson::plain(&part)).collect())
    }

    /// The spec of these parts, which are those of another spec.
    pub fn from_parts(parts: Arc<[CompressedJson]>) -> Self {
        Self(parts)
    }

    /// The same spec, compressed.
    pub fn compressed(&self) -> Self {
        Self(self.0.iter().map(CompressedJson::compressed).collect())
    }

    /// All that it consists of.
    pub fn parts(&self) -> &Arc<[CompressedJson]> {
        &self.0
    }

    /// The JSON text of a spec that is one part.
    pub(crate) fn whole(&self) -> Option<String> {
        let [whole] = &*self.0 else { return None };
        Some(whole.json())
    }

    /// The JSON text. Parts with one manifest each are not parsed.
    pub fn text(&self) -> String {
        if let Some(whole) = self.whole() {
            return whole;
        }
        let Some((first, manifests)) = self.0.split_first() else { return text_of(&Value::Null) };
        let manifests: Vec<String> = manifests.iter().map(CompressedJson::json).collect();
        let manifests = format!("[{}]", manifests.join(","));
        let in_workload = |(name, value)| match name {
            "manifests" => (name, manifests.clone()),
            _ => (name, text_of(value)),
        };
        let spec = first.value();
        object_text(fields_of(&spec).map(|(name, value)| match name {
            "workload" => (name, object_text(fields_of(value).map(in_workload))),
            _ => (name, text_of(value)),
        }))
    }

    /// The parsed spec.
    pub fn value(&self) -> Value {
        let Some((first, manifests)) = self.0.split_first() else { return Value::Null };
        let mut spec = first.value();
        let place = spec.pointer_mut("/workload/manifests").and_then(Value::as_array_mut);
        place.into_iter().for_each(|all| all.extend(manifests.iter().map(CompressedJson::value)));
        spec
    }
}

/// `Value::to_string` gives the same in a third more time. No key is other than a string.
fn text_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn fields_of(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.map(|(name, value)| (name.as_str(), value))
}

/// The text of an object whose fields have these texts.
fn object_text<'a>(fields: impl Iterator<Item = (&'a str, String)>) -> String {
    let fields = fields.map(|(name, text)| format!("{}:{text}", text_of(&name)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// A text that ends with an error before it has [`PARTS_FROM_BYTES`].
struct SmallText(Vec<u8>);

impl SmallText {
    /// The text of a small value.
    fn of(value: &Value) -> Option<CompressedJson> {
        let mut text = Self(Vec::new());
        serde_json::to_writer(&mut text, value).ok()?;
        // JSON is UTF-8.
        Some(CompressedJson::plain(&String::from_utf8(text.0).ok()?))
    }
}

impl io::Write for SmallText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() >= PARTS_FROM_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A part of a spec, which is not copied: rules may be as large as the limit of a file.
#[derive(Serialize)]
#[serde(untagged)]
enum SpecPart<'a> {
    Value(&'a Value),
    Fields(BTreeMap<&'a str, SpecPart<'a>>),
    NoManifests([(); 0]),
}

fn parts_of(fields: &Map<String, Value>) -> BTreeMap<&str, SpecPart<'_>> {
    fields.iter().map(|(name, value)| (name.as_str(), SpecPart::Value(value))).collect()
}

/// The fields of a spec, with an empty list of manifests.
fn without_manifests(spec: &Map<String, Value>) -> SpecPart<'_> {
    let mut all = parts_of(spec);
    if let Some(Value::Object(workload)) = spec.get("workload") {
        let mut workload = parts_of(workload);
        workload.insert("manifests", SpecPart::NoManifests([]));
        all.insert("workload", SpecPart::Fields(workload));
    }
    SpecPart::Fields(all)
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
            assert_eq!((text.value(), text.parts().len()), (spec.clone(), parts));
            let packed = text.compressed();
            for one in [&text, &packed] {
                let read: Value = serde_json::from_str(&one.text()).unwrap();
                assert_eq!(read, spec);
            }
            assert_eq!((packed.value(), packed.parts().len()), (spec, parts));
        }
    }
}
