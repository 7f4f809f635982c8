//! The kinds that are reviewed.

use crate::json_text::JsonText;

/// The kind that a webhook reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReviewedKind {
    /// `manifestworks`, version v1.
    ManifestWork,
    /// `manifestworkreplicasets`, version v1alpha1.
    ManifestWorkReplicaSet,
}

impl ReviewedKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::ManifestWork, Self::ManifestWorkReplicaSet];

    /// The resource in the plural.
    pub fn resource(self) -> &'static str {
        match self {
            Self::ManifestWork => "manifestworks",
            Self::ManifestWorkReplicaSet => "manifestworkreplicasets",
        }
    }

    /// The version of the API.
    pub fn version(self) -> &'static str {
        match self {
            Self::ManifestWork => "v1",
            Self::ManifestWorkReplicaSet => "v1alpha1",
        }
    }

    /// The path of its webhook: that of OCM.
    pub fn path(self) -> &'static str {
        match self {
            Self::ManifestWork => "/validate-work-open-cluster-management-io-v1-manifestwork",
            Self::ManifestWorkReplicaSet => {
                "/validate-work-open-cluster-management-io-v1alpha1-manifestworkreplicaset"
            }
        }
    }

    /// The path of the field that has the spec of its works.
    pub(crate) fn spec_field(self) -> &'static str {
        match self {
            Self::ManifestWork => "spec",
            Self::ManifestWorkReplicaSet => "spec.manifestWorkTemplate",
        }
    }

    /// The spec of its works.
    pub(crate) fn spec(self, object: JsonText<'_>) -> Option<JsonText<'_>> {
        match self {
            Self::ManifestWork => object.field("spec"),
            Self::ManifestWorkReplicaSet => object.at(&["spec", "manifestWorkTemplate"]),
        }
    }

    /// OCM's message for no manifests.
    pub(crate) fn nothing(self) -> &'static str {
        match self {
            Self::ManifestWork => "manifests should not be empty",
            Self::ManifestWorkReplicaSet => "Workload manifests should not be empty",
        }
    }
}
