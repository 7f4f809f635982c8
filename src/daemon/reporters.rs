//! The tasks that report the status of one source: commit statuses and the status branch.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::metrics::Metrics;
use super::open_statuses::OpenStatusKeeper;
use gitwork_core::config::commit_status::{CommitStatusConfig, StatusBranchConfig};
use gitwork_core::model::name::{ClusterName, SourceId};
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_forge::contexts::ContextsError;
use gitwork_forge::reporter::StatusFeed;
use gitwork_forge::{CommitStatusReporter, Contexts, ForgeClient, StatusBranchReporter};
use gitwork_git::{PushError, Reference, StatusBranch};
use gitwork_hub::fleet::FleetError;
use gitwork_hub::source_report::ReportStore;
use gitwork_report::forge::{AddressError, ForgeTarget};
use gitwork_retry::log_error;
use gitwork_runtime::clock::WallClock;
use gitwork_source::{SourceConfig, SourceLocation};

/// Where the status of a source is reported.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reporting {
    /// Commit statuses at the forge.
    pub commit_status: Option<CommitStatusConfig>,
    /// A branch with the clusters' status.
    pub status_branch: Option<StatusBranchConfig>,
}

/// The reporters of one source, ready to start.
#[derive(Default)]
pub struct Reporters {
    commit_status: Option<CommitStatusReporter>,
    status_branch: Option<StatusBranchReporter>,
    open_statuses: Option<OpenStatusKeeper>,
}

/// Why the status of a source cannot be reported.
#[derive(Debug, thiserror::Error)]
pub enum ReportingError {
    /// The source is a folder on disk.
    #[error("a folder on disk has no commits to report on")]
    Folder {
        /// The configured field that needs commits.
        field: &'static str,
    },
    /// The forge, its address or its login is not usable.
    #[error("commitStatus: {0}")]
    Address(#[from] AddressError),
    /// The contexts are invalid.
    #[error("commitStatus.{0}")]
    Contexts(#[from] ContextsError),
    /// The repository of the status branch cannot be opened.
    #[error("statusBranch: {0}")]
    Branch(#[from] PushError),
    /// The status branch is the branch of the source.
    #[error("statusBranch: {branch} is the branch that the source is read from")]
    OwnBranch {
        /// The name of the branch.
        branch: String,
    },
}

impl ReportingError {
    /// The error of a part; `None` for errors of this crate.
    fn inner(&self) -> Option<&dyn OperationError> {
        match self {
            Self::Address(error) => Some(error),
            Self::Contexts(error) => Some(error),
            Self::Branch(error) => Some(error),
            Self::Folder { .. } | Self::OwnBranch { .. } => None,
        }
    }
}

impl OperationError for ReportingError {
    fn class(&self) -> ErrorClass {
        self.inner().map_or(ErrorClass::NeedsAction, OperationError::class)
    }

    fn reason(&self) -> &'static str {
        self.inner().map_or("StatusReportingConfig", OperationError::reason)
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Folder { field } => {
                vec![format!("use the URL of a repository, or remove {field}")]
            }
            Self::OwnBranch { .. } => vec!["name another branch".to_owned()],
            _ => self.inner().map(OperationError::hints).unwrap_or_default(),
        }
    }
}

impl Reporting {
    /// Whether nothing is configured.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Makes the configured reporters without starting them. They read the time from `clock`.
    pub fn prepare(
        &self,
        source: &SourceConfig,
        metrics: &Arc<Metrics>,
        clock: &WallClock,
    ) -> Result<Reporters, ReportingError> {
        let SourceLocation::Git { remote, reference, cache } = &source.repository else {
            let field = if self.commit_status.is_some() { "commitStatus" } else { "statusBranch" };
            return if self.is_empty() {
                Ok(Reporters::default())
            } else {
                Err(ReportingError::Folder { field })
            };
        };
        let mut reporters = Reporters::default();
        if let Some(config) = &self.commit_status {
            let target = ForgeTarget::of(config, &remote.url)?;
            let client = ForgeClient::new(target, config, &source.path, clock.clone())?;
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
            let reporter =
                StatusBranchReporter::new(branch, interval, clock.clone()).counted(count);
            reporters.status_branch = Some(reporter);
        }
        Ok(reporters)
    }
}

impl Reporters {
    /// Keeps on the hub which commit statuses of the source are pending on its forge, and closes
    /// those of an earlier process that a newer commit has overtaken.
    pub fn resuming(mut self, store: ReportStore, source: &SourceId) -> Self {
        if let Some(reporter) = self.commit_status.take() {
            let (keeper, channels) = OpenStatusKeeper::new(store, source.clone());
            self.commit_status = Some(reporter.resuming(channels));
            self.open_statuses = Some(keeper);
        }
        self
    }

    /// Starts them. The tasks end when `stop` is true.
    pub fn start(self, feed: &StatusFeed, stop: &watch::Receiver<bool>, tasks: &mut JoinSet<()>) {
        if let Some(reporter) = self.commit_status {
            tasks.spawn(reporter.run(feed.clone(), stop.clone()));
        }
        if let Some(keeper) = self.open_statuses {
            tasks.spawn(keeper.run(stop.clone()));
        }
        if let Some(reporter) = self.status_branch {
            tasks.spawn(reporter.run(feed.clone(), stop.clone()));
        }
    }
}

/// How often unreachable clusters are read. OCM marks a silent cluster after five minutes (five
/// times the lease duration of 60 s).
const REACH: Duration = Duration::from_secs(60);

/// Reads the unreachable clusters every minute until `stop` is true. After an error the last result
/// stays.
pub async fn watch_reach(
    read: impl Fn() -> BoxFuture<'static, Result<BTreeSet<ClusterName>, FleetError>>,
    sender: watch::Sender<Arc<BTreeSet<ClusterName>>>,
    mut stop: watch::Receiver<bool>,
) {
    let mut is_logged = false;
    loop {
        let found = tokio::select! {
            found = read() => found,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match found {
            Ok(found) => {
                is_logged = false;
                sender.send_if_modified(|before| {
                    let differs = **before != found;
                    *before = Arc::new(found);
                    differs
                });
            }
            Err(error) if !is_logged => {
                is_logged = true;
                log_error!(
                    warn,
                    &error,
                    "cannot read which clusters are unreachable; counting \
                    all as reachable"
                );
            }
            Err(_) => {}
        }
        tokio::select! {
            () = tokio::time::sleep(REACH) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}
