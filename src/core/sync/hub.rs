//! What a hub reports: events of a watch, outcomes of writes, and errors.

use std::time::Duration;

use gitwork_retry::RetryClass;

use crate::model::name::{CommitId, WorkKey};
use crate::model::operation_error::{ErrorClass, OperationError};
use crate::plan::Effect;
use crate::plan::observed::ObservedWork;
use crate::plan::record::{Record, RecordError};

/// A change of the works of one source.
#[derive(Debug, Clone, PartialEq)]
pub enum HubEvent {
    /// The complete state: works that are not in it do not exist.
    Listed(Vec<ObservedWork>),
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
    pub record: Record,
    /// Opaque: the precondition of the next write.
    pub resource_version: String,
}

/// Why a request to the hub failed. The message names the object and the fix, and has no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HubError {
    /// 409 on create: the name is taken.
    #[error("{key} exists already")]
    Exists { key: String },
    /// 409 on a write with a precondition, or 404 on an object that existed: read it and plan
    /// again.
    #[error("{key} has changed on the hub in the meantime")]
    Stale { key: String },
    /// The cluster namespace does not exist or is being deleted.
    #[error(
        "the hub has no namespace {cluster:?} that takes works; is the managed cluster joined \
            and accepted?"
    )]
    ClusterNamespaceMissing { cluster: String },
    /// 401 or 403.
    #[error("the hub forbids this: {message}")]
    Forbidden { message: String },
    /// The API server or an admission webhook rejected the object; only a change in Git fixes it.
    #[error("the hub refuses {key}: {message}")]
    WriteRejected { key: String, message: String },
    /// gitwork's own namespace does not exist.
    #[error(
        "the hub has no namespace {namespace:?} for gitwork's own objects; make it, or name \
            another with --namespace"
    )]
    NamespaceMissing { namespace: String },
    /// The source's record on the hub is invalid.
    #[error(
        "the record in the Lease {namespace}/{name} cannot be used: {why}; delete that Lease to \
            start over"
    )]
    InvalidRecord { namespace: String, name: String, why: RecordError },
    /// The ManifestWork CRD is not installed.
    #[error(
        "the hub does not know ManifestWork; install Open Cluster Management, or the CRD that \
            `gitwork crds` prints"
    )]
    CrdMissing,
    /// A time-out, 429, 5xx or no connection: retry later. The write may have taken place.
    #[error("the hub did not answer: {message}")]
    Unavailable { message: String, retry_after_seconds: Option<u64> },
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
            | Self::CrdMissing => RetryClass::Blocked,
            Self::WriteRejected { .. } => RetryClass::Rejected,
        }
    }
}

impl OperationError for HubError {
    fn class(&self) -> ErrorClass {
        match self.retry_class() {
            RetryClass::Stale => ErrorClass::TRANSIENT,
            RetryClass::Unavailable { retry_after_seconds } => {
                ErrorClass::Transient { retry_after: retry_after_seconds.map(Duration::from_secs) }
            }
            RetryClass::Blocked | RetryClass::Rejected => ErrorClass::NeedsAction,
        }
    }

    fn reason(&self) -> &'static str {
        match self.retry_class() {
            RetryClass::Stale => "Conflict",
            RetryClass::Unavailable { .. } => "HubUnavailable",
            RetryClass::Blocked => "HubNotReady",
            RetryClass::Rejected => "WriteRejected",
        }
    }
}

/// One effect to execute. `commit` is stored on the work as the one that last changed it.
#[derive(Debug, Clone)]
pub struct Task {
    pub key: WorkKey,
    pub effect: Effect,
    pub commit: Option<CommitId>,
}

/// The outcome of one task. Each task has exactly one.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub task: Task,
    /// The stored work; `None` if it is deleted.
    pub result: Result<Option<ObservedWork>, ExecuteError>,
    /// How many requests were sent.
    pub attempts: u32,
}

/// Why a task failed. A later pass retries it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteError {
    #[error(transparent)]
    Hub(#[from] HubError),
    /// Deletions come after writes: the objects of a deleted work may move to a work that does not
    /// exist yet.
    #[error(
        "not deleted, because writes to cluster {cluster:?} failed and deletions come after them"
    )]
    AfterFailedWrite { cluster: String },
    #[error("not done: gitwork ends, or a newer commit replaced the plan")]
    Stopped,
}
