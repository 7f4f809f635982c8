//! Links to a forge's web pages: a commit, and a folder or line at a commit.

use super::repository_url::RepositoryUrl;
use gitwork_core::config::commit_status::Provider;
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_core::text::percent::encoded_path;

/// The pages of one repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebPages {
    pub(super) provider: Provider,
    /// The repository's page, without a trailing `/`.
    pub(super) base: String,
}

impl WebPages {
    /// The pages of the repository at this URL. Without a provider it is recognized by the host's
    /// name. `None` if the forge is unknown.
    pub fn of(provider: Option<Provider>, repository_url: &str) -> Option<Self> {
        let url = RepositoryUrl::parse(repository_url)?;
        let provider = provider.or_else(|| known(url.authority))?;
        let base = base(provider, &url)?;
        Some(Self { provider, base })
    }

    /// The page of a commit.
    pub fn commit(&self, commit: CommitId) -> String {
        let folder = match self.provider {
            Provider::Github | Provider::Gitea | Provider::AzureDevops => "commit",
            Provider::Gitlab => "-/commit",
            Provider::BitbucketCloud | Provider::BitbucketDataCenter => "commits",
        };
        format!("{}/{folder}/{commit}", self.base)
    }

    /// The page of a folder at a commit.
    pub fn folder(&self, commit: CommitId, path: &RepoPath) -> String {
        let (base, path) = (&self.base, encoded_path(path.as_str()));
        match self.provider {
            Provider::Github => format!("{base}/tree/{commit}/{path}"),
            Provider::Gitlab => format!("{base}/-/tree/{commit}/{path}"),
            Provider::Gitea => format!("{base}/src/commit/{commit}/{path}"),
            Provider::BitbucketCloud => format!("{base}/src/{commit}/{path}"),
            Provider::BitbucketDataCenter => format!("{base}/browse/{path}?at={commit}"),
            Provider::AzureDevops => format!("{base}?path=/{path}&version=GC{commit}"),
        }
    }

    /// The page of a file at a commit, at a line from 1 on.
    pub fn line(&self, commit: CommitId, path: &RepoPath, line: u32) -> String {
        let page = self.folder(commit, path);
        match self.provider {
            Provider::Github => {
                let path = encoded_path(path.as_str());
                format!("{}/blob/{commit}/{path}#L{line}", self.base)
            }
            Provider::Gitlab => {
                let path = encoded_path(path.as_str());
                format!("{}/-/blob/{commit}/{path}#L{line}", self.base)
            }
            Provider::Gitea => format!("{page}#L{line}"),
            Provider::BitbucketCloud => format!("{page}#lines-{line}"),
            Provider::BitbucketDataCenter => format!("{page}#{line}"),
            Provider::AzureDevops => {
                let next = line.saturating_add(1);
                format!("{page}&line={line}&lineEnd={next}&lineStartColumn=1&lineEndColumn=1")
            }
        }
    }
}

/// The forge of a well-known host name, or of one that contains the forge's name.
fn known(authority: &str) -> Option<Provider> {
    Some(match authority.split(':').next().unwrap_or_default() {
        "github.com" => Provider::Github,
        "gitlab.com" => Provider::Gitlab,
        "codeberg.org" => Provider::Gitea,
        "bitbucket.org" => Provider::BitbucketCloud,
        "dev.azure.com" | "ssh.dev.azure.com" => Provider::AzureDevops,
        host => match host.split('.').next().unwrap_or_default() {
            "github" => Provider::Github,
            "gitlab" => Provider::Gitlab,
            "gitea" | "forgejo" => Provider::Gitea,
            _ => return None,
        },
    })
}

fn base(provider: Provider, url: &RepositoryUrl<'_>) -> Option<String> {
    let RepositoryUrl { scheme, authority, segments } = url;
    let below = |host: &str, path: &[&str]| format!("{scheme}://{host}/{}", path.join("/"));
    if authority.is_empty() || segments.len() < 2 {
        return None;
    }
    Some(match (provider, segments.as_slice()) {
        (Provider::AzureDevops, ["v3", organization, project, name]) => {
            format!("https://dev.azure.com/{organization}/{project}/_git/{name}")
        }
        (Provider::BitbucketDataCenter, [folder @ .., owner, name]) => {
            let folder = folder.strip_suffix(&["scm"]).unwrap_or(folder);
            let (kind, owner) = match owner.strip_prefix('~') {
                Some(user) => ("users", user),
                None => ("projects", *owner),
            };
            below(authority, &[folder, &[kind, owner, "repos", name]].concat())
        }
        (_, all) => below(authority, all),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_pages_are_derived_from_repository_url() {
        let commit = CommitId::parse(&"ab".repeat(20)).unwrap();
        let path = RepoPath::parse("clusters/edge 1/web").unwrap();
        for (provider, url, page, folder) in [
            (
                None,
                "git@github.com:acme/fleet.git",
                "https://github.com/acme/fleet/commit/C",
                "https://github.com/acme/fleet/tree/C/clusters/edge%201/web",
            ),
            (
                None,
                "https://gitlab.acme.io:8443/a/b/c.git",
                "https://gitlab.acme.io:8443/a/b/c/-/commit/C",
                "https://gitlab.acme.io:8443/a/b/c/-/tree/C/clusters/edge%201/web",
            ),
            (
                Some(Provider::Gitea),
                "http://user@git.local:3000/forge/acme/fleet",
                "http://git.local:3000/forge/acme/fleet/commit/C",
                "http://git.local:3000/forge/acme/fleet/src/commit/C/clusters/edge%201/web",
            ),
            (
                None,
                "https://bitbucket.org/acme/fleet",
                "https://bitbucket.org/acme/fleet/commits/C",
                "https://bitbucket.org/acme/fleet/src/C/clusters/edge%201/web",
            ),
            (
                Some(Provider::BitbucketDataCenter),
                "https://bb.acme.io/x/scm/OPS/fleet.git",
                "https://bb.acme.io/x/projects/OPS/repos/fleet/commits/C",
                "https://bb.acme.io/x/projects/OPS/repos/fleet/browse/clusters/edge%201/web?at=C",
            ),
            (
                None,
                "git@ssh.dev.azure.com:v3/acme/shop/fleet",
                "https://dev.azure.com/acme/shop/_git/fleet/commit/C",
                "https://dev.azure.com/acme/shop/_git/fleet?path=/clusters/edge%201/web\
                 &version=GCC",
            ),
        ] {
            let pages = WebPages::of(provider, url).unwrap();
            let with = |text: &str| text.replace('C', &commit.to_string());
            assert_eq!(pages.commit(commit).replace(&commit.to_string(), "C"), page, "{url}");
            assert_eq!(pages.folder(commit, &path).replace(&commit.to_string(), "C"), folder);
            assert!(with(page).contains(&commit.to_string()));
        }
    }

    #[test]
    fn lines_of_files_have_pages() {
        let commit = CommitId::parse(&"ab".repeat(20)).unwrap();
        let path = RepoPath::parse("clusters/edge 1/web.yaml").unwrap();
        for (provider, repository, page) in [
            (Provider::Github, "https://github.com/acme/fleet", "/blob/C/P#L7"),
            (Provider::Gitlab, "https://gitlab.com/acme/fleet", "/-/blob/C/P#L7"),
            (Provider::Gitea, "https://codeberg.org/acme/fleet", "/src/commit/C/P#L7"),
            (Provider::BitbucketCloud, "https://bitbucket.org/acme/fleet", "/src/C/P#lines-7"),
            (
                Provider::BitbucketDataCenter,
                "https://bb.acme.io/projects/OPS/repos/fleet",
                "/browse/P?at=C#7",
            ),
            (
                Provider::AzureDevops,
                "https://dev.azure.com/acme/shop/_git/fleet",
                "?path=/P&version=GCC&line=7&lineEnd=8&lineStartColumn=1&lineEndColumn=1",
            ),
        ] {
            let pages = WebPages { provider, base: repository.to_owned() };
            let found = pages.line(commit, &path, 7).replace(&commit.to_string(), "C");
            let found = found.replace("clusters/edge%201/web.yaml", "P");
            assert_eq!(found.strip_prefix(repository), Some(page));
        }
    }

    #[test]
    fn unknown_forge_has_no_web_pages() {
        for url in
            ["https://git.example/a/b", "/srv/fleet", "file:///srv/fleet", "git@github.com:fleet"]
        {
            assert_eq!(WebPages::of(None, url), None, "{url}");
        }
    }
}
