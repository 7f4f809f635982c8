//! The words that everything else is about: names, kinds, manifests, snapshots, diagnostics,
//! approvals, the status of a work.

pub mod approval;
pub mod cluster_revisions;
pub mod defaults;
pub mod diagnostic;
pub mod diagnostic_sink;
pub mod digest;
pub mod facts;
pub mod in_step;
pub mod kinds;
pub mod manifest;
pub mod name;
pub mod object_digest;
pub mod snapshot;
pub mod source_origin;
pub mod spec_text;
pub mod status_view;
mod string_schema;
pub(crate) mod value_path;
pub mod work;
pub mod work_digest;
pub mod work_state;
pub mod works_by_cluster;

pub use gitwork_retry::operation_error;
