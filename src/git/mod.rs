//! Repositories and directories, read into snapshots.
//!
//! - [`mirror`]: one bare mirror for each repository, fetched over https, ssh or from a path.
//! - [`repository`]: what is asked of a repository on disk: snapshots, ancestry, revisions.
//! - [`history`]: which commit changed or removed a work folder.
//! - [`directory`]: a folder as it is on disk, uncommitted changes included.
//! - [`range`]: which commits and files are new.
//! - [`local`]: an existing clone, found from a folder inside it.
//! - [`statusbranch`]: the branch with the clusters' status, pushed.
//! - [`witness`]: that branch, read for what was done on the hub.
//! - [`watch`]: hints that a folder has changed.
//!
//! Everything here blocks, bounded in time and bytes: call it from a thread that may wait. There is no
//! working tree, no hook, no submodule, no filter and no `git` program.

pub mod directory;
pub mod error;
pub mod history;
pub mod local;
pub mod mirror;
pub mod range;
pub mod remote;
pub mod repository;
pub mod statusbranch;
mod transport;
pub mod watch;
pub mod witness;

use std::fs;
use std::io;
use std::path::Path;

pub use directory::Directory;
pub use error::{FetchError, MirrorError, ReadError};
pub use local::LocalRepository;
pub use mirror::{Fetched, Mirror, MirrorLimits};
pub use remote::{Auth, ClientCertificate, Reference, Remote};
pub use repository::{Ancestry, CommitFacts, GitSnapshot, Repository};
pub use statusbranch::{Published, PushError, StatusBranch};
pub use witness::Witness;

/// Puts a file in place at once, so that no half of one is ever read.
pub fn replace_file(file: &Path, text: &str) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(&new, file)
}
