//! Why an engine ended.

use std::sync::Arc;

use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::signature::verification::VerificationFailure;
use gitwork_hub::HubError;
use gitwork_source::SourceReadError;

/// Why an engine ended, or a single pass failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The source cannot be fetched, verified or rendered.
    #[error("the source cannot be read: {0}")]
    Read(#[from] SourceReadError),
    /// A list, a directive or the record on the hub cannot be read.
    #[error("the hub cannot be read: {0}")]
    Hub(#[from] HubError),
    /// The newest commit failed its verification; the last verified one was applied.
    #[error("the newest commit is not applied: {0}")]
    VerificationFailed(Arc<VerificationFailure>),
    /// The thread that read the source panicked.
    #[error("reading the source ended in a panic; this is a bug in gitwork")]
    Panic,
}

impl OperationError for EngineError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Read(error) => error.class(),
            Self::Hub(error) => error.class(),
            Self::VerificationFailed(_) => ErrorClass::NeedsAction,
            Self::Panic => ErrorClass::Bug,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Read(error) => error.reason(),
            Self::Hub(error) => error.reason(),
            Self::VerificationFailed(_) => "VerificationFailed",
            Self::Panic => "Panic",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Read(error) => error.hints(),
            Self::Hub(error) => error.hints(),
            Self::VerificationFailed(_) | Self::Panic => Vec::new(),
        }
    }
}
