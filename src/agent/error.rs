//! Why a pass fails.

use super::server::ApiError;

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    #[error("cannot {doing}: {error}")]
    Request { doing: &'static str, error: ApiError },
    #[error("cannot record what is applied: {0}")]
    Unrecorded(String),
    #[error("cannot write the status: another client keeps writing it")]
    Contended,
    #[error("the API server's response is no {0}")]
    Answer(&'static str),
}

/// Says what the agent was doing when a request failed; reads after "cannot".
pub fn request_error(doing: &'static str) -> impl Fn(ApiError) -> PassError {
    move |error| PassError::Request { doing, error }
}
