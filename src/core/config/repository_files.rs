//! The configuration files of a repository as types: `gitwork.yaml`, `cluster.yaml`, `work.yaml`
//! and the manifest sidecars `<file>.config.yaml`.
//!
//! The documentation comments of the fields are the descriptions in the JSON Schemas.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dependency::DependencyEntry;
use super::rollout::RolloutSettings;
use super::signers::SignerPolicy;
use super::values::SubstitutionValue;
use super::window::ChangeWindows;

/// `gitwork.yaml` at the source's path: settings for all works of the source.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SourceFile {
    /// Defaults for all works. `cluster.yaml` and `work.yaml` override them.
    pub defaults: WorkSettings,
    /// Files and folders to ignore: patterns in .gitignore syntax, relative to the source's path.
    pub ignore: Vec<String>,
    /// How to treat a Secret with plain-text data in Git.
    pub secrets: SecretPolicy,
    /// How to treat objects that the API server would reject. Default: `validate` and `plan` report
    /// errors, the daemon warnings. The operator's setting overrides it.
    pub schema_problems: Option<SchemaPolicy>,
    /// How much of the source one plan may delete without an approval.
    pub budgets: Budgets,
    /// When changes may be made. The operator's windows apply as well.
    pub windows: ChangeWindows,
    /// `true`: suspend the source. gitwork writes and deletes nothing of it.
    pub suspend: bool,
    /// Which commits and files need signatures. The operator's policy applies as well.
    pub signers: SignerPolicy,
    /// How changes of groups reach their clusters. `rollout` of `group.yaml` replaces it.
    pub rollout: Option<RolloutSettings>,
}

/// The deletion budget. A plan that deletes more is held until it is approved. If the operator and
/// the repository both set a value, the lower one applies.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Budgets {
    /// Number of works that a plan may always delete. Default: 10.
    pub works: Option<u32>,
    /// Percentage of the source's works that a plan may delete, if that is more than `works`.
    /// Default: 10.
    #[schemars(range(max = 100))]
    pub percent: Option<u32>,
    /// A plan may delete all works of a cluster if the cluster has at most this number of works.
    /// Default: 1.
    pub cluster: Option<u32>,
    /// Further budgets, each for the works of some clusters together.
    #[schemars(length(max = 100))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterBudget>,
    /// Further budgets, each for the works of some groups together.
    #[schemars(length(max = 100))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupBudget>,
}

/// A budget for the works of some groups together.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupBudget {
    /// The groups. In patterns, `*` matches any sequence of characters.
    #[schemars(length(min = 1, max = 100))]
    pub groups: Vec<String>,
    /// Number of their works that a plan may always delete. Default: 0.
    #[serde(default)]
    pub works: u32,
    /// Percentage of their works that a plan may delete, if that is more than `works`. Default: 0.
    #[schemars(range(max = 100))]
    #[serde(default)]
    pub percent: u32,
}

/// A budget for the works of some clusters together.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterBudget {
    /// The clusters. In patterns, `*` matches any sequence of characters.
    #[schemars(length(min = 1, max = 100))]
    pub clusters: Vec<String>,
    /// Number of their works that a plan may always delete. Default: 0.
    #[serde(default)]
    pub works: u32,
    /// Percentage of their works that a plan may delete, if that is more than `works`. Default: 0.
    #[schemars(range(max = 100))]
    #[serde(default)]
    pub percent: u32,
}

/// How to treat a Secret with plain-text data in Git.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SecretPolicy {
    /// Accept it.
    Allow,
    /// Accept it with a warning.
    #[default]
    Warn,
    /// Report an error, which freezes the work.
    Refuse,
}

/// How to treat objects that the API server would reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SchemaPolicy {
    /// Report an error, which freezes the work.
    Error,
    /// Report a warning, and apply the work.
    Warn,
    /// Do not check.
    Ignore,
}

/// `clusters/<cluster>/cluster.yaml`: settings for one cluster.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClusterFile {
    /// Labels of the cluster. They override labels of the ManagedCluster with the same key.
    pub labels: BTreeMap<String, String>,
    /// Kubernetes version of the cluster, as in `"1.31"`. Objects are checked for it. Default: the
    /// version that the hub reports.
    #[schemars(length(max = 100))]
    pub kubernetes_version: Option<String>,
    /// Values for `${NAME}` in the manifests of works with `substitute: true`. They override those
    /// of groups.
    pub values: BTreeMap<String, SubstitutionValue>,
    /// Defaults for the works of this cluster. `work.yaml` overrides them.
    pub defaults: WorkSettings,
    /// `true`: suspend the cluster. gitwork writes and deletes nothing of the source there.
    pub suspend: bool,
}

/// `work.yaml` in a work folder: settings for one ManifestWork.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WorkFile {
    /// Name of the ManifestWork. Default: the name of the folder.
    pub name: Option<String>,
    /// Labels of the ManifestWork.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the ManifestWork.
    pub annotations: BTreeMap<String, String>,
    /// What the agent does with the objects on the cluster when the work is deleted.
    #[schemars(schema_with = "delete_option_schema")]
    pub delete_option: Option<Value>,
    /// Service account on the managed cluster whose permissions the agent uses.
    #[schemars(schema_with = "executor_schema")]
    pub executor: Option<Value>,
    /// OCM's rules for single objects.
    #[schemars(schema_with = "manifest_configs_schema")]
    pub manifest_configs: Vec<Value>,
    /// `false`: when Git removes the work, release it instead of deleting it. It stays on the hub
    /// and on the cluster.
    pub prune: Option<bool>,
    /// `true`: suspend the work. gitwork writes nothing for it.
    pub suspend: Option<bool>,
    /// `true`: replace `${NAME}` in manifests by the cluster's value.
    pub substitute: Option<bool>,
    /// `group`: replace the works of this name that groups have for the cluster. Only in the folder
    /// of a cluster.
    pub replaces: Option<ReplacedWork>,
    /// Namespace of the objects that need one and have none.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// `true`: add the Namespace that `namespace` names. The agent creates it if it is missing, and
    /// never changes or deletes it.
    pub create_namespace: Option<bool>,
    /// Works that must be there first: names of works of the same cluster, or mappings with
    /// `cluster` and `work`. A new work is created once they are applied and available.
    #[schemars(length(max = 20))]
    pub depends_on: Vec<DependencyEntry>,
}

/// Which other works a work replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplacedWork {
    /// Those of groups.
    Group,
}

/// Defaults for works, in `gitwork.yaml`, `group.yaml` and `cluster.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WorkSettings {
    /// Labels of the ManifestWork. A lower level adds labels and overrides single ones.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the ManifestWork. A lower level adds annotations and overrides single ones.
    pub annotations: BTreeMap<String, String>,
    /// What the agent does with the objects on the cluster when the work is deleted.
    #[schemars(schema_with = "delete_option_schema")]
    pub delete_option: Option<Value>,
    /// Service account on the managed cluster whose permissions the agent uses.
    #[schemars(schema_with = "executor_schema")]
    pub executor: Option<Value>,
    /// OCM's rules for single objects. A lower level overrides single fields of a rule for the same
    /// object.
    #[schemars(schema_with = "manifest_configs_schema")]
    pub manifest_configs: Vec<Value>,
    /// `false`: when Git removes a work, release it instead of deleting it. It stays on the hub and
    /// on the cluster.
    pub prune: Option<bool>,
    /// `true`: suspend the works. gitwork writes nothing for them.
    pub suspend: Option<bool>,
    /// `true`: replace `${NAME}` in manifests by the cluster's value.
    pub substitute: Option<bool>,
    /// Namespace of the objects that need one and have none.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// `true`: add the Namespace that `namespace` names. The agent creates it if it is missing, and
    /// never changes or deletes it.
    pub create_namespace: Option<bool>,
}

/// One document of `<file>.config.yaml`: rules for the objects of `<file>`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ManifestFile {
    /// Objects that the rules apply to. Default: all objects of the file.
    #[serde(rename = "match")]
    pub select: Option<ManifestMatch>,
    /// Plural of the objects' kind. Needed for a custom kind whose CRD is not in the repository.
    pub resource: Option<String>,
    /// `true`: the objects stay on the cluster when the work is deleted or no longer has them.
    pub orphan: Option<bool>,
    /// Status values that the agent reports for the objects.
    #[schemars(schema_with = "feedback_rules_schema")]
    pub feedback_rules: Option<Value>,
    /// How the agent writes the objects.
    #[schemars(schema_with = "update_strategy_schema")]
    pub update_strategy: Option<Value>,
    /// Conditions that the agent computes from the objects.
    #[schemars(schema_with = "condition_rules_schema")]
    pub condition_rules: Option<Value>,
    /// How the agent reads the objects for feedback: by polling or by a watch.
    #[schemars(schema_with = "feedback_scrape_type_schema")]
    pub feedback_scrape_type: Option<Value>,
}

/// Selects objects of a file. All given fields must match.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ManifestMatch {
    /// The objects' apiVersion, for example `apps/v1`.
    pub api_version: Option<String>,
    /// The objects' kind, for example `Deployment`.
    pub kind: Option<String>,
    /// The objects' namespace. `*` matches any sequence of characters.
    pub namespace: Option<String>,
    /// The objects' name. `*` matches any sequence of characters.
    pub name: Option<String>,
}

fn spec_property(path: &[&str]) -> Schema {
    let mut at = gitwork_api::work::manifest_work_spec_schema();
    for key in path {
        at = at.get(key).cloned().unwrap_or_default();
    }
    Schema::try_from(at).unwrap_or_default()
}

fn config_property(name: &str) -> Schema {
    spec_property(&["properties", "manifestConfigs", "items", "properties", name])
}

fn delete_option_schema(_: &mut SchemaGenerator) -> Schema {
    spec_property(&["properties", "deleteOption"])
}
fn executor_schema(_: &mut SchemaGenerator) -> Schema {
    spec_property(&["properties", "executor"])
}
fn manifest_configs_schema(_: &mut SchemaGenerator) -> Schema {
    spec_property(&["properties", "manifestConfigs"])
}
fn feedback_rules_schema(_: &mut SchemaGenerator) -> Schema {
    config_property("feedbackRules")
}
fn update_strategy_schema(_: &mut SchemaGenerator) -> Schema {
    config_property("updateStrategy")
}
fn condition_rules_schema(_: &mut SchemaGenerator) -> Schema {
    config_property("conditionRules")
}
fn feedback_scrape_type_schema(_: &mut SchemaGenerator) -> Schema {
    config_property("feedbackScrapeType")
}
