//! `ManifestWork.spec.manifestConfigs`: how single objects are applied and what is reported of
//! them. Public as part of [`super::work`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UnknownFields;
use super::schema::text_enum;

text_enum! {
    /// How the agent learns the feedback of an object.
    FeedbackScrapeType {
        /// It asks for the object now and then.
        #[default]
        Poll,
        /// It watches the object.
        Watch,
    }
}

/// How some of the objects are applied and what is reported of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestConfigOption {
    /// Which objects this is about.
    #[serde(default)]
    #[schemars(!default)]
    pub resource_identifier: ResourceIdentifier,
    /// What is read from the objects into the status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feedback_rules: Vec<FeedbackRule>,
    /// How the objects are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Conditions of an object that the agent derives from its content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["condition"]
    ))]
    pub condition_rules: Vec<ConditionRule>,
    /// How the agent learns the feedback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Poll"))]
    pub feedback_scrape_type: Option<FeedbackScrapeType>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// Objects of a ManifestWork. In name and namespace `*` stands for any text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceIdentifier {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Resource in the plural: deployments.
    #[serde(default)]
    #[schemars(!default)]
    pub resource: String,
    /// Namespace; empty for an object of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object.
    #[serde(default)]
    #[schemars(!default)]
    pub name: String,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

text_enum! {
    /// Where feedback values come from.
    FeedbackType {
        /// What OCM's agent knows about the kind.
        #[default]
        WellKnownStatus,
        /// Paths of the rule.
        JSONPaths,
    }
}

/// What is read from an object into the status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackRule {
    /// Where the values come from.
    #[serde(rename = "type", default = "FeedbackType::unset")]
    #[schemars(!default)]
    pub type_: FeedbackType,
    /// The paths, for the type JSONPaths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub json_paths: Vec<JsonPath>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// One value read from an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JsonPath {
    /// The value's name in the status.
    #[serde(default)]
    #[schemars(!default)]
    pub name: String,
    /// The version of the object's API that the path is for; empty for any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// A JSONPath as kubectl has them, with a leading dot and no braces.
    #[serde(default)]
    #[schemars(!default)]
    pub path: String,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

text_enum! {
    /// How the agent writes an object.
    UpdateStrategyType {
        /// Creates it, then updates it where it differs.
        #[default]
        Update,
        /// Creates it and leaves it alone.
        CreateOnly,
        /// Server-side apply.
        ServerSideApply,
        /// Never writes it, only reports on it.
        ReadOnly,
    }
}

/// How an object is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["type"]))]
pub struct UpdateStrategy {
    /// How the agent writes the object.
    #[serde(rename = "type", default)]
    pub type_: UpdateStrategyType,
    /// More, for the type ServerSideApply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApplyConfig>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// How an object is applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerSideApplyConfig {
    /// Whether to take fields over from other field managers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// The field manager; begins with work-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "work-agent", "pattern" = "^work-agent"))]
    pub field_manager: Option<String>,
    /// Fields that the agent leaves to others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["condition"]
    ))]
    pub ignore_fields: Vec<IgnoreField>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

text_enum! {
    /// When fields are left to others.
    IgnoreFieldsCondition {
        /// Once the object is on the cluster.
        #[default]
        OnSpokePresent,
        /// Once somebody changed them there.
        OnSpokeChange,
    }
}

/// Fields that the agent leaves to others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["condition"]))]
pub struct IgnoreField {
    /// When the fields are left to others.
    #[serde(default)]
    pub condition: IgnoreFieldsCondition,
    /// The fields as JSONPaths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_paths: Vec<String>,
    /// The fields as JSON pointers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_pointers: Vec<String>,
    /// The fields as jq paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jq_path_expressions: Vec<String>,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

text_enum! {
    /// What decides a condition.
    ConditionRuleType {
        /// What OCM's agent knows about the kind.
        #[default]
        WellKnownConditions,
        /// Expressions of the rule.
        CEL,
    }
}

/// A condition of an object that the agent derives from its content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.type != 'CEL' || self.condition != \"\"",
    "message": "Condition is required for CEL rules",
}]))]
pub struct ConditionRule {
    /// The condition's type.
    #[serde(default)]
    #[schemars(!default)]
    pub condition: String,
    /// What decides the condition.
    #[serde(rename = "type", default = "ConditionRuleType::unset")]
    #[schemars(!default)]
    pub type_: ConditionRuleType,
    /// Expressions over `object`, all of which must be true, for the type CEL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cel_expressions: Vec<String>,
    /// The condition's message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// An expression that makes the condition's message; wins over message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message_expression: String,
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}
