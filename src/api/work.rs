//! `work.open-cluster-management.io/v1`: ManifestWork and AppliedManifestWork.

use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
#[cfg(feature = "kube")]
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::UnknownFields;
#[cfg(feature = "kube")]
pub use super::applied::AppliedManifestWork;
pub use super::applied::{
    AppliedManifestResourceMeta, AppliedManifestWorkSpec, AppliedManifestWorkStatus,
};
#[cfg(feature = "kube")]
use super::kind_schema::kind_schema;
use super::schema::{self, text_enum};

/// The API group of both kinds and of ManifestWorkReplicaSet.
pub const GROUP: &str = "work.open-cluster-management.io";

/// The generated CRD. A test compares it with the Rust types.
const CRD: &str =
    include_str!("../../deploy/crds/manifestworks.work.open-cluster-management.io.yaml");

/// The JSON schema of `ManifestWork.spec`, as the API server checks it.
pub fn manifest_work_spec_schema() -> Value {
    static SPEC: LazyLock<Value> = LazyLock::new(|| {
        let crd: Value = serde_yaml::from_str(CRD).unwrap_or_default();
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        crd.pointer(spec).cloned().unwrap_or_default()
    });
    SPEC.clone()
}

/// What is to be on the managed cluster, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "kube", derive(CustomResource), kube(
    group = "work.open-cluster-management.io",
    version = "v1",
    kind = "ManifestWork",
    plural = "manifestworks",
    namespaced,
    status = "ManifestWorkStatus",
    doc = "Objects for one managed cluster: that of the namespace it is in.",
    schema = "manual",
    derive = "Default",
    derive = "PartialEq",
    // An object without spec is legal; behind cfg_attr because kube takes no serde attribute.
    attr = "cfg_attr(all(), serde(default))"))]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkSpec {
    /// What becomes of the objects when the ManifestWork is deleted. Without it they are deleted
    /// first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<DeleteOption>,
    /// As whom the agent applies the objects. Without it, as itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<ManifestWorkExecutor>,
    /// How single objects are applied and what is reported of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_configs: Vec<ManifestConfigOption>,
    /// The objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<ManifestsTemplate>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

#[cfg(feature = "kube")]
kind_schema!(
    ManifestWork,
    "Objects for one managed cluster: that of the namespace it is in.",
    {"spec": ManifestWorkSpec, "status": ManifestWorkStatus},
    required: &[]
);

/// The objects of a ManifestWork.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestsTemplate {
    /// Each a whole Kubernetes object. An object's index is its ordinal in the status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::embedded_resources")]
    pub manifests: Vec<Value>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

text_enum! {
    /// What becomes of the applied objects when their ManifestWork is deleted.
    PropagationPolicy {
        /// They are deleted before the ManifestWork is gone.
        #[default]
        Foreground,
        /// They stay.
        Orphan,
        /// Those that an orphaning rule names stay.
        SelectivelyOrphan,
    }
}

/// What becomes of the objects when the ManifestWork is deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOption {
    /// Whether all, none or some of the objects are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Foreground"))]
    pub propagation_policy: Option<PropagationPolicy>,
    /// The objects that stay under SelectivelyOrphan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selectively_orphans: Option<SelectivelyOrphan>,
    /// Seconds from when the ManifestWork is complete until the agent deletes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i64>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// The objects that stay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectivelyOrphan {
    /// One for each object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphaning_rules: Vec<OrphaningRule>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// One object that stays. No wildcards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrphaningRule {
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
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// As whom the agent applies the objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkExecutor {
    /// Whose rights the agent checks and uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<ManifestWorkExecutorSubject>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

text_enum! {
    /// The kind of an executor's subject.
    ExecutorSubjectType {
        /// A service account on the managed cluster.
        #[default]
        ServiceAccount,
    }
}

/// Whose rights the agent checks and uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkExecutorSubject {
    /// The kind of the subject.
    #[serde(rename = "type", default = "ExecutorSubjectType::unset")]
    #[schemars(!default)]
    pub type_: ExecutorSubjectType,
    /// The account, for the type ServiceAccount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ManifestWorkSubjectServiceAccount>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// A service account on the managed cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkSubjectServiceAccount {
    /// Its namespace.
    #[schemars(extend("pattern" = schema::SUBDOMAIN, "minLength" = 1, "maxLength" = 253))]
    #[serde(default)]
    #[schemars(!default)]
    pub namespace: String,
    /// Its name.
    #[schemars(extend("pattern" = schema::SUBDOMAIN, "minLength" = 1, "maxLength" = 253))]
    #[serde(default)]
    #[schemars(!default)]
    pub name: String,
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

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
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["condition"]))]
    pub condition_rules: Vec<ConditionRule>,
    /// How the agent learns the feedback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Poll"))]
    pub feedback_scrape_type: Option<FeedbackScrapeType>,
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
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["condition"]))]
    pub ignore_fields: Vec<IgnoreField>,
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
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// What the agent reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkStatus {
    /// Of the whole: Applied, Available, Progressing, Degraded, Complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
    /// Of each object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_status: Option<ManifestResourceStatus>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// The state of each object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestResourceStatus {
    /// In the order of the manifests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<ManifestCondition>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// The state of one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestCondition {
    /// Which object.
    #[serde(default)]
    #[schemars(!default)]
    pub resource_meta: ManifestResourceMeta,
    /// Values read by feedback rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_feedback: Option<StatusFeedbackResult>,
    /// Applied, Available, StatusFeedbackSynced and those of condition rules.
    #[schemars(schema_with = "schema::conditions_by_type")]
    #[serde(default)]
    #[schemars(!default)]
    pub conditions: Vec<Condition>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// Which object of a ManifestWork; all but the ordinal is empty where the agent could not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestResourceMeta {
    /// Index in `spec.workload.manifests`.
    #[serde(default)]
    #[schemars(!default)]
    pub ordinal: i32,
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Version of the API group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Kind of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Resource in the plural.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// Name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// Values read from an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusFeedbackResult {
    /// One for each name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub values: Vec<FeedbackValue>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

/// One value read from an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackValue {
    /// Name of the value, from the rule.
    pub name: String,
    /// The value.
    pub field_value: FieldValue,
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}

text_enum! {
    /// Which field of a FieldValue has the value.
    ValueType {
        #[default]
        Integer,
        String,
        Boolean,
        JsonRaw,
    }
}

/// A value: the field that its type says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldValue {
    /// Which field has the value.
    #[serde(rename = "type")]
    pub type_: ValueType,
    /// A whole number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer: Option<i64>,
    /// A text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// True or false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boolean: Option<bool>,
    /// A list or a mapping as JSON text of at most 1024 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 1024))]
    pub json_raw: Option<String>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}
