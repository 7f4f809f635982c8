//! A source: what it is configured with, opened and read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gitwork_core::model::digest::Digest;
use gitwork_core::model::facts::Facts;
use gitwork_core::model::name::{ClusterName, GroupName};
use gitwork_core::rollout::earlier::EarlierContents;
use gitwork_sync::verification_base::VerificationBase;

use crate::checkpoint::Checkpoint;
use crate::config::{SourceConfig, SourceLocation};
use crate::error::SourceReadError;
use crate::history::SourceHistory;
use crate::origin::Origin;
use crate::reading::{Reading, SourceState};
use crate::signatures::SourceSignatures;
use crate::snapshots::SourceSnapshots;
use crate::state_files::StateFiles;
use crate::verification::Verification;

/// An opened source, with the result of its last read. [`crate::Sources`] opens it.
pub struct Source {
    config: SourceConfig,
    origin: Origin,
    state_files: StateFiles,
    reading: Reading,
    checkpoint: Checkpoint,
}

impl Source {
    pub(crate) fn new(
        config: SourceConfig,
        origin: Origin,
        state_files: StateFiles,
        reading: Reading,
    ) -> Self {
        Self { config, origin, state_files, reading, checkpoint: Checkpoint::default() }
    }

    /// Renders on so many threads. The result is the same with any number.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.reading.renderer.set_threads(threads);
        self
    }

    /// Drops the text of each work once it is checked: for what needs the diagnostics only.
    pub fn without_texts(mut self) -> Self {
        self.reading.renderer.drop_texts();
        self
    }

    /// Renders only some clusters, and the others if they may matter to these: see
    /// [`gitwork_core::render::renderer::Renderer::select_clusters`].
    pub fn with_clusters(
        mut self,
        is_selected: impl Fn(&ClusterName) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.reading.renderer.select_clusters(is_selected);
        self
    }

    /// Reads the record generation of the status branch once, with the first read. A new machine
    /// with an empty mirror does not know it, and a hub restored from a backup has a lower one.
    pub fn with_checkpoint(self, branch: &str) -> Self {
        Self { checkpoint: Checkpoint::on_branch(&self.config, branch), ..self }
    }

    /// Reads only verified commits from now on, starting from the commit that the hub proves to be
    /// verified: see [`Self::set_verification_base`].
    ///
    /// # Errors
    /// The operator requires signatures, but the source is a folder on disk.
    pub fn with_verification(
        mut self,
        verification: Verification,
    ) -> Result<Self, SourceReadError> {
        match &self.config.repository {
            SourceLocation::Git { .. } => self.reading.verification = Some(verification),
            SourceLocation::Directory(_) if verification.requires_nothing() => {}
            SourceLocation::Directory(path) => {
                return Err(SourceReadError::NothingSigned { path: path.clone() });
            }
        }
        Ok(self)
    }

    /// As [`Self::with_verification`], but the result is only shown and not kept. A folder on disk
    /// is read as it is.
    pub fn with_trial_verification(mut self, verification: Verification) -> Self {
        let is_git = matches!(self.config.repository, SourceLocation::Git { .. });
        self.reading.verification = is_git.then(|| verification.on_trial());
        self
    }

    /// The configuration that the source was opened with.
    pub fn config(&self) -> &SourceConfig {
        &self.config
    }

    /// The source's files beside its mirror.
    pub fn state_files(&self) -> &StateFiles {
        &self.state_files
    }

    /// The history of the source's paths, up to the commit that was read last.
    pub fn history(&self) -> SourceHistory<'_> {
        SourceHistory::new(&self.config, &self.origin, self.reading.last_commit())
    }

    /// Questions about the signatures of the source's commits.
    pub fn signatures(&self) -> SourceSignatures<'_> {
        SourceSignatures::new(&self.config.path, &self.origin, &self.reading)
    }

    /// The files of single revisions of the source.
    pub fn snapshots(&mut self) -> SourceSnapshots<'_> {
        SourceSnapshots::new(&self.config.path, &mut self.origin, &self.reading)
    }

    /// The highest known generation of the source's record on the hub: of this machine or of the
    /// status branch; 0 if neither knows one.
    pub fn known_record_generation(&self) -> u64 {
        self.state_files.record_generation().max(self.checkpoint.published().generation)
    }

    /// The contents of groups that the status branch calls rejected.
    pub fn known_rejected(&self) -> &BTreeMap<GroupName, Digest> {
        &self.checkpoint.published().rejected
    }

    /// Whether a read first needs to know what the hub proves: see
    /// [`Self::set_verification_base`].
    pub fn needs_verification_base(&self) -> bool {
        self.reading.verification.as_ref().is_some_and(Verification::needs_base)
    }

    /// Sets what the hub proves about verified commits.
    pub fn set_verification_base(&mut self, base: VerificationBase) {
        if let Some(verification) = &mut self.reading.verification {
            verification.set_base(base);
        }
    }

    /// Sets what the hub says of clusters, from the next read on.
    pub fn set_facts(&mut self, facts: Arc<Facts>) {
        self.reading.set_facts(&facts);
        self.config.facts = Some(facts);
    }

    /// Sets the contents of groups that clusters keep or get while another one is rolled out, from
    /// the next read on. A folder on disk has no other commits.
    pub fn set_earlier(&mut self, contents: Arc<EarlierContents>) {
        self.reading.set_earlier(contents);
    }

    /// Does for the next read what needs nothing of the hub: fetches, reads the status branch, and
    /// renders the newest commit. That read renders only what differs, and need not fetch again:
    /// see [`Self::read_within`]. Where the operator requires signatures or trusts keys, nothing of
    /// a commit is rendered before it is verified.
    pub fn read_ahead(&mut self, cancel: &Arc<AtomicBool>) {
        let Some(newest) = self.origin.fetch_ahead(cancel) else { return };
        let read = self.checkpoint.read(&self.config.id, cancel).and_then(|()| {
            self.reading.render_ahead(&self.origin, &self.config.path, newest, cancel)
        });
        if let Err(error) = read {
            // The next read has it, too, unless it passes by itself.
            let error = error.to_string();
            tracing::debug!(source = %self.config.id, error, "not all was read ahead");
        }
    }

    /// Fetches, verifies and renders. Unchanged files are not read again.
    ///
    /// # Errors
    /// The source's works are unknown then, not absent.
    pub fn read(&mut self, cancel: &Arc<AtomicBool>) -> Result<SourceState, SourceReadError> {
        self.read_within(Duration::ZERO, cancel)
    }

    /// As [`Self::read`]. A fetch for another source with the same mirror, or ahead, counts too if
    /// it began at most `age_max` ago.
    pub fn read_within(
        &mut self,
        age_max: Duration,
        cancel: &Arc<AtomicBool>,
    ) -> Result<SourceState, SourceReadError> {
        let read = self.reading.read(&mut self.origin, &self.config.path, age_max, cancel)?;
        if read.spent.render.is_some() {
            self.checkpoint.read(&self.config.id, cancel)?;
            self.reading.keep(&read);
        }
        Ok(read)
    }
}
