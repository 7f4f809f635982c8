//! Groups of clusters: what a group's folder says, and which clusters are in the group.

mod inputs;
mod matcher;
mod membership;

pub use inputs::{
    GroupConfig, GroupConfigs, GroupDefaults, GroupInputs, GroupOverride, GroupWaves, PlacedWaves,
    defaults_digest, fields_digest,
};
pub use matcher::Certainty;
pub use membership::{ClusterLabels, Membership, Memberships};
