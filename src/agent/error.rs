//! Why a pass fails.

use gitwork_retry::operation_error::{ErrorClass, OperationError};

use super::server::ApiError;

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// A request failed. `doing` reads after "cannot".
    #[error("cannot {doing}: {error}")]
    Request { doing: &'static str, error: ApiError },
    /// Some objects of the work could not be read, for these reasons.
    #[error("cannot record what is applied: {0}")]
    Unrecorded(String),
    /// Each write of the status was overtaken by one of another client.
    #[error("cannot write the status: another client keeps writing it")]
    Contended,
    /// The `spec` on the hub is not of the form of OCM's CRD.
    #[error("invalid ManifestWork spec: {0}")]
    InvalidSpec(serde_json::Error),
    /// A response is not an object of this kind.
    #[error("the API server's response is no {0}")]
    InvalidResponse(&'static str),
}

impl OperationError for PassError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Request { error, .. } => error.class(),
            Self::InvalidSpec(_) => ErrorClass::NeedsAction,
            Self::Unrecorded(_) | Self::Contended | Self::InvalidResponse(_) => {
                ErrorClass::TRANSIENT
            }
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Request { error, .. } => error.reason(),
            Self::Unrecorded(_) => "ObjectsUnknown",
            Self::Contended => "Conflict",
            Self::InvalidSpec(_) => "InvalidSpec",
            Self::InvalidResponse(_) => "InvalidResponse",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Request { error, .. } => error.hints(),
            Self::InvalidSpec(_) => vec!["fix it on the hub".to_owned()],
            Self::Unrecorded(_) | Self::Contended | Self::InvalidResponse(_) => Vec::new(),
        }
    }
}

/// Says what the agent was doing when a request failed; reads after "cannot".
pub fn request_error(doing: &'static str) -> impl Fn(ApiError) -> PassError {
    move |error| PassError::Request { doing, error }
}
