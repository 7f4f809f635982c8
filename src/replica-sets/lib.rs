//! Decides for the controller of ManifestWorkReplicaSets: which ManifestWorks to create, change
//! and delete, and the status of the replica set. Pure: objects, facts and time are passed in.
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use gitwork_core::model::facts::Facts;
//! use gitwork_replica_sets::decision::{SetInputs, decide};
//! use gitwork_replica_sets::decision_groups::DecisionGroups;
//! use gitwork_replica_sets::replica_set::ReplicaSet;
//! use gitwork_replica_sets::semantics::RolloutSemantics;
//! use gitwork_replica_sets::write::SetWrite;
//! use serde_json::json;
//!
//! let set = json!({
//!     "metadata": {"namespace": "fleet", "name": "web", "uid": "1", "generation": 1},
//!     "spec": {"placementRefs": [{"name": "all"}]},
//! });
//! let set = ReplicaSet::read(&set, RolloutSemantics::Gitwork).unwrap();
//! let facts = Facts::read(b"{}").unwrap();
//! let decision = decide(&SetInputs {
//!     set: &set,
//!     facts: &facts,
//!     groups: &DecisionGroups::default(),
//!     works: &BTreeMap::new(),
//!     failures: &BTreeMap::new(),
//!     now: "2026-11-20T10:00:00Z".parse().unwrap(),
//! });
//! // Before anything else, its deletion must be noticed.
//! assert_eq!(decision.writes, [SetWrite::AddFinalizer]);
//! ```

mod cluster_state;
pub mod completed_work;
pub mod decision;
pub mod decision_groups;
#[cfg(test)]
mod decision_tests;
mod go_duration;
pub mod limits;
mod membership;
pub mod names;
pub mod replica_set;
pub mod semantics;
mod set_conditions;
mod set_rollout;
mod set_status;
pub mod set_work;
mod strategy;
pub mod write;
