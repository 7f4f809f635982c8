//! Why a manifest is not applied: the text for the status, and when to try again.

use gitwork_agent_core::apply::StepError;
use gitwork_agent_core::drift_backoff::{APPLY_CONFLICT, NOT_ALLOWED};
use gitwork_agent_core::manifest::ResourceMapping;
use gitwork_agent_core::status::ApplyOutcome;
use gitwork_kube::api_status::ApiStatus;

use super::executor_access::ExecutorError;
use super::server::ApiError;
use super::state::Retry;

/// Why a manifest is not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A request failed.
    #[error("{0}")]
    Api(#[from] ApiError),
    /// The agent lacks a permission. `hint` says which rule is missing.
    #[error("{error}{hint}")]
    Forbidden { error: ApiError, hint: String },
    /// The manifest cannot be applied with its update strategy.
    #[error(transparent)]
    Refused(#[from] StepError),
    /// Another field manager owns a field that server-side apply does not force.
    #[error("{0}")]
    SideApplyConflict(ApiError),
    /// The work's executor may not apply the manifest.
    #[error("{0}")]
    Executor(ExecutorError),
    /// The kind is namespaced and the manifest has no namespace.
    #[error("an empty namespace may not be set when a resource name is provided")]
    NoNamespace,
    /// The jq expressions of `ignoreFields` ran into their time limit.
    #[error("the expressions of ignoreFields took too long")]
    TooLong,
    /// Each write was overtaken by one of another client.
    #[error("somebody else changes the object as fast as it is applied")]
    NotConverged,
}

impl ApplyError {
    /// The error of a write to an object of `mapping`.
    pub fn of_write(error: ApiError, mapping: &ResourceMapping) -> Self {
        let Some(verb) = error.status().and_then(ApiStatus::denied_verb) else {
            return Self::Api(error);
        };
        let ResourceMapping { group, resource, .. } = mapping;
        let hint = format!(
            "; a ClusterRole with the label open-cluster-management.io/aggregate-to-work: \"true\" \
             and the rule {{apiGroups: [\"{group}\"], resources: [\"{resource}\"], \
             verbs: [\"{verb}\"]}} would allow it"
        );
        Self::Forbidden { error, hint }
    }

    /// The error of a server-side apply to an object of `mapping`.
    pub fn of_apply(error: ApiError, mapping: &ResourceMapping) -> Self {
        if error.code() == 409 {
            return Self::SideApplyConflict(error);
        }
        Self::of_write(error, mapping)
    }

    /// What the manifest's condition `Applied` says.
    pub fn outcome(&self) -> ApplyOutcome {
        match self {
            Self::Refused(StepError::Ignore(error)) => {
                ApplyOutcome::IgnoreFieldsFailed(error.to_string())
            }
            other => ApplyOutcome::Failed(other.to_string()),
        }
    }

    /// When to try again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Executor(denied) if denied.is_denied() => Retry::After(NOT_ALLOWED),
            Self::SideApplyConflict(_) => Retry::After(APPLY_CONFLICT),
            _ => Retry::BackOff,
        }
    }
}
