//! The arguments that name a repository and a hub, shared by the commands.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use globset::{GlobBuilder, GlobMatcher};

use super::argument_error::ArgumentError;
use super::completion;
use super::current_folder::top_of_source;
use super::error::{CommandError, did_you_mean};
use super::schema_args::ObjectCheckArgs;
use super::source_id::IdFrom;
use gitwork_api::names::{NameError, check_label};
use gitwork_core::config::AdoptionPolicy;
use gitwork_core::config::RewindPolicy;
use gitwork_core::config::tenancy::Tenancy;
use gitwork_core::model::diagnostic::Scope;
use gitwork_core::model::name::{ClusterName, CommitId, RepoPath, SourceId, WorkKey, WorkName};
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::model::source_origin::SourceOrigin;
use gitwork_core::text::closest;
use gitwork_git::{Auth, ClientCertificate, Reference, Remote};
use gitwork_source::{
    Source, SourceConfig, SourceLocation, default_id, origin_of_folder, origin_of_url,
};

#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// Repository: an https, ssh or file URL, or a folder. A folder is read as it is on disk, with
    /// uncommitted changes, unless a reference is named [default: this folder, or the one above in
    /// the working tree that has `gitwork.yaml`, `clusters/` or `groups/`]
    #[arg(long, value_name = "URL|DIR", env = "GITWORK_REPO", hide_env_values = true)]
    pub repo: Option<String>,
    /// Branch to follow [default: the repository's HEAD]
    #[arg(long, group = "reference")]
    pub branch: Option<String>,
    /// Tag to read
    #[arg(long, group = "reference")]
    pub tag: Option<String>,
    /// Highest tag in a semver range, as in ">=1.4, <2"
    #[arg(long, group = "reference", value_name = "RANGE")]
    pub semver: Option<String>,
    /// Commit to read, with all 40 digits
    #[arg(long, group = "reference", value_name = "ID")]
    pub commit: Option<String>,
    /// Folder inside the repository that holds `clusters/` [default: .]
    #[arg(long, value_name = "DIR")]
    pub path: Option<String>,
    /// Id of this source on the hub. A folder needs one before anything is written [default: from
    /// repository, reference and path; commands that read use the hub's only source]
    #[arg(long, value_name = "ID", add = completion::sources())]
    pub source_id: Option<String>,
    #[command(flatten)]
    pub credentials: Credentials,
    /// Folder for mirrors of repositories [default: `gitwork` in the user's cache folder]
    #[arg(long, value_name = "DIR", env = "GITWORK_CACHE", hide_env_values = true)]
    pub cache: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Credentials (files are read again at every fetch)")]
pub struct Credentials {
    /// File with a bearer token
    #[arg(long, value_name = "FILE", conflicts_with_all = ["username", "ssh_key"])]
    pub token_file: Option<PathBuf>,
    /// User name for basic authentication
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub username: Option<String>,
    /// File with the password (or access token) of --username
    #[arg(long, value_name = "FILE", requires = "username")]
    pub password_file: Option<PathBuf>,
    /// File with a private SSH key
    #[arg(long, value_name = "FILE", requires = "known_hosts", conflicts_with = "username")]
    pub ssh_key: Option<PathBuf>,
    /// File with the passphrase of --ssh-key
    #[arg(long, value_name = "FILE", requires = "ssh_key")]
    pub ssh_passphrase_file: Option<PathBuf>,
    /// File with the SSH host keys to accept, as ssh-keyscan prints them
    #[arg(long, value_name = "FILE", requires = "ssh_key")]
    pub known_hosts: Option<PathBuf>,
    /// File with the certificate authorities to trust for https, in PEM
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// File with a client certificate for https, in PEM
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub client_cert: Option<PathBuf>,
    /// File with the key of --client-cert
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub client_key: Option<PathBuf>,
    /// HTTP proxy for the fetch
    #[arg(long, value_name = "URL")]
    pub proxy: Option<String>,
}

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Hub")]
pub struct HubArgs {
    /// Kubeconfig of the hub [default: KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig
    #[arg(long)]
    pub context: Option<String>,
    /// Namespace of gitwork's own objects on the hub [default: gitwork]
    #[arg(long, value_name = "NAME", value_parser = namespace)]
    pub namespace: Option<String>,
}

/// Parses the policy for a commit that does not descend from the applied one.
pub fn rewind(text: &str) -> Result<RewindPolicy, ArgumentError> {
    let found = RewindPolicy::ALL.into_iter().find(|(_, word)| *word == text);
    found.map(|(policy, _)| policy).ok_or_else(|| ArgumentError::one_of(["hold", "warn", "follow"]))
}

/// Parses the policy for adopting existing ManifestWorks.
pub fn adoption(text: &str) -> Result<AdoptionPolicy, ArgumentError> {
    let found = AdoptionPolicy::ALL.into_iter().find(|(_, word)| *word == text);
    found
        .map(|(policy, _)| policy)
        .ok_or_else(|| ArgumentError::one_of(["never", "annotated", "unowned"]))
}

/// Parses the id of a source.
pub fn source_id(text: &str) -> Result<SourceId, ArgumentError> {
    SourceId::parse(text).map_err(ArgumentError::SourceId)
}

/// Parses the name of a cluster.
pub fn cluster_name(text: &str) -> Result<ClusterName, ArgumentError> {
    ClusterName::parse_place(text).map_err(ArgumentError::Cluster)
}

/// Parses the name of a work.
pub fn work_name(text: &str) -> Result<WorkName, ArgumentError> {
    WorkName::parse(text).map_err(ArgumentError::Work)
}

fn namespace(text: &str) -> Result<String, ArgumentError> {
    check_label(text, 63).map(|()| text.to_owned()).map_err(ArgumentError::Namespace)
}

impl HubArgs {
    /// The namespace of gitwork's own objects.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(gitwork_hub::NAMESPACE)
    }
}

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub struct FilterArgs {
    /// Select clusters by name; `*` and `?` are wildcards
    #[arg(long, value_name = "GLOB", add = completion::clusters())]
    pub cluster: Option<String>,
    /// Select works by name; `*` and `?` are wildcards
    #[arg(long, value_name = "GLOB", add = completion::works())]
    pub work: Option<String>,
}

/// The works that a command selects.
#[derive(Debug)]
pub struct Filter {
    cluster: Option<GlobMatcher>,
    work: Option<GlobMatcher>,
}

impl FilterArgs {
    /// Selects one cluster.
    pub fn of_cluster(cluster: &ClusterName) -> Self {
        Self { cluster: Some(cluster.to_string()), work: None }
    }

    /// Selects one work.
    pub fn of_work(key: &WorkKey) -> Self {
        Self { work: Some(key.work.to_string()), ..Self::of_cluster(&key.cluster) }
    }

    /// Whether there is no pattern, which selects all works.
    pub fn is_empty(&self) -> bool {
        self.cluster.is_none() && self.work.is_none()
    }

    /// Compiles the patterns.
    pub fn filter(&self) -> Result<Filter, CommandError> {
        let glob = |flag, text: &Option<String>| {
            let Some(text) = text else { return Ok(None) };
            match GlobBuilder::new(text).literal_separator(true).build() {
                Ok(glob) => Ok(Some(glob.compile_matcher())),
                Err(why) => Err(CommandError::usage(format!("{flag}: {why}"))),
            }
        };
        Ok(Filter { cluster: glob("--cluster", &self.cluster)?, work: glob("--work", &self.work)? })
    }

    /// The only selected cluster, if there is one: the user may be allowed to read its namespace
    /// only.
    pub fn one_cluster(&self) -> Option<ClusterName> {
        self.cluster.as_deref().and_then(|name| ClusterName::parse_place(name).ok())
    }

    /// The error that the patterns select none of these works; `None` without patterns. `filter`:
    /// the compiled patterns.
    pub fn no_match<'a, I: Iterator<Item = &'a WorkKey>>(
        &self,
        filter: &Filter,
        works: impl Fn() -> I,
    ) -> Option<CommandError> {
        let on_clusters = || works().filter(|key| filter.matches_cluster(&key.cluster));
        let (noun, asked, near) = match (&self.cluster, &self.work) {
            (Some(cluster), _) if on_clusters().next().is_none() => {
                ("cluster", cluster, closest(cluster, works().map(|key| key.cluster.as_str())))
            }
            (_, Some(work)) => {
                ("work", work, closest(work, on_clusters().map(|key| key.work.as_str())))
            }
            _ => return None,
        };
        Some(CommandError::usage(format!("no {noun} matches {asked}{}", did_you_mean(near))))
    }
}

impl Filter {
    /// Whether a work is selected.
    pub fn matches(&self, key: &WorkKey) -> bool {
        self.matches_cluster(&key.cluster) && is_selected(self.work.as_ref(), key.work.as_str())
    }

    /// Whether what a diagnostic is about may have works that are selected.
    pub fn concerns(&self, scope: &Scope) -> bool {
        match scope {
            Scope::Source | Scope::Group(_) => true,
            Scope::Cluster(cluster) => self.matches_cluster(cluster),
            Scope::Work(key) => self.matches(key),
        }
    }

    /// The source, of which only the selected clusters are rendered as far as the others do not
    /// matter to them.
    pub fn select_clusters(&self, source: Source) -> Source {
        match self.cluster.clone() {
            Some(glob) => source.with_clusters(move |cluster| glob.is_match(cluster.as_str())),
            None => source,
        }
    }

    /// Whether works of a cluster are selected.
    pub fn matches_cluster(&self, cluster: &ClusterName) -> bool {
        is_selected(self.cluster.as_ref(), cluster.as_str())
    }
}

fn is_selected(glob: Option<&GlobMatcher>, name: &str) -> bool {
    glob.is_none_or(|glob| glob.is_match(name))
}

/// Why the arguments name no source.
#[derive(Debug, thiserror::Error)]
enum SourceArgsError {
    /// The repository is neither a folder nor a URL.
    #[error(
        "--repo {repo:?} is neither a folder nor a URL (https://, ssh://, file://, user@host:path)"
    )]
    Repo { repo: String },
    /// The folder has no absolute path.
    #[error("cannot resolve the folder {}", .path.display())]
    Folder { path: PathBuf, source: io::Error },
    /// The default id of the source is invalid.
    #[error("the default source id {0}")]
    Id(NameError),
}

impl OperationError for SourceArgsError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "SourceArguments"
    }
}

impl SourceArgs {
    /// The repository's URL or folder. Without one, it is the current folder, or the one above that
    /// has the files of a source.
    fn repo(&self) -> Cow<'_, str> {
        match (&self.repo, &self.path) {
            (Some(repo), _) => repo.into(),
            (None, Some(_)) => ".".into(),
            (None, None) => top_of_source(Path::new(".")).to_string_lossy().into_owned().into(),
        }
    }

    fn path(&self) -> Result<RepoPath, CommandError> {
        let path = self.path.as_deref().unwrap_or(".");
        RepoPath::parse(path).ok_or_else(|| {
            CommandError::usage(format!("--path {path:?} must be relative and without `..`"))
        })
    }

    /// The source's id on the hub.
    pub fn id(&self) -> Result<SourceId, CommandError> {
        match &self.source_id {
            Some(id) => SourceId::parse(id)
                .map_err(|why| CommandError::usage(format!("the source id {id:?} {why}"))),
            None => {
                Ok(default_id(&self.origin()?, &self.reference_name())
                    .map_err(SourceArgsError::Id)?)
            }
        }
    }

    /// Where the source's id comes from.
    pub fn id_from(&self) -> IdFrom {
        match &self.source_id {
            Some(_) => IdFrom::Name,
            None if is_url(&self.repo()) => IdFrom::Url,
            None => IdFrom::Folder,
        }
    }

    /// The origin of the source's files.
    pub fn origin(&self) -> Result<SourceOrigin, CommandError> {
        let (repo, path) = (self.repo(), self.path()?);
        Ok(if is_url(&repo) {
            origin_of_url(&repo, &path)
        } else {
            origin_of_folder(Path::new(&*repo), &path)
        })
    }

    /// Whether a branch, tag, range or commit is named.
    pub fn has_reference(&self) -> bool {
        [&self.branch, &self.tag, &self.semver, &self.commit].into_iter().any(Option::is_some)
    }

    /// The source configuration, checked without network.
    pub fn config(&self) -> Result<SourceConfig, CommandError> {
        let path = self.path()?;
        let reference = self.reference()?;
        let id = self.id()?;
        let repo = self.repo();
        let folder = Path::new(&*repo);
        let repository = if is_url(&repo) {
            self.git(repo.into_owned(), reference.unwrap_or(Reference::Head))?
        } else if !folder.is_dir() {
            return Err(SourceArgsError::Repo { repo: repo.into_owned() }.into());
        } else if reference.is_some() || is_bare(folder) {
            let folder = folder
                .canonicalize()
                .map_err(|source| SourceArgsError::Folder { path: folder.to_owned(), source })?;
            self.git(folder.display().to_string(), reference.unwrap_or(Reference::Head))?
        } else {
            SourceLocation::Directory(folder.to_owned())
        };
        let content_bytes_max = gitwork_core::limits::CONTENT_BYTES_MAX;
        let tenancy = Tenancy::default();
        let schema_checks = ObjectCheckArgs::default().checks(None)?;
        let facts = None;
        let config =
            SourceConfig { id, repository, path, tenancy, schema_checks, content_bytes_max, facts };
        Ok(config)
    }

    fn git(&self, url: String, reference: Reference) -> Result<SourceLocation, CommandError> {
        let remote = Box::new(self.credentials.remote(url));
        let cache = match &self.cache {
            Some(folder) => folder.clone(),
            None => default_cache()?,
        };
        Ok(SourceLocation::Git { remote, reference, cache })
    }

    fn reference(&self) -> Result<Option<Reference>, CommandError> {
        if let Some(range) = &self.semver {
            let range = semver::VersionReq::parse(range)
                .map_err(|why| CommandError::usage(format!("--semver {range:?}: {why}")))?;
            return Ok(Some(Reference::Semver(range)));
        }
        if let Some(commit) = &self.commit {
            let id = CommitId::parse(&commit.to_ascii_lowercase()).ok_or_else(|| {
                CommandError::usage(format!(
                    "--commit {commit:?} must have all 40 hexadecimal digits"
                ))
            })?;
            return Ok(Some(Reference::Commit(id)));
        }
        let branch = self.branch.clone().map(Reference::Branch);
        Ok(branch.or_else(|| self.tag.clone().map(Reference::Tag)))
    }

    fn reference_name(&self) -> String {
        let named = [&self.branch, &self.tag, &self.semver, &self.commit];
        named.into_iter().flatten().next().cloned().unwrap_or_else(|| "HEAD".into())
    }
}

impl Credentials {
    /// The remote with these credentials.
    pub fn remote(&self, url: String) -> Remote {
        let auth = if let Some(file) = &self.token_file {
            Auth::Token { file: file.clone() }
        } else if let (Some(username), Some(file)) = (&self.username, &self.password_file) {
            Auth::Basic { username: username.clone(), password_file: file.clone() }
        } else if let (Some(key), Some(known_hosts)) = (&self.ssh_key, &self.known_hosts) {
            Auth::Ssh {
                key: key.clone(),
                passphrase_file: self.ssh_passphrase_file.clone(),
                known_hosts: known_hosts.clone(),
            }
        } else {
            Auth::None
        };
        let client_certificate = match (&self.client_cert, &self.client_key) {
            (Some(certificate), Some(key)) => {
                Some(ClientCertificate { certificate: certificate.clone(), key: key.clone() })
            }
            _ => None,
        };
        Remote {
            url,
            auth,
            ca_bundle: self.ca_file.clone(),
            client_certificate,
            proxy: self.proxy.clone(),
        }
    }
}

/// Whether a repository is a URL, or ssh's short form `user@host:path`.
pub fn is_url(repo: &str) -> bool {
    let short_form =
        repo.split_once(':').is_some_and(|(host, _)| host.contains('@') && !host.contains('/'));
    repo.contains("://") || short_form
}

fn is_bare(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

/// The default folder for mirrors (XDG base directories).
pub fn default_cache() -> Result<PathBuf, CommandError> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|folder| folder.join("gitwork"))
        .ok_or_else(|| {
            CommandError::usage("the user has no home folder; name a cache folder with --cache")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_folders_are_distinguished() {
        for url in ["https://a/b", "ssh://git@a/b", "file:///a", "git@host:team/fleet.git"] {
            assert!(is_url(url), "{url}");
        }
        for folder in [".", "/a/b", "a/b@c:d", "fleet", "c:fleet"] {
            assert!(!is_url(folder), "{folder}");
        }
    }
}
