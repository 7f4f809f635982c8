//! The class and the reason of the hub's errors, for callers, metrics and the log.

use gitwork_core::model::operation_error::{ErrorClass, OperationError};

use crate::client::ClientError;
use crate::directives::DirectiveError;
use crate::fleet_error::FleetError;

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
}

impl OperationError for DirectiveError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Unavailable(_) => ErrorClass::TRANSIENT,
            _ => ErrorClass::NeedsAction,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::ApprovalTooLarge { .. } | Self::TooLarge { .. } => "TooLarge",
            Self::WriteRejected { .. } => "WriteRejected",
            Self::Unavailable(_) => "HubUnavailable",
            _ => "NamespaceMissing",
        }
    }
}
