//! Configuration files: the repository's `gitwork.yaml`, `group.yaml`, `cluster.yaml`, `work.yaml`
//! and manifest sidecars, and the daemon's file.
//!
//! The JSON Schemas in `docs/schema/` are generated from these types, and the same schemas check
//! the files, so that documentation and checks cannot differ. This layer states policies; the
//! layers above evaluate them.

pub mod commit_status;
pub mod daemon_file;
pub mod delivery;
pub mod dependency;
pub mod file;
pub mod file_kind;
pub mod file_names;
pub mod group_file;
pub mod member_selector;
pub mod ocm_rules;
pub mod path_patterns;
pub mod repository_files;
pub mod rollout;
pub mod schema;
mod schema_bounds;
pub mod signers;
pub mod source_rules;
pub mod tenancy;
pub mod values;
pub mod window;

pub use daemon_file::{
    AdoptionPolicy, DaemonCredentials, DaemonFile, DaemonSource, PageConfig, RewindPolicy,
    WebhookConfig,
};
pub use delivery::Delivery;
pub use file_kind::FileKind;
pub use group_file::GroupFile;
pub use ocm_rules::{OCM_FIELDS, RULE_FIELDS};
pub use repository_files::{
    Budgets, ClusterBudget, ClusterFile, GroupBudget, ManifestFile, ManifestMatch, SchemaPolicy,
    SecretPolicy, SourceFile, WorkFile, WorkSettings,
};
