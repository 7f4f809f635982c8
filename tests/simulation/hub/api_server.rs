//! The API server's part of the hub: creation, changes and deletion of stored objects.

use std::sync::{Arc, LazyLock};

use super::{
    State, Stored, generation, has_finalizers, is_deleting, put_or_remove, put_or_remove_null,
};
use gitwork_api::work::manifest_work_spec_schema;
use gitwork_core::model::name::WorkKey;
use gitwork_hub::HubError;
use serde_json::{Value, json};

/// The schema of a ManifestWork's spec, for its defaults.
static SCHEMA: LazyLock<Value> = LazyLock::new(manifest_work_spec_schema);

/// Applies structural defaults: a missing field of an existing object gets its schema's default.
fn fill_in_defaults(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, property) in properties.into_iter().flatten() {
                if let Some(default) = property.get("default")
                    && !fields.contains_key(name)
                {
                    fields.insert(name.clone(), default.clone());
                }
                if let Some(field) = fields.get_mut(name) {
                    fill_in_defaults(field, property);
                }
            }
        }
        Value::Array(items) => {
            let schema = schema.get("items").unwrap_or(&Value::Null);
            items.iter_mut().for_each(|item| fill_in_defaults(item, schema));
        }
        _ => {}
    }
}

/// Writes numbers as the API server does: int64 if possible, else float64, and whole floats as
/// integers.
fn write_numbers_as_go(value: &mut Value) {
    match value {
        Value::Number(number) if !number.is_i64() => {
            let float = number.as_f64().unwrap();
            let whole = float.fract() == 0.0 && float.abs() < 1e15;
            *value = if whole { json!(float as i64) } else { json!(float) };
        }
        Value::Array(items) => items.iter_mut().for_each(write_numbers_as_go),
        Value::Object(fields) => fields.values_mut().for_each(write_numbers_as_go),
        _ => {}
    }
}

impl State {
    pub(super) fn create(
        &mut self,
        key: &WorkKey,
        mut work: Value,
    ) -> Result<Arc<Value>, HubError> {
        if !self.clusters.contains(&key.cluster) {
            return Err(HubError::ClusterNamespaceMissing { cluster: key.cluster.to_string() });
        }
        if self.works.contains_key(key) {
            return Err(HubError::Exists { key: key.to_string() });
        }
        put_or_remove(&mut work, "status", None);
        work["metadata"]["uid"] = format!("uid-{}", self.revision + 1).into();
        work["metadata"]["generation"] = 1.into();
        work["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        self.admit(key, &mut work, None)?;
        Ok(self.store(key, work))
    }

    /// Changes an object. The resourceVersion in it is a precondition.
    pub(super) fn modify(
        &mut self,
        key: &WorkKey,
        change: impl FnOnce(&mut Value) -> Result<(), HubError>,
    ) -> Stored {
        let stale = || HubError::Stale { key: key.to_string() };
        let old = self.works.get(key).ok_or_else(stale)?.clone();
        let mut new = Value::clone(&old);
        change(&mut new)?;
        if new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"] {
            return Err(stale());
        }
        for fixed in ["uid", "generation", "creationTimestamp", "deletionTimestamp"] {
            put_or_remove(&mut new["metadata"], fixed, old["metadata"].get(fixed).cloned());
        }
        self.admit(key, &mut new, Some(&old))?;
        if new == *old {
            return Ok(Some(old));
        }
        if is_deleting(&new) && !has_finalizers(&new) {
            self.remove(key);
            return Ok(None);
        }
        if new["spec"] != old["spec"] {
            new["metadata"]["generation"] = (generation(&old) + 1).into();
        }
        Ok(Some(self.store(key, new)))
    }

    pub(super) fn delete(&mut self, key: &WorkKey, precondition: Option<(&str, &str)>) -> Stored {
        let stale = || HubError::Stale { key: key.to_string() };
        let Some(old) = self.works.get(key).cloned() else {
            return if precondition.is_some() { Ok(None) } else { Err(stale()) };
        };
        let metadata = &old["metadata"];
        if let Some((uid, version)) = precondition
            && (metadata["uid"] != uid || metadata["resourceVersion"] != version)
        {
            return Err(stale());
        }
        if !has_finalizers(&old) {
            self.remove(key);
            return Ok(None);
        }
        if is_deleting(&old) {
            return Ok(Some(old));
        }
        let mut new = Value::clone(&old);
        new["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        new["metadata"]["generation"] = (generation(&old) + 1).into();
        Ok(Some(self.store(key, new)))
    }

    /// Changes an object as the API server does before it stores it.
    pub(super) fn admit(
        &self,
        key: &WorkKey,
        work: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), HubError> {
        // An unchanged spec was admitted before, unless the CRD has changed since.
        let known = old.is_some_and(|old| old["spec"] == work["spec"]);
        if !known || !self.unknown_fields.is_empty() {
            self.admit_spec(key, work)?;
        }
        for map in ["labels", "annotations", "finalizers"] {
            let empty = match &work["metadata"][map] {
                Value::Object(fields) => fields.is_empty(),
                Value::Array(items) => items.is_empty(),
                other => other.is_null(),
            };
            if empty {
                put_or_remove(&mut work["metadata"], map, None);
            }
        }
        put_or_remove_null(work, "status");
        Ok(())
    }

    pub(super) fn admit_spec(&self, key: &WorkKey, work: &mut Value) -> Result<(), HubError> {
        let policy = work.pointer("/spec/deleteOption/propagationPolicy").and_then(Value::as_str);
        if policy.is_some_and(|p| !["Foreground", "Orphan", "SelectivelyOrphan"].contains(&p)) {
            let message = "spec.deleteOption.propagationPolicy: Unsupported value".into();
            return Err(HubError::WriteRejected { key: key.to_string(), message });
        }
        for field in &self.unknown_fields {
            put_or_remove(&mut work["spec"], field, None);
        }
        fill_in_defaults(&mut work["spec"], &SCHEMA);
        write_numbers_as_go(&mut work["spec"]);
        let manifests = work.pointer_mut("/spec/workload/manifests").and_then(Value::as_array_mut);
        for manifest in manifests.into_iter().flatten() {
            if let Some(Value::Object(metadata)) = manifest.get_mut("metadata") {
                let empty = [json!(null), json!({}), json!([]), json!("")];
                metadata.retain(|_, field| !empty.contains(field));
            }
        }
        Ok(())
    }
}
