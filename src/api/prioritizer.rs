//! `Placement.spec.prioritizerPolicy`: which clusters come first. Public as part of
//! [`super::placement`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UnknownFields;
use super::schema::text_enum;

/// Which of the clusters that fit come first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrioritizerPolicy {
    /// Additive adds to OCM's own prioritizers, Exact replaces them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Additive"))]
    pub mode: Option<String>,
    /// The prioritizers and their weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configurations: Vec<PrioritizerConfig>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// A prioritizer and its weight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrioritizerConfig {
    /// Where the score comes from.
    pub score_coordinate: ScoreCoordinate,
    /// From -10 to 10; 0 switches the prioritizer off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 1, "minimum" = -10, "maximum" = 10))]
    pub weight: Option<i32>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

text_enum! {
    /// Where a score comes from.
    ScoreCoordinateType {
        /// A prioritizer of OCM's own.
        #[default]
        BuiltIn,
        /// An AddOnPlacementScore.
        AddOn,
    }
}

/// Where a score comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["type"]))]
pub struct ScoreCoordinate {
    /// Which of the other fields counts.
    #[serde(rename = "type", default)]
    pub type_: ScoreCoordinateType,
    /// Name of OCM's prioritizer: Balance, Steady, ResourceAllocatableCPU,
    /// ResourceAllocatableMemory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub built_in: String,
    /// The score of an add-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on: Option<AddOnScore>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// The score of an add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnScore {
    /// Name of the AddOnPlacementScore in each cluster namespace.
    pub resource_name: String,
    /// Name of the score in it.
    pub score_name: String,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}
