//! The kinds that clusters start with.

use gitwork::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// OCM's kinds that live on a managed cluster. Its others are the hub's.
const OF_MANAGED_CLUSTERS: &[&str] = &["AppliedManifestWork", "ClusterClaim"];

/// What a hub serves.
pub fn hub() -> Vec<CustomResourceDefinition> {
    of(false)
}

/// What a managed cluster serves.
pub fn managed() -> Vec<CustomResourceDefinition> {
    of(true)
}

fn of(managed: bool) -> Vec<CustomResourceDefinition> {
    let mut crds = api::crds::all();
    crds.retain(|crd| OF_MANAGED_CLUSTERS.contains(&crd.spec.names.kind.as_str()) == managed);
    crds
}
