//! The source as an engine reads it, so that the same loop runs on a real and on a simulated
//! repository.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::task::JoinHandle;

use gitwork_core::model::digest::Digest;
use gitwork_core::model::facts::Facts;
use gitwork_core::model::name::{CommitId, GroupName, RepoPath, SourceId, WorkKey};
use gitwork_core::plan::LastKnownStates;
use gitwork_core::render::desired::Desired;
use gitwork_core::rollout::earlier::EarlierContents;
use gitwork_source::{Source, SourceReadError, SourceState, StateFileError};
use gitwork_sync::verification_base::VerificationBase;

/// A source as the engine reads it. [`Source`] is the real one.
pub trait SourceReader: Send + 'static {
    /// The id of the source.
    fn id(&self) -> &SourceId;
    /// Does for the next read what needs nothing of the hub: fetches and renders.
    fn read_ahead(&mut self, _cancel: &Arc<AtomicBool>) {}
    /// Fetches, verifies and renders the newest commit. A fetch ahead counts, too, if it began at
    /// most `age_max` ago. Ends early once `cancel` is true.
    fn read(
        &mut self,
        age_max: Duration,
        cancel: &Arc<AtomicBool>,
    ) -> Result<SourceState, SourceReadError>;
    /// What Git says of works that the hub has and `desired` does not, in the history of `desired`
    /// and of `applied` commits. Each candidate has the folder that the work came from.
    fn last_known_states(
        &self,
        desired: &Desired,
        candidates: &[(WorkKey, RepoPath)],
        applied: &[CommitId],
        cancel: &AtomicBool,
    ) -> Result<LastKnownStates, SourceReadError>;
    /// The last commit up to `head` that changed each work folder.
    fn last_changed(
        &self,
        head: CommitId,
        folders: &BTreeSet<RepoPath>,
        cancel: &AtomicBool,
    ) -> Result<BTreeMap<RepoPath, CommitId>, SourceReadError>;
    /// Those of `commits` that `head` does not build on.
    fn unreached(
        &self,
        head: CommitId,
        commits: &BTreeSet<CommitId>,
        cancel: &AtomicBool,
    ) -> Result<BTreeSet<CommitId>, SourceReadError>;
    /// Whether a read first needs to know what the hub proves: see [`Self::set_verification_base`].
    fn needs_verification_base(&self) -> bool {
        false
    }
    /// Sets what the hub proves about verified commits, from which a read verifies later ones.
    fn set_verification_base(&mut self, _base: VerificationBase) {}
    /// Sets what the hub says of clusters, from the next read on.
    fn set_facts(&mut self, _facts: Arc<Facts>) {}
    /// Sets the contents of groups that clusters keep or get while another one is rolled out, from
    /// the next read on.
    fn set_earlier(&mut self, _contents: Arc<EarlierContents>) {}
    /// The generation of the record on the hub that this machine remembers; 0 if none.
    fn known_record_generation(&self) -> u64;
    /// The contents of groups that the status branch calls rejected.
    fn known_rejected(&self) -> BTreeMap<GroupName, Digest> {
        BTreeMap::new()
    }
    /// Stores the generation of the record, so that a restored hub is detected.
    fn remember_record_generation(&self, record_generation: u64) -> Result<(), StateFileError>;
    /// `None`: the next call may block and needs a thread of its own. A source in memory never
    /// blocks and gives the duration of the call on tokio's clock.
    fn latency(&mut self) -> Option<Duration> {
        None
    }
}

impl SourceReader for Source {
    fn id(&self) -> &SourceId {
        &self.config().id
    }
    fn read_ahead(&mut self, cancel: &Arc<AtomicBool>) {
        Self::read_ahead(self, cancel);
    }
    fn read(
        &mut self,
        age_max: Duration,
        cancel: &Arc<AtomicBool>,
    ) -> Result<SourceState, SourceReadError> {
        self.read_within(age_max, cancel)
    }
    fn last_known_states(
        &self,
        desired: &Desired,
        candidates: &[(WorkKey, RepoPath)],
        applied: &[CommitId],
        cancel: &AtomicBool,
    ) -> Result<LastKnownStates, SourceReadError> {
        self.history().last_known_states(desired, candidates, applied, cancel)
    }
    fn last_changed(
        &self,
        head: CommitId,
        folders: &BTreeSet<RepoPath>,
        cancel: &AtomicBool,
    ) -> Result<BTreeMap<RepoPath, CommitId>, SourceReadError> {
        self.history().last_changed(head, folders, cancel)
    }
    fn unreached(
        &self,
        head: CommitId,
        commits: &BTreeSet<CommitId>,
        cancel: &AtomicBool,
    ) -> Result<BTreeSet<CommitId>, SourceReadError> {
        self.history().unreached(head, commits, cancel)
    }
    fn needs_verification_base(&self) -> bool {
        Self::needs_verification_base(self)
    }
    fn set_verification_base(&mut self, base: VerificationBase) {
        Self::set_verification_base(self, base);
    }
    fn set_facts(&mut self, facts: Arc<Facts>) {
        Self::set_facts(self, facts);
    }
    fn set_earlier(&mut self, contents: Arc<EarlierContents>) {
        Self::set_earlier(self, contents);
    }
    fn known_record_generation(&self) -> u64 {
        self.known_record_generation()
    }
    fn known_rejected(&self) -> BTreeMap<GroupName, Digest> {
        Self::known_rejected(self).clone()
    }
    fn remember_record_generation(&self, record_generation: u64) -> Result<(), StateFileError> {
        self.state_files().remember_record_generation(record_generation)
    }
}

/// Calls a source where it may block, and gives it back with the result.
pub fn on_source<T: Send + 'static>(
    mut source: Box<dyn SourceReader>,
    call: impl FnOnce(&mut dyn SourceReader) -> T + Send + 'static,
) -> JoinHandle<(Box<dyn SourceReader>, T)> {
    match source.latency() {
        None => tokio::task::spawn_blocking(move || {
            let result = call(&mut *source);
            (source, result)
        }),
        Some(latency) => tokio::spawn(async move {
            tokio::time::sleep(latency).await;
            let result = call(&mut *source);
            (source, result)
        }),
    }
}
