//! The source of an engine. One thread at a time uses it: a fetch, or a query of Git's history.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinHandle;

use super::error::EngineError;
use crate::reader::{SourceReader, on_source};
use gitwork_core::model::name::{CommitId, SourceId};
use gitwork_core::plan::rewind::AppliedCommits;
use gitwork_source::{SourceReadError, SourceState};

/// Access to the source.
pub(super) struct SourceAccess {
    id: SourceId,
    /// `None` while a thread uses it.
    reader: Option<Box<dyn SourceReader>>,
    fetch: Option<RunningFetch>,
    /// A query needed the source during the running fetch.
    missed_query: bool,
    cancel: Arc<AtomicBool>,
}

struct RunningFetch {
    task: JoinHandle<(Box<dyn SourceReader>, Result<SourceState, SourceReadError>)>,
    known_before: AppliedCommits,
}

/// A fetch that has ended.
pub(super) struct Fetched {
    pub read: Result<SourceState, SourceReadError>,
    /// The applied commits that were known when it began.
    pub known_before: AppliedCommits,
    /// A query needed the source in the meantime: plan again.
    pub missed_query: bool,
}

impl SourceAccess {
    pub fn new(reader: Box<dyn SourceReader>) -> Self {
        let (id, cancel) = (reader.id().clone(), Arc::new(AtomicBool::new(false)));
        Self { id, reader: Some(reader), fetch: None, missed_query: false, cancel }
    }

    /// The id of the source.
    pub fn id(&self) -> &SourceId {
        &self.id
    }

    /// Whether a fetch is running.
    pub fn is_fetching(&self) -> bool {
        self.fetch.is_some()
    }

    /// Whether the next fetch needs the applied commits.
    pub fn needs_applied_commits(&self) -> bool {
        self.reader.as_ref().is_some_and(|reader| reader.needs_applied_commits())
    }

    /// The generation of the record on the hub that this machine remembers. A fetch may update it.
    /// `None` while a thread uses the source.
    pub fn known_record_generation(&self) -> Option<u64> {
        self.reader.as_ref().map(|reader| reader.known_record_generation())
    }

    /// Begins a fetch, unless a thread uses the source. `applied`: the applied commits, if the
    /// source needs them. `known_before`: those that are known now.
    pub fn begin_fetch(
        &mut self,
        applied: Option<BTreeSet<CommitId>>,
        known_before: AppliedCommits,
    ) {
        let Some(mut reader) = self.reader.take() else { return };
        if let Some(applied) = applied {
            reader.set_applied_commits(applied);
        }
        let cancel = self.cancel.clone();
        let task = on_source(reader, move |reader| reader.read(&cancel));
        self.fetch = Some(RunningFetch { task, known_before });
    }

    /// Waits for the end of the running fetch; pending if there is none. Cancel safe.
    pub async fn fetched(&mut self) -> Result<Fetched, EngineError> {
        let Some(fetch) = &mut self.fetch else { return std::future::pending().await };
        let (reader, read) = (&mut fetch.task).await.map_err(|_| EngineError::Panic)?;
        let known_before = std::mem::take(&mut fetch.known_before);
        self.fetch = None;
        self.reader = Some(reader);
        Ok(Fetched { read, known_before, missed_query: std::mem::take(&mut self.missed_query) })
    }

    /// Calls the source on a thread that may block; `None` while a fetch uses it. `call` also gets
    /// the flag that cancels it.
    pub async fn query<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut dyn SourceReader, &Arc<AtomicBool>) -> T + Send + 'static,
    ) -> Result<Option<T>, EngineError> {
        let Some(reader) = self.reader.take() else {
            self.missed_query = true;
            return Ok(None);
        };
        let cancel = self.cancel.clone();
        let joined = on_source(reader, move |reader| call(reader, &cancel));
        let (reader, result) = joined.await.map_err(|_| EngineError::Panic)?;
        self.reader = Some(reader);
        Ok(Some(result))
    }

    /// Cancels the running fetch, and each later call.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}
