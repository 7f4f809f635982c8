//! Custom kinds: the structural schemas of CRDs.

mod patterns;
mod values;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::checker::Checker;
use crate::finding::shown;
use values::Validator;

/// The schemas of the versions that a CRD serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrdSchemas {
    /// By version: a schema without texts for people; `None` for one that accepts anything.
    versions: Arc<Vec<(String, Option<Value>)>>,
    bytes: usize,
}

impl CrdSchemas {
    /// Reads them from a CRD (`apiextensions.k8s.io/v1`).
    pub fn of(crd: &Value) -> Option<Self> {
        if crd.get("apiVersion")? != "apiextensions.k8s.io/v1" {
            return None;
        }
        let mut versions = Vec::new();
        let mut bytes = 0;
        for version in crd.pointer("/spec/versions")?.as_array()? {
            if version.get("served") != Some(&Value::Bool(true)) {
                continue;
            }
            let name = version.get("name")?.as_str()?.to_owned();
            let schema = version.pointer("/schema/openAPIV3Schema").map(without_texts);
            bytes += name.len() + schema.as_ref().map_or(0, size);
            versions.push((name, schema));
        }
        Some(Self { versions: Arc::new(versions), bytes })
    }

    /// About how many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the CRD serves a version.
    pub(crate) fn has_version(&self, version: &str) -> bool {
        self.versions.iter().any(|(name, _)| name == version)
    }

    /// The names of the versions, for messages.
    pub(crate) fn served(&self) -> String {
        let names: Vec<String> =
            self.versions.iter().take(10).map(|(name, _)| shown(name)).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// Checks an object but its metadata.
    pub(crate) fn check(&self, checker: &mut Checker<'_>, version: &str, object: &Value) {
        let found = self.versions.iter().find(|(name, _)| name == version);
        let Some((_, Some(schema))) = found else { return };
        Validator::new(checker).root(schema, object);
    }
}

/// A schema without `description`, `title`, `example` and `externalDocs`.
fn without_texts(schema: &Value) -> Value {
    const TEXTS: &[&str] = &["description", "title", "example", "externalDocs"];
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut reduced = Map::new();
    for (name, value) in fields {
        let is_text = TEXTS.contains(&name.as_str());
        let reduced_value = match (name.as_str(), value) {
            _ if is_text => continue,
            ("properties", Value::Object(all)) => {
                let all = all.iter().map(|(name, one)| (name.clone(), without_texts(one)));
                Value::Object(all.collect())
            }
            ("items" | "additionalProperties" | "not", one) => without_texts(one),
            ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => {
                Value::Array(all.iter().map(without_texts).collect())
            }
            // Whether there is a default is what matters.
            ("default", _) => Value::Bool(true),
            ("x-kubernetes-validations", _) => continue,
            (_, other) => other.clone(),
        };
        reduced.insert(name.clone(), reduced_value);
    }
    Value::Object(reduced)
}

/// About how many bytes of memory a value takes.
fn size(value: &Value) -> usize {
    let of_value = size_of::<Value>();
    of_value
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(size).sum(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| name.len() + 48 + size(value)).sum()
            }
            _ => 0,
        }
}
