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
    pub token_file: String,
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
    /// The target that this makes of the source's repository.
    pub fn target(&self, repository_url: &str) -> Result<Target, AddressError> {
        let settings = Settings {
            repository: self.repository.as_deref(),
            api_url: self.api_url.as_deref(),
            context: &self.context,
            target_url: self.target_url.as_deref(),
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
}
