//! What the operator decides about reviews.

/// Whether a user needs a right to leave `executor` out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NilExecutor {
    /// Anybody may: OCM's default.
    Allowed,
    /// It counts as the account of OCM's work agent: OCM's feature gate `NilExecutorValidating`.
    Checked,
}

/// The rules that an operator can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReviewPolicy {
    /// The manifests of one work, in bytes as OCM counts them.
    pub manifests_bytes_max: usize,
    /// Whether works without an executor are checked.
    pub nil_executor: NilExecutor,
}
