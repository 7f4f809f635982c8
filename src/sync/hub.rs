//! What a hub reports: events of a watch, outcomes of writes, and errors.

use gitwork_retry::RetryClass;

use gitwork_core::model::name::{CommitId, WorkKey};
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::model::works_by_cluster::WorksByCluster;
use gitwork_core::plan::Effect;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_core::plan::record::{Record, RecordError};

/// A change of the works of one source.
#[derive(Debug, Clone, PartialEq)]
pub enum HubEvent {
    /// The complete state: works that are not in it do not exist.
    Listed(WorksByCluster<ObservedWork>),
    /// The complete state of the ManifestWorkReplicaSets.
    ListedSets(WorksByCluster<ObservedWork>),
    /// Created or changed.
    Changed(Box<ObservedWork>),
    /// Deleted, or no longer labelled as this source's.
    Gone(WorkKey),
    /// The watch broke and restarts. Known works may be stale, but none counts as deleted. `Listed`
    /// follows once the hub answers again.
    Interrupted(HubError),
}

/// A source's record, as stored on the hub.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRecord {
    /// The content of its annotation.
    pub record: Record,
    /// Opaque: the precondition of the next write.
    pub resource_version: String,
}

/// Why a request to the hub failed. The message names the object, the hints name the fix, and
/// neither has a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HubError {
    /// 409 on create: the name is taken.
    #[error("{key} exists already")]
    Exists {
        /// The object, as `CLUSTER/WORK`.
        key: String,
    },
    /// 409 on a write with a precondition, or 404 on an object that existed: read it and plan
    /// again.
    #[error("{key} has changed on the hub in the meantime")]
    Stale {
        /// The object, as `CLUSTER/WORK`.
        key: String,
    },
    /// The cluster namespace does not exist or is being deleted.
    #[error("the hub has no namespace {cluster:?} that takes works")]
    ClusterNamespaceMissing {
        /// The managed cluster, and the name of its namespace.
        cluster: String,
    },
    /// 401 or 403.
    #[error("the hub forbids this: {message}")]
    Forbidden {
        /// The hub's message, without the content of Secrets.
        message: String,
        /// What would allow it, if that is known.
        hint: Option<String>,
    },
    /// The API server or an admission webhook rejected the object; only a change in Git fixes it.
    #[error("the hub refuses {key}: {message}")]
    WriteRejected {
        /// The object, as `CLUSTER/WORK`.
        key: String,
        /// The hub's message, without the content of Secrets.
        message: String,
    },
    /// gitwork's own namespace does not exist.
    #[error("the hub has no namespace {namespace:?} for gitwork's own objects")]
    NamespaceMissing {
        /// The namespace of `--namespace`.
        namespace: String,
    },
    /// The source's record on the hub is invalid.
    #[error("the record in the Lease {namespace}/{name} cannot be used: {why}")]
    InvalidRecord {
        /// The namespace of the Lease.
        namespace: String,
        /// The name of the Lease.
        name: String,
        /// What is wrong with its annotation.
        why: RecordError,
    },
    /// The ManifestWork CRD is not installed.
    #[error("the hub does not know ManifestWork")]
    CrdMissing,
    /// The ManifestWorkReplicaSet CRD is not installed.
    #[error("the hub does not know ManifestWorkReplicaSet")]
    ReplicaSetCrdMissing,
    /// A time-out, 429, 5xx or no connection: retry later. The write may have taken place.
    #[error("the hub did not answer: {message}")]
    Unavailable {
        /// The error of the connection, or the hub's message.
        message: String,
        /// The wait that the hub requests by `Retry-After`.
        retry_after_seconds: Option<u64>,
    },
}

impl HubError {
    /// What the error means for the next try.
    pub fn retry_class(&self) -> RetryClass {
        match self {
            Self::Stale { .. } => RetryClass::Stale,
            Self::Unavailable { retry_after_seconds, .. } => {
                RetryClass::Unavailable { retry_after_seconds: *retry_after_seconds }
            }
            Self::Exists { .. }
            | Self::ClusterNamespaceMissing { .. }
            | Self::Forbidden { .. }
            | Self::NamespaceMissing { .. }
            | Self::InvalidRecord { .. }
            | Self::CrdMissing
            | Self::ReplicaSetCrdMissing => RetryClass::Blocked,
            Self::WriteRejected { .. } => RetryClass::Rejected,
        }
    }
}

impl OperationError for HubError {
    fn class(&self) -> ErrorClass {
        self.retry_class().into()
    }

    fn reason(&self) -> &'static str {
        match (self, self.retry_class()) {
            (Self::InvalidRecord { why, .. }, _) => why.reason(),
            // A name that is taken, as the plan says it once its owner is known.
            (Self::Exists { .. }, _) | (_, RetryClass::Stale) => "Conflict",
            (_, RetryClass::Unavailable { .. }) => "HubUnavailable",
            (_, RetryClass::Blocked) => "HubNotReady",
            (_, RetryClass::Rejected) => "WriteRejected",
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::ClusterNamespaceMissing { .. } => {
                "check that the managed cluster has joined and is accepted"
            }
            Self::Forbidden { hint, .. } => return hint.iter().cloned().collect(),
            Self::NamespaceMissing { .. } => "create it, or name another one with --namespace",
            Self::InvalidRecord { .. } => "delete that Lease to start over",
            Self::CrdMissing => {
                "install Open Cluster Management, or the CRD that `gitwork crds` prints"
            }
            Self::ReplicaSetCrdMissing => {
                "install the CRD that `gitwork crds` prints, and run `gitwork controller` or OCM's \
                 controller; or remove `deliver` from the group"
            }
            Self::Exists { .. }
            | Self::Stale { .. }
            | Self::WriteRejected { .. }
            | Self::Unavailable { .. } => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

/// One effect to execute. `commit` is stored on the work as the one that last changed it.
#[derive(Debug, Clone)]
pub struct Task {
    /// The work to write.
    pub key: WorkKey,
    /// The write, with its preconditions.
    pub effect: Effect,
    /// The planned commit; `None` for a local directory.
    pub commit: Option<CommitId>,
}

/// The outcome of one task. Each task has exactly one.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The task as it was submitted.
    pub task: Task,
    /// The stored work; `None` if it is deleted.
    pub result: Result<Option<ObservedWork>, ExecuteError>,
    /// How many requests were sent.
    pub attempts: u32,
}

/// Why a task failed. A later pass retries it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteError {
    /// The hub did not accept the write, or its response was lost.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// Deletions come after writes: the objects of a deleted work may move to a work that does not
    /// exist yet.
    #[error(
        "not deleted, because writes to cluster {cluster:?} failed and deletions come after them"
    )]
    AfterFailedWrite {
        /// The managed cluster.
        cluster: String,
    },
    /// The task was dropped before it was sent.
    #[error("not done: gitwork ends, or a newer commit replaced the plan")]
    Stopped,
}

impl OperationError for ExecuteError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Hub(error) => error.class(),
            Self::AfterFailedWrite { .. } => ErrorClass::TRANSIENT,
            Self::Stopped => ErrorClass::Cancelled,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Hub(error) => error.reason(),
            Self::AfterFailedWrite { .. } => "AfterFailedWrite",
            Self::Stopped => "Stopped",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Hub(error) => error.hints(),
            Self::AfterFailedWrite { .. } | Self::Stopped => Vec::new(),
        }
    }
}
