//! The tasks that listen to an engine: commit statuses and the status branch of one source.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::metrics::Metrics;
use crate::core::forge::{AddressError, CommitStatusConfig, StatusBranchConfig};
use crate::core::name::ClusterName;
use crate::forge::contexts::ContextsError;
use crate::forge::reporter::StatusFeed;
use crate::forge::{CommitStatusReporter, Contexts, ForgeClient, StatusBranchReporter};
use crate::git::{PushError, Reference, StatusBranch};
use crate::hub::fleet::FleetError;
use crate::source::{Repository, SourceConfig};

/// What of a source's state is told, and where.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reporting {
    pub commit_status: Option<CommitStatusConfig>,
    pub status_branch: Option<StatusBranchConfig>,
}

/// What tells of one source, ready to start.
#[derive(Default)]
pub struct Reporters {
    commit_status: Option<CommitStatusReporter>,
    status_branch: Option<StatusBranchReporter>,
}

/// Why a source's state cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum ReportingError {
    #[error(
        "a folder on disk has no commits to tell of: name a repository by its URL, or leave {field} out"
    )]
    Folder { field: &'static str },
    #[error("commitStatus: {0}")]
    Address(#[from] AddressError),
    #[error("commitStatus.{0}")]
    Contexts(#[from] ContextsError),
    #[error("statusBranch: {0}")]
    Branch(#[from] PushError),
    #[error("statusBranch: {branch} is the branch that the source is read from; name another one")]
    OwnBranch { branch: String },
}

impl Reporting {
    /// Whether there is anything to tell.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Makes what is configured; nothing is told yet.
    pub fn prepare(
        &self,
        source: &SourceConfig,
        metrics: &Arc<Metrics>,
    ) -> Result<Reporters, ReportingError> {
        let Repository::Git { remote, reference, cache } = &source.repository else {
            let field = if self.commit_status.is_some() { "commitStatus" } else { "statusBranch" };
            return if self.is_empty() {
                Ok(Reporters::default())
            } else {
                Err(ReportingError::Folder { field })
            };
        };
        let mut reporters = Reporters::default();
        if let Some(config) = &self.commit_status {
            let client = ForgeClient::new(config.target(&remote.url)?, config, &source.path)?;
            let contexts = Contexts::new(&config.contexts)?;
            let (metrics, id, provider) = (metrics.clone(), source.id.clone(), config.provider);
            let count =
                Box::new(move |outcome| metrics.forge_write(&id, provider.as_str(), outcome));
            let reporter = CommitStatusReporter::new(client, contexts).counted(count);
            reporters.commit_status = Some(reporter);
        }
        if let Some(config) = &self.status_branch {
            if *reference == Reference::Branch(config.branch.clone()) {
                return Err(ReportingError::OwnBranch { branch: config.branch.clone() });
            }
            let folder = cache.join(format!("{}-status", source.id));
            let branch = StatusBranch::open(&folder, (**remote).clone(), &config.branch)?;
            let interval = Duration::from_secs(config.interval_seconds);
            let (metrics, id) = (metrics.clone(), source.id.clone());
            let count = Box::new(move |result| metrics.branch_commit(&id, result));
            let reporter = StatusBranchReporter::new(branch, interval).counted(count);
            reporters.status_branch = Some(reporter);
        }
        Ok(reporters)
    }
}

impl Reporters {
    /// Starts them. The tasks end when `stop` is true.
    pub fn start(self, feed: &StatusFeed, stop: &watch::Receiver<bool>, tasks: &mut JoinSet<()>) {
        if let Some(reporter) = self.commit_status {
            tasks.spawn(reporter.run(feed.clone(), stop.clone()));
        }
        if let Some(reporter) = self.status_branch {
            tasks.spawn(reporter.run(feed.clone(), stop.clone()));
        }
    }
}

/// How often the clusters' reach is read. A hub gives a silent cluster some five minutes before it says so (OCM: five
/// times the lease duration of 60 s).
const REACH: Duration = Duration::from_secs(60);

/// Reads again and again which clusters the hub has lost touch with, until `stop` is true. What cannot be read stays as
/// it was.
pub async fn watch_reach(
    read: impl Fn() -> BoxFuture<'static, Result<BTreeSet<ClusterName>, FleetError>>,
    sender: watch::Sender<Arc<BTreeSet<ClusterName>>>,
    mut stop: watch::Receiver<bool>,
) {
    let mut told = false;
    loop {
        let found = tokio::select! {
            found = read() => found,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match found {
            Ok(found) => {
                told = false;
                sender.send_if_modified(|before| {
                    let differs = **before != found;
                    *before = Arc::new(found);
                    differs
                });
            }
            Err(error) if !told => {
                told = true;
                tracing::warn!(%error, "which clusters are unreachable is not known; they count as the others do");
            }
            Err(_) => {}
        }
        tokio::select! {
            () = tokio::time::sleep(REACH) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}
