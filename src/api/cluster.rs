//! `cluster.open-cluster-management.io`: ManagedCluster, ManagedClusterSet,
//! ManagedClusterSetBinding, ClusterClaim.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
#[cfg(feature = "kube")]
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UnknownFields;
pub use super::cluster_set::{
    ManagedClusterSelector, ManagedClusterSetBindingSpec, ManagedClusterSetBindingStatus,
    ManagedClusterSetSpec, ManagedClusterSetStatus, ManagedNamespaceConfig, SelectorType,
};
#[cfg(feature = "kube")]
pub use super::cluster_set::{ManagedClusterSet, ManagedClusterSetBinding};
#[cfg(feature = "kube")]
use super::kind_schema::kind_schema;
use super::schema::{self, text_enum};

/// The type of a ManagedCluster's condition that is True while the hub is in contact with it.
pub const CONDITION_AVAILABLE: &str = "ManagedClusterConditionAvailable";

/// What the hub expects of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "kube",
    derive(CustomResource),
    kube(
        group = "cluster.open-cluster-management.io",
        version = "v1",
        kind = "ManagedCluster",
        plural = "managedclusters",
        shortname = "mcl",
        shortname = "mcls",
        status = "ManagedClusterStatus",
        doc = "A cluster that the hub manages. The namespace of the same name on the hub has its \
               ManifestWorks.",
        schema = "manual",
        derive = "Default",
        derive = "PartialEq",
        attr = "cfg_attr(all(), serde(default))",
        printcolumn(
            name = "Hub Accepted",
            type_ = "boolean",
            json_path = ".spec.hubAcceptsClient"
        ),
        printcolumn(
            name = "Managed Cluster URLs",
            type_ = "string",
            json_path = ".spec.managedClusterClientConfigs[*].url"
        ),
        printcolumn(
            name = "Joined",
            type_ = "string",
            json_path = r#".status.conditions[?(@.type=="ManagedClusterJoined")].status"#
        ),
        printcolumn(
            name = "Available",
            type_ = "string",
            json_path = ".status.conditions[?(@.type==\"ManagedClusterConditionAvailable\")].status"
        ),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSpec {
    /// How the hub reaches the cluster's API server, where it can.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_cluster_client_configs: Vec<ClientConfig>,
    /// Whether the hub lets the cluster's agents in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub_accepts_client: Option<bool>,
    /// Seconds between two renewals of the cluster's Lease. After five of them without one the
    /// cluster counts as unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 60))]
    pub lease_duration_seconds: Option<i32>,
    /// What keeps Placements from choosing the cluster unless they tolerate it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

#[cfg(feature = "kube")]
kind_schema!(
    ManagedCluster,
    "A cluster that the hub manages. The namespace of the same name on the hub has its \
     ManifestWorks.",
    {"spec": ManagedClusterSpec, "status": ManagedClusterStatus},
    required: &[]
);

/// How the hub reaches a cluster's API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientConfig {
    /// Address of the API server.
    pub url: String,
    /// CA certificates in PEM, of the API server's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::bytes")]
    pub ca_bundle: Option<ByteString>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

text_enum! {
    /// What a taint does to Placements that do not tolerate it.
    TaintEffect {
        /// They do not choose the cluster, and drop it if they had.
        #[default]
        NoSelect,
        /// They choose it only where no other cluster is left.
        PreferNoSelect,
        /// They do not choose it, but keep it if they had.
        NoSelectIfNew,
    }
}

/// What keeps Placements from choosing a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Name of the taint.
    #[schemars(extend("pattern" = schema::QUALIFIED_NAME, "maxLength" = 316))]
    pub key: String,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("maxLength" = 1024))]
    pub value: String,
    /// What it does to Placements that do not tolerate it.
    pub effect: TaintEffect,
    /// When the taint was added; the hub fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time_or_null")]
    pub time_added: Option<Time>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// What the hub and the cluster's agent report of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterStatus {
    /// HubAcceptedManagedCluster, ManagedClusterJoined, ManagedClusterConditionAvailable and
    /// others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
    /// All resources of the cluster's nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub capacity: BTreeMap<String, Quantity>,
    /// What of them is there for workloads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// Versions of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<ManagedClusterVersion>,
    /// The cluster's ClusterClaims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_claims: Vec<ManagedClusterClaim>,
    /// Namespaces that the agent makes on the cluster for its cluster sets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["clusterSet", "name"]
    ))]
    pub managed_namespaces: Vec<ClusterSetManagedNamespaceConfig>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// Versions of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterVersion {
    /// Version of Kubernetes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kubernetes: String,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// Something that a cluster says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterClaim {
    /// Name of the ClusterClaim.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("minLength" = 1, "maxLength" = 253))]
    pub name: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("minLength" = 1, "maxLength" = 1024))]
    pub value: String,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// A namespace that the agent makes on a cluster for a cluster set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSetManagedNamespaceConfig {
    /// Name of the namespace.
    #[schemars(extend("pattern" = schema::DNS_LABEL, "maxLength" = 63))]
    pub name: String,
    /// Name of the cluster set that asks for it.
    pub cluster_set: String,
    /// Whether the namespace is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// What the cluster says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "kube",
    derive(CustomResource),
    kube(
        group = "cluster.open-cluster-management.io",
        version = "v1alpha1",
        kind = "ClusterClaim",
        plural = "clusterclaims",
        doc = "Something that a managed cluster says of itself; the hub sees it in the \
               ManagedCluster's status.",
        schema = "manual",
        derive = "Default",
        derive = "PartialEq",
        attr = "cfg_attr(all(), serde(default))"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClaimSpec {
    /// The claim's value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("minLength" = 1, "maxLength" = 1024))]
    pub value: String,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

#[cfg(feature = "kube")]
kind_schema!(
    ClusterClaim,
    "Something that a managed cluster says of itself; the hub sees it in the ManagedCluster's \
     status.",
    {"spec": ClusterClaimSpec},
    required: &[]
);
