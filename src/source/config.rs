//! The configuration of one source.

use std::path::PathBuf;
use std::sync::Arc;

use gitwork_core::config::tenancy::Tenancy;
use gitwork_core::model::facts::Facts;
use gitwork_core::model::name::{RepoPath, SourceId};
use gitwork_core::render::object_checks::SchemaChecks;
use gitwork_git::{LocalRepository, Reference, Remote};
use gitwork_report::forge::WebPages;

/// The configuration of one source.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// Its id, unique on the hub.
    pub id: SourceId,
    /// The origin of its files.
    pub repository: SourceLocation,
    /// The top folder of the layout inside the repository.
    pub path: RepoPath,
    /// What the operator allows the folders to do.
    pub tenancy: Tenancy,
    /// How objects are checked against schemas.
    pub schema_checks: SchemaChecks,
    /// Bytes that the rendered works may hold in memory.
    pub content_bytes_max: usize,
    /// What the hub says of clusters, for groups and values.
    pub facts: Option<Arc<Facts>>,
}

/// The origin of a source's files.
#[derive(Debug, Clone)]
pub enum SourceLocation {
    /// A Git repository, fetched into a mirror below `cache`.
    Git {
        /// The repository and the login.
        remote: Box<Remote>,
        /// The branch, tag or commit.
        reference: Reference,
        /// The folder for mirrors and for what is kept between processes.
        cache: PathBuf,
    },
    /// A folder as it is on disk, with uncommitted changes.
    Directory(PathBuf),
}

impl SourceLocation {
    /// The web pages of the repository, or of that of which the folder is a clone; `None` if the
    /// host's name does not tell the forge.
    pub fn pages(&self) -> Option<WebPages> {
        match self {
            Self::Git { remote, .. } => WebPages::of(None, &remote.url),
            Self::Directory(folder) => {
                let upstream = LocalRepository::discover(folder).ok()?.upstream()?;
                WebPages::of(None, &format!("https://{upstream}"))
            }
        }
    }
}
