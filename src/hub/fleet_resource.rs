//! The kinds that show the fleet, listed and watched.

use std::fmt::Display;

use futures::stream::BoxStream;
use http::StatusCode;
use kube::api::{ApiResource, DynamicObject, ListParams, Request, WatchParams};
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::timeout;

use crate::connection::HubConnection;
use crate::fleet_error::FleetError;
use crate::follow::{self, Change, Followed, Listing};
use crate::list::{WholeList, no_list};
use crate::{HubError, bounded, limits};
use gitwork_core::model::name::ClusterName;
use gitwork_kube::api_status::ApiStatus;
use gitwork_kube::connection::RequestError;
use gitwork_kube::connection_error;
use gitwork_kube::watch_stream::{WatchEnd, WatchStream};
use gitwork_retry::{RetryClass, log_error};

/// The group of ManagedClusters, Placements and PlacementDecisions.
const CLUSTER_GROUP: &str = "cluster.open-cluster-management.io";

/// One kind on the hub, in all namespaces or one.
pub(crate) struct Resource {
    pub(crate) api: Api<DynamicObject>,
    connection: HubConnection,
    kind: &'static str,
    plural: &'static str,
    one_namespace: bool,
}

/// What happens to the objects of a kind. `T` is what the caller makes of an object.
pub(crate) enum ResourceEvent<T> {
    /// A complete list follows.
    ListStarted,
    Listed(T),
    ListCompleted,
    /// An object was created or changed.
    Changed(T),
    /// An object was deleted; this is its last version.
    Gone(T),
}

impl Resource {
    /// The works of one cluster, or of all.
    pub(crate) fn works(client: &Client, cluster: Option<&ClusterName>) -> Self {
        let (kind, plural) = ("ManifestWork", "manifestworks");
        let resource = resource("work.open-cluster-management.io", "v1", kind, plural);
        let api = match cluster {
            Some(cluster) => Api::namespaced_with(client.clone(), cluster.as_str(), &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let plural = "manifestworks.work.open-cluster-management.io";
        Self { one_namespace: cluster.is_some(), ..Self::new(client, api, kind, plural) }
    }

    pub(crate) fn clusters(client: &Client) -> Self {
        let resource = resource(CLUSTER_GROUP, "v1", "ManagedCluster", "managedclusters");
        let plural = "managedclusters.cluster.open-cluster-management.io";
        Self::everywhere(client, &resource, "ManagedCluster", plural)
    }

    pub(crate) fn placements(client: &Client) -> Self {
        let resource = resource(CLUSTER_GROUP, "v1beta1", "Placement", "placements");
        let plural = "placements.cluster.open-cluster-management.io";
        Self::everywhere(client, &resource, "Placement", plural)
    }

    pub(crate) fn placement_decisions(client: &Client) -> Self {
        let kind = "PlacementDecision";
        let resource = resource(CLUSTER_GROUP, "v1beta1", kind, "placementdecisions");
        let plural = "placementdecisions.cluster.open-cluster-management.io";
        Self::everywhere(client, &resource, kind, plural)
    }

    /// A kind that no command can read for one cluster only.
    fn everywhere(
        client: &Client,
        resource: &ApiResource,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self::new(client, Api::all_with(client.clone(), resource), kind, plural)
    }

    /// The Leases in the namespace `home`.
    pub(crate) fn leases(client: &Client, home: &str) -> Self {
        let (kind, plural) = ("Lease", "leases");
        let resource = resource("coordination.k8s.io", "v1", kind, plural);
        let api = Api::namespaced_with(client.clone(), home, &resource);
        Self::new(client, api, kind, "leases.coordination.k8s.io")
    }

    fn new(
        client: &Client,
        api: Api<DynamicObject>,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        let connection = HubConnection::new(client.clone(), None);
        Self { api, connection, kind, plural, one_namespace: true }
    }

    /// Lists all objects; each one is reduced by `read` as it comes. Many come in one response if
    /// the API server makes it from memory, and page by page otherwise, as [`crate::list`] does it.
    pub(crate) async fn list<T>(
        &self,
        labels: Option<&str>,
        read: impl Fn(Value) -> T,
    ) -> Result<Vec<T>, FleetError> {
        Ok(self.list_to_watch(labels, read).await?.items)
    }

    /// The same, with the resourceVersion of the list.
    async fn list_to_watch<T>(
        &self,
        labels: Option<&str>,
        read: impl Fn(Value) -> T,
    ) -> Result<Listing<T>, FleetError> {
        let mut params = ListParams::default().limit(limits::HUB_LIST_PAGE);
        params.label_selector = labels.map(str::to_owned);
        let mut items = Vec::new();
        for number in 0..limits::HUB_LIST_PAGES_MAX {
            let page = timeout(limits::HUB_CALL, self.api.list(&params)).await;
            let late = |_| self.other("list", &RequestError::Timeout(limits::HUB_CALL));
            let page = page.map_err(late)?.map_err(|error| self.error("list", &error))?;
            let next = page.metadata.continue_.filter(|next| !next.is_empty());
            if number == 0 && next.is_some() && self.connection.lists_from_memory().await {
                match self.list_whole(&params, &read).await {
                    Ok(whole) => return Ok(whole),
                    Err(error) => {
                        log_error!(debug, &error, "a list failed as a whole; reading it in pages");
                    }
                }
            }
            items.extend(page.items.into_iter().filter_map(value).map(&read));
            let Some(next) = next else {
                let resource_version = page.metadata.resource_version.unwrap_or_default();
                return Ok(Listing { items, resource_version });
            };
            params.continue_token = Some(next);
        }
        Err(self.other("list", &"the list has no end"))
    }

    /// Lists what `page` selects from one response.
    async fn list_whole<T>(
        &self,
        page: &ListParams,
        read: impl Fn(Value) -> T,
    ) -> Result<Listing<T>, FleetError> {
        let whole = ListParams { limit: None, ..page.clone() };
        let request = Request::new(self.api.resource_url()).list(&whole);
        let request = request.map_err(|error| self.other("list", &error))?;
        let response = self.connection.api().open_response(request, limits::HUB_LIST).await;
        let body = response
            .map_err(|error| self.other("list", &error))?
            .map_err(|response| self.rejected("list", &response.api_status()))?;
        let mut list = WholeList::new(body);
        let mut items = Vec::new();
        let unreadable = |error: HubError| self.other("list", &error);
        while let Some(batch) = list.next().await.map_err(unreadable)? {
            for item in batch.items() {
                let object: Result<Value, _> = serde_json::from_slice(item);
                let object = object.map_err(|error| unreadable(no_list(self.kind, &error)))?;
                items.push(read(without_bookkeeping(object)));
            }
        }
        let resource_version = list.end(self.kind).map_err(unreadable)?;
        Ok(Listing { items, resource_version })
    }

    /// Lists and watches the objects, without end. After an error the list starts again, with
    /// exponential backoff.
    pub(crate) fn watch<T: Send + 'static>(
        self,
        labels: Option<&str>,
        read: impl Fn(Value) -> T + Send + Sync + 'static,
    ) -> BoxStream<'static, Result<ResourceEvent<T>, FleetError>> {
        follow::follow(ResourceWatch { resource: self, labels: labels.map(str::to_owned), read })
    }

    fn error(&self, verb: &'static str, error: &kube::Error) -> FleetError {
        match error {
            kube::Error::Api(status) => self.rejected(verb, &ApiStatus::of_client(status)),
            other => self.other(verb, &connection_error::describe(other)),
        }
    }

    /// The error of a failed response.
    fn rejected(&self, verb: &'static str, status: &ApiStatus) -> FleetError {
        let (plural, one_namespace) = (self.plural, self.one_namespace);
        match status.code {
            404 => FleetError::CrdMissing { kind: self.kind },
            401 => FleetError::NotAccepted,
            403 => {
                let message = bounded(&status.message);
                FleetError::Forbidden { verb, plural, one_namespace, message }
            }
            _ => self.other(verb, &bounded(&status.text())),
        }
    }

    fn other(&self, verb: &'static str, problem: &dyn Display) -> FleetError {
        FleetError::Other { verb, plural: self.plural, message: problem.to_string() }
    }
}

/// A watch of a kind.
struct ResourceWatch<R> {
    resource: Resource,
    labels: Option<String>,
    read: R,
}

impl<T, R> Followed for ResourceWatch<R>
where
    T: Send + 'static,
    R: Fn(Value) -> T + Send + Sync + 'static,
{
    type Event = ResourceEvent<T>;
    type Error = FleetError;

    async fn list(&mut self) -> Result<Listing<ResourceEvent<T>>, FleetError> {
        let read = |object| ResourceEvent::Listed((self.read)(object));
        let listed = self.resource.list_to_watch(self.labels.as_deref(), read).await?;
        let items = std::iter::once(ResourceEvent::ListStarted).chain(listed.items);
        let items = items.chain([ResourceEvent::ListCompleted]).collect();
        Ok(Listing { items, resource_version: listed.resource_version })
    }

    async fn open(&mut self, resource_version: &str) -> Result<Option<WatchStream>, FleetError> {
        let resource = &self.resource;
        let timeout = u32::try_from(limits::HUB_WATCH.as_secs()).ok();
        let label_selector = self.labels.clone();
        let params = WatchParams { label_selector, timeout, ..WatchParams::default() };
        let request = Request::new(resource.api.resource_url()).watch(&params, resource_version);
        let request = request.map_err(|error| resource.other("watch", &error))?;
        let api = resource.connection.api();
        match api.open_watch(request, limits::HUB_WATCH_OPEN).await {
            Ok(Ok(events)) => Ok(Some(events)),
            Ok(Err(response)) if response.status == StatusCode::GONE => Ok(None),
            Ok(Err(response)) => Err(resource.rejected("watch", &response.api_status())),
            Err(error) => Err(resource.other("watch", &error)),
        }
    }

    fn read(&mut self, change: Change) -> Option<ResourceEvent<T>> {
        let read = |object| (self.read)(without_bookkeeping(object));
        Some(match change {
            Change::Present(object) => ResourceEvent::Changed(read(object)),
            Change::Gone(object) => ResourceEvent::Gone(read(object)),
        })
    }

    fn error(&self, end: WatchEnd) -> FleetError {
        match end {
            WatchEnd::Failed(status) => self.resource.rejected("watch", &status),
            end => self.resource.other("watch", &follow::problem(&end)),
        }
    }

    /// A missing kind or permission may be there soon: one small request a minute asks for it.
    fn retry_class(_: &FleetError) -> RetryClass {
        RetryClass::Unavailable { retry_after_seconds: None }
    }
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: format!("{group}/{version}"),
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// The JSON form of an object.
pub(crate) fn value(mut object: DynamicObject) -> Option<Value> {
    // Bookkeeping of the API server, often larger than the rest.
    object.metadata.managed_fields = None;
    serde_json::to_value(object).ok()
}

/// An object as [`value`] gives it.
fn without_bookkeeping(mut object: Value) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    object
}
