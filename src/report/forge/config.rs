//! Login and target of commit statuses, from the configuration.

use super::address::{AddressError, ForgeTarget, TargetSettings};
use gitwork_core::config::commit_status::{CommitStatusConfig, GithubAppConfig, Provider};

/// How to authenticate at a forge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Login<'a> {
    /// With the token in this file.
    Token(&'a str),
    /// As this installation of a GitHub App.
    App(&'a GithubAppConfig),
}

impl<'a> Login<'a> {
    /// The configured login: a token, or an App on GitHub.
    ///
    /// # Errors
    /// If none or both are configured, or the App's id is invalid.
    pub fn of(config: &'a CommitStatusConfig) -> Result<Self, AddressError> {
        match (&config.token_file, &config.app) {
            (Some(file), None) => Ok(Self::Token(file)),
            (None, Some(app)) if config.provider == Provider::Github => {
                let known = |c: char| c.is_ascii_alphanumeric() || c == '.';
                let is_id = (1..=100).contains(&app.id.len()) && app.id.chars().all(known);
                if is_id { Ok(Self::App(app)) } else { Err(AddressError::AppId) }
            }
            _ => Err(AddressError::Login),
        }
    }
}

impl ForgeTarget {
    /// The configured target on the forge for the source's repository.
    ///
    /// # Errors
    /// The field that is missing or invalid.
    pub fn of(config: &CommitStatusConfig, repository_url: &str) -> Result<Self, AddressError> {
        let settings = TargetSettings {
            repository: config.repository.as_deref(),
            api_url: config.api_url.as_deref(),
            context: &config.context,
            target_url: config.target_url.as_deref(),
            is_app: matches!(Login::of(config)?, Login::App(_)),
        };
        Self::new(config.provider, repository_url, &settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_come_from_the_repository_url() {
        let value = serde_json::json!({ "provider": "github", "tokenFile": "/t" });
        let config: CommitStatusConfig = serde_json::from_value(value).unwrap();
        let target = ForgeTarget::of(&config, "https://github.com/acme/fleet").unwrap();
        assert_eq!((&*target.repository, &*target.context), ("acme/fleet", "gitwork"));
        let unknown = serde_json::json!({ "provider": "github", "tokenFile": "/t", "token": "x" });
        assert!(serde_json::from_value::<CommitStatusConfig>(unknown).is_err());
    }

    #[test]
    fn exactly_one_login_is_accepted() {
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
            let made = ForgeTarget::of(&config, "https://github.com/acme/fleet")
                .map(|target| target.is_app);
            assert_eq!(made, expected, "{value}");
        }
    }
}
