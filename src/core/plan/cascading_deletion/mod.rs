//! Deleted Namespaces and CustomResourceDefinitions: a cluster deletes with them what others still
//! have in that namespace, or of that kind.
//!
//! - `deletion`: these deletions, and their words.
//! - `enclosed`: where an object is, as far as such a deletion concerns it.
//! - `on_hub`: the deletions of a plan against the hub.

mod deletion;
mod enclosed;
mod on_hub;

pub use deletion::{
    CascadingDeletion, CascadingDeletions, ClusterLosses, Deleted, EnclosingKind, EnclosingObject,
    LostObjects,
};
pub use enclosed::{Enclosed, EnclosedObjects};
pub use on_hub::{HubPlanInputs, on_hub};
