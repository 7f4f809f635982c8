//! Why the commands that show the fleet cannot read it.

/// Why the fleet cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// The API server does not serve the kind.
    #[error("the hub does not know {kind}")]
    CrdMissing {
        /// The kind.
        kind: &'static str,
    },
    /// RBAC denies the request.
    #[error("the hub forbids this ({message})")]
    Forbidden {
        /// The verb of the missing rule.
        verb: &'static str,
        /// The resource of the missing rule.
        plural: &'static str,
        /// Whether the request is for one namespace, not for all.
        one_namespace: bool,
        /// The message of the API server.
        message: String,
    },
    /// The API server rejects the credentials.
    #[error("the hub does not accept the credentials (401)")]
    NotAccepted,
    /// The request failed in another way.
    #[error("cannot {verb} the hub's {plural}: {message}")]
    Other {
        /// The verb of the request.
        verb: &'static str,
        /// The resource of the request.
        plural: &'static str,
        /// What failed.
        message: String,
    },
    /// There is no connection, for this reason.
    #[error("the hub cannot be reached: {0}")]
    NoHub(String),
}
