//! Derives the address of a forge's API from a repository's URL.

use super::repository_url::{RepositoryUrl, is_authority};
use super::{CommitStatus, WebPages};
use gitwork_core::config::commit_status::Provider;
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::CommitId;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};

/// The repository on its forge, and the context of its statuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeTarget {
    /// The kind of forge, which decides the form of requests.
    pub provider: Provider,
    /// Base URL of the API, without a trailing `/`.
    pub api_url: String,
    /// The repository's name on the forge: `owner/name`. GitLab: with all groups. Azure DevOps:
    /// `project/name`.
    pub repository: String,
    /// The context, or name, of the statuses.
    pub context: String,
    /// The link of a status; `{commit}` is replaced by the commit's id.
    pub target_url: Option<String>,
    /// Whether a GitHub App writes check runs instead of commit statuses.
    pub is_app: bool,
}

/// Why the configuration gives no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// No `repository` is set, and the source's URL has none in the form of this forge.
    #[error("cannot derive a {provider} repository from the source's URL")]
    NoRepository {
        /// The configured forge.
        provider: Provider,
        /// A repository name in the form of this forge.
        example: &'static str,
    },
    /// The repository name does not have the form of this forge.
    #[error("{repository:?} is not a {provider} repository")]
    BadRepository {
        /// The configured forge.
        provider: Provider,
        /// The name as configured or derived.
        repository: String,
        /// A repository name in the form of this forge.
        example: &'static str,
    },
    /// No `apiUrl` is set, and the source's URL has no host.
    #[error("cannot derive the API's address from the source's URL")]
    NoApiUrl,
    /// A configured URL is invalid or too long.
    #[error(
        "{field} must be an http or https URL of at most 255 characters, the API's without user, \
         password, query and \
         fragment"
    )]
    BadUrl {
        /// `apiUrl` or `targetUrl`.
        field: &'static str,
    },
    /// The context is empty, too long, or has control characters.
    #[error("the context must have 1 to {limit} printable characters on {provider}")]
    BadContext {
        /// The configured forge.
        provider: Provider,
        /// The longest context of this forge, in characters.
        limit: usize,
    },
    /// Both kinds of login are set, or none, or an App on another forge than GitHub.
    #[error("set either `tokenFile` or, on GitHub, `app`")]
    Login,
    /// `app.id` is malformed.
    #[error(
        "an App's id has 1 to 100 letters, digits or dots, as in 123456 or Iv1.0123456789abcdef"
    )]
    AppId,
}

impl OperationError for AddressError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "CommitStatusConfig"
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoRepository { example, .. } => format!("set `repository`, as in {example}"),
            Self::BadRepository { example, .. } => format!("write it as in {example}"),
            Self::NoApiUrl => "set `apiUrl`".to_owned(),
            Self::BadUrl { .. } | Self::BadContext { .. } | Self::Login | Self::AppId => {
                return Vec::new();
            }
        };
        vec![hint]
    }
}

/// The settings of commit statuses that determine the target.
#[derive(Debug, Clone, Default)]
pub struct TargetSettings<'a> {
    /// `repository`: overrides the name derived from the source's URL.
    pub repository: Option<&'a str>,
    /// `apiUrl`: overrides the address derived from the source's URL.
    pub api_url: Option<&'a str>,
    /// `context`: the name of the statuses on the forge.
    pub context: &'a str,
    /// `targetUrl`: the link of each status; `{commit}` stands for the commit's id.
    pub target_url: Option<&'a str>,
    /// Whether `app` is set: a GitHub App writes check runs.
    pub is_app: bool,
}

fn example(provider: Provider) -> &'static str {
    match provider {
        Provider::Github | Provider::Gitea => "owner/name",
        Provider::Gitlab => "group/subgroup/name",
        Provider::BitbucketCloud => "workspace/name",
        Provider::BitbucketDataCenter => "PROJECT/name",
        Provider::AzureDevops => "project/name",
    }
}

/// The API's address and the repository's name, as far as the repository's URL determines them.
fn guess(provider: Provider, url: &RepositoryUrl<'_>) -> (Option<String>, Option<String>) {
    let RepositoryUrl { scheme, authority, segments } = url;
    let last_two = || match segments.as_slice() {
        [.., owner, name] => Some(format!("{owner}/{name}")),
        _ => None,
    };
    // The path prefix of a forge that does not serve the root of its host.
    let prefix = |own: usize| {
        let before = segments.get(..segments.len().saturating_sub(own)).unwrap_or_default();
        before.iter().map(|part| format!("/{part}")).collect::<String>()
    };
    let at = |path: &str| Some(format!("{scheme}://{authority}{path}"));
    match provider {
        Provider::Github if *authority == "github.com" => {
            (Some("https://api.github.com".into()), last_two())
        }
        Provider::Github => (at("/api/v3"), last_two()),
        Provider::Gitlab => {
            (at("/api/v4"), Some(segments.join("/")).filter(|_| segments.len() > 1))
        }
        Provider::Gitea => (at(&format!("{}/api/v1", prefix(2))), last_two()),
        Provider::BitbucketCloud => (Some("https://api.bitbucket.org/2.0".into()), last_two()),
        Provider::BitbucketDataCenter => {
            let context = match segments.iter().position(|part| *part == "scm") {
                Some(scm) => prefix(segments.len() - scm),
                None => String::new(),
            };
            (at(&format!("{context}/rest/api/latest")), last_two())
        }
        Provider::AzureDevops => azure(url),
    }
}

/// Azure DevOps has three forms: `https://dev.azure.com/org/project/_git/name` (without the project
/// if it has the repository's name), `git@ssh.dev.azure.com:v3/org/project/name`, and for a server
/// `https://host/collection/project/_git/name`.
fn azure(url: &RepositoryUrl<'_>) -> (Option<String>, Option<String>) {
    let at = |folder: &[&str]| {
        let path: String = folder.iter().map(|part| format!("/{part}")).collect();
        Some(format!("{}://{}{path}", url.scheme, url.authority))
    };
    match url.segments.as_slice() {
        ["v3", organization, project, name] if url.authority == "ssh.dev.azure.com" => (
            Some(format!("https://dev.azure.com/{organization}")),
            Some(format!("{project}/{name}")),
        ),
        [organization, "_git", name] if url.authority == "dev.azure.com" => {
            (at(&[organization]), Some(format!("{name}/{name}")))
        }
        [folder @ .., project, "_git", name] => (at(folder), Some(format!("{project}/{name}"))),
        _ => (None, None),
    }
}

impl ForgeTarget {
    /// Makes a target from the configuration and the repository's URL. Fails if a part is missing
    /// or invalid.
    pub fn new(
        provider: Provider,
        repository_url: &str,
        settings: &TargetSettings<'_>,
    ) -> Result<Self, AddressError> {
        let url = RepositoryUrl::parse(repository_url);
        let (api_url, repository) = url.map_or((None, None), |url| guess(provider, &url));
        let example = example(provider);
        let repository = match settings.repository {
            Some(named) => named.to_owned(),
            None => repository.ok_or(AddressError::NoRepository { provider, example })?,
        };
        if !is_repository(provider, &repository) {
            return Err(AddressError::BadRepository { provider, repository, example });
        }
        let api_url = match settings.api_url {
            Some(named) if is_plain_url(named) => named.trim_end_matches('/').to_owned(),
            Some(_) => return Err(AddressError::BadUrl { field: "apiUrl" }),
            None => api_url.filter(|url| is_plain_url(url)).ok_or(AddressError::NoApiUrl)?,
        };
        let target_url = settings.target_url.map(str::to_owned);
        // GitLab stores at most 255 characters.
        let limit = if provider == Provider::Gitlab { 255 } else { LINK_BYTES_MAX };
        let is_bad =
            |url: &String| !is_link(url) || url.replace("{commit}", &"0".repeat(40)).len() > limit;
        if target_url.as_ref().is_some_and(is_bad) {
            return Err(AddressError::BadUrl { field: "targetUrl" });
        }
        let context = settings.context.to_owned();
        let limit = provider.context_chars_max();
        if !(1..=limit).contains(&context.chars().count()) || context.chars().any(char::is_control)
        {
            return Err(AddressError::BadContext { provider, limit });
        }
        let is_app = settings.is_app;
        Ok(Self { provider, api_url, repository, context, target_url, is_app })
    }

    /// The context of a status: `<context>` for the whole source, `<context>/<part>` for a part. A
    /// name that is too long for the forge ends in a hash of itself.
    pub fn context_of(&self, status: &CommitStatus) -> String {
        let Some(part) = &status.part else { return self.context.clone() };
        let name = format!("{}/{part}", self.context);
        let limit = self.provider.context_chars_max();
        if name.chars().count() <= limit {
            return name;
        }
        let hash = Digest::of(name.as_bytes()).to_string();
        let begin: String = name.chars().take(limit.saturating_sub(9)).collect();
        format!("{begin}-{}", hash.get(..8).unwrap_or_default())
    }

    /// The permission that a login needs, in the forge's own terms.
    pub fn permission(&self) -> &'static str {
        if self.is_app {
            "the App's permission \"Checks: write\""
        } else {
            self.provider.permission()
        }
    }

    /// The link of a commit's status. Bitbucket requires one: the default there is the commit's own
    /// page.
    pub fn link(&self, commit: CommitId) -> Option<String> {
        if let Some(url) = &self.target_url {
            return Some(url.replace("{commit}", &commit.to_string()));
        }
        let (owner, name) = self.repository.split_once('/')?;
        let base = match self.provider {
            Provider::BitbucketCloud => format!("https://bitbucket.org/{owner}/{name}"),
            Provider::BitbucketDataCenter => {
                let base =
                    self.api_url.split_once("/rest/").map_or(&*self.api_url, |(base, _)| base);
                format!("{base}/projects/{owner}/repos/{name}")
            }
            _ => return None,
        };
        Some(WebPages { provider: self.provider, base }.commit(commit))
    }
}

fn is_repository(provider: Provider, repository: &str) -> bool {
    let parts: Vec<&str> = repository.split('/').collect();
    let count = match provider {
        Provider::Gitlab => (1..=20).contains(&parts.len()),
        _ => parts.len() == 2,
    };
    let is_name = |part: &&str| {
        !part.is_empty() && !matches!(*part, "." | "..") && !part.chars().any(char::is_control)
    };
    // GitLab also accepts a project's number; a name has a group.
    let numbered = |part: &&str| part.bytes().all(|b| b.is_ascii_digit());
    count
        && repository.len() <= 1_000
        && parts.iter().all(is_name)
        && (parts.len() > 1 || parts.iter().all(numbered))
}

/// Bitbucket Data Center accepts 450 bytes.
const LINK_BYTES_MAX: usize = 450;

fn is_link(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty())
        && url.len() <= LINK_BYTES_MAX
        && url
            .chars()
            .all(|c| !c.is_control() && !c.is_whitespace() && !matches!(c, '<' | '>' | '"'))
}

fn is_plain_url(url: &str) -> bool {
    let authority = url.split('/').nth(2).unwrap_or_default();
    is_link(url) && !url.contains(['?', '#']) && is_authority(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(provider: Provider, url: &str) -> Result<(String, String), AddressError> {
        let settings = TargetSettings { context: "gitwork", ..TargetSettings::default() };
        ForgeTarget::new(provider, url, &settings).map(|target| (target.api_url, target.repository))
    }

    /// Checks the derived API address and repository of each URL.
    fn check(provider: Provider, cases: &[(&str, &str, &str)]) {
        for (url, api, repository) in cases {
            let expected = Ok(((*api).to_owned(), (*repository).to_owned()));
            assert_eq!(target(provider, url), expected, "{url}");
        }
    }

    #[test]
    fn api_address_is_derived_from_repository_url() {
        let github = "https://api.github.com";
        let cases = [
            ("https://github.com/acme/fleet.git", github, "acme/fleet"),
            ("git@github.com:acme/fleet.git", github, "acme/fleet"),
            ("ssh://git@ghe.acme.io:2222/acme/fleet", "https://ghe.acme.io/api/v3", "acme/fleet"),
        ];
        check(Provider::Github, &cases);
        let cases = [
            ("https://gitlab.com/a/b/c.git", "https://gitlab.com/api/v4", "a/b/c"),
            ("http://git.local:8080/a/b", "http://git.local:8080/api/v4", "a/b"),
        ];
        check(Provider::Gitlab, &cases);
        let cases = [
            ("https://codeberg.org/acme/fleet", "https://codeberg.org/api/v1", "acme/fleet"),
            ("https://acme.io/git/acme/fleet/", "https://acme.io/git/api/v1", "acme/fleet"),
        ];
        check(Provider::Gitea, &cases);
        let bitbucket = "https://api.bitbucket.org/2.0";
        let cases = [("git@bitbucket.org:acme/fleet.git", bitbucket, "acme/fleet")];
        check(Provider::BitbucketCloud, &cases);
        let (behind_path, at_root) =
            ("https://bb.acme.io/x/rest/api/latest", "https://bb.acme.io/rest/api/latest");
        let cases = [
            ("https://bb.acme.io/x/scm/OPS/fleet.git", behind_path, "OPS/fleet"),
            ("ssh://git@bb.acme.io:7999/ops/fleet.git", at_root, "ops/fleet"),
        ];
        check(Provider::BitbucketDataCenter, &cases);
    }

    #[test]
    fn azure_devops_address_is_derived_from_every_form_of_url() {
        let (cloud, own_host) = ("https://dev.azure.com/acme", "https://acme.visualstudio.com");
        let cases = [
            ("https://acme@dev.azure.com/acme/shop/_git/fleet", cloud, "shop/fleet"),
            ("https://dev.azure.com/acme/_git/fleet", cloud, "fleet/fleet"),
            ("git@ssh.dev.azure.com:v3/acme/shop/fleet", cloud, "shop/fleet"),
            ("https://acme.visualstudio.com/shop/_git/fleet", own_host, "shop/fleet"),
        ];
        check(Provider::AzureDevops, &cases);
    }

    #[test]
    fn url_without_host_and_repository_is_rejected() {
        for url in [
            "/srv/fleet.git",
            "file:///srv/fleet.git",
            "https://github.com/fleet",
            "",
            r"\evil.example:acme/fleet",
            r"https://github.com\.evil.example/acme/fleet",
        ] {
            assert!(target(Provider::Github, url).is_err(), "{url}");
        }
    }

    #[test]
    fn settings_are_checked() {
        let with = |settings: TargetSettings<'_>| {
            ForgeTarget::new(Provider::BitbucketCloud, "git@bitbucket.org:a/b", &settings)
        };
        let good = TargetSettings { context: "gitwork", ..TargetSettings::default() };
        assert!(with(good.clone()).is_ok());
        let long = "c".repeat(41);
        for bad in [
            TargetSettings { context: "", ..good.clone() },
            TargetSettings { context: &long, ..good.clone() },
            TargetSettings { context: "a\nb", ..good.clone() },
            TargetSettings { repository: Some("a"), ..good.clone() },
            TargetSettings { repository: Some("a/../b"), ..good.clone() },
            TargetSettings { repository: Some("a/.."), ..good.clone() },
            TargetSettings { api_url: Some("https://user:secret@host/api"), ..good.clone() },
            TargetSettings { api_url: Some("ftp://host"), ..good.clone() },
            TargetSettings { target_url: Some("javascript:alert(1)"), ..good.clone() },
        ] {
            let error = with(bad.clone()).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{bad:?}: {error}");
        }
    }
}
