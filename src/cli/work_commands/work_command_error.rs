//! Why a command for ManifestWorks without Git fails.

use std::path::PathBuf;

use gitwork_core::model::facts::{PlacementInconsistency, PlacementKey};
use gitwork_core::model::name::WorkKey;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_hub::{class_of_request, limits};

/// Why a command for ManifestWorks without Git fails.
#[derive(Debug, thiserror::Error)]
pub enum WorkCommandError {
    /// A file has a ManifestWork. Inside of another one it would be applied on the cluster.
    #[error("{} has a ManifestWork", .path.display())]
    ManifestWork { path: PathBuf },
    /// There is nothing to create.
    #[error("the files have no object")]
    NoObject,
    /// The work cannot be created from these objects.
    #[error("the work is invalid: {problem}")]
    Invalid { problem: String },
    /// The Placement is not on the hub.
    #[error("the hub has no Placement {placement}{near}")]
    NoPlacement { placement: PlacementKey, near: String },
    /// The hub is still writing the decisions of the Placement.
    #[error("the decisions of the Placement {placement} are incomplete: {problem}")]
    Undecided { placement: PlacementKey, problem: PlacementInconsistency },
    /// Another owner has the work.
    #[error("{key} belongs to {owner}")]
    Foreign { key: WorkKey, owner: String },
    /// There is nothing to delete.
    #[error("{key} does not exist")]
    Absent { key: WorkKey },
    /// The work is about to go.
    #[error("{key} is being deleted")]
    Deleting { key: WorkKey },
    /// The hub does not answer in time.
    #[error("no answer for {key} within {} s", limits::HUB_CALL.as_secs())]
    Late { key: WorkKey },
    /// The hub rejects the request.
    #[error("{key}")]
    Request { key: WorkKey, source: kube::Error },
}

impl WorkCommandError {
    /// Whether another client wrote or created the work in the meantime.
    pub fn is_conflict(&self) -> bool {
        let Self::Request { source: kube::Error::Api(status), .. } = self else { return false };
        status.code == 409
    }
}

impl OperationError for WorkCommandError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Request { source, .. } => class_of_request(source),
            Self::Late { .. } => ErrorClass::TRANSIENT,
            _ => ErrorClass::NeedsAction,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::ManifestWork { .. } | Self::NoObject | Self::Invalid { .. } => "InvalidWork",
            Self::NoPlacement { .. } | Self::Undecided { .. } => "Placement",
            Self::Foreign { .. } | Self::Deleting { .. } | Self::Absent { .. } => "Conflict",
            Self::Late { .. } | Self::Request { .. } => "Hub",
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::ManifestWork { .. } => "`gitwork import` turns it into a folder",
            Self::Undecided { .. } => "try again",
            Self::Deleting { .. } => "try again when it is gone",
            Self::Absent { .. } => "`gitwork get works` lists the works of all clusters",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}
