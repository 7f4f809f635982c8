//! One source: a repository, a reference and a path, read into the works that Git wants.
//!
//! All calls block; the daemon and the commands share this crate.
//!
//! - [`Source`]: opens the mirror or folder, fetches, verifies and renders.
//! - [`SourceHistory`]: changes and removals of the source's paths.
//! - [`StateFiles`]: the source's files beside its mirror.
//! - [`verification`]: the newest commit that its signers allow.
//!
//! ```no_run
//! use std::path::PathBuf;
//! use std::sync::Arc;
//!
//! use gitwork_core::config::tenancy::Tenancy;
//! use gitwork_core::model::name::RepoPath;
//! use gitwork_source::{SourceLocation, Source, SourceConfig, default_id};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = RepoPath::root();
//! let mut source = Source::open(SourceConfig {
//!     id: default_id("fleet", "", &path)?,
//!     repository: SourceLocation::Directory(PathBuf::from("fleet")),
//!     path,
//!     tenancy: Tenancy::default(),
//! })?;
//! let read = source.read(&Arc::default())?;
//! println!("{} wants {} works", read.name, read.desired.works.len());
//! # Ok(())
//! # }
//! ```

mod config;
mod error;
mod history;
mod id;
pub mod limits;
mod origin;
mod policy_file;
mod state_files;
pub mod verification;
mod walk;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use gitwork_core::model::kinds::KindIndex;
use gitwork_core::model::name::{CommitId, ObjectId, RepoPath};
use gitwork_core::model::operation_error::{OperationError, describe};
use gitwork_core::model::snapshot::{ObjectError, Snapshot};
use gitwork_core::render::desired::Desired;
use gitwork_core::render::renderer::Renderer;
use gitwork_core::report::review::Signatures;
use gitwork_core::signature::verification::VerificationFailure;
use gitwork_git::{Directory, Fetched, Mirror, Remote, StatusBranchCheckpoint};

pub use crate::config::{SourceConfig, SourceLocation};
pub use crate::error::SourceReadError;
pub use crate::history::{PathHistory, SourceHistory};
pub use crate::id::default_id;
use crate::origin::Origin;
pub use crate::state_files::StateFiles;
use crate::verification::Verification;

/// One state of a source.
#[derive(Debug, Clone)]
pub struct SourceState {
    /// The works that Git wants.
    pub desired: Arc<Desired>,
    /// The full name of the reference, or the folder, for messages.
    pub name: String,
    /// The committer date, in seconds since 1970; `None` for a folder on disk.
    pub committed_seconds: Option<i64>,
    /// The time that the read took.
    pub spent: Spent,
    /// Why this is the last verified commit instead of the reference's commit.
    pub verification_failure: Option<Arc<VerificationFailure>>,
    /// The tree at the source's path.
    pub root: ObjectId,
}

/// The time that the parts of a read took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    /// Fetching, or listing the folder.
    pub fetch: Duration,
    /// Verifying and rendering; `None` if nothing had changed.
    pub render: Option<Duration>,
}

/// An opened source, with the result of its last read.
pub struct Source {
    config: SourceConfig,
    origin: Origin,
    renderer: Renderer,
    verification: Option<Verification>,
    /// The status branch, until it has been read once.
    checkpoint: Option<StatusBranchCheckpoint>,
    /// The record generation on the status branch; 0 while unknown.
    checkpoint_generation: u64,
    last: Option<SourceState>,
}

impl Source {
    /// Opens and locks the mirror, or names the folder. Nothing is fetched or read yet.
    ///
    /// # Errors
    /// Another process has locked the mirror, its folder cannot be used, or the URL is invalid.
    pub fn open(config: SourceConfig) -> Result<Self, SourceReadError> {
        let origin = Origin::open(&config)?;
        let renderer = Renderer::new(config.id.clone()).with_tenancy(config.tenancy.clone());
        let (verification, checkpoint, last) = (None, None, None);
        Ok(Self {
            config,
            origin,
            renderer,
            verification,
            checkpoint,
            checkpoint_generation: 0,
            last,
        })
    }

    /// Reads the record generation of the status branch once, with the first read. A new machine
    /// with an empty mirror does not know it, and a hub restored from a backup has a lower one.
    pub fn with_checkpoint(mut self, branch: &str) -> Self {
        if let SourceLocation::Git { remote, cache, .. } = &self.config.repository {
            let folder = cache.join(format!("{}-status-checkpoint", self.config.id));
            self.checkpoint =
                Some(StatusBranchCheckpoint::new(&folder, Remote::clone(remote), branch));
        }
        self
    }

    /// Reads only verified commits from now on.
    ///
    /// # Errors
    /// The operator requires signatures, but the source is a folder on disk.
    pub fn with_verification(
        mut self,
        mut verification: Verification,
    ) -> Result<Self, SourceReadError> {
        match &self.config.repository {
            SourceLocation::Git { .. } => {
                if let Some(file) = self.state_files().path("verified") {
                    verification.remember_in(file);
                }
                self.verification = Some(verification);
            }
            SourceLocation::Directory(_) if verification.requires_nothing() => {}
            SourceLocation::Directory(path) => {
                return Err(SourceReadError::NothingSigned { path: path.clone() });
            }
        }
        Ok(self)
    }

    /// Reads only verified commits from now on, starting from the commits that the hub has applied:
    /// commits verified earlier on this machine do not count, and the result is not kept. A folder
    /// on disk is read as it is.
    pub fn with_trial_verification(self, verification: Verification) -> Self {
        let is_git = matches!(self.config.repository, SourceLocation::Git { .. });
        Self { verification: is_git.then(|| verification.on_trial()), ..self }
    }

    /// The configuration that the source was opened with.
    pub fn config(&self) -> &SourceConfig {
        &self.config
    }

    /// The source's files beside its mirror.
    pub fn state_files(&self) -> StateFiles<'_> {
        StateFiles::new(&self.config)
    }

    /// The history of the source's paths, up to the commit that was read last.
    pub fn history(&self) -> SourceHistory<'_> {
        SourceHistory::new(&self.config, &self.origin, self.last_commit())
    }

    fn last_commit(&self) -> Option<CommitId> {
        self.last.as_ref().and_then(|last| last.desired.commit)
    }

    /// The highest known generation of the source's record on the hub: of this machine or of the
    /// status branch; 0 if neither knows one.
    pub fn known_record_generation(&self) -> u64 {
        self.state_files().record_generation().max(self.checkpoint_generation)
    }

    /// Reads the status branch's checkpoint, if that has not happened yet. If only a person can fix
    /// the branch, the source is read without it; if a retry may help, the read fails.
    fn read_checkpoint(&mut self, cancel: &Arc<AtomicBool>) -> Result<(), SourceReadError> {
        let Some(checkpoint) = &self.checkpoint else { return Ok(()) };
        match checkpoint.record_generation(&self.config.id, cancel) {
            Ok(generation) => self.checkpoint_generation = generation,
            Err(error) if error.needs_action() => tracing::warn!(
                source = %self.config.id,
                branch = checkpoint.branch(),
                reason = error.reason(),
                error = describe(&error),
                "cannot read the status branch; gitwork may not notice a hub restored from a backup"
            ),
            Err(error) => return Err(SourceReadError::StatusBranchCheckpoint(error)),
        }
        self.checkpoint = None;
        Ok(())
    }

    /// The daemon's verdict on the signatures of the commits from `base` to `head`, assuming that
    /// `base` is verified; `None` if nobody requires signatures. Without `head` it is the commit
    /// that was read last, or for a folder on disk the checked-out commit.
    pub fn check_signatures(
        &self,
        verification: &mut Verification,
        base: &str,
        head: Option<&str>,
        cancel: &AtomicBool,
    ) -> Result<Option<Signatures>, SourceReadError> {
        let last = match self.origin {
            Origin::Mirror { .. } => self.last_commit(),
            Origin::Directory(_) => None,
        };
        self.origin.with_repository(&self.config.path, |repository, path| {
            let head = match (head, last) {
                (Some(head), _) => repository.resolve(head)?,
                (None, Some(last)) => last,
                (None, None) => repository.resolve("HEAD")?,
            };
            let range = [repository.resolve(base)?, head];
            Ok(verification.judge_range(repository, path, range, cancel)?)
        })
    }

    /// Whether `gitwork.yaml` of a commit requires signatures; never for a folder on disk.
    pub fn requires_signatures(&self, commit: CommitId) -> Result<bool, SourceReadError> {
        match &self.origin {
            Origin::Mirror { mirror, .. } => {
                let path = &self.config.path;
                Ok(verification::requires_signatures(mirror.repository(), path, commit)?)
            }
            Origin::Directory(_) => Ok(false),
        }
    }

    /// Whether the next read needs the applied commits first: see [`Self::set_applied_commits`].
    pub fn needs_applied_commits(&self) -> bool {
        self.verification.as_ref().is_some_and(Verification::needs_applied_commits)
    }

    /// Sets the commits that were applied, as the hub reports them.
    pub fn set_applied_commits(&mut self, commits: BTreeSet<CommitId>) {
        if let Some(verification) = &mut self.verification {
            verification.set_applied_commits(commits);
        }
    }

    /// Fetches, verifies and renders. Unchanged files are not read again.
    ///
    /// # Errors
    /// The source's works are unknown then, not absent.
    pub fn read(&mut self, cancel: &Arc<AtomicBool>) -> Result<SourceState, SourceReadError> {
        let reading = Reading {
            path: &self.config.path,
            renderer: &mut self.renderer,
            last: self.last.as_ref(),
            began: Instant::now(),
        };
        let read = match &mut self.origin {
            Origin::Mirror { mirror, reference } => {
                let fetched = mirror.fetch(reference, cancel)?;
                reading.mirror(mirror, fetched, self.verification.as_mut(), cancel)?
            }
            Origin::Directory(directory) => reading.directory(directory)?,
        };
        if read.spent.render.is_some() {
            self.read_checkpoint(cancel)?;
            self.last = Some(read.clone());
        }
        Ok(read)
    }

    /// Reads one revision (`git rev-parse`) of the repository that the source is in.
    pub fn read_revision(
        &mut self,
        revision: &str,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Desired, SourceReadError> {
        if let (Origin::Mirror { mirror, reference }, None) = (&mut self.origin, &self.last) {
            mirror.fetch(reference, cancel)?;
        }
        let snapshot = self.origin.with_repository(&self.config.path, |repository, path| {
            Ok(repository.snapshot(repository.resolve(revision)?, path)?)
        })?;
        // The last rendered works are a good start: most works of two revisions are equal.
        Ok(self.renderer.clone().render(&snapshot.snapshot())?)
    }

    /// Calls `act` with the snapshot of a read, and with the kinds that its CRDs define.
    pub fn with_snapshot<T>(
        &mut self,
        read: &SourceState,
        act: impl FnOnce(&Snapshot<'_>, &KindIndex) -> Result<T, ObjectError>,
    ) -> Result<T, SourceReadError> {
        let kinds = self.renderer.kinds();
        match &mut self.origin {
            Origin::Mirror { mirror, .. } => {
                let commit = read.desired.commit.map_or_else(|| mirror.resolve("HEAD"), Ok)?;
                let snapshot = mirror.snapshot(commit, &self.config.path)?;
                Ok(act(&snapshot.snapshot(), kinds)?)
            }
            Origin::Directory(directory) => Ok(act(&directory.snapshot()?.snapshot(), kinds)?),
        }
    }
}

/// One read under way.
struct Reading<'a> {
    path: &'a RepoPath,
    renderer: &'a mut Renderer,
    last: Option<&'a SourceState>,
    began: Instant,
}

impl Reading<'_> {
    /// Verifies and renders the fetched commit.
    fn mirror(
        self,
        mirror: &Mirror,
        fetched: Fetched,
        verification: Option<&mut Verification>,
        cancel: &AtomicBool,
    ) -> Result<SourceState, SourceReadError> {
        let fetch = self.began.elapsed();
        let (commit, verification_failure) = match verification {
            Some(verification) => {
                let repository = mirror.repository();
                let found = verification.verify(repository, self.path, fetched.commit, cancel)?;
                (found.commit, found.failure.map(Arc::from))
            }
            None => (fetched.commit, None),
        };
        let name = fetched.name;
        if let Some(last) = self.last
            && last.desired.commit == Some(commit)
        {
            let spent = Spent { fetch, render: None };
            return Ok(SourceState { name, verification_failure, spent, ..last.clone() });
        }
        let snapshot = mirror.snapshot(commit, self.path)?;
        let desired = Arc::new(self.renderer.render(&snapshot.snapshot())?);
        let facts = mirror.repository().commit(commit)?;
        Ok(SourceState {
            desired,
            name,
            verification_failure,
            committed_seconds: Some(facts.committed_seconds),
            spent: Spent { fetch, render: Some(self.began.elapsed().saturating_sub(fetch)) },
            root: snapshot.root,
        })
    }

    /// Lists and renders the folder.
    fn directory(self, directory: &mut Directory) -> Result<SourceState, SourceReadError> {
        let snapshot = directory.snapshot()?;
        let fetch = self.began.elapsed();
        if let Some(last) = self.last
            && last.root == snapshot.root
        {
            return Ok(SourceState { spent: Spent { fetch, render: None }, ..last.clone() });
        }
        let desired = Arc::new(self.renderer.render(&snapshot.snapshot())?);
        Ok(SourceState {
            desired,
            name: directory.root().display().to_string(),
            verification_failure: None,
            committed_seconds: None,
            spent: Spent { fetch, render: Some(self.began.elapsed().saturating_sub(fetch)) },
            root: snapshot.root,
        })
    }
}
