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
    /// The hub does not answer in time.
    #[error("no answer for {key} within {} s", limits::HUB_CALL.as_secs())]
    Late { key: WorkKey },
    /// The hub rejects the request.
    #[error("{key}")]
    Request { key: WorkKey, source: kube::Error },
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
            Self::Late { .. } | Self::Request { .. } => "Hub",
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::ManifestWork { .. } => "`gitwork import` turns it into a folder",
            Self::Undecided { .. } => "try again",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}
