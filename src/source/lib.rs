//! One source: a repository, a reference and a path, read into the works that Git wants.
//!
//! All calls block; the daemon and the commands share this crate. Callers give the clock.
//!
//! - [`Sources`]: opens the sources of a process, which share mirrors.
//! - [`Source`]: fetches, verifies and renders.
//! - [`SourceHistory`]: changes and removals of the source's paths.
//! - [`SourceSignatures`]: questions about the signatures of commits.
//! - [`SourceSnapshots`]: the files of single revisions.
//! - [`StateFiles`]: the source's files beside its mirror.
//! - [`verification`]: the newest commit that its signers allow.
//!
//! ```no_run
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use gitwork_core::config::tenancy::Tenancy;
//! use gitwork_core::model::name::RepoPath;
//! use gitwork_git::Mirrors;
//! use gitwork_source::{SourceConfig, SourceLocation, Sources, default_id, origin_of_folder};
//! use jiff::Timestamp;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (folder, path) = (Path::new("fleet"), RepoPath::root());
//! let config = SourceConfig {
//!     id: default_id(&origin_of_folder(folder, &path), "")?,
//!     repository: SourceLocation::Directory(folder.to_owned()),
//!     path,
//!     tenancy: Tenancy::default(),
//!     schema_checks: Default::default(),
//!     content_bytes_max: gitwork_core::limits::CONTENT_BYTES_MAX,
//!     facts: None,
//! };
//! let sources = Sources::new(Mirrors::default(), Timestamp::now);
//! let mut source = sources.open(config)?;
//! let read = source.read(&Arc::default())?;
//! println!("{} wants {} works", read.name, read.desired.works.len());
//! # Ok(())
//! # }
//! ```

mod checkpoint;
mod config;
mod error;
mod history;
mod id;
pub mod limits;
mod origin;
mod policy_file;
mod reading;
mod signatures;
mod snapshots;
mod source;
mod sources;
mod state_files;
pub mod verification;
mod walk;
mod work_names;

pub use config::{SourceConfig, SourceLocation};
pub use error::SourceReadError;
pub use history::{PathHistory, SourceHistory};
pub use id::{default_id, origin_of_folder, origin_of_url};
pub use reading::{SourceState, Spent};
pub use signatures::SourceSignatures;
pub use snapshots::SourceSnapshots;
pub use source::Source;
pub use sources::Sources;
pub use state_files::{StateFileError, StateFiles};
