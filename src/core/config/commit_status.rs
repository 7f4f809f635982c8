//! Configuration of commit statuses and of the status branch.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

/// The supported forges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// github.com and GitHub Enterprise.
    Github,
    /// gitlab.com and self-managed GitLab.
    Gitlab,
    /// Gitea and Forgejo.
    Gitea,
    /// bitbucket.org.
    BitbucketCloud,
    /// Bitbucket Data Center, 7.14 or later.
    BitbucketDataCenter,
    /// Azure DevOps Services and Server.
    AzureDevops,
}

impl Provider {
    /// Every provider with its word in the configuration.
    pub const ALL: [(Provider, &'static str); 6] = [
        (Provider::Github, "github"),
        (Provider::Gitlab, "gitlab"),
        (Provider::Gitea, "gitea"),
        (Provider::BitbucketCloud, "bitbucket-cloud"),
        (Provider::BitbucketDataCenter, "bitbucket-data-center"),
        (Provider::AzureDevops, "azure-devops"),
    ];

    /// Its word in the configuration.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(provider, _)| *provider == self).map_or("", |(_, word)| word)
    }

    /// The longest description in characters. GitHub and Bitbucket Data Center reject longer ones
    /// (their REST documentation), GitLab stores this many. The other forges get the same limit.
    pub fn description_chars_max(self) -> usize {
        if self == Self::Github { 140 } else { 255 }
    }

    /// The longest context in characters. Bitbucket Cloud limits `key` to 40 (its REST
    /// documentation).
    pub fn context_chars_max(self) -> usize {
        if self == Self::BitbucketCloud { 40 } else { 255 }
    }

    /// The permission that a token needs, in the forge's own terms.
    pub fn permission(self) -> &'static str {
        match self {
            Self::Github => "`repo:status`, or \"Commit statuses: write\" for a fine-grained one",
            Self::Gitlab => "the scope `api` and the role Developer",
            Self::Gitea => "`write:repository`",
            Self::BitbucketCloud => "\"Repositories: write\"",
            Self::BitbucketDataCenter => "\"Repository read\"",
            Self::AzureDevops => "\"Code (status)\"",
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Github => "GitHub",
            Self::Gitlab => "GitLab",
            Self::Gitea => "Gitea",
            Self::BitbucketCloud => "Bitbucket Cloud",
            Self::BitbucketDataCenter => "Bitbucket Data Center",
            Self::AzureDevops => "Azure DevOps",
        })
    }
}

/// Commit statuses of a source on a forge.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitStatusConfig {
    /// The kind of forge. For Forgejo use `gitea`.
    pub provider: Provider,
    /// The repository's name on the forge, for example `owner/name`. Default: derived from the
    /// source's URL.
    #[serde(default)]
    pub repository: Option<String>,
    /// File with a token that may write commit statuses. Bitbucket also accepts `user:password`.
    /// Read again for every write.
    #[serde(default)]
    pub token_file: Option<String>,
    /// A GitHub App instead of a token. It writes check runs with annotations on faulty lines.
    #[serde(default)]
    pub app: Option<GithubAppConfig>,
    /// Additional statuses for clusters or groups, each named `gitwork/<name>`.
    #[serde(default)]
    pub contexts: Vec<ContextConfig>,
    /// Name of the status on the forge.
    #[serde(default = "default_context")]
    pub context: String,
    /// URL that a status links to. `{commit}` is replaced by the commit's id.
    #[serde(default)]
    pub target_url: Option<String>,
    /// Base URL of the forge's API, for example `https://git.example/api/v1`. Default: derived from
    /// the source's URL.
    #[serde(default)]
    pub api_url: Option<String>,
    /// File with the certificate authorities to trust, in PEM. Default: those of the system.
    #[serde(default)]
    pub ca_file: Option<String>,
    /// URL of an HTTP proxy, for example `http://proxy.example:3128`.
    #[serde(default)]
    pub proxy: Option<String>,
}

fn default_context() -> String {
    "gitwork".into()
}

/// One installation of a GitHub App.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GithubAppConfig {
    /// The App's client id or numeric id.
    pub id: String,
    /// The installation's id: the number at the end of its URL.
    pub installation_id: u64,
    /// File with a private key of the App, in PEM. Read again for each token.
    pub key_file: String,
}

/// Clusters or groups with commit statuses of their own: `clusters` or `groups` is needed.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ContextConfig {
    /// Patterns of cluster names, for example `prod-*`.
    pub clusters: Vec<String>,
    /// Name of one status for all these clusters. Default: one status for each cluster.
    pub name: Option<String>,
    /// Patterns of names of groups, for example `*`. Each group has its own status, of its works
    /// on its clusters.
    pub groups: Vec<String>,
}

/// The status branch. It is pushed to the source's repository with the source's credentials.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StatusBranchConfig {
    /// Name of the branch. Reserve it for gitwork, and for this source.
    pub branch: String,
    /// Minimum number of seconds between commits.
    #[schemars(range(min = 1, max = 3600))]
    pub interval_seconds: u64,
}

impl Default for StatusBranchConfig {
    fn default() -> Self {
        Self { branch: "gitwork-status".into(), interval_seconds: 30 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_has_its_word() {
        for (provider, word) in Provider::ALL {
            let read: Provider = serde_json::from_value(word.into()).unwrap();
            assert_eq!((read, provider.as_str()), (provider, word));
        }
    }
}
