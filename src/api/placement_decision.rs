//! What the hub chose for a Placement: its status, and PlacementDecisions. Public as part of
//! [`super::placement`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
#[cfg(feature = "kube")]
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UnknownFields;
#[cfg(feature = "kube")]
use super::kind_schema::kind_schema;
use super::schema;

/// What the hub reports of a Placement. The clusters themselves are in its PlacementDecisions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// PlacementSatisfied and PlacementMisconfigured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
    /// How many clusters were chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number_of_selected_clusters: Option<i32>,
    /// The groups of the chosen clusters, in the order of a rollout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decision_groups: Vec<DecisionGroupStatus>,
    /// When a changed score last counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub last_score_update_time: Option<Time>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// One group of the chosen clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionGroupStatus {
    /// Number of the group, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_group_index: Option<i32>,
    /// Name of the group; empty for clusters that no group asks for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub decision_group_name: String,
    /// Names of the PlacementDecisions that have the group's clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<String>,
    /// How many clusters are in the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub cluster_count: Option<i32>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// A PlacementDecision says nothing but its status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "kube",
    derive(CustomResource),
    kube(
        group = "cluster.open-cluster-management.io",
        version = "v1beta1",
        kind = "PlacementDecision",
        plural = "placementdecisions",
        namespaced,
        no_spec,
        status = "PlacementDecisionStatus",
        doc = "At most 100 of the clusters that a Placement chose; the Placement's name is in a \
               label.",
        schema = "manual",
        derive = "Default",
        derive = "PartialEq",
        attr = "cfg_attr(all(), serde(default))"
    )
)]
pub struct PlacementDecisionSpec {}

#[cfg(feature = "kube")]
kind_schema!(
    PlacementDecision,
    "At most 100 of the clusters that a Placement chose; the Placement's name is in a label.",
    {"status": PlacementDecisionStatus},
    required: &[]
);

/// The chosen clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementDecisionStatus {
    /// One for each cluster.
    pub decisions: Vec<ClusterDecision>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// One chosen cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecision {
    /// Name of the ManagedCluster.
    pub cluster_name: String,
    /// Why it was chosen; mostly empty.
    pub reason: String,
    /// Its score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}
