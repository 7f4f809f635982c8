//! The pure core: `snapshot -> desired -> plan`, and the values that flow between.
//!
//! Nothing here does IO: no tokio, no kube client, no git2, no file system, no clock, no
//! environment.

pub mod config;
pub mod limits;
pub mod model;
pub mod plan;
pub mod render;
pub mod report;
pub mod signature;
pub mod sync;
pub mod text;
