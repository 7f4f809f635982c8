//! Why a pass fails.

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
    /// A response is not an object of this kind.
    #[error("the API server's response is no {0}")]
    Answer(&'static str),
}

/// Says what the agent was doing when a request failed; reads after "cannot".
pub fn request_error(doing: &'static str) -> impl Fn(ApiError) -> PassError {
    move |error| PassError::Request { doing, error }
}
