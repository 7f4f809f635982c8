//! `cluster.open-cluster-management.io/v1beta1`: Placement and PlacementDecision.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
#[cfg(feature = "kube")]
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UnknownFields;
use super::cluster::TaintEffect;
#[cfg(feature = "kube")]
use super::kind_schema::kind_schema;
#[cfg(feature = "kube")]
pub use super::placement_decision::PlacementDecision;
pub use super::placement_decision::{
    ClusterDecision, DecisionGroupStatus, PlacementDecisionSpec, PlacementDecisionStatus,
    PlacementStatus,
};
pub use super::prioritizer::{
    AddOnScore, PrioritizerConfig, PrioritizerPolicy, ScoreCoordinate, ScoreCoordinateType,
};
use super::schema::{self, text_enum};

/// Label of a PlacementDecision: the name of its Placement.
pub const LABEL_PLACEMENT: &str = "cluster.open-cluster-management.io/placement";
/// Label of a PlacementDecision: the number of its decision group, from 0.
pub const LABEL_DECISION_GROUP_INDEX: &str =
    "cluster.open-cluster-management.io/decision-group-index";
/// Label of a PlacementDecision: the name of its decision group.
pub const LABEL_DECISION_GROUP_NAME: &str =
    "cluster.open-cluster-management.io/decision-group-name";

/// Which clusters to choose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "kube",
    derive(CustomResource),
    kube(
        group = "cluster.open-cluster-management.io",
        version = "v1beta1",
        kind = "Placement",
        plural = "placements",
        namespaced,
        status = "PlacementStatus",
        doc = "Chooses clusters from the cluster sets that are bound to its namespace.",
        schema = "manual",
        derive = "Default",
        derive = "PartialEq",
        attr = "cfg_attr(all(), serde(default))",
        printcolumn(
            name = "Succeeded",
            type_ = "string",
            json_path = r#".status.conditions[?(@.type=="PlacementSatisfied")].status"#
        ),
        printcolumn(
            name = "Reason",
            type_ = "string",
            json_path = r#".status.conditions[?(@.type=="PlacementSatisfied")].reason"#
        ),
        printcolumn(
            name = "SelectedClusters",
            type_ = "integer",
            json_path = ".status.numberOfSelectedClusters"
        )
    )
)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSpec {
    /// The cluster sets to choose from; without any, all that are bound to the namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_sets: Vec<String>,
    /// How many clusters to choose; without it, all that fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number_of_clusters: Option<i32>,
    /// What a cluster must be like: one of them is enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predicates: Vec<ClusterPredicate>,
    /// Which of the clusters that fit come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prioritizer_policy: Option<PrioritizerPolicy>,
    /// How to spread the choice over regions and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_policy: Option<SpreadPolicy>,
    /// Taints that do not matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// How the chosen clusters are put into groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_strategy: Option<DecisionStrategy>,
    /// The order of the clusters within the decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "ClusterName"))]
    pub sort_by: Option<SortBy>,
    /// The shortest time between two choices that a changed score causes: a number and h, m or s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "1m", "pattern" = "^[0-9]+[hms]$"))]
    pub score_rate_limit: Option<String>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

#[cfg(feature = "kube")]
kind_schema!(
    Placement,
    "Chooses clusters from the cluster sets that are bound to its namespace.",
    {"spec": PlacementSpec, "status": PlacementStatus},
    required: &["spec"]
);

text_enum! {
    /// The order of the clusters within the decisions.
    SortBy {
        /// By name.
        #[default]
        ClusterName,
        /// The best score first.
        Score,
    }
}

/// What a cluster must be like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPredicate {
    /// All its parts must hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_cluster_selector: Option<ClusterSelector>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// Clusters by labels, claims and expressions, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// By the ManagedCluster's labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub label_selector: Option<LabelSelector>,
    /// By the cluster's claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_selector: Option<ClusterClaimSelector>,
    /// By expressions over the ManagedCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cel_selector: Option<ClusterCelSelector>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// Clusters by their claims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClaimSelector {
    /// Requirements on claims, all of which must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::requirements")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// Clusters by expressions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCelSelector {
    /// CEL over `managedCluster`, all of which must be true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cel_expressions: Vec<String>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// How to spread the choice over regions and the like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadPolicy {
    /// The first counts most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 8))]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

text_enum! {
    /// Where a cluster says which part of a topology it is in.
    TopologyKeyType {
        /// In a label of the ManagedCluster.
        #[default]
        Label,
        /// In a claim.
        Claim,
    }
}

text_enum! {
    /// What to do where a spread cannot be had.
    UnsatisfiableAction {
        /// Choose fewer clusters.
        DoNotSchedule,
        /// Choose all the same.
        #[default]
        ScheduleAnyway,
    }
}

/// How to spread the choice over the values of one key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraint {
    /// Name of the label or claim.
    #[schemars(extend(
        "pattern" = schema::TOPOLOGY_KEY,
        "maxLength" = 316
    ))]
    pub topology_key: String,
    /// Whether it is a label or a claim.
    pub topology_key_type: TopologyKeyType,
    /// How many clusters more than another value one may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 1, "minimum" = 1))]
    pub max_skew: Option<i32>,
    /// What to do where that cannot be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "ScheduleAnyway"))]
    pub when_unsatisfiable: Option<UnsatisfiableAction>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// Taints that do not matter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Key of the taint; empty, with the operator Exists, for every key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("pattern" = schema::QUALIFIED_NAME, "maxLength" = 316))]
    pub key: String,
    /// Equal or Exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Equal"))]
    pub operator: Option<String>,
    /// Value of the taint, for the operator Equal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("maxLength" = 1024))]
    pub value: String,
    /// Effect of the taint; without it, every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// Seconds from when the taint was added until it matters after all; without it, it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// How the chosen clusters are put into groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionStrategy {
    /// The groups, in the order of a rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_strategy: Option<GroupStrategy>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// The decision groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStrategy {
    /// Groups by selector. Clusters in none of them follow in groups without a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decision_groups: Vec<DecisionGroup>,
    /// The most clusters in a group: a number, or a percentage of the chosen clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        schema_with = "schema::int_or_string",
        extend("default" = "100%", "pattern" = "^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$")
    )]
    pub clusters_per_decision_group: Option<IntOrString>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// One group of clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionGroup {
    /// Name of the group.
    #[schemars(extend("pattern" = "^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$"))]
    pub group_name: String,
    /// Which of the chosen clusters are in it.
    pub group_cluster_selector: GroupClusterSelector,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// Clusters by labels and claims, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupClusterSelector {
    /// By the ManagedCluster's labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub label_selector: Option<LabelSelector>,
    /// By the cluster's claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_selector: Option<ClusterClaimSelector>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}
