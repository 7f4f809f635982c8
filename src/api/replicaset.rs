//! `work.open-cluster-management.io/v1alpha1`: ManifestWorkReplicaSet.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
#[cfg(feature = "kube")]
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::UnknownFields;
#[cfg(feature = "kube")]
use super::kind_schema::kind_schema;
use super::schema::{self, text_enum};
use super::work::ManifestWorkSpec;

/// The generated CRD. A test compares it with the Rust types.
const CRD: &str =
    include_str!("../../deploy/crds/manifestworkreplicasets.work.open-cluster-management.io.yaml");

/// The JSON schema of `ManifestWorkReplicaSet.spec`, as the API server checks it.
pub fn replica_set_spec_schema() -> Value {
    let crd: Value = serde_yaml::from_str(CRD).unwrap_or_default();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    crd.pointer(spec).cloned().unwrap_or_default()
}

/// As OCM's CRD has it.
const NUMBER_OR_PERCENTAGE: &str = "^((100|[0-9]{1,2})%|[0-9]+)$";

/// Which ManifestWork goes to which clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "kube",
    derive(CustomResource),
    kube(
        group = "work.open-cluster-management.io",
        version = "v1alpha1",
        kind = "ManifestWorkReplicaSet",
        plural = "manifestworkreplicasets",
        shortname = "mwrs",
        namespaced,
        status = "ManifestWorkReplicaSetStatus",
        doc = "The same ManifestWork for every cluster that some Placements choose.",
        schema = "manual",
        derive = "Default",
        derive = "PartialEq",
        attr = "cfg_attr(all(), serde(default))",
        printcolumn(
            name = "Placement",
            type_ = "string",
            json_path = r#".status.conditions[?(@.type=="PlacementVerified")].reason"#
        ),
        printcolumn(
            name = "Found",
            type_ = "string",
            json_path = r#".status.conditions[?(@.type=="PlacementVerified")].status"#
        ),
        printcolumn(
            name = "ManifestWorks",
            type_ = "string",
            json_path = r#".status.conditions[?(@.type=="ManifestworkApplied")].reason"#
        ),
        printcolumn(
            name = "Applied",
            type_ = "string",
            json_path = r#".status.conditions[?(@.type=="ManifestworkApplied")].status"#
        )
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["cascadeDeletionPolicy", "placementRefs"]))]
pub struct ManifestWorkReplicaSetSpec {
    /// The spec of the ManifestWorks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_work_template: Option<ManifestWorkSpec>,
    /// The Placements that choose the clusters.
    #[schemars(extend("minItems" = 1))]
    pub placement_refs: Vec<LocalPlacementReference>,
    /// Whether the ManifestWorks are gone before the ManifestWorkReplicaSet is.
    #[serde(default)]
    pub cascade_deletion_policy: CascadeDeletionPolicy,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

#[cfg(feature = "kube")]
kind_schema!(
    ManifestWorkReplicaSet,
    "The same ManifestWork for every cluster that some Placements choose.",
    {"spec": ManifestWorkReplicaSetSpec, "status": ManifestWorkReplicaSetStatus},
    required: &[]
);

text_enum! {
    /// When the ManifestWorks of a deleted ManifestWorkReplicaSet go.
    CascadeDeletionPolicy {
        /// After it.
        #[default]
        Background,
        /// Before it.
        Foreground,
    }
}

/// A Placement of the same namespace, and how a change reaches its clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalPlacementReference {
    /// Name of the Placement.
    #[schemars(extend("minLength" = 1))]
    pub name: String,
    /// How a change reaches the clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {"type": "All", "all": {"progressDeadline": "None"}}))]
    pub rollout_strategy: Option<RolloutStrategy>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

text_enum! {
    /// How a change reaches the clusters.
    RolloutType {
        /// All at once.
        #[default]
        All,
        /// A number of clusters at a time.
        Progressive,
        /// One decision group at a time.
        ProgressivePerGroup,
    }
}

/// How a change reaches the clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStrategy {
    /// Which of the other fields counts.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "All"))]
    pub type_: Option<RolloutType>,
    /// More, for the type All.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<RolloutConfig>,
    /// More, for the type Progressive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive: Option<RolloutProgressive>,
    /// More, for the type ProgressivePerGroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive_per_group: Option<RolloutProgressivePerGroup>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// What every rollout strategy has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutConfig {
    /// How long a cluster must have succeeded before it counts, as a Go duration: 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "0"))]
    pub min_success_time: Option<String>,
    /// How long a cluster may take before it counts as failed: a number and h, m or s; None for no
    /// end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "None", "pattern" = "^(([0-9])+[h|m|s])|None$"))]
    pub progress_deadline: Option<String>,
    /// How many clusters may fail before the rollout stops: a number, or a percentage of the chosen
    /// clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        schema_with = "schema::int_or_string",
        extend("default" = 0, "pattern" = NUMBER_OR_PERCENTAGE)
    )]
    pub max_failures: Option<IntOrString>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// A number of clusters at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgressive {
    /// Groups that must succeed, one after the other, before any other cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,
    /// How many clusters change at a time: a number, or a percentage of the chosen clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        schema_with = "schema::int_or_string",
        extend("pattern" = NUMBER_OR_PERCENTAGE)
    )]
    pub max_concurrency: Option<IntOrString>,
    /// What every rollout strategy has; unknown fields are there too.
    #[serde(flatten)]
    pub config: RolloutConfig,
}

/// One decision group at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgressivePerGroup {
    /// Groups that must succeed, one after the other, before any other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,
    /// What every rollout strategy has; unknown fields are there too.
    #[serde(flatten)]
    pub config: RolloutConfig,
}

/// A decision group, by name or by number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MandatoryDecisionGroup {
    /// Name of the group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group_name: String,
    /// Number of the group, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_index: Option<i32>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// What the hub reports of the ManifestWorks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkReplicaSetStatus {
    /// PlacementVerified, PlacementRolledOut, ManifestworkApplied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
    /// Counts over all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<ManifestWorkReplicaSetSummary>,
    /// Counts for each Placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement_summary: Vec<PlacementSummary>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// Counts for the clusters of one Placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSummary {
    /// Name of the Placement.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Which decision groups are there and how large they are, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub available_decision_groups: String,
    /// The counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<ManifestWorkReplicaSetSummary>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// Counts of ManifestWorks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkReplicaSetSummary {
    /// ManifestWorks there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::integer")]
    pub total: Option<i64>,
    /// ManifestWorks there should be, where the rollout got to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::integer")]
    pub desired_total: Option<i64>,
    /// Those with the newest template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::integer")]
    pub updated: Option<i64>,
    /// Those with the condition Applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::integer")]
    pub applied: Option<i64>,
    /// Those with the condition Available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::integer")]
    pub available: Option<i64>,
    /// Those with the condition Progressing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::integer")]
    pub progressing: Option<i64>,
    /// Those with the condition Degraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::integer")]
    pub degraded: Option<i64>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}
