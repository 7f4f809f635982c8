//! The class and the reason of the hub's errors, for callers, metrics and the log.

use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_kube::api_status::ApiStatus;
use gitwork_retry::RetryClass;

use crate::client::ClientError;
use crate::directives::DirectiveError;
use crate::fleet_error::FleetError;

/// The class of a failed request of kube's client that is only repeated as it is. Repetition does
/// not help where the object is gone or has changed.
pub fn class_of_request(error: &kube::Error) -> ErrorClass {
    let kube::Error::Api(status) = error else { return ErrorClass::TRANSIENT };
    match ApiStatus::of_client(status).retry_class() {
        class @ RetryClass::Unavailable { .. } => class.into(),
        RetryClass::Stale | RetryClass::Blocked | RetryClass::Rejected => ErrorClass::NeedsAction,
    }
}

impl OperationError for ClientError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Kubeconfig { .. } => "Kubeconfig",
            Self::NoHub { .. } => "NoHub",
            Self::Setup(_) => "HubConnection",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NoHub { .. } => vec!["give --kubeconfig or set KUBECONFIG".to_owned()],
            Self::Kubeconfig { .. } | Self::Setup(_) => Vec::new(),
        }
    }
}

impl OperationError for FleetError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Other { .. } => ErrorClass::TRANSIENT,
            Self::CrdMissing { .. }
            | Self::Forbidden { .. }
            | Self::NotAccepted
            | Self::NoHub(_) => ErrorClass::NeedsAction,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::CrdMissing { .. } => "CrdMissing",
            Self::Forbidden { .. } => "Forbidden",
            Self::NotAccepted => "Unauthorized",
            Self::Other { .. } => "HubUnavailable",
            Self::NoHub(_) => "NoHub",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::CrdMissing { .. } => vec![
                "choose the hub of an Open Cluster Management fleet with --kubeconfig or \
                 --context, or install the CRDs that `gitwork crds` prints"
                    .to_owned(),
            ],
            Self::Forbidden { verb, plural, one_namespace, .. } => {
                let wider = " in all namespaces, or name one cluster with --cluster";
                let wider = if *one_namespace { "" } else { wider };
                vec![format!("ask for `{verb}` on {plural}{wider}")]
            }
            Self::NotAccepted => vec!["check whether they have expired or were revoked".to_owned()],
            Self::Other { .. } | Self::NoHub(_) => Vec::new(),
        }
    }
}

impl OperationError for DirectiveError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Unavailable { retry_after_seconds, .. } => {
                let retry_after_seconds = *retry_after_seconds;
                RetryClass::Unavailable { retry_after_seconds }.into()
            }
            Self::Stale { .. } => RetryClass::Stale.into(),
            _ => ErrorClass::NeedsAction,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::ApprovalTooLarge { .. } | Self::TooLarge { .. } => "TooLarge",
            Self::WriteRejected { .. } => "WriteRejected",
            Self::Stale { .. } => "Conflict",
            Self::Unavailable { .. } => "HubUnavailable",
            Self::NamespaceMissing { .. } => "NamespaceMissing",
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::ApprovalTooLarge { hash, .. } => format!(
                "commit the approval to Git: `gitwork approve {hash} --print > approvals/{hash}`"
            ),
            Self::TooLarge { .. } => "resume suspensions that are no longer needed".to_owned(),
            Self::NamespaceMissing { .. } => {
                "create it, or name gitwork's own with --namespace".to_owned()
            }
            Self::WriteRejected { .. } | Self::Stale { .. } | Self::Unavailable { .. } => {
                return Vec::new();
            }
        };
        vec![hint]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn repeated_requests_wait_as_the_server_asks_and_end_where_the_object_changed() {
        let after = |seconds| ErrorClass::Transient { retry_after: seconds };
        for (status, class) in [
            (
                json!({"code": 429, "details": {"retryAfterSeconds": 2}}),
                after(Some(Duration::from_secs(2))),
            ),
            (json!({"code": 503}), after(None)),
            (json!({"code": 500}), after(None)),
            (json!({"code": 404}), ErrorClass::NeedsAction),
            (json!({"code": 409}), ErrorClass::NeedsAction),
            (json!({"code": 403}), ErrorClass::NeedsAction),
        ] {
            let response: kube::core::Status = serde_json::from_value(status.clone()).unwrap();
            assert_eq!(class_of_request(&kube::Error::Api(response.boxed())), class, "{status}");
        }
    }
}
