//! The hub behind an API server.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::BoxStream;
use kube::Client;

use crate::client::{ClientError, Connect};
use crate::connection::HubConnection;
use crate::events::EventRecorder;
use crate::lease_client::LeaseClient;
use crate::record::RecordStore;
use crate::work_client::WorkClient;
use crate::{Hub, HubError, HubEvent, NAMESPACE, StoredRecord, directives, limits};
use gitwork_core::model::name::{CommitId, SourceId, WorkKey};
use gitwork_core::plan::Effect;
use gitwork_core::plan::directives::Directives;
use gitwork_core::plan::observed::{ObservedWork, WorkContent};
use gitwork_core::plan::record::Record;

/// A hub behind an API server. Clones share the connection.
#[derive(Clone)]
pub struct KubeHub {
    connection: Arc<HubConnection>,
    /// The namespace of gitwork's own objects.
    namespace: Arc<str>,
}

impl KubeHub {
    /// A hub behind `client`, whose credentials do not expire or renew themselves.
    pub fn new(client: Client) -> Self {
        Self::over(HubConnection::new(client, None))
    }

    /// A hub behind the client that `connect` makes. When the API server rejects the credentials,
    /// `connect` is called again, so that a rotated kubeconfig needs no restart.
    pub async fn connect(connect: Connect) -> Result<Self, ClientError> {
        let client = connect().await?;
        Ok(Self::over(HubConnection::new(client, Some(connect))))
    }

    fn over(connection: HubConnection) -> Self {
        Self { connection: Arc::new(connection), namespace: NAMESPACE.into() }
    }

    /// The same hub, with gitwork's own objects in `namespace`.
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: namespace.into(), ..self }
    }

    /// The Leases in gitwork's own namespace.
    pub fn leases(&self) -> LeaseClient {
        LeaseClient::new(Arc::clone(&self.connection), Arc::clone(&self.namespace))
    }

    /// Writes Events to this hub.
    pub fn events(&self) -> EventRecorder {
        EventRecorder::new(Arc::clone(&self.connection))
    }

    fn works(&self) -> WorkClient {
        WorkClient::new(Arc::clone(&self.connection))
    }

    fn records(&self) -> RecordStore {
        RecordStore::new(self.leases())
    }
}

impl Hub for KubeHub {
    fn watch(&self, source: &SourceId) -> BoxStream<'static, HubEvent> {
        self.works().watch(source)
    }

    fn connect_ahead(&self) -> BoxFuture<'_, ()> {
        self.connection.connect_ahead(limits::HUB_IN_FLIGHT).boxed()
    }

    fn list<'a>(
        &'a self,
        source: Option<&'a SourceId>,
    ) -> BoxFuture<'a, Result<Vec<ObservedWork>, HubError>> {
        async move { self.works().list(source).await }.boxed()
    }

    fn get<'a>(
        &'a self,
        key: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>> {
        async move { self.works().get(key).await }.boxed()
    }

    fn content<'a>(
        &'a self,
        key: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Option<WorkContent>, HubError>> {
        async move { self.works().content(key).await }.boxed()
    }

    fn set_works<'a>(
        &'a self,
        set: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Vec<ObservedWork>, HubError>> {
        async move { self.works().set_works(set).await }.boxed()
    }

    fn directives<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Directives, HubError>> {
        directives::read(&self.connection, &self.namespace, source).boxed()
    }

    fn record<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Option<StoredRecord>, HubError>> {
        async move { self.records().get(source).await }.boxed()
    }

    fn set_record<'a>(
        &'a self,
        source: &'a SourceId,
        record: &'a Record,
        before: Option<&'a StoredRecord>,
    ) -> BoxFuture<'a, Result<StoredRecord, HubError>> {
        async move { self.records().set(source, record, before).await }.boxed()
    }

    fn execute<'a>(
        &'a self,
        key: &'a WorkKey,
        effect: &'a Effect,
        commit: Option<CommitId>,
    ) -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>> {
        async move { self.works().execute(key, effect, commit).await }.boxed()
    }
}
