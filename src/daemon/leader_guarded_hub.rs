//! A hub that only the leader of a source writes to.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use futures::stream::BoxStream;

use super::leadership::Leadership;
use gitwork_core::model::name::{CommitId, SourceId, WorkKey};
use gitwork_core::plan::Effect;
use gitwork_core::plan::directives::Directives;
use gitwork_core::plan::observed::{ObservedWork, WorkContent};
use gitwork_core::plan::record::Record;
use gitwork_hub::{Hub, HubError, HubEvent, StoredRecord};

/// A hub that rejects writes unless this daemon is the leader of the source.
pub struct LeaderGuardedHub {
    hub: Arc<dyn Hub>,
    leadership: Leadership,
}

impl LeaderGuardedHub {
    /// Guards `hub` by this leadership.
    pub fn new(hub: Arc<dyn Hub>, leadership: Leadership) -> Self {
        Self { hub, leadership }
    }

    fn guard<'a, T: Send + 'a>(
        &'a self,
        write: impl FnOnce(&'a dyn Hub) -> BoxFuture<'a, Result<T, HubError>>,
    ) -> BoxFuture<'a, Result<T, HubError>> {
        if self.leadership.is_leader() {
            return write(&*self.hub);
        }
        let message = "this daemon is no longer the leader of the source; nothing was sent".into();
        ready(Err(HubError::Unavailable { message, retry_after_seconds: None })).boxed()
    }
}

impl Hub for LeaderGuardedHub {
    fn watch(&self, source: &SourceId) -> BoxStream<'static, HubEvent> {
        self.hub.watch(source)
    }
    fn connect_ahead(&self) -> BoxFuture<'_, ()> {
        self.hub.connect_ahead()
    }
    fn list<'a>(
        &'a self,
        source: Option<&'a SourceId>,
    ) -> BoxFuture<'a, Result<Vec<ObservedWork>, HubError>> {
        self.hub.list(source)
    }
    fn get<'a>(
        &'a self,
        key: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>> {
        self.hub.get(key)
    }
    fn content<'a>(
        &'a self,
        key: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Option<WorkContent>, HubError>> {
        self.hub.content(key)
    }
    fn set_works<'a>(
        &'a self,
        set: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Vec<ObservedWork>, HubError>> {
        self.hub.set_works(set)
    }
    fn directives<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Directives, HubError>> {
        self.hub.directives(source)
    }
    fn record<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Option<StoredRecord>, HubError>> {
        self.hub.record(source)
    }
    fn set_record<'a>(
        &'a self,
        source: &'a SourceId,
        record: &'a Record,
        before: Option<&'a StoredRecord>,
    ) -> BoxFuture<'a, Result<StoredRecord, HubError>> {
        self.guard(move |hub| hub.set_record(source, record, before))
    }
    fn execute<'a>(
        &'a self,
        key: &'a WorkKey,
        effect: &'a Effect,
        commit: Option<CommitId>,
    ) -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>> {
        self.guard(move |hub| hub.execute(key, effect, commit))
    }
}
