//! The CustomResourceDefinitions of OCM's kinds, generated from the Rust types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

use super::work::{AppliedManifestWork, ManifestWork};

/// The CRD of every kind, sorted by name.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut all = vec![ManifestWork::crd(), AppliedManifestWork::crd()];
    all.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    all
}

/// The schema of a top-level field of a kind.
pub(super) fn property(crd: &CustomResourceDefinition, name: &str) -> Option<Value> {
    let schema = crd.spec.versions.first()?.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    serde_json::to_value(schema.properties.as_ref()?.get(name)?).ok()
}
