//! The hub as the daemon and the commands see it.

use futures::future::{BoxFuture, FutureExt as _, ready};
use futures::stream::{self, BoxStream, StreamExt};

use crate::limits;
use gitwork_core::model::name::{CommitId, SourceId, WorkKey};
use gitwork_core::plan::Effect;
use gitwork_core::plan::directives::Directives;
use gitwork_core::plan::observed::{ObservedWork, WorkContent};
use gitwork_core::plan::record::Record;
use gitwork_sync::hub::{HubError, HubEvent, StoredRecord};

/// The default namespace of gitwork's own objects, as in `deploy/gitwork.yaml`.
pub const NAMESPACE: &str = "gitwork";

/// A hub. Each call ends within the implementation's time-out.
pub trait Hub: Send + Sync + 'static {
    /// The works and replica sets of one source, then their changes, without end. Reconnects by
    /// itself.
    fn watch(&self, source: &SourceId) -> BoxStream<'static, HubEvent>;
    /// Opens as many connections as writes can be in flight, so that the first writes do not wait
    /// for them. A failure is left to the writes.
    fn connect_ahead(&self) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }
    /// The ManifestWorks and ManifestWorkReplicaSets of one source, or all ManifestWorks and the
    /// ManifestWorkReplicaSets of all sources.
    fn list<'a>(
        &'a self,
        source: Option<&'a SourceId>,
    ) -> BoxFuture<'a, Result<Vec<ObservedWork>, HubError>>;
    /// One ManifestWork; `None` if it does not exist.
    fn get<'a>(&'a self, key: &'a WorkKey)
    -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>>;
    /// The content of one ManifestWork; `None` if it does not exist.
    fn content<'a>(
        &'a self,
        key: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Option<WorkContent>, HubError>>;
    /// The ManifestWorks of one ManifestWorkReplicaSet. A hub without that kind has none.
    fn set_works<'a>(
        &'a self,
        _set: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Vec<ObservedWork>, HubError>> {
        ready(Ok(Vec::new())).boxed()
    }
    /// The operators' directives for a source: approvals, suspensions, a requested sync.
    fn directives<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Directives, HubError>>;
    /// The source's record; `None` if there is none.
    fn record<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Option<StoredRecord>, HubError>>;
    /// Replaces the record that was read, or creates it. `Stale` if another process wrote it since.
    fn set_record<'a>(
        &'a self,
        source: &'a SourceId,
        record: &'a Record,
        before: Option<&'a StoredRecord>,
    ) -> BoxFuture<'a, Result<StoredRecord, HubError>>;
    /// Executes one effect and gives the stored work; `None` if it is deleted.
    fn execute<'a>(
        &'a self,
        key: &'a WorkKey,
        effect: &'a Effect,
        commit: Option<CommitId>,
    ) -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>>;
}

/// The contents of works, read a few at once.
pub async fn read_contents(
    hub: &dyn Hub,
    keys: Vec<WorkKey>,
) -> Vec<(WorkKey, Result<Option<WorkContent>, HubError>)> {
    let reads = keys.into_iter().map(|key| async move {
        let content = hub.content(&key).await;
        (key, content)
    });
    stream::iter(reads).buffer_unordered(limits::HUB_IN_FLIGHT_PER_CLUSTER).collect().await
}
