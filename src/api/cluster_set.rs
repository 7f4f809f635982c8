//! ManagedClusterSet and ManagedClusterSetBinding. Public as part of [`super::cluster`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
#[cfg(feature = "kube")]
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UnknownFields;
#[cfg(feature = "kube")]
use super::kind_schema::kind_schema;
use super::schema::{self, text_enum};

/// Which clusters are in the set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "kube",
    derive(CustomResource),
    kube(
        group = "cluster.open-cluster-management.io",
        version = "v1beta2",
        kind = "ManagedClusterSet",
        plural = "managedclustersets",
        shortname = "mclset",
        shortname = "mclsets",
        status = "ManagedClusterSetStatus",
        doc = "A set of managed clusters that can be bound to namespaces.",
        schema = "manual",
        derive = "Default",
        derive = "PartialEq",
        attr = "cfg_attr(all(), serde(default))",
        printcolumn(
            name = "Empty",
            type_ = "string",
            json_path = r#".status.conditions[?(@.type=="ClusterSetEmpty")].status"#
        ),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}))]
pub struct ManagedClusterSetSpec {
    /// Which clusters are in the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {"selectorType": "ExclusiveClusterSetLabel"}))]
    pub cluster_selector: Option<ManagedClusterSelector>,
    /// Namespaces that the agents make on the clusters of the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub managed_namespaces: Vec<ManagedNamespaceConfig>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

#[cfg(feature = "kube")]
kind_schema!(
    ManagedClusterSet,
    "A set of managed clusters that can be bound to namespaces.",
    {"spec": ManagedClusterSetSpec, "status": ManagedClusterSetStatus},
    required: &[]
);

text_enum! {
    /// How a cluster set finds its clusters.
    SelectorType {
        /// By the label `cluster.open-cluster-management.io/clusterset`: a cluster is in one such
        /// set.
        #[default]
        ExclusiveClusterSetLabel,
        /// By a label selector.
        LabelSelector,
    }
}

/// Which clusters are in a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["selectorType"]))]
pub struct ManagedClusterSelector {
    /// How the set finds its clusters.
    #[serde(default)]
    pub selector_type: SelectorType,
    /// The clusters' labels, for the type LabelSelector. An empty selector is every cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub label_selector: Option<LabelSelector>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// A namespace that the agents make on the clusters of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedNamespaceConfig {
    /// Name of the namespace.
    #[schemars(extend("pattern" = schema::DNS_LABEL, "maxLength" = 63))]
    pub name: String,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// What the hub reports of a cluster set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetStatus {
    /// ClusterSetEmpty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// Which cluster set is bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "kube",
    derive(CustomResource),
    kube(
        group = "cluster.open-cluster-management.io",
        version = "v1beta2",
        kind = "ManagedClusterSetBinding",
        plural = "managedclustersetbindings",
        shortname = "mclsetbinding",
        shortname = "mclsetbindings",
        namespaced,
        status = "ManagedClusterSetBindingStatus",
        doc = "Lets the Placements of a namespace choose from a cluster set.",
        schema = "manual",
        derive = "Default",
        derive = "PartialEq",
        attr = "cfg_attr(all(), serde(default))"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetBindingSpec {
    /// Name of the cluster set; the binding has the same name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("minLength" = 1))]
    pub cluster_set: String,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

#[cfg(feature = "kube")]
kind_schema!(
    ManagedClusterSetBinding,
    "Lets the Placements of a namespace choose from a cluster set.",
    {"spec": ManagedClusterSetBindingSpec, "status": ManagedClusterSetBindingStatus},
    required: &[]
);

/// What the hub reports of a binding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetBindingStatus {
    /// Bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}
