//! Repositories and folders, read into snapshots.
//!
//! - [`mirror`]: one bare mirror for each repository, fetched over https, ssh or from a path.
//! - [`Mirrors`]: the mirrors that the sources of a process share.
//! - [`FolderLock`]: the lock of a folder that one process uses at a time.
//! - [`repository`]: questions about a repository on disk: snapshots, ancestry, revisions.
//! - [`history`]: the commit that changed or removed a work folder.
//! - [`directory`]: a folder as it is on disk, with uncommitted changes.
//! - [`range`]: new commits and changed files between commits.
//! - [`local`]: an existing clone, found from a folder inside it.
//! - [`status_branch`]: the branch with the clusters' status, pushed.
//! - [`status_branch_checkpoint`]: what the status branch says of the record on the hub.
//! - [`watch`]: hints that a folder has changed.
//!
//! Every call blocks, within bounds of time and bytes: use a thread that may block. There is no
//! working tree, no hook, no submodule, no filter and no `git` program.
//!
//! ```no_run
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use gitwork_core::model::name::RepoPath;
//! use gitwork_git::{Auth, Mirror, MirrorLimits, Reference, Remote};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let remote = Remote {
//!     url: "https://git.example/fleet.git".to_owned(),
//!     auth: Auth::None,
//!     ca_bundle: None,
//!     client_certificate: None,
//!     proxy: None,
//! };
//! let mut mirror = Mirror::open(Path::new("/var/cache/fleet"), remote, MirrorLimits::default())?;
//! let fetched = mirror.fetch(&Reference::Branch("main".to_owned()), &Arc::default())?;
//! let snapshot = mirror.snapshot(fetched.commit, &RepoPath::root())?;
//! println!("{} has the tree {:?}", fetched.name, snapshot.root);
//! # Ok(())
//! # }
//! ```

mod address;
mod canonical_url;
pub mod changed_files;
pub mod credential_file;
pub mod directory;
pub mod error;
mod fetch;
mod fetch_group;
mod folder_lock;
pub mod history;
mod kept_commits;
pub mod limits;
pub mod local;
mod lock_holder;
pub mod memory;
pub mod mirror;
mod mirror_error;
mod mirror_folder;
mod mirrors;
mod push_error;
mod push_outcome;
pub mod range;
mod receive_pack;
pub mod remote;
pub mod repository;
pub mod status_branch;
pub mod status_branch_checkpoint;
mod status_tree;
mod transport;
pub mod watch;

use std::fs;
use std::io;
use std::path::Path;

pub use canonical_url::{canonical_path, canonical_repository};
pub use directory::Directory;
pub use error::{FetchError, MirrorError, RepositoryError};
pub use fetch::Fetched;
pub use folder_lock::{FolderLock, LongWait};
pub use local::LocalRepository;
pub use lock_holder::LockHolder;
pub use mirror::{Mirror, MirrorLimits};
pub use mirrors::Mirrors;
pub use push_error::PushError;
pub use remote::{Auth, ClientCertificate, Reference, Remote};
pub use repository::{AncestorCheck, CommitFacts, GitSnapshot, Repository, split_revision};
pub use status_branch::{Published, StatusBranch};
pub use status_branch_checkpoint::{PublishedRecord, StatusBranchCheckpoint};

/// Replaces a file atomically: a reader sees the old text or the new one.
pub fn replace_file(file: &Path, text: &str) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(&new, file)
}
