//! What the daemon's configuration says of commit statuses.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Provider;
use super::address::{AddressError, Settings, Target};

/// Where a source's commit statuses go.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitStatusConfig {
    /// The kind of forge. Forgejo is a `gitea`.
    pub provider: Provider,
    /// The repository as the forge names it, as in `owner/name`; read from the source's URL where it is absent.
    #[serde(default)]
    pub repository: Option<String>,
    /// File with a token that may write commit statuses; on Bitbucket `user:password` as well. Read anew at every
    /// write.
    #[serde(default)]
    pub token_file: Option<String>,
    /// A GitHub App instead of a token: it writes check runs, with annotations on the lines that are wrong.
    #[serde(default)]
    pub app: Option<GithubAppConfig>,
    /// Further statuses, for clusters or groups of clusters: `gitwork/<name>` each.
    #[serde(default)]
    pub contexts: Vec<ContextConfig>,
    /// The name under which the statuses stand.
    #[serde(default = "default_context")]
    pub context: String,
    /// What a status links to; `{commit}` stands for the commit's id.
    #[serde(default)]
    pub target_url: Option<String>,
    /// Address of the forge's API, as in `https://git.example/api/v1`; read from the source's URL where it is absent.
    #[serde(default)]
    pub api_url: Option<String>,
    /// File with the certificate authorities to trust, in PEM; without it those of the system.
    #[serde(default)]
    pub ca_file: Option<String>,
    /// HTTP proxy, as in `http://proxy.example:3128`.
    #[serde(default)]
    pub proxy: Option<String>,
}

/// One installation of a GitHub App.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GithubAppConfig {
    /// The App's client id or number.
    pub id: String,
    /// The number at the end of the installation's address.
    pub installation_id: u64,
    /// File with a private key of the App, in PEM. Read anew for each token.
    pub key_file: String,
}

/// Clusters with a status of their own.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextConfig {
    /// Patterns of cluster names, as in `prod-*`.
    pub clusters: Vec<String>,
    /// One status of this name for all of them; without it one for each cluster.
    #[serde(default)]
    pub group: Option<String>,
}

/// How to log in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Login<'a> {
    /// With the token in this file.
    Token(&'a str),
    App(&'a GithubAppConfig),
}

/// Where a source's status branch goes: its own repository, over its own credentials.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StatusBranchConfig {
    /// The branch. It belongs to gitwork alone, and to this source alone.
    pub branch: String,
    /// Seconds between two commits, at least.
    #[schemars(range(min = 1, max = 3600))]
    pub interval_seconds: u64,
}

impl Default for StatusBranchConfig {
    fn default() -> Self {
        Self { branch: "gitwork-status".into(), interval_seconds: 30 }
    }
}

fn default_context() -> String {
    "gitwork".into()
}

impl CommitStatusConfig {
    /// The one way to log in that is named.
    pub fn login(&self) -> Result<Login<'_>, AddressError> {
        match (&self.token_file, &self.app) {
            (Some(file), None) => Ok(Login::Token(file)),
            (None, Some(app)) if self.provider == Provider::Github => {
                let known = |c: char| c.is_ascii_alphanumeric() || c == '.';
                let is_id = (1..=100).contains(&app.id.len()) && app.id.chars().all(known);
                if is_id { Ok(Login::App(app)) } else { Err(AddressError::AppId) }
            }
            _ => Err(AddressError::Login),
        }
    }

    /// The target that this makes of the source's repository.
    pub fn target(&self, repository_url: &str) -> Result<Target, AddressError> {
        let settings = Settings {
            repository: self.repository.as_deref(),
            api_url: self.api_url.as_deref(),
            context: &self.context,
            target_url: self.target_url.as_deref(),
            is_app: matches!(self.login()?, Login::App(_)),
        };
        Target::new(self.provider, repository_url, &settings)
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

    #[test]
    fn a_short_configuration_is_enough() {
        let value = serde_json::json!({ "provider": "github", "tokenFile": "/t" });
        let config: CommitStatusConfig = serde_json::from_value(value).unwrap();
        let target = config.target("https://github.com/acme/fleet").unwrap();
        assert_eq!((&*target.repository, &*target.context), ("acme/fleet", "gitwork"));
        let unknown = serde_json::json!({ "provider": "github", "tokenFile": "/t", "token": "x" });
        assert!(serde_json::from_value::<CommitStatusConfig>(unknown).is_err());
    }

    #[test]
    fn there_is_one_way_to_log_in() {
        let app = serde_json::json!({ "id": "1", "installationId": 2, "keyFile": "/k" });
        let bad = serde_json::json!({ "id": "a b", "installationId": 2, "keyFile": "/k" });
        for (value, expected) in [
            (serde_json::json!({ "provider": "github", "app": app }), Ok(true)),
            (serde_json::json!({ "provider": "github", "tokenFile": "/t" }), Ok(false)),
            (serde_json::json!({ "provider": "github" }), Err(AddressError::Login)),
            (serde_json::json!({ "provider": "gitlab", "app": app }), Err(AddressError::Login)),
            (
                serde_json::json!({ "provider": "github", "app": app, "tokenFile": "/t" }),
                Err(AddressError::Login),
            ),
            (serde_json::json!({ "provider": "github", "app": bad }), Err(AddressError::AppId)),
        ] {
            let config: CommitStatusConfig = serde_json::from_value(value.clone()).unwrap();
            let made = config.target("https://github.com/acme/fleet").map(|target| target.is_app);
            assert_eq!(made, expected, "{value}");
        }
    }
}
