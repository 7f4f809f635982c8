//! Applying YAML files as `kubectl apply --server-side` does.

use anyhow::{Context, Result};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, ResourceExt};
use serde::Deserialize;

/// Applies each document in turn, and gives what the API server made of it.
pub async fn apply(client: Client, documents: &str) -> Result<Vec<DynamicObject>> {
    let mut applied = Vec::new();
    for document in serde_yaml::Deserializer::from_str(documents) {
        let object = Option::<DynamicObject>::deserialize(document)?;
        // A comment between two separators.
        let Some(object) = object else { continue };
        let types = object.types.as_ref().context("a document without apiVersion and kind")?;
        let what = format!("apply {} {}", types.kind, object.name_any());
        let kind = GroupVersionKind::try_from(types)?;
        let (resource, capabilities) =
            pinned_kind(&client, &kind).await.with_context(|| what.clone())?;
        let api: Api<DynamicObject> = match (&capabilities.scope, object.namespace()) {
            (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
            (Scope::Namespaced, Some(namespace)) => {
                Api::namespaced_with(client.clone(), &namespace, &resource)
            }
            (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
        };
        let params = PatchParams::apply("harness").force();
        let answer = api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await;
        applied.push(answer.context(what)?);
    }
    Ok(applied)
}
