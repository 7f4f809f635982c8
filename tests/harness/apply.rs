//! Applies and deletes objects as `kubectl apply --server-side` and `kubectl delete` do.

use anyhow::{Context, Result};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
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

/// Deletes objects in order, as `kubectl delete --ignore-not-found --wait=false` does.
pub async fn delete_all(client: Client, objects: &[Value]) -> Result<()> {
    for object in objects {
        let object = DynamicObject::deserialize(object)?;
        let what = || format!("delete {}", label(&object));
        let api = api_of(&client, &object).await.with_context(what)?;
        match api.delete(&object.name_any(), &DeleteParams::background()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            answer => _ = answer.with_context(what)?,
        }
    }
    Ok(())
}

async fn apply_one(client: &Client, object: &Value) -> Result<DynamicObject> {
    let object = DynamicObject::deserialize(object)?;
    let what = || format!("apply {}", label(&object));
    let api = api_of(client, &object).await.with_context(what)?;
    let params = PatchParams::apply("harness").force();
    let answer = api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await;
    answer.with_context(what)
}

fn label(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("object", |types| &types.kind);
    format!("{kind} {}", object.name_any())
}

/// The objects of the kind and the namespace of this one.
async fn api_of(client: &Client, object: &DynamicObject) -> Result<Api<DynamicObject>> {
    let types = object.types.as_ref().context("an object without apiVersion and kind")?;
    let kind = GroupVersionKind::try_from(types)?;
    let (resource, capabilities) = pinned_kind(client, &kind).await?;
    let client = client.clone();
    Ok(match (&capabilities.scope, object.namespace()) {
        (Scope::Cluster, _) => Api::all_with(client, &resource),
        (Scope::Namespaced, Some(space)) => Api::namespaced_with(client, &space, &resource),
        (Scope::Namespaced, None) => Api::default_namespaced_with(client, &resource),
    })
}
