//! The configuration files of a repository as types: `gitwork.yaml`, `cluster.yaml`, `work.yaml` and the
//! manifest sidecars. The JSON Schemas of `docs/schema/` are generated from these types, and the same
//! schemas check the files, so that the two cannot differ.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::adoption::Adoption;
use super::forge::{CommitStatusConfig, StatusBranchConfig};
use super::rewind::RewindPolicy;
use super::signature::policy::{SignerKeys, SignerPolicy};
use super::tenancy::TenantRule;
use super::window::ChangeWindows;
use crate::api;

/// The rule fields of a `manifestConfigs` entry (OCM: ManifestConfigOption), which a manifest sidecar has too.
pub const RULE_FIELDS: [&str; 4] =
    ["feedbackRules", "updateStrategy", "conditionRules", "feedbackScrapeType"];

/// The fields of our files whose content is OCM's: OCM's own rules judge them.
pub const OCM_FIELDS: [&str; 7] = [
    "deleteOption",
    "executor",
    "manifestConfigs",
    "feedbackRules",
    "updateStrategy",
    "conditionRules",
    "feedbackScrapeType",
];

/// `gitwork.yaml` at the source's path: what holds for all works.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SourceFile {
    /// Settings for every work that does not set them itself.
    pub defaults: WorkSettings,
    /// Files and folders that are no manifests: patterns as in .gitignore, from the source's path down.
    pub ignore: Vec<String>,
    /// What to do about a Secret whose data stands in Git as plain text.
    pub secrets: SecretPolicy,
    /// How much of the source one plan may delete without approval.
    pub budgets: Budgets,
    /// When changes may be made. Of these and the operator's the stricter count.
    pub windows: ChangeWindows,
    /// `true`: nothing of the source is written or deleted while this is set.
    pub suspend: bool,
    /// Who has to have signed what is applied.
    pub signers: SignerPolicy,
}

/// The deletion budget: a plan that would delete more is held until it is approved. Of what the operator and the
/// repository set, the lower number counts.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Budgets {
    /// A plan may always delete so many works; 10 where nobody sets it.
    pub works: Option<u32>,
    /// It may delete more than `works`, up to this part of the source's works, in percent; 10 where nobody sets it.
    #[schemars(range(max = 100))]
    pub percent: Option<u32>,
    /// It may delete every work of a cluster that has no more than so many; 1 where nobody sets it.
    pub cluster: Option<u32>,
}

/// What to do about plain Secrets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SecretPolicy {
    Allow,
    #[default]
    Warn,
    Refuse,
}

/// `clusters/<cluster>/cluster.yaml`: what holds for one cluster.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClusterFile {
    /// Labels that describe the cluster.
    pub labels: BTreeMap<String, String>,
    /// The values of `${NAME}` in the manifests of works with `substitute: true`.
    pub values: BTreeMap<String, Scalar>,
    /// Settings for every work of this cluster that does not set them itself.
    pub defaults: WorkSettings,
    /// `true`: nothing of the source is written or deleted on this cluster while this is set.
    pub suspend: bool,
}

/// `work.yaml` in a work folder.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WorkFile {
    /// The ManifestWork's name, where it is not the folder's.
    pub name: Option<String>,
    /// Labels of the ManifestWork.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the ManifestWork.
    pub annotations: BTreeMap<String, String>,
    /// What becomes of the objects on the cluster once the work is deleted.
    #[schemars(schema_with = "delete_option_schema")]
    pub delete_option: Option<Value>,
    /// The identity that the agent checks permissions of.
    #[schemars(schema_with = "executor_schema")]
    pub executor: Option<Value>,
    /// OCM's rules for single objects.
    #[schemars(schema_with = "manifest_configs_schema")]
    pub manifest_configs: Vec<Value>,
    /// `false`: once Git drops the work it stays on the hub and on the cluster, and gitwork lets go of it.
    pub prune: Option<bool>,
    /// `true`: nothing is written for the work while this is set.
    pub suspend: Option<bool>,
    /// `true`: `${NAME}` in manifests is replaced by the cluster's value.
    pub substitute: Option<bool>,
}

/// What `gitwork.yaml` and `cluster.yaml` may set for the works below them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WorkSettings {
    /// Labels of the ManifestWork; a lower level adds to them and overrides single ones.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the ManifestWork; a lower level adds to them and overrides single ones.
    pub annotations: BTreeMap<String, String>,
    /// What becomes of the objects on the cluster once the work is deleted.
    #[schemars(schema_with = "delete_option_schema")]
    pub delete_option: Option<Value>,
    /// The identity that the agent checks permissions of.
    #[schemars(schema_with = "executor_schema")]
    pub executor: Option<Value>,
    /// OCM's rules for single objects. A lower level overrides single fields of a rule for the same object.
    #[schemars(schema_with = "manifest_configs_schema")]
    pub manifest_configs: Vec<Value>,
    /// `false`: once Git drops the work it stays on the hub and on the cluster, and gitwork lets go of it.
    pub prune: Option<bool>,
    /// `true`: nothing is written for the works while this is set.
    pub suspend: Option<bool>,
    /// `true`: `${NAME}` in manifests is replaced by the cluster's value.
    pub substitute: Option<bool>,
}

/// One document of `<file>.config.yaml`: rules for every object of `<file>`, or for those that `match`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ManifestFile {
    /// Which objects of the file; all of them where it is absent.
    #[serde(rename = "match")]
    pub select: Option<ManifestMatch>,
    /// The plural of the objects' kind, for a custom kind whose CRD is not in the repository.
    pub resource: Option<String>,
    /// `true`: the objects stay on the cluster once the work is deleted or drops them.
    pub orphan: Option<bool>,
    /// What the agent reports back of the objects' status.
    #[schemars(schema_with = "feedback_rules_schema")]
    pub feedback_rules: Option<Value>,
    /// How the agent writes the objects.
    #[schemars(schema_with = "update_strategy_schema")]
    pub update_strategy: Option<Value>,
    /// Conditions that the agent derives from the objects.
    #[schemars(schema_with = "condition_rules_schema")]
    pub condition_rules: Option<Value>,
    /// Whether the agent polls or watches the objects for feedback.
    #[schemars(schema_with = "feedback_scrape_type_schema")]
    pub feedback_scrape_type: Option<Value>,
}

/// Which objects of a file. Every field given must hold; `name` and `namespace` may hold `*`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ManifestMatch {
    /// The objects' apiVersion, as in `apps/v1`.
    pub api_version: Option<String>,
    /// The objects' kind, as in `Deployment`.
    pub kind: Option<String>,
    /// The objects' namespace; `*` stands for any run of characters.
    pub namespace: Option<String>,
    /// The objects' name; `*` stands for any run of characters.
    pub name: Option<String>,
}

/// A value for `${NAME}`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Scalar(pub Value);

impl JsonSchema for Scalar {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Scalar".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "integer", "boolean"] })
    }
}

/// The file of `gitwork run --config`: what the daemon syncs, and how.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DaemonFile {
    /// What to sync. Each source has works of its own on the hub.
    pub sources: Vec<DaemonSource>,
    /// Kubeconfig of the hub; without it KUBECONFIG, ~/.kube/config or the pod's service account.
    pub kubeconfig: Option<String>,
    /// Context in the kubeconfig.
    pub context: Option<String>,
    /// Namespace on the hub with gitwork's own objects; `gitwork` where it is absent.
    pub namespace: Option<String>,
    /// Folder for mirrors of repositories.
    pub cache: Option<String>,
    /// Address of /healthz, /readyz and /metrics, as in `0.0.0.0:8080`; off where it is absent.
    pub listen: Option<String>,
    /// The status page; off where it is absent.
    pub page: Option<PageConfig>,
    /// Webhooks of forges: each has the sources fetched at once.
    pub webhook: Option<WebhookConfig>,
    /// Writes to the hub that are under way at once.
    #[schemars(range(min = 1, max = 256))]
    pub concurrency: usize,
}

impl Default for DaemonFile {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            kubeconfig: None,
            context: None,
            namespace: None,
            cache: None,
            listen: None,
            page: None,
            webhook: None,
            concurrency: 32,
        }
    }
}

/// Where the status page is served.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PageConfig {
    /// Its address, as in `127.0.0.1:8081`. Everybody who can reach it can read it.
    pub bind: String,
    /// Names under which it answers, besides addresses and names within a cluster: those of an ingress or a proxy.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// Where webhooks come in, and the secret that they share with the forge.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookConfig {
    /// Address of `POST /hook` and `POST /hook/<source id>`, as in `0.0.0.0:9292`; not the one of `listen`.
    pub listen: String,
    /// File with the secret that is set at the forge. Read anew at every request.
    pub secret_file: String,
}

/// One repository, ref and path that the daemon syncs.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DaemonSource {
    /// Its name on the hub; made of repository, ref and path where it is absent.
    pub id: Option<String>,
    /// An https, ssh or file URL, or a folder.
    pub repo: String,
    /// Branch to follow; the remote's HEAD where no ref is named.
    pub branch: Option<String>,
    /// Tag to read.
    pub tag: Option<String>,
    /// The highest tag in this range is read.
    pub semver: Option<String>,
    /// A commit id of 40 digits.
    pub commit: Option<String>,
    /// Folder inside the repository that holds `clusters/`.
    pub path: String,
    /// Seconds between two fetches.
    #[schemars(range(min = 1, max = 86400))]
    pub interval_seconds: u64,
    /// How much of the source one plan may delete without approval.
    pub budgets: Budgets,
    /// `true`: a commit may delete every work of the source, whatever the budgets.
    pub allow_delete_all: bool,
    /// Which ManifestWorks of others are taken over where the source wants their names.
    pub adopt: Adoption,
    /// What to do about a commit that does not build on those that were applied.
    pub rewind: RewindPolicy,
    /// When changes may be made. Of these and those of `gitwork.yaml` the stricter count.
    pub windows: ChangeWindows,
    /// What the folders of the repository may do; everything where it is empty.
    pub policy: Vec<TenantRule>,
    /// Who has to have signed what is applied.
    pub signers: SignerPolicy,
    /// The keys that may sign.
    pub signer_keys: SignerKeys,
    /// How to reach the repository.
    pub credentials: DaemonCredentials,
    /// Commit statuses on the repository's forge.
    pub commit_status: Option<CommitStatusConfig>,
    /// A branch of the repository with the clusters' status.
    pub status_branch: Option<StatusBranchConfig>,
}

impl Default for DaemonSource {
    fn default() -> Self {
        Self {
            id: None,
            repo: String::new(),
            branch: None,
            tag: None,
            semver: None,
            commit: None,
            path: ".".into(),
            interval_seconds: 60,
            budgets: Budgets::default(),
            allow_delete_all: false,
            adopt: Adoption::default(),
            rewind: RewindPolicy::default(),
            windows: ChangeWindows::default(),
            policy: Vec::new(),
            signers: SignerPolicy::default(),
            signer_keys: SignerKeys::default(),
            credentials: DaemonCredentials::default(),
            commit_status: None,
            status_branch: None,
        }
    }
}

/// Files with what a repository asks for; read anew at every fetch.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DaemonCredentials {
    /// A bearer token.
    pub token_file: Option<String>,
    /// The user of basic authentication.
    pub username: Option<String>,
    /// The password or access token of `username`.
    pub password_file: Option<String>,
    /// A private SSH key.
    pub ssh_key: Option<String>,
    /// The passphrase of `sshKey`.
    pub ssh_passphrase_file: Option<String>,
    /// The SSH host keys to accept, as ssh-keyscan prints them.
    pub known_hosts: Option<String>,
    /// Certificate authorities to trust for https, in PEM.
    pub ca_file: Option<String>,
    /// A client certificate for https, in PEM.
    pub client_cert: Option<String>,
    /// The key of `clientCert`.
    pub client_key: Option<String>,
    /// URL of an HTTP proxy.
    pub proxy: Option<String>,
}

/// The files that gitwork reads beside manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    Source,
    Cluster,
    Work,
    Manifest,
    Daemon,
}

impl FileKind {
    pub const ALL: [FileKind; 5] =
        [FileKind::Source, FileKind::Cluster, FileKind::Work, FileKind::Manifest, FileKind::Daemon];

    /// The name of its schema, as `gitwork schema` takes it.
    pub fn schema_name(self) -> &'static str {
        match self {
            FileKind::Source => "gitwork",
            FileKind::Cluster => "cluster",
            FileKind::Work => "work",
            FileKind::Manifest => "manifest-config",
            FileKind::Daemon => "daemon",
        }
    }

    /// The schema, made once.
    pub(super) fn compiled_schema(self) -> &'static Value {
        static SCHEMAS: LazyLock<BTreeMap<FileKind, Value>> =
            LazyLock::new(|| FileKind::ALL.map(|kind| (kind, kind.schema())).into());
        // Every kind is in the table.
        SCHEMAS.get(&self).unwrap_or(&Value::Null)
    }

    /// The JSON Schema (draft 2020-12) of the file.
    pub fn schema(self) -> Value {
        let settings =
            schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
        let generator = settings.into_generator();
        let schema = match self {
            FileKind::Source => generator.into_root_schema_for::<SourceFile>(),
            FileKind::Cluster => generator.into_root_schema_for::<ClusterFile>(),
            FileKind::Work => generator.into_root_schema_for::<WorkFile>(),
            FileKind::Manifest => generator.into_root_schema_for::<ManifestFile>(),
            FileKind::Daemon => generator.into_root_schema_for::<DaemonFile>(),
        };
        schema.to_value()
    }
}

/// Fields that belong to a later version: their presence is an error that says so, never ignored.
pub const LATER: &[(&str, &str)] = &[
    ("/dependsOn", "ordering between works"),
    ("/rollout", "staged rollouts"),
    ("/defaults/dependsOn", "ordering between works"),
    ("/defaults/rollout", "staged rollouts"),
];

fn spec_property(path: &[&str]) -> Schema {
    let mut at = api::work::manifest_work_spec_schema();
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
