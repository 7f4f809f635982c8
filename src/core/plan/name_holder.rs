//! What has a name on the hub that Git wants for a work.

use crate::config::AdoptionPolicy;
use crate::plan::observed::ObservedWork;

/// What of another owner has a name on the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameHolder {
    /// A ManifestWork.
    Work {
        /// Which works the source may adopt.
        adoption: AdoptionPolicy,
    },
    /// A ManifestWork of a ManifestWorkReplicaSet. No source adopts it.
    WorkOfReplicaSet,
    /// A ManifestWorkReplicaSet. No source adopts it.
    ReplicaSet,
}

impl NameHolder {
    /// What `there` is to a source with this policy.
    pub fn of(there: &ObservedWork, adoption: AdoptionPolicy) -> Self {
        if there.key.is_replica_set() {
            Self::ReplicaSet
        } else if there.of_replica_set {
            Self::WorkOfReplicaSet
        } else {
            Self::Work { adoption }
        }
    }

    /// Whether its owner can allow the adoption.
    pub fn is_adoptable(self) -> bool {
        matches!(self, Self::Work { .. })
    }
}
