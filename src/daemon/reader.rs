//! What an engine needs of its source, so that the same loop runs on a real repository and on a simulated one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::core::desired::Desired;
use crate::core::name::{CommitId, RepoPath, SourceId, WorkKey};
use crate::core::plan::Departed;
use crate::source::{Read, ReadError, Source};

/// A source as its engine uses it: see [`Source`], whose methods these are.
pub trait SourceReader: Send + 'static {
    fn id(&self) -> &SourceId;
    fn read(&mut self, cancel: &Arc<AtomicBool>) -> Result<Read, ReadError>;
    fn departed(
        &self,
        desired: &Desired,
        candidates: &[(WorkKey, RepoPath)],
        cancel: &AtomicBool,
    ) -> Result<Departed, ReadError>;
    fn last_changed(
        &self,
        head: CommitId,
        folders: &BTreeSet<RepoPath>,
        cancel: &AtomicBool,
    ) -> Result<BTreeMap<RepoPath, CommitId>, ReadError>;
    fn unreached(
        &self,
        head: CommitId,
        commits: &BTreeSet<CommitId>,
        cancel: &AtomicBool,
    ) -> Result<BTreeSet<CommitId>, ReadError>;
    /// It wants to be told which commits were applied, before it reads.
    fn wants_applied(&self) -> bool {
        false
    }
    fn set_applied(&mut self, _applied: BTreeSet<CommitId>) {}
    fn known_moves(&self) -> u64;
    fn remember_moves(&self, moves: u64) -> std::io::Result<()>;
    /// `None`: the next call may block, and so has to be made on a thread that may. A source in memory never blocks
    /// and says how long the call is to take on tokio's clock, which a simulation moves on by itself.
    fn latency(&mut self) -> Option<Duration> {
        None
    }
}

impl SourceReader for Source {
    fn id(&self) -> &SourceId {
        &self.config().id
    }
    fn read(&mut self, cancel: &Arc<AtomicBool>) -> Result<Read, ReadError> {
        Self::read(self, cancel)
    }
    fn departed(
        &self,
        desired: &Desired,
        candidates: &[(WorkKey, RepoPath)],
        cancel: &AtomicBool,
    ) -> Result<Departed, ReadError> {
        Self::departed(self, desired, candidates, cancel)
    }
    fn last_changed(
        &self,
        head: CommitId,
        folders: &BTreeSet<RepoPath>,
        cancel: &AtomicBool,
    ) -> Result<BTreeMap<RepoPath, CommitId>, ReadError> {
        Self::last_changed(self, head, folders, cancel)
    }
    fn unreached(
        &self,
        head: CommitId,
        commits: &BTreeSet<CommitId>,
        cancel: &AtomicBool,
    ) -> Result<BTreeSet<CommitId>, ReadError> {
        Self::unreached(self, head, commits, cancel)
    }
    fn wants_applied(&self) -> bool {
        Self::wants_applied(self)
    }
    fn set_applied(&mut self, applied: BTreeSet<CommitId>) {
        Self::set_applied(self, applied);
    }
    fn known_moves(&self) -> u64 {
        Self::known_moves(self)
    }
    fn remember_moves(&self, moves: u64) -> std::io::Result<()> {
        Self::remember_moves(self, moves)
    }
}

/// Makes one call of a source where it may block, and gives the source back with the answer.
pub fn on_source<T: Send + 'static>(
    mut source: Box<dyn SourceReader>,
    call: impl FnOnce(&mut dyn SourceReader) -> T + Send + 'static,
) -> JoinHandle<(Box<dyn SourceReader>, T)> {
    match source.latency() {
        None => tokio::task::spawn_blocking(move || {
            let answer = call(&mut *source);
            (source, answer)
        }),
        Some(latency) => tokio::spawn(async move {
            tokio::time::sleep(latency).await;
            let answer = call(&mut *source);
            (source, answer)
        }),
    }
}
