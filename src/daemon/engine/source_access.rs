//! The source of an engine. One thread at a time uses it: a fetch, or a query of Git's history.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::error::EngineError;
use crate::limits;
use crate::reader::{SourceReader, on_source};
use gitwork_core::model::digest::Digest;
use gitwork_core::model::facts::Facts;
use gitwork_core::model::name::{GroupName, SourceId};
use gitwork_core::plan::rewind::AppliedCommits;
use gitwork_core::rollout::earlier::EarlierContents;
use gitwork_source::{SourceReadError, SourceState};
use gitwork_sync::verification_base::VerificationBase;

/// Access to the source.
pub(super) struct SourceAccess {
    id: SourceId,
    /// `None` while a thread uses it.
    reader: Option<Box<dyn SourceReader>>,
    fetch: Option<RunningFetch>,
    /// The first fetch, which has not begun, was read ahead, or that has begun.
    is_read_ahead: bool,
    /// The contents of groups that the last fetch began with.
    earlier: Arc<EarlierContents>,
    /// A query needed the source during the running fetch.
    missed_query: bool,
    cancel: Arc<AtomicBool>,
}

type ReadResult = Result<SourceState, SourceReadError>;

struct RunningFetch {
    /// It has no result if it only reads ahead.
    task: JoinHandle<(Box<dyn SourceReader>, Option<ReadResult>)>,
    known_before: AppliedCommits,
}

/// A fetch that has ended.
pub(super) struct Fetched {
    pub read: ReadResult,
    /// The applied commits that were known when it began.
    pub known_before: AppliedCommits,
    /// A query needed the source in the meantime: plan again.
    pub missed_query: bool,
}

impl SourceAccess {
    pub fn new(reader: Box<dyn SourceReader>) -> Self {
        let (id, cancel) = (reader.id().clone(), Arc::new(AtomicBool::new(false)));
        Self {
            id,
            reader: Some(reader),
            fetch: None,
            is_read_ahead: false,
            earlier: Arc::default(),
            missed_query: false,
            cancel,
        }
    }

    /// The id of the source.
    pub fn id(&self) -> &SourceId {
        &self.id
    }

    /// Whether a fetch is running.
    pub fn is_fetching(&self) -> bool {
        self.fetch.is_some()
    }

    /// Whether a fetch first needs to know what the hub proves about verified commits.
    pub fn needs_verification_base(&self) -> bool {
        self.reader.as_ref().is_some_and(|reader| reader.needs_verification_base())
    }

    /// The generation of the record on the hub that this machine remembers. A fetch may update it.
    /// `None` while a thread uses the source.
    pub fn known_record_generation(&self) -> Option<u64> {
        self.reader.as_ref().map(|reader| reader.known_record_generation())
    }

    /// The contents of groups that the status branch calls rejected; `None` while a thread uses the
    /// source.
    pub fn known_rejected(&self) -> Option<BTreeMap<GroupName, Digest>> {
        self.reader.as_ref().map(|reader| reader.known_rejected())
    }

    /// Sets what the hub says of clusters, unless a thread uses the source.
    pub fn set_facts(&mut self, facts: Arc<Facts>) {
        if let Some(reader) = &mut self.reader {
            reader.set_facts(facts);
        }
    }

    /// The contents of groups that the last fetch began with.
    pub fn earlier(&self) -> &EarlierContents {
        &self.earlier
    }

    /// Sets the contents of groups that clusters keep or get while another one is rolled out,
    /// unless a thread uses the source.
    pub fn set_earlier(&mut self, contents: &EarlierContents) {
        let Some(reader) = &mut self.reader else { return };
        if *self.earlier != *contents {
            self.earlier = Arc::new(contents.clone());
            reader.set_earlier(self.earlier.clone());
        }
    }

    /// Begins a fetch, unless a thread uses the source. `base`: what the hub proves about verified
    /// commits, if it is known now. `known_before`: the applied commits that are known now.
    /// `accepts_ahead`: what was fetched ahead of the first fetch may serve it.
    pub fn begin_fetch(
        &mut self,
        base: Option<VerificationBase>,
        known_before: AppliedCommits,
        accepts_ahead: bool,
    ) {
        let Some(mut reader) = self.reader.take() else { return };
        let was_read_ahead = std::mem::take(&mut self.is_read_ahead);
        let (known_before, age_max) = match was_read_ahead && accepts_ahead {
            // At that time, no applied commit was known.
            true => (AppliedCommits::default(), limits::FETCH_AHEAD_AGE_MAX),
            false => (known_before, Duration::ZERO),
        };
        if let Some(base) = base {
            reader.set_verification_base(base);
        }
        let cancel = self.cancel.clone();
        let task = on_source(reader, move |reader| Some(reader.read(age_max, &cancel)));
        self.fetch = Some(RunningFetch { task, known_before });
    }

    /// Begins to do for the first fetch what needs nothing of the hub. To be called before that one
    /// only. Gives `false` if it was called before.
    pub fn begin_reading_ahead(&mut self) -> bool {
        if self.is_read_ahead {
            return false;
        }
        let Some(reader) = self.reader.take() else { return false };
        self.is_read_ahead = true;
        let cancel = self.cancel.clone();
        let task = on_source(reader, move |reader| {
            reader.read_ahead(&cancel);
            None
        });
        self.fetch = Some(RunningFetch { task, known_before: AppliedCommits::default() });
        true
    }

    /// Waits for the end of the running fetch; pending if there is none. `None` if it only read
    /// ahead. Cancel safe.
    pub async fn fetched(&mut self) -> Result<Option<Fetched>, EngineError> {
        let Some(fetch) = &mut self.fetch else { return std::future::pending().await };
        let (reader, read) = (&mut fetch.task).await.map_err(|_| EngineError::Panic)?;
        let known_before = std::mem::take(&mut fetch.known_before);
        self.fetch = None;
        self.reader = Some(reader);
        let Some(read) = read else { return Ok(None) };
        let missed_query = std::mem::take(&mut self.missed_query);
        Ok(Some(Fetched { read, known_before, missed_query }))
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
