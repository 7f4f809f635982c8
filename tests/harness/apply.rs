//! Applies YAML files as `kubectl apply --server-side` does.

use anyhow::{Context, Result};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, ResourceExt};
use serde::Deserialize;
use serde_json::Value;

/// Applies each document of a YAML file in order, and returns the API server's results.
pub async fn apply(client: Client, documents: &str) -> Result<Vec<DynamicObject>> {
    let mut objects = Vec::new();
    for document in serde_yaml::Deserializer::from_str(documents) {
        objects.push(Value::deserialize(document)?);
    }
    // A document with only comments.
    objects.retain(|object| !object.is_null());
    apply_all(client, &objects).await
}

/// [`apply`] for objects.
pub async fn apply_all(client: Client, objects: &[Value]) -> Result<Vec<DynamicObject>> {
    let mut applied = Vec::new();
    for object in objects {
        applied.push(apply_one(&client, object).await?);
    }
    Ok(applied)
}

async fn apply_one(client: &Client, object: &Value) -> Result<DynamicObject> {
    let object = DynamicObject::deserialize(object)?;
    let types = object.types.as_ref().context("an object without apiVersion and kind")?;
    let what = || format!("apply {} {}", types.kind, object.name_any());
    let kind = GroupVersionKind::try_from(types)?;
    let (resource, capabilities) = pinned_kind(client, &kind).await.with_context(what)?;
    let client = client.clone();
    let api: Api<DynamicObject> = match (&capabilities.scope, object.namespace()) {
        (Scope::Cluster, _) => Api::all_with(client, &resource),
        (Scope::Namespaced, Some(space)) => Api::namespaced_with(client, &space, &resource),
        (Scope::Namespaced, None) => Api::default_namespaced_with(client, &resource),
    };
    let params = PatchParams::apply("harness").force();
    let answer = api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await;
    answer.with_context(what)
}
