//! `work.open-cluster-management.io/v1`: ManifestWork and AppliedManifestWork.

use std::sync::LazyLock;

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
pub use super::manifest_config::{
    ConditionRule, ConditionRuleType, FeedbackRule, FeedbackScrapeType, FeedbackType, IgnoreField,
    IgnoreFieldsCondition, JsonPath, ManifestConfigOption, ResourceIdentifier,
    ServerSideApplyConfig, UpdateStrategy, UpdateStrategyType,
};
use super::schema::{self, text_enum};
pub use super::work_status::{
    FeedbackValue, FieldValue, ManifestCondition, ManifestResourceMeta, ManifestResourceStatus,
    ManifestWorkStatus, StatusFeedbackResult, ValueType,
};

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
    /// Fields that a newer OCM has, by name. They are kept and written back.
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
    /// Fields that a newer OCM has, by name. They are kept and written back.
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
    /// Fields that a newer OCM has, by name. They are kept and written back.
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
    /// Fields that a newer OCM has, by name. They are kept and written back.
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
    /// Fields that a newer OCM has, by name. They are kept and written back.
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
    /// Fields that a newer OCM has, by name. They are kept and written back.
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
    /// Fields that a newer OCM has, by name. They are kept and written back.
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
    /// Fields that a newer OCM has, by name. They are kept and written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown_fields: UnknownFields,
}
