//! From a repository's URL to the forge's API.

use super::{CommitStatus, Provider, WebPages};
use crate::core::digest::Digest;
use crate::core::name::CommitId;

/// Where the statuses of one repository go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub provider: Provider,
    /// Without a `/` at the end.
    pub api_url: String,
    /// As the forge names it: `owner/name`; on GitLab with all groups, on Azure DevOps `project/name`.
    pub repository: String,
    /// The name under which the statuses stand.
    pub context: String,
    /// What a status links to; `{commit}` stands for the commit's id.
    pub target_url: Option<String>,
    /// A GitHub App writes check runs.
    pub is_app: bool,
}

/// Why a target cannot be made of what the configuration says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error(
        "no {provider} repository can be read from the repository's URL; name it with `repository`, as in {example}"
    )]
    NoRepository { provider: Provider, example: &'static str },
    #[error("{repository:?} is no {provider} repository; write it as in {example}")]
    BadRepository { provider: Provider, repository: String, example: &'static str },
    #[error("the API's address cannot be told from the repository's URL; name it with `apiUrl`")]
    NoApiUrl,
    #[error(
        "{field} must be an http or https URL of at most 255 characters, the API's without user, password, query and \
         fragment"
    )]
    BadUrl { field: &'static str },
    #[error("the context must have 1 to {limit} printable characters on {provider}")]
    BadContext { provider: Provider, limit: usize },
    #[error("name either `tokenFile` or, on GitHub, `app`")]
    Login,
    #[error(
        "an App's id has 1 to 100 letters, digits or dots, as in 123456 or Iv1.0123456789abcdef"
    )]
    AppId,
}

/// What the configuration says of commit statuses.
#[derive(Debug, Clone, Default)]
pub struct Settings<'a> {
    pub repository: Option<&'a str>,
    pub api_url: Option<&'a str>,
    pub context: &'a str,
    pub target_url: Option<&'a str>,
    pub is_app: bool,
}

/// A repository's URL, taken apart. Kept apart from Git's own reading of it: a folder is no error here.
pub(super) struct RepositoryUrl<'a> {
    pub(super) scheme: &'a str,
    /// With the port, where it is one of http.
    pub(super) authority: &'a str,
    pub(super) segments: Vec<&'a str>,
}

impl<'a> RepositoryUrl<'a> {
    /// Reads `https://host/path`, `ssh://user@host:port/path` and `user@host:path`.
    pub(super) fn parse(url: &'a str) -> Option<Self> {
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme @ ("https" | "http"), rest)) => (scheme, rest),
            Some(("ssh", rest)) => ("https", rest),
            Some(_) => return None,
            None => {
                let (host, path) = url.split_once(':').filter(|(host, _)| !host.contains('/'))?;
                let authority = host.rsplit_once('@').map_or(host, |(_, host)| host);
                if !is_authority(authority) {
                    return None;
                }
                return Some(Self { scheme: "https", authority, segments: segments(path) });
            }
        };
        let (authority, path) = rest.split_once('/')?;
        let mut authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        if url.starts_with("ssh") {
            // The port is one of SSH and says nothing of the API's.
            authority = match authority.rsplit_once(':') {
                Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
                _ => authority,
            };
        }
        is_authority(authority).then(|| Self { scheme, authority, segments: segments(path) })
    }
}

/// A host's name or address, with a port or without. In a URL with anything else programs find different hosts.
fn is_authority(text: &str) -> bool {
    let fits =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    !text.is_empty() && text.chars().all(fits)
}

fn segments(path: &str) -> Vec<&str> {
    let path = path.trim_matches('/');
    path.strip_suffix(".git").unwrap_or(path).split('/').filter(|part| !part.is_empty()).collect()
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

/// The API's address and the repository's name there, as far as the repository's URL tells.
fn guess(provider: Provider, url: &RepositoryUrl<'_>) -> (Option<String>, Option<String>) {
    let RepositoryUrl { scheme, authority, segments } = url;
    let last_two = || match segments.as_slice() {
        [.., owner, name] => Some(format!("{owner}/{name}")),
        _ => None,
    };
    // What stands before the repository's own path: where the forge is not at the root of its host.
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

/// `https://dev.azure.com/org/project/_git/name`, without the project where it is called as the repository;
/// `git@ssh.dev.azure.com:v3/org/project/name`; a server's `https://host/collection/project/_git/name`.
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

impl Target {
    /// Makes a target from the configuration and the repository's URL.
    pub fn new(
        provider: Provider,
        repository_url: &str,
        settings: &Settings<'_>,
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
        // GitLab's column for it has 255 characters.
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

    /// The context of a status: that of a part stands below that of the whole. A name that is too long for the forge
    /// ends in a hash of itself.
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

    /// What a login needs to be allowed, in the forge's own words.
    pub fn permission(&self) -> &'static str {
        if self.is_app {
            "the App's permission \"Checks: write\""
        } else {
            self.provider.permission()
        }
    }

    /// What the status of a commit links to. Bitbucket asks for a link: there it is the commit's own page unless
    /// the configuration says otherwise.
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
    // GitLab takes a project's number as well; a name has its group.
    let numbered = |part: &&str| part.bytes().all(|b| b.is_ascii_digit());
    count
        && repository.len() <= 1_000
        && parts.iter().all(is_name)
        && (parts.len() > 1 || parts.iter().all(numbered))
}

/// Bitbucket Data Center takes 450.
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
        let settings = Settings { context: "gitwork", ..Settings::default() };
        Target::new(provider, url, &settings).map(|target| (target.api_url, target.repository))
    }

    #[test]
    fn a_repositorys_url_tells_where_its_forge_is() {
        use Provider::{AzureDevops, BitbucketCloud, BitbucketDataCenter, Gitea, Github, Gitlab};
        for (provider, url, api, repository) in [
            (Github, "https://github.com/acme/fleet.git", "https://api.github.com", "acme/fleet"),
            (Github, "git@github.com:acme/fleet.git", "https://api.github.com", "acme/fleet"),
            (
                Github,
                "ssh://git@ghe.acme.io:2222/acme/fleet",
                "https://ghe.acme.io/api/v3",
                "acme/fleet",
            ),
            (Gitlab, "https://gitlab.com/a/b/c.git", "https://gitlab.com/api/v4", "a/b/c"),
            (Gitlab, "http://git.local:8080/a/b", "http://git.local:8080/api/v4", "a/b"),
            (Gitea, "https://codeberg.org/acme/fleet", "https://codeberg.org/api/v1", "acme/fleet"),
            (Gitea, "https://acme.io/git/acme/fleet/", "https://acme.io/git/api/v1", "acme/fleet"),
            (
                BitbucketCloud,
                "git@bitbucket.org:acme/fleet.git",
                "https://api.bitbucket.org/2.0",
                "acme/fleet",
            ),
            (
                BitbucketDataCenter,
                "https://bb.acme.io/x/scm/OPS/fleet.git",
                "https://bb.acme.io/x/rest/api/latest",
                "OPS/fleet",
            ),
            (
                BitbucketDataCenter,
                "ssh://git@bb.acme.io:7999/ops/fleet.git",
                "https://bb.acme.io/rest/api/latest",
                "ops/fleet",
            ),
            (
                AzureDevops,
                "https://acme@dev.azure.com/acme/shop/_git/fleet",
                "https://dev.azure.com/acme",
                "shop/fleet",
            ),
            (
                AzureDevops,
                "https://dev.azure.com/acme/_git/fleet",
                "https://dev.azure.com/acme",
                "fleet/fleet",
            ),
            (
                AzureDevops,
                "git@ssh.dev.azure.com:v3/acme/shop/fleet",
                "https://dev.azure.com/acme",
                "shop/fleet",
            ),
            (
                AzureDevops,
                "https://acme.visualstudio.com/shop/_git/fleet",
                "https://acme.visualstudio.com",
                "shop/fleet",
            ),
        ] {
            assert_eq!(target(provider, url), Ok((api.to_owned(), repository.to_owned())), "{url}");
        }
        for url in [
            "/srv/fleet.git",
            "file:///srv/fleet.git",
            "https://github.com/fleet",
            "",
            r"\evil.example:acme/fleet",
            r"https://github.com\.evil.example/acme/fleet",
        ] {
            assert!(target(Github, url).is_err(), "{url}");
        }
    }

    #[test]
    fn settings_are_checked() {
        let with = |settings: Settings<'_>| {
            Target::new(Provider::BitbucketCloud, "git@bitbucket.org:a/b", &settings)
        };
        let good = Settings { context: "gitwork", ..Settings::default() };
        assert!(with(good.clone()).is_ok());
        let long = "c".repeat(41);
        for bad in [
            Settings { context: "", ..good.clone() },
            Settings { context: &long, ..good.clone() },
            Settings { context: "a\nb", ..good.clone() },
            Settings { repository: Some("a"), ..good.clone() },
            Settings { repository: Some("a/../b"), ..good.clone() },
            Settings { repository: Some("a/.."), ..good.clone() },
            Settings { api_url: Some("https://user:secret@host/api"), ..good.clone() },
            Settings { api_url: Some("ftp://host"), ..good.clone() },
            Settings { target_url: Some("javascript:alert(1)"), ..good.clone() },
        ] {
            let error = with(bad.clone()).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{bad:?}: {error}");
        }
    }
}
