//! The pure core: `snapshot -> desired -> plan`, and the values that flow between.
//!
//! Nothing here does IO: no tokio, no kube client, no git2, no file system, no clock, no
//! environment. `tests/it/tidy.rs` scans the imports and fails on a banned one.

pub mod adoption;
pub mod approval;
pub mod backoff;
pub mod budget;
pub mod cel;
pub mod config;
pub mod configfile;
pub mod departed;
pub mod desired;
pub mod diagnostic;
pub mod diff;
pub mod digest;
pub mod directives;
pub mod effect;
pub mod election;
pub mod explain;
pub mod fight;
pub mod forge;
pub mod jsonpath;
pub mod kinds;
pub mod layout;
pub mod manifest;
pub mod manifests;
pub mod name;
pub mod observed;
pub mod page;
pub mod plan;
pub mod record;
pub mod render;
pub mod report;
pub mod review;
pub mod rewind;
pub mod rival;
pub mod rules;
pub mod sarif;
pub mod schema;
pub mod secret;
pub mod signature;
pub mod snapshot;
pub mod status;
pub mod statusbranch;
pub mod substitute;
pub mod table;
pub mod tenancy;
pub mod window;
pub mod work;
pub mod yaml;
