//! AppliedManifestWork: what the agent keeps on the managed cluster. Public as part of
//! [`super::work`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
#[cfg(feature = "kube")]
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UnknownFields;
#[cfg(feature = "kube")]
use super::kind_schema::kind_schema;
use super::schema;

/// Which ManifestWork of which hub the objects belong to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "kube",
    derive(CustomResource),
    kube(
        group = "work.open-cluster-management.io",
        version = "v1",
        kind = "AppliedManifestWork",
        plural = "appliedmanifestworks",
        status = "AppliedManifestWorkStatus",
        doc = "What the agent applied on the managed cluster for one ManifestWork; it owns the \
               applied objects.",
        schema = "manual",
        derive = "Default",
        derive = "PartialEq",
        attr = "cfg_attr(all(), serde(default))"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestWorkSpec {
    /// SHA-256 of the hub's API server address, in hex.
    #[serde(default)]
    #[schemars(!default)]
    pub hub_hash: String,
    /// Id of the agent that applied the objects.
    #[serde(rename = "agentID", default, skip_serializing_if = "String::is_empty")]
    pub agent_id: String,
    /// Name of the ManifestWork on the hub.
    #[serde(default)]
    #[schemars(!default)]
    pub manifest_work_name: String,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

#[cfg(feature = "kube")]
kind_schema!(
    AppliedManifestWork,
    "What the agent applied on the managed cluster for one ManifestWork; it owns the applied \
     objects.",
    {"spec": AppliedManifestWorkSpec, "status": AppliedManifestWorkStatus},
    required: &[]
);

/// What the agent applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestWorkStatus {
    /// The objects that were applied and are to go when they leave the ManifestWork.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied_resources: Vec<AppliedManifestResourceMeta>,
    /// When the agent first saw that the ManifestWork or the hub is gone; eviction follows after a
    /// grace period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub eviction_start_time: Option<Time>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// One applied object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestResourceMeta {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Version of the API group that it was applied with.
    #[serde(default)]
    #[schemars(!default)]
    pub version: String,
    /// Resource in the plural.
    #[serde(default)]
    #[schemars(!default)]
    pub resource: String,
    /// Name of the object.
    #[serde(default)]
    #[schemars(!default)]
    pub name: String,
    /// Namespace; empty for an object of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// UID of the object, so that an object that another client created again is not deleted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}
