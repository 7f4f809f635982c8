//! The daemon's configuration file, `gitwork run --config`, as types.
//!
//! The documentation comments of the fields are the descriptions in the JSON Schema.

use schemars::JsonSchema;
use serde::Deserialize;

use super::commit_status::{CommitStatusConfig, StatusBranchConfig};
use super::repository_files::{Budgets, SchemaPolicy};
use super::signers::{SignerKeys, SignerPolicy};
use super::tenancy::TenantRule;
use super::window::ChangeWindows;
use crate::limits;

/// The configuration file of `gitwork run --config`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DaemonFile {
    /// Sources to sync. Each source owns its own works on the hub.
    pub sources: Vec<DaemonSource>,
    /// Kubeconfig of the hub. Default: KUBECONFIG, then ~/.kube/config, then the pod's service
    /// account.
    pub kubeconfig: Option<String>,
    /// Context in the kubeconfig.
    pub context: Option<String>,
    /// Namespace on the hub for gitwork's own objects. Default: `gitwork`.
    pub namespace: Option<String>,
    /// Folder for the mirrors of the repositories.
    pub cache: Option<String>,
    /// Address that serves /healthz, /readyz and /metrics, for example `0.0.0.0:8080`. Default:
    /// not served.
    pub listen: Option<String>,
    /// The status page. Default: not served.
    pub page: Option<PageConfig>,
    /// Webhooks of forges. A valid request makes gitwork fetch the sources at once.
    pub webhook: Option<WebhookConfig>,
    /// Maximum number of concurrent writes to the hub.
    #[schemars(range(min = 1, max = 256))]
    pub concurrency: usize,
    /// Seconds for which the decisions of a Placement must have agreed before a cluster leaves its
    /// groups.
    #[schemars(range(min = 1, max = 86400))]
    pub placement_grace_seconds: u64,
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
            placement_grace_seconds: limits::PLACEMENT_GRACE.as_secs(),
        }
    }
}

/// The status page.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PageConfig {
    /// Address that serves the page, for example `127.0.0.1:8081`. The page has no authentication:
    /// every client that reaches the address can read it.
    pub bind: String,
    /// Additional host names that the page accepts, for example those of an Ingress or a proxy. IP
    /// addresses and names inside the cluster are always accepted.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// The webhook endpoint.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookConfig {
    /// Address that serves `POST /hook` and `POST /hook/<source id>`, for example `0.0.0.0:9292`.
    /// It must differ from `listen`.
    pub listen: String,
    /// File with the secret that is configured at the forge. Read again for every request.
    pub secret_file: String,
}

/// One source: a repository, a ref and a path.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DaemonSource {
    /// Name of the source on the hub. Default: derived from repository, ref and path; a folder
    /// needs one.
    pub id: Option<String>,
    /// An https, ssh or file URL, or a folder.
    pub repo: String,
    /// Branch to follow. Default without any ref: the remote's HEAD.
    pub branch: Option<String>,
    /// Tag to follow.
    pub tag: Option<String>,
    /// Version range. gitwork follows the highest tag in the range.
    pub semver: Option<String>,
    /// Commit id of 40 hexadecimal digits.
    pub commit: Option<String>,
    /// Folder in the repository that contains `clusters/`.
    pub path: String,
    /// Maximum of MiB that the rendered works of the source take in memory. Equal contents count
    /// once.
    #[schemars(range(min = 1, max = 65536))]
    pub max_content_mib: u32,
    /// Seconds between fetches.
    #[schemars(range(min = 1, max = 86400))]
    pub interval_seconds: u64,
    /// How much of the source one plan may delete without an approval.
    pub budgets: Budgets,
    /// `true`: a commit may delete every work of the source, regardless of the budgets.
    pub allow_delete_all: bool,
    /// Which existing ManifestWorks of other owners the source adopts.
    pub adopt: AdoptionPolicy,
    /// What to do when the new commit does not descend from the applied commits. With `signers` or
    /// `signerKeys` only `hold` is valid.
    pub rewind: RewindPolicy,
    /// When changes may be made. The windows of `gitwork.yaml` apply as well.
    pub windows: ChangeWindows,
    /// What each folder of the repository may deploy. Default: everything.
    pub policy: Vec<TenantRule>,
    /// How to treat objects that the API server would reject. It overrides `schemaProblems` of
    /// `gitwork.yaml`. Default: `warn`.
    pub schema_problems: Option<SchemaPolicy>,
    /// Folder with CRDs that are not in the repository. Custom objects are checked against them.
    pub schemas: Option<String>,
    /// Which commits and files need signatures. The policy of `gitwork.yaml` applies as well.
    pub signers: SignerPolicy,
    /// Keys whose signatures are trusted.
    pub signer_keys: SignerKeys,
    /// Credentials for the repository.
    pub credentials: DaemonCredentials,
    /// Commit statuses on the repository's forge.
    pub commit_status: Option<CommitStatusConfig>,
    /// A branch of the repository to which gitwork pushes the clusters' status.
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
            max_content_mib: 256,
            interval_seconds: 60,
            budgets: Budgets::default(),
            allow_delete_all: false,
            adopt: AdoptionPolicy::default(),
            rewind: RewindPolicy::default(),
            windows: ChangeWindows::default(),
            policy: Vec::new(),
            schema_problems: None,
            schemas: None,
            signers: SignerPolicy::default(),
            signer_keys: SignerKeys::default(),
            credentials: DaemonCredentials::default(),
            commit_status: None,
            status_branch: None,
        }
    }
}

/// Which existing ManifestWorks of other owners a source adopts when it has works of their names.
///
/// Only an operator sets this, in the daemon's file or by a flag. A commit cannot grant itself the
/// right to another owner's work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AdoptionPolicy {
    /// None, regardless of annotations.
    Never,
    /// Those whose annotation `gitwork.dev/adopt` names the source.
    #[default]
    Annotated,
    /// Annotated works, and works without an owner whose spec already equals the one in Git.
    Unowned,
}

impl AdoptionPolicy {
    /// Every policy with its word in files and flags.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Never, "never"), (Self::Annotated, "annotated"), (Self::Unowned, "unowned")];
}

/// What to do when the new commit does not descend from the applied commits: after a forced push,
/// a switch to an older commit or to another branch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RewindPolicy {
    /// Change nothing until it is approved.
    #[default]
    Hold,
    /// Apply the commit and report it.
    Warn,
    /// Apply the commit.
    Follow,
}

impl RewindPolicy {
    /// Every policy with its word in files and flags.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Hold, "hold"), (Self::Warn, "warn"), (Self::Follow, "follow")];
}

/// Credentials for a repository. The files are read again for every fetch.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DaemonCredentials {
    /// File with a bearer token.
    pub token_file: Option<String>,
    /// User name for basic authentication.
    pub username: Option<String>,
    /// File with the password or access token of `username`.
    pub password_file: Option<String>,
    /// File with a private SSH key.
    pub ssh_key: Option<String>,
    /// File with the passphrase of `sshKey`.
    pub ssh_passphrase_file: Option<String>,
    /// File with the accepted SSH host keys, as printed by ssh-keyscan.
    pub known_hosts: Option<String>,
    /// File with the certificate authorities to trust for https, in PEM.
    pub ca_file: Option<String>,
    /// File with a client certificate for https, in PEM.
    pub client_cert: Option<String>,
    /// File with the private key of `clientCert`.
    pub client_key: Option<String>,
    /// URL of an HTTP proxy.
    pub proxy: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rewinds_are_held_unless_another_policy_is_chosen() {
        assert_eq!(DaemonSource::default().rewind, RewindPolicy::Hold);
        let source = |fields| serde_json::from_value::<DaemonSource>(fields).unwrap();
        assert_eq!(source(json!({})).rewind, RewindPolicy::Hold);
        assert_eq!(source(json!({"rewind": "warn"})).rewind, RewindPolicy::Warn);
    }
}
