//! Which clusters of a group may get new content now. Pure: states and time are passed in.
//!
//! [`waves`] is what gitwork does; each of OCM's strategies is a list of waves there. [`ocm`] is
//! OCM's own algorithm with its defects, for programs that have to do as OCM does. The tests
//! compare both with what OCM's program gave (docs/rollouts.md has the differences).

pub mod earlier;
pub mod ocm;
pub mod rules;
mod state;
pub mod waves;

#[cfg(test)]
mod golden_vectors;

pub use rules::{
    DecisionGroupRules, DecisionGroupWaves, GroupRollout, RolloutMember, RolloutRules, WaveRules,
};
pub use state::later;
pub use state::{ActiveCluster, ClusterState};
pub use waves::{Gate, Rollout, RolloutProgress, Wave, WaveBreach};
