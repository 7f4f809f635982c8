//! The custom kinds of new clusters.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// OCM's kinds on a managed cluster. All others are on the hub.
const OF_MANAGED_CLUSTERS: &[&str] = &["AppliedManifestWork", "ClusterClaim"];

/// The kinds of a hub.
pub fn hub() -> Vec<CustomResourceDefinition> {
    of(false)
}

/// The kinds of a managed cluster.
pub fn managed() -> Vec<CustomResourceDefinition> {
    of(true)
}

fn of(managed: bool) -> Vec<CustomResourceDefinition> {
    let mut crds = gitwork_api::crds::all();
    crds.retain(|crd| OF_MANAGED_CLUSTERS.contains(&crd.spec.names.kind.as_str()) == managed);
    crds
}
